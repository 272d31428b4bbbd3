"""How plausible triples are."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Body, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from capse.arrays import Int64s
from capse.graph.link_prediction.classification import verdicts
from capse.service.graph_model import GraphModel
from capse.service.guard import GuardedRoute, charge, needs
from capse.service.limits import MAX_TRIPLES, TRIPLES_A_REQUEST
from capse.service.routes.predict import Label
from capse.service.state import service_of

router = APIRouter(prefix="/v1", tags=["graph"], route_class=GuardedRoute)


class LabelledTriple(BaseModel):
    """A triple by labels or names."""

    model_config = ConfigDict(extra="forbid")

    head: Label = Field(examples=["Kenya"])
    relation: Label = Field(examples=["borders"])
    tail: Label = Field(examples=["Uganda"])


class Triples(BaseModel):
    """Triples to score."""

    model_config = ConfigDict(extra="forbid")

    triples: list[LabelledTriple] = Field(min_length=1, max_length=MAX_TRIPLES)


class Verdict(BaseModel):
    """What a run says of a triple that was given thresholds by `capse score --classify`."""

    true: bool = Field(description="Whether it scores above its relation's threshold", examples=[True])
    probability: float = Field(description="In a mix of facts and plausible false ones, half of each", examples=[0.71])


class ScoredTriple(BaseModel):
    """How plausible a triple is."""

    score: float = Field(description="Higher is more plausible", examples=[3.21])
    probability: float | None = Field(description="null where the run is not calibrated", examples=[0.93])
    known: bool = Field(description="Whether the graph says so already", examples=[True])
    verdict: Verdict | None = Field(description="null where the run has no thresholds")


class Scores(BaseModel):
    """In the order of the triples."""

    scores: list[ScoredTriple]
    model: str = Field(description="The version of the model that answered", examples=["d3b07384d113"])


_EXAMPLE = {"two": {"value": {"triples": [
    {"head": "Kenya", "relation": "borders", "tail": "Uganda"},
    {"head": "Kenya", "relation": "borders", "tail": "Peru"},
]}}}  # fmt: skip


@router.post("/score", response_model=Scores, **needs("predict", "no-such-model", "unknown-name", example=Scores))
async def score(request: Request, asked: Annotated[Triples, Body(openapi_examples=_EXAMPLE)]) -> JSONResponse:
    """The score of each triple, with its probability where the run is calibrated and a verdict where it has thresholds.

    `probability` is relative to triples with a random head or tail, which are easy to tell; `verdict` to plausible
    false ones.
    """
    model = service_of(request).models.require_graph()
    charge(request, len(asked.triples), TRIPLES_A_REQUEST)
    entities, relations = model.entities, model.relations
    rows = [(entities.id(t.head), relations.id(t.relation), entities.id(t.tail)) for t in asked.triples]
    ids = np.array(rows, np.int64)
    scores = await asyncio.to_thread(model.predictor.score_ids, ids)
    known = model.predictor.graph.known.contains(*ids.T).tolist()
    fit = model.calibration
    probabilities = fit.probability(scores).tolist() if fit else [None] * len(ids)
    judged = await asyncio.to_thread(_verdicts, model, ids)
    found = [
        {"score": s, "probability": p, "known": k, "verdict": v}
        for s, p, k, v in zip(scores.tolist(), probabilities, known, judged, strict=True)
    ]
    return JSONResponse({"scores": found, "model": model.version})


def _verdicts(model: GraphModel, ids: Int64s) -> list[dict[str, Any] | None]:
    if model.classifier is None:
        return [None] * len(ids)
    said = verdicts(model.predictor, model.classifier, ids)
    return [{"true": verdict.true, "probability": verdict.probability} for verdict in said]
