"""How plausible triples are."""

from __future__ import annotations

import asyncio
from typing import Annotated

import numpy as np
from fastapi import APIRouter, Body, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from capse.service.guard import GuardedRoute, needs
from capse.service.limits import MAX_TRIPLES
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


class ScoredTriple(BaseModel):
    """How plausible a triple is."""

    score: float = Field(description="Higher is more plausible", examples=[3.21])
    probability: float | None = Field(description="null where the run is not calibrated", examples=[0.93])
    known: bool = Field(description="Whether the graph says so already", examples=[True])


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
    """The score of each triple, with its probability where the run is calibrated."""
    model = service_of(request).models.require_graph()
    entities, relations = model.entities, model.relations
    rows = [(entities.id(t.head), relations.id(t.relation), entities.id(t.tail)) for t in asked.triples]
    ids = np.array(rows, np.int64)
    scores = await asyncio.to_thread(model.predictor.score_ids, ids)
    known = model.predictor.graph.known.contains(*ids.T).tolist()
    fit = model.calibration
    probabilities = fit.probability(scores).tolist() if fit else [None] * len(ids)
    found = [
        {"score": s, "probability": p, "known": k}
        for s, p, k in zip(scores.tolist(), probabilities, known, strict=True)
    ]
    return JSONResponse({"scores": found, "model": model.version})
