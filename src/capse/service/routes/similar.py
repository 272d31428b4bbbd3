"""Entities whose vectors are near another's."""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from capse.graph.link_prediction.neighbours import similar as nearest
from capse.service.guard import GuardedRoute, needs
from capse.service.limits import MAX_TEXT, MAX_TOP
from capse.service.paths import any_text
from capse.service.state import service_of

router = APIRouter(prefix="/v1", tags=["graph"], route_class=GuardedRoute)


class NeighbourBody(BaseModel):
    """An entity near the one asked about."""

    entity: str = Field(description="Its label", examples=["UG"])
    name: str = Field(examples=["Uganda"])
    similarity: float = Field(description="The cosine of the two vectors; 1 is the same direction", examples=[0.83])


class Neighbours(BaseModel):
    """The nearest entities, nearest first."""

    neighbours: list[NeighbourBody]
    model: str = Field(description="The version of the model that answered", examples=["d3b07384d113"])


@router.get(
    "/similar/" + any_text("entity"),
    response_model=Neighbours,
    **needs("predict", "no-such-model", "unknown-name", body=False, example=Neighbours),
)
async def similar(
    request: Request,
    entity: Annotated[
        str, Path(min_length=1, max_length=MAX_TEXT, description="Its label or name", examples=["Kenya"])
    ],
    top: Annotated[int, Query(ge=1, le=MAX_TOP, description="How many", examples=[5])] = 10,
) -> JSONResponse:
    """The entities whose vectors are nearest to one's, by their cosine."""
    model = service_of(request).models.require_graph()
    label = model.predictor.graph.entities.labels[model.entities.id(entity)]
    found = await asyncio.to_thread(nearest, model.predictor, label, top)
    return JSONResponse({"neighbours": [asdict(near) for near in found], "model": model.version})
