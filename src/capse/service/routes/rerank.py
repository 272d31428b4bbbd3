"""Search results in the order for one user."""

from __future__ import annotations

import asyncio
import hashlib
import time as clock
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Body, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field, Tag, model_validator

from capse.search.serving.interleaving import coins, interleave
from capse.search.serving.list_scorers import ShownDocument
from capse.search.serving.reasons import Reasons
from capse.search.serving.reranker import RankedDocument
from capse.search.times import to_seconds
from capse.service.drift import observe_list
from capse.service.fields import Fields, Id, Query, Session, Time, UserId, one_or_many, storable
from capse.service.guard import GuardedRoute, charge, needs, require_user
from capse.service.limits import (
    DOCUMENTS_A_REQUEST,
    MAX_DOCUMENT,
    MAX_DOCUMENTS,
    MAX_LISTS,
    MAX_TEXT,
    MAX_WORK,
    TEXT_WORK,
)
from capse.service.loaded_models import Models
from capse.service.observe import Metrics
from capse.service.problems import Problem
from capse.service.search_model import SearchModel
from capse.service.state import Service, service_of
from capse.service.store import KeptList, KeptText
from capse.service.trial import Trial

router = APIRouter(prefix="/v1", tags=["search"], route_class=GuardedRoute)


class Document(BaseModel):
    """A document by its id, by its text, or by both."""

    model_config = ConfigDict(extra="forbid")

    id: Id | None = Field(None, description="Made of the text where there is none", examples=["d7"])
    title: str = Field("", max_length=MAX_TEXT, examples=["Graph search"])
    text: str | None = Field(None, max_length=MAX_DOCUMENT, examples=["How to find a path in a graph"])
    fields: Fields = Field(
        {}, description="Of the document as it is now, or in this list; as the run's schema names them"
    )

    @model_validator(mode="after")
    def _is_known_by_something(self) -> Document:
        if self.id is None and not self.text and not self.title:
            raise ValueError("give a document's id or its text")
        return self

    def shown(self) -> ShownDocument:
        of_text = hashlib.sha256(f"{self.title}\0{self.text or ''}".encode()).hexdigest()[:16]
        return ShownDocument(of_text if self.id is None else self.id, self.title, self.text, self.fields)


class RerankList(BaseModel):
    """What a search engine found."""

    model_config = ConfigDict(extra="forbid")

    documents: list[Id | Document] = Field(
        min_length=1, max_length=MAX_DOCUMENTS, description="In the engine's order; ids, or objects"
    )
    query: Query = Field("", examples=["shortest path"])
    user: UserId | None = Field(
        None, description="Whose profile counts; nobody's where there is none", examples=["ada"]
    )
    session: Session = Field("", examples=["s1"])
    time: Time | None = Field(None, description="Seconds since 1970, or ISO 8601 text; now where there is none")
    fields: Fields = Field({}, description="Of the request, as the run's schema names them")
    user_fields: Fields = Field({}, description="Of the user, as the run's schema names them")
    explain: bool = Field(False, description="Say why each document stands where it stands")

    def work(self) -> int:
        """How much there is to do, in documents."""
        characters = sum(len(item.text or "") for item in self.documents if isinstance(item, Document))
        return len(self.documents) * (3 if self.explain else 1) + characters // TEXT_WORK


class RerankBulk(BaseModel):
    """Many lists."""

    model_config = ConfigDict(extra="forbid")

    requests: list[RerankList] = Field(min_length=1, max_length=MAX_LISTS)


OneOrMany = Annotated[Annotated[RerankList, Tag("one")] | Annotated[RerankBulk, Tag("many")], one_or_many("requests")]


class SharedTopicBody(BaseModel):
    """A topic that both the user's profile and the document have."""

    topic: int | None = Field(description="Its number; null where vectors have no topics", examples=[17])
    words: list[str] = Field(examples=[["graph", "path", "node"]])
    user: float = Field(description="Its share of the profile", examples=[0.31])
    document: float = Field(description="Its share of the document", examples=[0.42])


class NearDocumentBody(BaseModel):
    """A document from the user's past that is like this one."""

    id: str = Field(examples=["d3"])
    time: float = Field(description="When it satisfied the user, seconds since 1970", examples=[1700000000.0])
    likeness: float = Field(description="Cosine", examples=[0.87])


class ReasonsBody(BaseModel):
    """The strongest first; both empty where the user has nothing to do with the document."""

    topics: list[SharedTopicBody]
    past: list[NearDocumentBody]


class RankedDocumentBody(BaseModel):
    """A document in its new place."""

    document: str = Field(description="Its id", examples=["d7"])
    score: float | None = Field(description="null where nothing is known and the place is kept", examples=[1.83])
    position: int = Field(description="In the engine's list, from 1", examples=[3])
    rank: int = Field(description="In the new one, from 1", examples=[1])
    reasons: ReasonsBody | None = Field(description="null where no explanation was asked for")


class Reranked(BaseModel):
    """The documents in their new order."""

    documents: list[RankedDocumentBody]
    model: str = Field(
        description="The version of the model that answered; of two, with + between them", examples=["d3b07384d113"]
    )


class RerankedInBulk(BaseModel):
    """The lists in the order in which they were given, each in its new order."""

    results: list[list[RankedDocumentBody]]
    model: str = Field(
        description="The version of the model that answered; of two, with + between them", examples=["d3b07384d113"]
    )


_ONE = {"user": "ada", "session": "s1", "query": "shortest path", "documents": ["d1", "d7", "d3"]}
_TEXT = {"user": "ada", "query": "path", "documents": [{"id": "new", "text": "A path in a graph"}], "explain": True}
_EXAMPLES = {
    "ids": {"summary": "Documents that the run knows", "value": _ONE},
    "text": {"summary": "A document that it does not know", "value": _TEXT},
    "many": {"summary": "Many lists", "value": {"requests": [_ONE, _ONE | {"user": "grace"}]}},
}


@router.post("/rerank", response_model=Reranked | RerankedInBulk, **needs("rerank", "no-such-model", example=Reranked))
async def rerank(request: Request, asked: Annotated[OneOrMany, Body(openapi_examples=_EXAMPLES)]) -> JSONResponse:
    """The documents of a list in the order for its user, as the user's clicks have made it.

    A document of which nothing is known keeps its place. A user of whom nothing is known gets the order without a user.
    """
    service = service_of(request)
    models = service.models
    models.require_search()
    lists = asked.requests if isinstance(asked, RerankBulk) else [asked]
    work = sum(one.work() for one in lists)
    if work > MAX_WORK:
        detail = f"more than {MAX_WORK:,} documents, where one with reasons counts as three, and long texts for more"
        raise Problem("invalid", detail, "send fewer lists at a time")
    for one in lists:
        if one.user is not None:
            require_user(request, one.user)
    charge(request, work, DOCUMENTS_A_REQUEST)
    # Large requests wait for each other, so that together they slow the others down as little as one of them does.
    async with service.large if work > DOCUMENTS_A_REQUEST else nullcontext():
        results, version = await asyncio.to_thread(_ranked, service, models, lists)
    if isinstance(asked, RerankBulk):
        return JSONResponse({"results": results, "model": version})
    return JSONResponse({"documents": results[0], "model": version})


@dataclass(frozen=True)
class _Answer:
    """A list in its new order, and which run's order that is."""

    documents: list[RankedDocument]
    model: str  # of two, with + between them
    trial: str | None = None
    arm: str | None = None  # a or b; one letter for each document where both ranked


def _ranked(service: Service, models: Models, lists: list[RerankList]) -> tuple[list[list[dict[str, Any]]], str]:
    """The answers, and the versions that gave them."""
    store = service.require_store()
    for model in models.searching:
        model.catch_up(store)
    results, kept, versions = [], [], set()
    for one in lists:
        shown = [ShownDocument(item) if isinstance(item, str) else item.shown() for item in one.documents]
        stored = None if one.user is None else store.state(one.user)
        known_as = "" if one.user is None or store.is_forgotten(one.user) else one.user  # by the run
        time = None if one.time is None else to_seconds(one.time)
        about: dict[str, Any] = {"user": known_as, "session": one.session, "time": time, "explain": one.explain}
        about |= {"fields": one.fields, "user_fields": one.user_fields}
        ranked = partial(_rank, service.metrics, models, one.query, state=stored, documents=shown, **about)
        answer = _by_trial(service.trial, models, one, ranked)
        versions |= set(answer.model.split("+"))
        results.append([_body(document) for document in answer.documents])
        if service.recorder is not None and known_as:
            kept.append(_kept(one, shown, answer, texts=service.recorder.keeps_texts))
    if service.recorder is not None:
        service.recorder.keep(kept)
    for model in models.searching:
        for label, count in model.mistyped():
            service.metrics.mistyped.labels(label).inc(count)
    return results, "+".join(model.version for model in models.searching if model.version in versions)


def _rank(metrics: Metrics, models: Models, query: str, model: SearchModel, **about: Any) -> list[RankedDocument]:
    """What a run makes of a list, which is counted."""
    ranked = model.rerank(query=query, **about)
    observe_list(metrics, "a" if model is models.search else "b", model, query, ranked)
    return ranked


def _by_trial(
    trial: Trial | None, models: Models, one: RerankList, ranked: Callable[[SearchModel], list[RankedDocument]]
) -> _Answer:
    """By the run that is served, by the one against it, or by both. Nobody who has no name takes part."""
    served, against = models.require_search(), models.against
    if trial is None or against is None or one.user is None:
        return _Answer(ranked(served), served.version)
    if not trial.interleaved:
        arm = trial.arm(one.user)
        model = against if arm == "b" else served
        return _Answer(ranked(model), model.version, trial.name, arm)
    tosses = coins(trial.name, one.user, one.session, one.query)
    documents, teams = interleave(ranked(served), ranked(against), tosses)
    both = f"{served.version}+{against.version}"
    if len(documents) == 1:  # nobody prefers one order of it
        return _Answer(documents, both)
    return _Answer(documents, both, trial.name, teams)


def _kept(one: RerankList, shown: list[ShownDocument], answer: _Answer, *, texts: bool) -> KeptList:
    """What is to be learned from: the list as it came, and as it went."""
    return KeptList(
        user=one.user or "",
        session=one.session,
        time=clock.time_ns() // 1_000 if one.time is None else one.time,
        query=one.query,
        documents=tuple(document.id for document in shown),
        shown=tuple(document.position for document in answer.documents),
        model=answer.model,
        trial=answer.trial,
        arm=answer.arm,
        texts=tuple(_texts_of(shown)) if texts else (),
        fields=one.fields,
        user_fields=one.user_fields,
        document_fields={document.id: document.fields for document in shown if document.fields},
    )


def _texts_of(shown: list[ShownDocument]) -> Iterator[KeptText]:
    for document in shown:
        if (document.title or document.text) and storable(document.title + (document.text or "")):
            yield KeptText(document.id, document.title, document.text)


def _body(ranked: RankedDocument) -> dict[str, Any]:
    return {
        "document": ranked.document,
        "score": ranked.score,
        "position": ranked.position,
        "rank": ranked.rank,
        "reasons": None if ranked.reasons is None else _reasons_body(ranked.reasons),
    }


def _reasons_body(reasons: Reasons) -> dict[str, Any]:
    """As `dataclasses.asdict`, which copies every number."""
    return {"topics": [vars(topic) for topic in reasons.topics], "past": [vars(past) for past in reasons.past]}
