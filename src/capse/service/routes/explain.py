"""What in the graph speaks for a triple."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import numpy as np
from fastapi import APIRouter, Body, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from capse.graph.link_prediction.explanation import NOTE, explain
from capse.service.graph_model import GraphModel
from capse.service.guard import GuardedRoute, needs
from capse.service.routes.entities import FactBody
from capse.service.routes.score import LabelledTriple
from capse.service.state import service_of

router = APIRouter(prefix="/v1", tags=["graph"], route_class=GuardedRoute)


class ExplainQuery(LabelledTriple):
    """A triple to explain."""

    asked: Literal["head", "tail"] = Field("tail", description="Which side was asked for")
    most: int = Field(5, ge=1, le=20, description="How many facts of each kind at most")
    removals: bool = Field(False, description="Estimate which training facts the answer hangs on; nothing is trained")


class NearFactBody(BaseModel):
    """A training fact of the same relation, and how alike its entities are to these; 1 is the same."""

    fact: FactBody
    similarity: float = Field(description="The mean of the two below", examples=[0.82])
    head_similarity: float = Field(examples=[0.91])
    tail_similarity: float = Field(examples=[0.73])


class PathBody(BaseModel):
    """An entity that training facts join to both sides."""

    through: str = Field(description="Its label", examples=["TZ"])
    name: str = Field(examples=["Tanzania"])
    facts: int = Field(description="How many training facts it is in", examples=[12])
    from_head: FactBody
    to_tail: FactBody


class RuleBody(BaseModel):
    """A rule of the graph that says the triple."""

    rule: str = Field(examples=["y borders x gives x borders y"])
    confidence: float = Field(description="How often it is right among training facts", examples=[0.93])
    support: int = Field(description="In how many cases it is", examples=[512])
    facts: list[FactBody] = Field(description="What it rests on here")


class RemovalBody(BaseModel):
    """A training fact without which the answer would be less probable, by an estimate."""

    fact: FactBody
    change: float = Field(
        description="Of the logarithm of the answer's share in the softmax over all entities", examples=[-0.41]
    )


class DimensionsBody(BaseModel):
    """What each dimension adds; what is positive speaks for the triple."""

    of: str = Field(description="What they sum to", examples=["the score"])
    total: float = Field(examples=[3.21])
    values: list[float] = Field(examples=[[1.5, -0.2, 1.91]])


class CarrierBody(BaseModel):
    """A dimension in terms of facts."""

    dimension: int = Field(examples=[17])
    value: float = Field(description="What it adds here", examples=[1.5])
    like: list[FactBody] = Field(description="Training facts of the relation to which it adds the most, sign and all")


class ReasonBody(BaseModel):
    """A motif of the graph that moved the answer."""

    text: str = Field(examples=["France borders Spain, so Spain borders France"])
    value: float = Field(description="What it added to the score", examples=[1.6])


class MovedBody(BaseModel):
    """What refining did to the answer of the run that was refined."""

    score: float = Field(description="By that run", examples=[1.61])
    keep: float = Field(description="How often that counts", examples=[1.0])
    among_best: bool = Field(description="Whether it may change places; others lie below", examples=[True])
    first: bool = Field(description="Whether the rule of relations that go both ways puts it first", examples=[False])
    motifs: list[ReasonBody]


class ExplanationBody(BaseModel):
    """What speaks for a triple."""

    fact: FactBody
    score: float = Field(examples=[3.21])
    known: str | None = Field(description="The split that holds it", examples=["train"])
    probability: float | None = Field(description="null where the run is not calibrated", examples=[0.93])
    head_facts: int = Field(description="Training facts that the head is in", examples=[9])
    tail_facts: int = Field(examples=[9])
    dimensions: DimensionsBody | None = Field(description="null where the score is no sum over dimensions")
    nearest: list[NearFactBody]
    rules: list[RuleBody] = Field(description="The surest first")
    removals: list[RemovalBody] | None = Field(description="What the answer hangs on the most first; null if not asked")
    links: list[FactBody] = Field(description="Training facts that join the two entities")
    paths: list[PathBody]
    carriers: list[CarrierBody] = Field(description="The strongest dimensions; none where the score has no dimensions")
    moved: MovedBody | None = Field(description="null where the run is not a refined one")
    note: str = Field(examples=[NOTE])
    model: str = Field(description="The version of the model that answered", examples=["d3b07384d113"])


_ASKED = {"one": {"value": {"head": "Kenya", "relation": "borders", "tail": "Uganda", "most": 3}}}


@router.post(
    "/explain",
    response_model=ExplanationBody,
    **needs("predict", "no-such-model", "unknown-name", example=ExplanationBody),
)
async def explain_triple(
    request: Request, asked: Annotated[ExplainQuery, Body(openapi_examples=_ASKED)]
) -> JSONResponse:
    """What carries a triple's score: the dimensions (of CapsE: the capsules) and the nearest training facts.

    It describes what the model computed. It is no proof that the fact holds.
    """
    model = service_of(request).models.require_graph()
    return JSONResponse(await asyncio.to_thread(_explained, model, asked))


def _explained(model: GraphModel, asked: ExplainQuery) -> dict[str, Any]:
    entities, relations = model.entities, model.relations
    head, tail = (entities.vocabulary.labels[entities.id(text)] for text in (asked.head, asked.tail))
    relation = relations.vocabulary.labels[relations.id(asked.relation)]
    found = explain(
        model.predictor,
        head=head,
        relation=relation,
        tail=tail,
        asked=asked.asked,
        most=asked.most,
        removals=asked.removals,
    )
    fit = model.calibration
    probability = float(fit.probability(np.array(found.score))) if fit else None
    return found.to_json() | {"probability": probability, "model": model.version}
