"""New facts of the graph."""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Body, Request
from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from capse.graph.readers.rows import label_problem
from capse.service.fields import storable
from capse.service.graph_model import GraphModel
from capse.service.guard import GuardedRoute, charge, needs
from capse.service.limits import FACTS_A_REQUEST, MAX_NEW_FACTS, MAX_TEXT
from capse.service.problems import Problem
from capse.service.state import Service, service_of
from capse.service.store import Fact

router = APIRouter(prefix="/v1", tags=["graph"], route_class=GuardedRoute)


def _label(value: str) -> str:
    problem = label_problem(value)
    if problem or not storable(value):
        raise ValueError(f"{problem or 'text with a zero in it'} cannot be stored: remove it")
    return value


Label = Annotated[str, Field(min_length=1, max_length=MAX_TEXT), AfterValidator(_label)]


class NewFact(BaseModel):
    """A fact by labels or names. An entity that the run does not know is added; a relation must be known."""

    model_config = ConfigDict(extra="forbid")

    head: Label = Field(examples=["Atlantis"])
    relation: Label = Field(examples=["borders"])
    tail: Label = Field(examples=["Kenya"])


class NewFacts(BaseModel):
    """Facts to add, all or none."""

    model_config = ConfigDict(extra="forbid")

    facts: list[NewFact] = Field(min_length=1, max_length=MAX_NEW_FACTS)
    skip_known: bool = Field(False, description="Leave out what the run was trained on, instead of refusing it")


Outcome = Literal["accepted", "repeated", "known"]


class Added(BaseModel):
    """What became of each fact, in their order."""

    outcomes: list[Outcome] = Field(
        description="accepted: on disk now; repeated: it was before; known: the run was trained on it",
        examples=[["accepted", "repeated"]],
    )
    entities: list[str] = Field(description="Those that were added with them, by label", examples=[["Atlantis"]])
    model: str = Field(description="The version of the model that knows them", examples=["d3b07384d113+2"])


_ATLANTIS = {"head": "Atlantis", "relation": "located in", "tail": "Eastern Africa"}
_EXAMPLE = {
    "a new entity": {
        "value": {"facts": [_ATLANTIS, {"head": "Atlantis", "relation": "borders", "tail": "Kenya"}]},
    }
}


@router.post("/facts", **needs("facts", "no-such-model", "unknown-name", "known-fact", "unavailable", example=Added))
async def add_facts(request: Request, sent: Annotated[NewFacts, Body(openapi_examples=_EXAMPLE)]) -> Added:
    """Add facts to the graph. They are on disk when the answer comes, and this process answers with them.

    A new entity gets a vector from its facts; nothing else moves, and nothing is trained. Other workers follow within
    seconds. Sent again, the same fact changes nothing.
    """
    service = service_of(request)
    model = service.models.require_graph()
    if not service.settings.facts:
        raise Problem("forbidden", "this service takes no facts", "start it with: capse serve RUN --facts")
    charge(request, len(sent.facts), FACTS_A_REQUEST)
    facts = [_by_labels(model, fact) for fact in sent.facts]
    return await asyncio.to_thread(_add, service, model, facts, sent.skip_known)


def _add(service: Service, model: GraphModel, facts: list[Fact], skip_known: bool) -> Added:
    known = [model.growth is not None and model.growth.knows(fact) for fact in facts]
    if any(known) and not skip_known:
        fact = facts[known.index(True)]
        raise Problem("known-fact", f"({', '.join(fact)}) is a known fact already", "leave it out, or say skip_known")
    fresh = iter(service.require_store().add_facts([fact for fact, old in zip(facts, known, strict=True) if not old]))
    outcomes: list[Outcome] = ["known" if old else next(fresh) for old in known]
    service.apply_facts()
    now = service.models.require_graph()
    labels = dict.fromkeys(label for head, _, tail in facts for label in (head, tail))
    added = [label for label in labels if label not in model.predictor.graph.entities]
    return Added(outcomes=outcomes, entities=added, model=now.version)


def _by_labels(model: GraphModel, fact: NewFact) -> Fact:
    entities, relations = model.predictor.graph.entities, model.relations

    def entity(text: str) -> str:
        place = entities.find(text)
        return text if place is None else entities.labels[place]

    return entity(fact.head), relations.vocabulary.labels[relations.id(fact.relation)], entity(fact.tail)
