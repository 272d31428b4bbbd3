"""Topics of documents: latent Dirichlet allocation (Blei, Ng and Jordan, JMLR 2003), fitted by scikit-learn.

scikit-learn learns the topics by variational Bayes (Hoffman, Blei and Bach, NIPS 2010). The topics of a document are
inferred here, by the same equations: with λ (T, V) the fitted components, β = exp(E[log topic-word]) and n the counts
of a document's words, repeat from γ = 1

    θ = exp(ψ(γ) − ψ(Σγ))        φ_w = Σ_t θ_t β_tw        γ_t = α + θ_t Σ_w n_w β_tw / φ_w

until γ rests; its topics are γ / Σγ. Sums are not left to BLAS: a document has the same topics, to the last bit, alone
and among others, and whatever the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import scipy.sparse
import torch
from scipy.special import psi

from capse.arrays import Float32s, Float64s, Int64s
from capse.errors import RunError, SettingsError
from capse.runs.tensors import load_tensors, save_tensors
from capse.search.logs.documents import Documents, count_matrix
from capse.search.vectors.vocabulary import TextSettings, choose_words

_FIT_STEPS = 20  # updates of γ in each pass of fitting: what a pass leaves undone, the next goes on with
_STEPS = 100  # updates of γ at most when a document's topics are inferred
_AT_REST = 1e-3  # mean change of γ, in words, that counts as none
_REMEDY = "train the run again"


@dataclass(frozen=True)
class TopicSettings(TextSettings):
    """How topics are learned."""

    topics: int = 200  # how many, and so the length of a vector
    iterations: int = 10  # passes over the documents; more of them ranked no better on gitsearch
    document_prior: float = 0.05  # α, of each topic in a document
    word_prior: float = 0.01  # of each word in a topic

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("topics", "iterations"):
            if getattr(self, name) < 1:
                raise SettingsError(f"vectors.{name} is {getattr(self, name)}", "write a number of 1 or more")
        for name in ("document_prior", "word_prior"):
            if getattr(self, name) <= 0:
                raise SettingsError(f"vectors.{name} is {getattr(self, name)}", "write a number above 0")


@dataclass(frozen=True)
class Topics:
    """T topics over V words."""

    words: list[str]  # (V,)
    components: Float32s  # (T, V) λ: how often each word was put down to each topic, with the prior
    document_prior: float

    @cached_property
    def vocabulary(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    @property
    def width(self) -> int:
        return len(self.components)

    def infer(self, counts: scipy.sparse.csr_matrix) -> Float32s:
        """The topics (n, T) of documents given by word counts (n, V): rows sum to 1, one without words is even."""
        shares = np.empty((counts.shape[0], self.width), np.float32)
        for row, (start, end) in enumerate(zip(counts.indptr[:-1], counts.indptr[1:], strict=True)):
            weights = self._infer_one(counts.indices[start:end], counts.data[start:end])
            shares[row] = weights / weights.sum()
        return shares

    def _infer_one(self, columns: npt.NDArray[np.integer], counts: Float64s) -> Float64s:
        """γ (T,) of one document."""
        words = self._word_weights[columns]  # (w, T)
        weights = np.ones(self.width)
        for _ in range(_STEPS):
            before = weights
            shares = np.exp(psi(weights) - psi(weights.sum()))
            chances = np.einsum("wt,t->w", words, shares) + np.finfo(np.float64).eps
            weights = self.document_prior + shares * np.einsum("w,wt->t", counts / chances, words)
            if np.abs(weights - before).mean() < _AT_REST:
                break
        return weights

    @cached_property
    def _word_weights(self) -> Float64s:
        """β as (V, T): a document's words are then rows that lie together."""
        components = self.components.astype(np.float64)
        return np.ascontiguousarray(np.exp(psi(components) - psi(components.sum(axis=1, keepdims=True))).T)

    def top_words(self, topic: int, n: int = 10) -> list[str]:
        """The n most frequent words of a topic, the most frequent first."""
        weights = self.components[topic]
        least = np.partition(weights, -n)[-n] if n < len(weights) else -np.inf
        among = np.flatnonzero(weights >= least)  # few, so that only they are sorted
        return [self.words[column] for column in among[np.argsort(-weights[among], kind="stable")][:n]]

    def shown_by(self, topic: int, n: int) -> tuple[str, ...]:
        """The same, looked up once."""
        if (topic, n) not in self._shown:
            self._shown[topic, n] = tuple(self.top_words(topic, n))
        return self._shown[topic, n]

    @cached_property
    def _shown(self) -> dict[tuple[int, int], tuple[str, ...]]:
        return {}

    def save(self, path: Path) -> None:
        metadata = {"words": self.words, "document_prior": self.document_prior}
        save_tensors(path, {"components": torch.from_numpy(self.components)}, metadata)

    @classmethod
    def load(cls, path: Path) -> Topics:
        tensors, metadata = load_tensors(path, _REMEDY)
        try:
            return cls(list(metadata["words"]), tensors["components"].numpy(), float(metadata["document_prior"]))
        except (KeyError, TypeError, ValueError) as error:
            raise RunError(f"{path} does not hold topics", _REMEDY) from error


def fit_topics(documents: Documents, chosen: Int64s, settings: TopicSettings) -> Topics:
    """Topics learned from the ``chosen`` documents, in one thread; the same settings give the same topics."""
    from sklearn.decomposition import LatentDirichletAllocation
    from threadpoolctl import threadpool_limits

    counted = [documents.words_of(number) for number in chosen.tolist()]
    words = choose_words(counted, settings)
    counts = count_matrix(counted, {word: number for number, word in enumerate(words)})
    model = LatentDirichletAllocation(
        settings.topics,
        doc_topic_prior=settings.document_prior,
        topic_word_prior=settings.word_prior,
        learning_method="batch",
        max_iter=settings.iterations,
        max_doc_update_iter=_FIT_STEPS,
        mean_change_tol=_AT_REST,
        random_state=settings.seed,
    )
    with threadpool_limits(limits=1):
        model.fit(counts.astype(np.float32))
    return Topics(words, np.asarray(model.components_, np.float32), settings.document_prior)
