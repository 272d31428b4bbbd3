"""Looking up entities and relations by what people type, and the facts of an entity."""

from __future__ import annotations

from typing import Annotated

import numpy as np
from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel, Field

from capse.service.guard import GuardedRoute, needs
from capse.service.limits import MAX_FACTS, MAX_TEXT
from capse.service.name_index import How
from capse.service.paths import any_text
from capse.service.state import service_of
from capse.triples import HEAD, RELATION

router = APIRouter(prefix="/v1", tags=["graph"], route_class=GuardedRoute)

Text = Annotated[
    str, Query(max_length=MAX_TEXT, description="The beginning of a label, a name or a word in it", examples=["Ken"])
]
Limit = Annotated[int, Query(ge=1, le=100, description="How many at most", examples=[10])]


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


@router.get("/entities", **needs("predict", "no-such-model", body=False, example=Entities))
async def entities(request: Request, q: Text = "", limit: Limit = 10) -> Entities:
    """Entities whose label or name is `q`, begins with it, has a word that does, or resembles it."""
    index = service_of(request).models.require_graph().entities
    words = index.vocabulary
    found = [
        FoundEntity(entity=words.labels[match.id], name=words.name(match.id), match=match.kind)
        for match in index.find(q, limit)
    ]
    return Entities(entities=found, total=len(words))


@router.get("/relations", **needs("predict", "no-such-model", body=False, example=Relations))
async def relations(request: Request, q: Text = "", limit: Limit = 10) -> Relations:
    """Relations whose label or name is `q`, begins with it, has a word that does, or resembles it."""
    index = service_of(request).models.require_graph().relations
    words = index.vocabulary
    found = [
        FoundRelation(relation=words.labels[match.id], name=words.name(match.id), match=match.kind)
        for match in index.find(q, limit)
    ]
    return Relations(relations=found, total=len(words))


class FactBody(BaseModel):
    """A triple by labels and by names."""

    head: str = Field(examples=["KE"])
    relation: str = Field(examples=["borders"])
    tail: str = Field(examples=["UG"])
    head_name: str = Field(examples=["Kenya"])
    relation_name: str = Field(examples=["borders"])
    tail_name: str = Field(examples=["Uganda"])


class EntityBody(BaseModel):
    """An entity and what the graph says of it."""

    entity: str = Field(description="Its label", examples=["KE"])
    name: str = Field(examples=["Kenya"])
    facts: list[FactBody] = Field(description="Some of each relation, in turn")
    total: int = Field(description="All facts that it is in", examples=[9])


@router.get(
    "/entities/" + any_text("entity"),
    **needs("predict", "no-such-model", "unknown-name", body=False, example=EntityBody),
)
async def entity(
    request: Request,
    entity: Annotated[str, Path(min_length=1, max_length=MAX_TEXT, description="Its label or name", examples=["KE"])],
    limit: Annotated[int, Query(ge=1, le=MAX_FACTS, description="How many facts at most", examples=[50])] = 50,
    offset: Annotated[int, Query(ge=0, description="How many to pass over", examples=[0])] = 0,
) -> EntityBody:
    """An entity and the facts that it is in, as head or as tail."""
    model = service_of(request).models.require_graph()
    number, graph = model.entities.id(entity), model.predictor.graph
    around = graph.known.around(number)
    # The first of every relation and side, then the second of each, and so on.
    groups = 2 * around[:, RELATION] + (around[:, HEAD] == number)
    order = np.argsort(groups, kind="stable")
    _, starts, sizes = np.unique(groups[order], return_index=True, return_counts=True)
    place = np.arange(len(order)) - np.repeat(starts, sizes)
    chosen = around[order[np.argsort(place, kind="stable")][offset : offset + limit]]
    entities, relations = graph.entities, graph.relations
    facts = [
        FactBody(
            head=entities.labels[h],
            relation=relations.labels[r],
            tail=entities.labels[t],
            head_name=entities.name(h),
            relation_name=relations.name(r),
            tail_name=entities.name(t),
        )
        for h, r, t in chosen.tolist()
    ]
    return EntityBody(entity=entities.labels[number], name=entities.name(number), facts=facts, total=len(around))
