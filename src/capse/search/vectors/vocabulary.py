"""What text models may learn from: which documents, and which words of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from capse.arrays import Int64s
from capse.errors import DataError, SettingsError
from capse.runs.settings import Section, check_choices
from capse.search.logs.search_log import SPLITS, SearchLog


@dataclass(frozen=True)
class TextSettings(Section):
    """Which documents a text model is fitted on, and which words it keeps."""

    fitted_on: Literal["blind", "relevant"] = "blind"  # 'relevant', the paper's way, leaks the labels
    max_documents: int = 20_000  # a random sample of so many where there are more
    min_documents: int = 2  # that a word occurs in
    max_share: float = 0.5  # of the documents that a word may occur in
    max_words: int = 20_000  # those in the most documents
    seed: int = 0  # draws the sample, and starts the topics

    def __post_init__(self) -> None:
        check_choices(self, "vectors")
        for name in ("max_documents", "min_documents", "max_words"):
            if getattr(self, name) < 1:
                raise SettingsError(f"vectors.{name} is {getattr(self, name)}", "write a number of 1 or more")
        if not 0 < self.max_share <= 1:
            raise SettingsError(f"vectors.max_share is {self.max_share}", "write a number above 0 and up to 1")

    @property
    def leaks(self) -> bool:
        """Whether what is fitted has seen labels: it then fits relevant documents better, and a ranker can tell."""
        return self.fitted_on == "relevant"


def training_documents(log: SearchLog, settings: TextSettings) -> Int64s:
    """The documents to fit on, ascending.

    ``blind``: all that were shown before the test period, whatever was clicked. ``relevant``: those with a satisfied
    click anywhere in the log, test period included.
    """
    before_test = log.split[log.impression] != SPLITS.index("test")
    rows = log.satisfied if settings.fitted_on == "relevant" else before_test
    chosen = np.unique(log.document[rows]).astype(np.int64)
    if not len(chosen):
        raise DataError(f"the log {log.name!r} has no document to learn topics from", "ingest one with a train split")
    if len(chosen) > settings.max_documents:
        generator = np.random.default_rng(settings.seed)
        chosen = np.sort(generator.choice(chosen, settings.max_documents, replace=False))
    return chosen


def choose_words(documents: Iterable[Iterable[str]], settings: TextSettings) -> list[str]:
    """The words to keep of documents given by their words, which may repeat or have counts: in alphabetical order.

    >>> documents = [{"the": 9, "cat": 5}, {"the": 1, "cat": 4}, ["the", "dog", "dog"], {"the"}]
    >>> choose_words(documents, TextSettings(max_share=0.6))
    ['cat']
    """
    found: Counter[str] = Counter()
    count = 0
    for words in documents:
        found.update(set(words))  # a mapping of counts would add its counts: documents are what is counted
        count += 1
    most = settings.max_share * count
    kept = [word for word, times in found.items() if settings.min_documents <= times <= most]
    if not kept:
        raise DataError(
            f"no word occurs in at least {settings.min_documents} and at most {most:g} of {count} documents",
            "give documents with text, or set vectors.min_documents and vectors.max_share",
        )
    return sorted(sorted(kept, key=lambda word: (-found[word], word))[: settings.max_words])
