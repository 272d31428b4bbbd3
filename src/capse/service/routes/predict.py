"""What completes a triple: one question or many."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, Tag, model_validator

from capse.graph.link_prediction.completion import Completions, Query
from capse.graph.link_prediction.queries import FREE
from capse.service.fields import one_or_many
from capse.service.graph_model import GraphModel
from capse.service.guard import GuardedRoute, needs
from capse.service.limits import MAX_ANSWERS, MAX_QUERIES, MAX_TEXT, MAX_TOP
from capse.service.problems import Problem
from capse.service.state import service_of

router = APIRouter(prefix="/v1", tags=["graph"], route_class=GuardedRoute)

Label = Annotated[str, Field(min_length=1, max_length=MAX_TEXT)]


class PredictQuery(BaseModel):
    """Which entities complete (head, relation, ?) or (?, relation, tail)?"""

    model_config = ConfigDict(extra="forbid")

    relation: Label = Field(description="By label or name", examples=["borders"])
    head: Label | None = Field(None, description="By label or name; tails are then asked for", examples=["Kenya"])
    tail: Label | None = Field(None, description="By label or name; heads are then asked for", examples=[None])
    top: int = Field(10, ge=1, le=MAX_TOP, description="How many answers")
    new: bool = Field(False, description="Leave known facts out")

    @model_validator(mode="after")
    def _one_side(self) -> PredictQuery:
        if (self.head is None) == (self.tail is None):
            raise ValueError("give either head or tail; the other is what is asked for")
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


class Predictions(BaseModel):
    """The answers to one question, best first."""

    predictions: list[PredictedEntity]
    model: str = Field(description="The version of the model that answered", examples=["d3b07384d113"])


class PredictionsInBulk(BaseModel):
    """The answers to many questions, in their order."""

    results: list[list[PredictedEntity]]
    model: str = Field(description="The version of the model that answered", examples=["d3b07384d113"])


_ONE = {"relation": "borders", "head": "Kenya", "top": 3}
_EXAMPLES = {
    "one": {"summary": "One question", "value": _ONE},
    "many": {"summary": "Many", "value": {"queries": [_ONE, {"relation": "borders", "tail": "Peru", "new": True}]}},
}


@router.post(
    "/predict",
    response_model=Predictions | PredictionsInBulk,
    **needs("predict", "no-such-model", "unknown-name", "overloaded", example=Predictions),
)
async def predict(request: Request, asked: Annotated[OneOrMany, Body(openapi_examples=_EXAMPLES)]) -> JSONResponse:
    """The entities that best complete a triple, over all entities of the graph.

    Questions of all requests that wait at the same time are scored together. A list of questions under `queries` gets a
    list of answers under `results`.
    """
    service = service_of(request)
    model = service.models.require_graph()
    queries = asked.queries if isinstance(asked, PredictBulk) else [asked]
    if sum(query.top for query in queries) > MAX_ANSWERS:
        detail = f"more than {MAX_ANSWERS:,} answers are asked for"
        raise Problem("invalid", detail, "lower top, or ask fewer questions at a time")
    questions = [_question(model, query) for query in queries]
    answers = await asyncio.wrap_future(service.batcher.ask(model.predictor, questions))
    results = [_body(model, found) for found in answers]
    if isinstance(asked, PredictBulk):
        return JSONResponse({"results": results, "model": model.version})
    return JSONResponse({"predictions": results[0], "model": model.version})


def _question(model: GraphModel, query: PredictQuery) -> Query:
    head = FREE if query.head is None else model.entities.id(query.head)
    tail = FREE if query.tail is None else model.entities.id(query.tail)
    return Query(head, model.relations.id(query.relation), tail, query.top, query.new)


def _body(model: GraphModel, found: Completions) -> list[dict[str, Any]]:
    words = model.entities.vocabulary
    scores = found.scores.tolist()
    fit = model.calibration
    probabilities = fit.probability(found.scores).tolist() if fit else [None] * len(scores)
    return [
        {"entity": words.labels[i], "name": words.name(i), "score": score, "probability": p, "known": known}
        for i, score, p, known in zip(found.entities.tolist(), scores, probabilities, found.known.tolist(), strict=True)
    ]
