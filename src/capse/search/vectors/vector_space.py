"""Vectors of documents and queries, and the space in which new ones find their place at once.

A document is its topic proportions, what an encoder makes of its text, or a row of a file. A query is the decayed mean
of the documents that the engine showed for it, v_q = Σ_i λ_i v_{d_i} over the first 10 of them, with λ_i proportional
to 0.8^(i − 1) and summing to 1; or, with an encoder, what it makes of the query's own text.
"""

from __future__ import annotations

import hashlib
import json
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse

from capse.arrays import Float32s, Int64s
from capse.errors import RunError, SettingsError
from capse.runs.atomic import atomic_path, write_json
from capse.runs.settings import fill, to_mapping
from capse.search.logs.documents import Documents
from capse.search.logs.search_log import SearchLog
from capse.search.vectors.encoders import LSA, Encoder, Lsa, fit_lsa, load_encoder, runs_own_code
from capse.search.vectors.topics import Topics, TopicSettings, fit_topics
from capse.search.vectors.vector_files import VectorTable, read_vectors, write_vectors
from capse.search.vectors.vocabulary import training_documents

_SETTINGS, _TOPICS, _LSA = "settings.json", "topics.safetensors", "lsa.safetensors"
_DOCUMENTS, _QUERIES, _SAID = "documents.parquet", "queries.parquet", "said.parquet"
_TITLE = 80  # characters of a text that stand for its title


@dataclass(frozen=True)
class VectorSettings(TopicSettings):
    """Where vectors come from: one flat section of a recipe, with the settings of topics in it."""

    source: Literal["topics", "file", "encoder"] = "topics"  # learned topics, a file of vectors, or an encoder of texts
    encoder: str = LSA  # or sentence-transformers:NAME, or module:function
    dimensions: int = 200  # of 'lsa'
    documents: str | None = None  # a file of document vectors
    queries: str | None = None  # a file of query vectors, by the query's text
    query_text: bool = True  # with an encoder, encode the query's text; otherwise the mean of what was shown
    query_documents: int = 10  # results that a query's vector is the mean of
    query_decay: float = 0.8  # of a result's weight for every place further down

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("dimensions", "query_documents"):
            if getattr(self, name) < 1:
                raise SettingsError(f"vectors.{name} is {getattr(self, name)}", "write a number of 1 or more")
        if not 0 < self.query_decay <= 1:
            raise SettingsError(f"vectors.query_decay is {self.query_decay}", "write a number above 0 and up to 1")
        if (self.source == "file") != (self.documents is not None):
            raise SettingsError(
                f"vectors.source is {self.source} and vectors.documents {self.documents or 'empty'}",
                "source 'file' goes with a file of document vectors, and no other source does",
            )
        if self.queries and self.source != "file":
            raise SettingsError("vectors.queries is a file", "set vectors.source=file")

    @property
    def fitted(self) -> bool:
        """Whether a text model is fitted on the log."""
        return self.source == "topics" or (self.source == "encoder" and self.encoder == LSA)

    @property
    def leaks(self) -> bool:
        return self.fitted and super().leaks

    @property
    def encodes_queries(self) -> bool:
        return self.source == "encoder" and self.query_text


@dataclass(frozen=True)
class Vectors:
    """The vectors of a log's documents and impressions."""

    documents: Float32s  # (D, k)
    queries: Float32s  # (n, k) one per impression
    leaks: bool  # labels went into them
    notes: tuple[str, ...] = ()  # what a user should know, a line each


def query_vectors(log: SearchLog, documents: Float32s, decay: float = 0.8, n: int = 10) -> Float32s:
    """The decayed mean (impressions, k) of the first n documents of each list; zeros for an empty list.

    The rank in a list is by the engine's position, in whatever order its rows are stored.
    """
    order = np.lexsort((log.document, log.position, log.impression))
    rank = np.arange(len(order)) - log.offsets[:-1][log.impression]
    first = rank < n
    lengths = np.minimum(log.lengths, n)
    totals = np.concatenate([[1.0], np.cumsum(decay ** np.arange(n))])  # totals[l]: of the weights of l documents
    weights = decay ** rank[first] / np.repeat(totals[lengths], lengths)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    means = scipy.sparse.csr_matrix((weights, log.document[order][first], ends), shape=(len(log), len(documents)))
    return np.asarray(means @ documents, np.float32)


@dataclass(frozen=True)
class VectorSpace:
    """Where known documents lie, and where new documents and queries go."""

    settings: VectorSettings
    known: VectorTable  # documents by their ids
    model: Topics | Encoder | None  # what gives a text its vector
    known_queries: VectorTable | None = None  # queries by their text
    digests: Int64s | None = None  # (n,) of what the known documents said; 0: nobody knows it any more
    titles: Sequence[str] | None = None  # (n,) what people know them by; "" where they had neither title nor text

    @property
    def width(self) -> int:
        return self.known.width

    def vectors(self, log: SearchLog) -> Vectors:
        """The vectors of a log; documents that the space does not know get theirs now."""
        ids = log.documents.ids
        documents, there = self.known.of(ids)
        notes = []
        if not there.all():
            missing = np.flatnonzero(~there)
            documents[missing] = self._of(_some(log.documents, missing))
            if self.settings.source == "file":
                notes.append(f"{self.settings.documents} lacks {len(missing)} of {len(ids)} documents: they are zero")
        queries = self._queries(log, documents, notes)
        return Vectors(documents, queries, self.settings.leaks, tuple(notes))

    def document(self, text: str = "", *, title: str = "", terms: Mapping[str, int] | None = None) -> Float32s:
        """(k,) the vector of a new document; zeros where vectors come from a file."""
        return np.asarray(self._of(Documents([""], [title], [None if terms else text], [terms]))[0])

    def says(self, document: str, title: str, text: str | None) -> bool:
        """Whether a known document says what it said in training, as far as is known; a title alone is no text."""
        if text is None or self.digests is None:
            return True
        then = int(self.digests[self.known.index[document]])
        return then in (0, digest(title, text))

    def query(self, text: str, documents: Float32s) -> Float32s:
        """(k,) the vector of a query for which the engine shows documents with these vectors, in its order (r, k)."""
        if self.settings.encodes_queries:
            return np.asarray(self._encoder.encode([text])[0])
        stored = self.known_queries.get(text) if self.known_queries else None
        if stored is not None:
            return stored
        shown = documents[: self.settings.query_documents]
        weights = self.settings.query_decay ** np.arange(len(shown))
        return np.asarray(weights @ shown / max(weights.sum(), 1), np.float32)

    def save(self, folder: Path) -> None:
        """Write the space into a folder; a ``sentence-transformers`` or a user's own encoder by its name only."""
        write_json(folder / _SETTINGS, to_mapping(self.settings))
        write_vectors(folder / _DOCUMENTS, self.known)
        if self.known_queries:
            write_vectors(folder / _QUERIES, self.known_queries)
        if self.digests is not None:
            with atomic_path(folder / _SAID) as temporary:
                pq.write_table(pa.table({"digest": self.digests, "title": pa.array(self.titles)}), temporary)
        if isinstance(self.model, Topics):
            self.model.save(folder / _TOPICS)
        elif isinstance(self.model, Lsa):
            self.model.save(folder / _LSA)

    @classmethod
    def load(cls, folder: Path, encoder: str | None = None) -> VectorSpace:
        """What ``save`` wrote.

        A file never runs code: where the encoder is a user's own function, give its name again as ``encoder``, else
        the space knows only the documents that it was built with.
        """
        try:
            stored = json.loads((folder / _SETTINGS).read_text(encoding="utf-8"))
            settings = fill(VectorSettings, stored, "vectors")
        except (OSError, ValueError, TypeError, SettingsError) as error:
            raise RunError(f"{folder / _SETTINGS} is missing or damaged", "train the run again") from error
        queries = read_vectors(folder / _QUERIES) if settings.queries else None
        known = read_vectors(folder / _DOCUMENTS)
        model: Topics | Encoder | None = None
        if settings.source == "topics":
            model = Topics.load(folder / _TOPICS)
        elif settings.source == "encoder" and settings.encoder == LSA:
            model = Lsa.load(folder / _LSA)
        elif settings.source == "encoder" and (encoder == settings.encoder or not runs_own_code(settings.encoder)):
            model = load_encoder(settings.encoder)
        return cls(settings, known, model, queries, *_read_said(folder / _SAID, len(known.labels)))

    @property
    def _encoder(self) -> Encoder:
        if self.model is None or isinstance(self.model, Topics):
            raise SettingsError(
                f"these vectors come from {self.settings.encoder}, code that is not run unless you name it",
                f"give encoder={self.settings.encoder!r} if you trust it",
            )
        return self.model

    def _of(self, documents: Documents) -> Float32s:
        if self.settings.source == "file":
            return np.zeros((len(documents), self.width), np.float32)
        if isinstance(self.model, Topics):
            return self.model.infer(documents.counts(self.model.vocabulary))
        return self._encoder.encode([documents.text_of(number) for number in range(len(documents))])

    def _queries(self, log: SearchLog, documents: Float32s, notes: list[str]) -> Float32s:
        if self.settings.encodes_queries:
            return self._encoder.encode(log.queries)[log.query]
        queries = query_vectors(log, documents, self.settings.query_decay, self.settings.query_documents)
        if self.known_queries:
            stored, there = self.known_queries.of(log.queries)
            queries = np.where(there[log.query, None], stored[log.query], queries)
            if not there.all():
                lacking = f"{self.settings.queries} lacks {np.sum(~there)} of {len(there)} queries"
                notes.append(f"{lacking}: theirs are means of the documents shown")
        return queries


def build_vectors(log: SearchLog, settings: VectorSettings) -> VectorSpace:
    """The space of a log's documents; what is fitted is fitted on ``training_documents``."""
    if settings.source == "file":
        known = read_vectors(str(settings.documents))
        if not known.of(log.documents.ids)[1].any():
            raise SettingsError(f"{settings.documents} has no document of the log", "give the vectors of this log")
        queries = read_vectors(settings.queries) if settings.queries else None
        if queries and queries.width != known.width:
            raise SettingsError(
                f"{settings.queries} has vectors of {queries.width} numbers, {settings.documents} of {known.width}",
                "give vectors of one length",
            )
        return VectorSpace(settings, known, None, queries)
    model: Topics | Encoder
    if settings.source == "topics":
        model = fit_topics(log.documents, training_documents(log, settings), settings)
    elif settings.encoder == LSA:
        texts = [log.documents.text_of(number) for number in training_documents(log, settings).tolist()]
        model = fit_lsa(texts, settings.dimensions, settings)
    else:
        model = load_encoder(settings.encoder)
    fitted = VectorSpace(settings, VectorTable([], np.zeros((0, 0), np.float32)), model)
    known = VectorTable(log.documents.ids, fitted._of(log.documents))
    return VectorSpace(settings, known, model, digests=_digests(log.documents), titles=_titles(log.documents))


def digest(title: str, text: str | None) -> int:
    """63 bits of what a document says: equal for equal texts."""
    content = hashlib.blake2b(f"{title}\0{text or ''}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(content, "big") >> 1


def _digests(documents: Documents) -> Int64s:
    found = [
        0 if terms is not None else digest(title or "", text)
        for title, text, terms in zip(documents.titles, documents.texts, documents.terms, strict=True)
    ]
    return np.array(found, np.int64)


def _titles(documents: Documents) -> list[str]:
    """The title of each document, or the beginning of its text."""
    return [
        title or textwrap.shorten(text or "", _TITLE, placeholder="…")
        for title, text in zip(documents.titles, documents.texts, strict=True)
    ]


def _read_said(path: Path, count: int) -> tuple[Int64s | None, Sequence[str] | None]:
    if not path.is_file():  # a run of an earlier version, or of a file of vectors
        return None, None
    try:
        found = pq.read_table(path, columns=["digest", "title"])
    except (OSError, pa.ArrowException) as error:
        raise RunError(f"{path} is damaged", "train the run again") from error
    if len(found) != count:
        raise RunError(f"{path} does not fit the documents beside it", "train the run again")
    return found["digest"].to_numpy(), found["title"].to_pylist()


def _some(documents: Documents, chosen: Int64s) -> Documents:
    return Documents(
        [documents.ids[number] for number in chosen.tolist()],
        [documents.titles[number] for number in chosen.tolist()],
        [documents.texts[number] for number in chosen.tolist()],
        [documents.terms[number] for number in chosen.tolist()],
    )
