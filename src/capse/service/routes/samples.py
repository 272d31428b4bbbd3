"""Lists to try re-ranking with."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from capse.search.serving.samples import SampleDocument, sample_lists
from capse.service.guard import GuardedRoute, needs
from capse.service.state import service_of

router = APIRouter(prefix="/v1", tags=["search"], route_class=GuardedRoute)


class SampleDocumentBody(BaseModel):
    """A document that the run knows."""

    id: str = Field(examples=["d7"])
    title: str = Field(description="Or the beginning of its text; else its words", examples=["Graph search"])
    words: list[str] = Field(description="That its vector stands for", examples=[["graph", "path"]])


class SampleBody(BaseModel):
    """What an engine might have found."""

    query: str = Field(examples=["graph"])
    documents: list[SampleDocumentBody]


class Samples(BaseModel):
    """Lists of the run's own documents."""

    samples: list[SampleBody]


@router.get("/search/samples", **needs("rerank", "no-such-model", body=False, example=Samples))
async def samples(request: Request) -> Samples:
    """A few lists of documents that the search run knows, to try `/v1/rerank` with."""
    model = service_of(request).models.require_search()
    found = await asyncio.to_thread(sample_lists, model.reranker.space)
    return Samples(
        samples=[
            SampleBody(
                query=one.query,
                documents=[_document(each) for each in one.documents],
            )
            for one in found
        ]
    )


def _document(one: SampleDocument) -> SampleDocumentBody:
    return SampleDocumentBody(id=one.id, title=one.title or " ".join(one.words), words=list(one.words))
