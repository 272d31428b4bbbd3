"""Texts as vectors of length 1, of documents and of queries alike: an alternative to topics.

    lsa                          built in: latent semantic analysis, fitted on the log's own documents
    sentence-transformers:NAME   a model of that library
    module:function              your own: it takes a list of n texts and gives n rows of k numbers

Latent semantic analysis (Deerwester et al., JASIS 1990): (1 + ln count) times rarity for each word, rows of length 1,
projected on the first k right singular vectors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy.sparse
import torch

from capse.arrays import Float32s, Float64s
from capse.errors import MissingExtraError, RunError, SettingsError
from capse.runs.tensors import load_tensors, save_tensors
from capse.search.logs.documents import count_matrix, words
from capse.search.vectors.sparse_rows import inverse_frequency, unit_rows
from capse.search.vectors.vocabulary import TextSettings, choose_words

LSA = "lsa"
_SENTENCE_TRANSFORMERS = "sentence-transformers"
_REMEDY = "train the run again"


class Encoder(Protocol):
    def encode(self, texts: Sequence[str]) -> Float32s:
        """A row of length 1 for each text (n, k); zeros for a text that says nothing."""


def load_encoder(name: str) -> Encoder:
    """An encoder that needs no fitting, by its name.

    >>> load_encoder("my_module:encode")
    Traceback (most recent call last):
    capse.errors.SettingsError: there is no module 'my_module': install it, or put its folder on PYTHONPATH
    """
    kind, colon, rest = name.partition(":")
    if not colon or not kind or not rest:
        raise SettingsError(
            f"vectors.encoder is {name!r}", f"write {LSA}, {_SENTENCE_TRANSFORMERS}:NAME or module:function"
        )
    if kind == _SENTENCE_TRANSFORMERS:
        return CallableEncoder(_sentence_transformer(rest), name)
    return CallableEncoder(_function(kind, rest), name)


def runs_own_code(name: str) -> bool:
    """Whether a name is that of a user's own function, to be run only where that user says so."""
    return name != LSA and not name.startswith(f"{_SENTENCE_TRANSFORMERS}:")


@dataclass(frozen=True)
class CallableEncoder:
    """Any function from texts to rows of numbers, checked and scaled to length 1."""

    function: Callable[[list[str]], Any]
    name: str

    def encode(self, texts: Sequence[str]) -> Float32s:
        rows = np.asarray(self.function(list(texts)), np.float32)
        if rows.ndim != 2 or len(rows) != len(texts):
            raise SettingsError(
                f"the encoder {self.name!r} gave numbers of shape {rows.shape} for {len(texts)} texts",
                "it must give one row of numbers for each text",
            )
        if not np.isfinite(rows).all():
            raise SettingsError(f"the encoder {self.name!r} gave NaN or infinity", "check the texts and the encoder")
        return unit(rows)


def unit(rows: npt.NDArray[np.floating]) -> Float32s:
    """Rows of length 1; a row of zeros stays one.

    >>> unit(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]], dtype=float32)
    """
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)
    return np.asarray(rows / np.where(lengths > 0, lengths, 1), np.float32)


def _sentence_transformer(name: str) -> Callable[[list[str]], Any]:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise MissingExtraError(f"the encoder {_SENTENCE_TRANSFORMERS}:{name}", "encoders") from error
    try:
        model = SentenceTransformer(name)
    except (OSError, ValueError) as error:
        said = (str(error).splitlines() or [type(error).__name__])[0]
        raise SettingsError(
            f"the model {name!r} of {_SENTENCE_TRANSFORMERS} cannot be loaded ({said})",
            "name a model of its hub, or a folder with one",
        ) from error
    return lambda texts: model.encode(texts, show_progress_bar=False)


def _function(module: str, name: str) -> Callable[[list[str]], Any]:
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"there is no module {error.name!r}", "install it, or put its folder on PYTHONPATH"
        ) from error
    function = getattr(found, name, None)
    if not callable(function):
        raise SettingsError(f"the module {module!r} has no function {name!r}", "write module:function")
    return function  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Lsa:
    """Latent semantic analysis with k dimensions over V words; those beyond the texts' own number are zero."""

    words: list[str]  # (V,)
    rarity: Float64s  # (V,)
    directions: Float32s  # (V, k) right singular vectors

    @cached_property
    def vocabulary(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    def encode(self, texts: Sequence[str]) -> Float32s:
        # Text by text: the same vector alone and among others, and no sparse matrix where a query waits for its answer.
        rows = np.zeros((len(texts), self.directions.shape[1]))
        for row, text in zip(rows, texts, strict=True):
            counts = {word: count for word, count in Counter(words(text)).items() if word in self.vocabulary}
            if counts:
                columns = np.array([self.vocabulary[word] for word in counts])
                weights = (1 + np.log(list(counts.values()))) * self.rarity[columns]
                row[:] = weights @ self.directions[columns]
        return unit(rows)

    def save(self, path: Path) -> None:
        tensors = {"rarity": torch.from_numpy(self.rarity), "directions": torch.from_numpy(self.directions)}
        save_tensors(path, tensors, {"words": self.words})

    @classmethod
    def load(cls, path: Path) -> Lsa:
        tensors, metadata = load_tensors(path, _REMEDY)
        try:
            return cls(list(metadata["words"]), tensors["rarity"].numpy(), tensors["directions"].numpy())
        except (KeyError, TypeError) as error:
            raise RunError(f"{path} does not hold an LSA encoder", _REMEDY) from error


def fit_lsa(texts: Sequence[str], dimensions: int, settings: TextSettings) -> Lsa:
    """Latent semantic analysis of texts, in one thread; the same settings give the same encoder."""
    from sklearn.decomposition import TruncatedSVD
    from threadpoolctl import threadpool_limits

    counted = [Counter(words(text)) for text in texts]
    kept = choose_words(counted, settings)
    counts = count_matrix(counted, {word: number for number, word in enumerate(kept)})
    rarity = inverse_frequency(counts)
    model = TruncatedSVD(min(dimensions, *counts.shape), random_state=settings.seed)
    with threadpool_limits(limits=1):
        model.fit(_weighted(counts, rarity))
    directions = np.zeros((len(kept), dimensions), np.float32)
    directions[:, : len(model.components_)] = model.components_.T
    return Lsa(kept, rarity, directions)


def _weighted(counts: scipy.sparse.csr_matrix, rarity: Float64s) -> scipy.sparse.csr_matrix:
    damped = counts.copy()
    damped.data = 1 + np.log(damped.data)
    return unit_rows(damped, rarity)
