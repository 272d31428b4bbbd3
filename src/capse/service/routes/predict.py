"""What completes a triple: one question or many."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, Tag, model_validator

from capse.graph.link_prediction.candidates import Candidates, Listed
from capse.graph.link_prediction.completion import Completions, Query
from capse.graph.link_prediction.queries import FREE
from capse.service.fields import one_or_many
from capse.service.graph_model import GraphModel
from capse.service.guard import GuardedRoute, charge, needs
from capse.service.limits import MAX_ANSWERS, MAX_CANDIDATES, MAX_QUERIES, MAX_TEXT, MAX_TOP, QUESTIONS_A_REQUEST
from capse.service.problems import Problem
from capse.service.shards import HEADER
from capse.service.state import service_of

router = APIRouter(prefix="/v1", tags=["graph"], route_class=GuardedRoute)

Label = Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]


class TypeFact(BaseModel):
    """What entities of a type have in common: (?, relation, type), as in (Kenya, instance of, country)."""

    model_config = ConfigDict(extra="forbid")

    relation: Label = Field(examples=["instance of"])
    type: Label = Field(examples=["country"])


class PredictQuery(BaseModel):
    """What completes (head, relation, ?), (?, relation, tail) or (head, ?, tail)? Two of the three are given."""

    model_config = ConfigDict(extra="forbid")

    relation: Label | None = Field(None, description="By label or name; asked for if not given", examples=["borders"])
    head: Label | None = Field(None, description="By label or name; asked for if not given", examples=["Kenya"])
    tail: Label | None = Field(None, description="By label or name; asked for if not given", examples=[None])
    top: int = Field(10, ge=1, le=MAX_TOP, description="How many answers")
    new: bool = Field(False, description="Leave known facts out")

    among: list[Label] | None = Field(
        None, min_length=1, max_length=MAX_CANDIDATES, description="Only these entities may answer, by label or name"
    )
    of_type: TypeFact | None = Field(None, description="Only entities with such a training fact may answer")
    seen: bool = Field(False, description="Only entities that training has seen in that place of the relation")

    @model_validator(mode="after")
    def _one_restriction(self) -> PredictQuery:
        restrictions = (self.among is not None) + (self.of_type is not None) + self.seen
        if restrictions > 1:
            raise ValueError("give one of among, of_type and seen")
        if restrictions and self.relation is None:
            raise ValueError("candidates are entities, and a relation is asked for: leave them out")
        return self

    @model_validator(mode="after")
    def _one_unknown(self) -> PredictQuery:
        if [self.head, self.relation, self.tail].count(None) != 1:
            raise ValueError("give two of head, relation and tail; the third is what is asked for")
        return self


class PredictBulk(BaseModel):
    """Many questions."""

    model_config = ConfigDict(extra="forbid")

    queries: list[PredictQuery] = Field(min_length=1, max_length=MAX_QUERIES)


OneOrMany = Annotated[Annotated[PredictQuery, Tag("one")] | Annotated[PredictBulk, Tag("many")], one_or_many("queries")]


class PredictedEntity(BaseModel):
    """An entity that may complete the triple."""

    entity: str = Field(description="Its label", examples=["UG"])
    name: str = Field(examples=["Uganda"])
    score: float = Field(description="Higher is more plausible", examples=[3.21])
    probability: float | None = Field(description="null where the run is not calibrated", examples=[0.93])
    known: bool = Field(description="Whether the graph says so already", examples=[True])


class PredictedRelation(BaseModel):
    """A relation that may hold between head and tail."""

    relation: str = Field(description="Its label", examples=["borders"])
    name: str = Field(examples=["borders"])
    score: float = Field(description="Higher is more plausible", examples=[3.21])
    known: bool = Field(description="Whether the graph says so already", examples=[True])


class Predictions(BaseModel):
    """The answers to one question, best first."""

    predictions: list[PredictedEntity] | list[PredictedRelation]
    model: str = Field(description="The version of the model that answered", examples=["d3b07384d113"])


class PredictionsInBulk(BaseModel):
    """The answers to many questions, in their order."""

    results: list[list[PredictedEntity] | list[PredictedRelation]]
    model: str = Field(description="The version of the model that answered", examples=["d3b07384d113"])


_ONE = {"relation": "borders", "head": "Kenya", "top": 3}
_EXAMPLES = {
    "one": {"summary": "One question", "value": _ONE},
    "relations": {"summary": "What is between two?", "value": {"head": "Kenya", "tail": "Uganda", "top": 3}},
    "of a type": {
        "summary": "Among entities of a type",
        "value": _ONE | {"of_type": {"relation": "located in", "type": "Eastern Africa"}},
    },
    "many": {"summary": "Many", "value": {"queries": [_ONE, {"relation": "borders", "tail": "Peru", "new": True}]}},
}


@router.post(
    "/predict",
    response_model=Predictions | PredictionsInBulk,
    **needs("predict", "no-such-model", "unknown-name", "overloaded", "unavailable", example=Predictions),
)
async def predict(request: Request, asked: Annotated[OneOrMany, Body(openapi_examples=_EXAMPLES)]) -> JSONResponse:
    """What best completes a triple, over all entities of the graph or, between head and tail, over all relations.

    Questions of all requests that wait at the same time are scored together. A list of questions under `queries` gets a
    list of answers under `results`.
    """
    service = service_of(request)
    model = service.models.require_graph()
    queries = asked.queries if isinstance(asked, PredictBulk) else [asked]
    charge(request, len(queries), QUESTIONS_A_REQUEST)
    if sum(query.top for query in queries) > MAX_ANSWERS:
        detail = f"more than {MAX_ANSWERS:,} answers are asked for"
        raise Problem("invalid", detail, "lower top, or ask fewer questions at a time")
    questions = [_question(model, query) for query in queries]
    if service.shards is not None:
        results = await service.shards.predict(queries, request.headers.get("authorization"), model.version)
    else:
        answers = await asyncio.wrap_future(service.batcher.ask(model.predictor, questions))
        results = [_body(model, query, found) for query, found in zip(queries, answers, strict=True)]
    said = {"results": results} if isinstance(asked, PredictBulk) else {"predictions": results[0]}
    shard = service.settings.shard
    headers = {} if shard is None else {HEADER: f"{shard[0] + 1}/{shard[1]}"}
    return JSONResponse(said | {"model": model.version}, headers=headers)


def _question(model: GraphModel, query: PredictQuery) -> Query:
    head = FREE if query.head is None else model.entities.id(query.head)
    relation = FREE if query.relation is None else model.relations.id(query.relation)
    tail = FREE if query.tail is None else model.entities.id(query.tail)
    return Query(head, relation, tail, query.top, query.new, _among(model, query))


def _among(model: GraphModel, query: PredictQuery) -> Candidates | None:
    graph = model.predictor.graph
    if query.among is not None:
        return Listed(map(model.entities.id, query.among), "the names in the request")
    if query.of_type is not None:
        relation, kind = model.relations.id(query.of_type.relation), model.entities.id(query.of_type.type)
        return Listed.of_type(graph, graph.relations.labels[relation], graph.entities.labels[kind])
    return model.seen if query.seen else None


def _body(model: GraphModel, query: PredictQuery, found: Completions) -> list[dict[str, Any]]:
    answers, scores, known = found.answers.tolist(), found.scores.tolist(), found.known.tolist()
    if query.relation is None:
        words = model.relations.vocabulary
        return [
            {"relation": words.labels[i], "name": words.name(i), "score": score, "known": is_known}
            for i, score, is_known in zip(answers, scores, known, strict=True)
        ]
    words = model.entities.vocabulary
    fit = model.calibration
    probabilities = fit.probability(found.scores).tolist() if fit else [None] * len(scores)
    return [
        {"entity": words.labels[i], "name": words.name(i), "score": score, "probability": p, "known": is_known}
        for i, score, p, is_known in zip(answers, scores, probabilities, known, strict=True)
    ]
