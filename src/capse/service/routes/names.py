"""Looking up entities and relations by what people type, and the facts of an entity."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

from capse.service.guard import GuardedRoute, needs
from capse.service.settings import MAX_TEXT

router = APIRouter(prefix="/v1", tags=["graph"], route_class=GuardedRoute)

How = Literal["exact", "prefix", "word", "similar"]
Text = Annotated[str, Query(max_length=MAX_TEXT, description="The beginning of a label, a name or a word in it")]
Limit = Annotated[int, Query(ge=1, le=100, description="How many at most")]


class FoundEntity(BaseModel):
    """An entity that was found."""

    entity: str = Field(description="Its label", examples=["KE"])
    name: str = Field(examples=["Kenya"])
    match: How = Field(description="How it was found", examples=["prefix"])


class FoundRelation(BaseModel):
    """A relation that was found."""

    relation: str = Field(description="Its label", examples=["borders"])
    name: str = Field(examples=["borders"])
    match: How = Field(description="How it was found", examples=["exact"])


class Entities(BaseModel):
    """The likeliest first."""

    entities: list[FoundEntity]
    total: int = Field(description="All entities of the graph", examples=[40943])


class Relations(BaseModel):
    """The likeliest first."""

    relations: list[FoundRelation]
    total: int = Field(description="All relations of the graph", examples=[11])


@router.get("/entities", **needs("read", "no-such-model", body=False))
async def entities(request: Request, q: Text = "", limit: Limit = 10) -> Entities:
    """Entities whose label or name is `q`, begins with it, has a word that does, or resembles it."""
    index = request.app.state.service.models.require_graph().entities
    words = index.vocabulary
    found = [
        FoundEntity(entity=words.labels[match.id], name=words.name(match.id), match=match.kind)
        for match in index.find(q, limit)
    ]
    return Entities(entities=found, total=len(words))


@router.get("/relations", **needs("read", "no-such-model", body=False))
async def relations(request: Request, q: Text = "", limit: Limit = 10) -> Relations:
    """Relations whose label or name is `q`, begins with it, has a word that does, or resembles it."""
    index = request.app.state.service.models.require_graph().relations
    words = index.vocabulary
    found = [
        FoundRelation(relation=words.labels[match.id], name=words.name(match.id), match=match.kind)
        for match in index.find(q, limit)
    ]
    return Relations(relations=found, total=len(words))
