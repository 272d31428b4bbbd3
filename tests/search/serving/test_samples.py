"""Lists to try re-ranking with: documents of a few kinds, each once, the same every time."""

from __future__ import annotations

import numpy as np
import pytest

from capse.search.serving.samples import sample_lists, words_of
from capse.search.vectors.vector_files import VectorTable
from capse.search.vectors.vector_space import VectorSettings, VectorSpace, build_vectors

KINDS = 9


@pytest.fixture
def planted_space():
    """Nine kinds of documents, each near an axis of its own, in a shuffled order."""
    rng = np.random.default_rng(0)
    kinds = rng.permutation(np.repeat(np.arange(KINDS), 12))
    rows = (np.eye(KINDS)[kinds] + rng.uniform(0, 0.05, (len(kinds), KINDS))).astype(np.float32)
    labels = [f"kind{kind}-{number}" for number, kind in enumerate(kinds)]
    return VectorSpace(VectorSettings(source="file", documents="x.parquet"), VectorTable(labels, rows), None)


def kinds_of(sample):
    return [document.id.split("-")[0] for document in sample.documents]


def test_a_list_mixes_documents_of_kinds_that_lie_far_apart(planted_space):
    lists = sample_lists(planted_space)
    assert [len(one.documents) for one in lists] == [9, 9, 9]
    every = []
    for one in lists:
        kinds = kinds_of(one)
        assert kinds[:3] == kinds[3:6] == kinds[6:]
        every += kinds[:3]
    assert len(set(every)) == KINDS


def test_no_document_is_in_two_lists(planted_space):
    ids = [document.id for one in sample_lists(planted_space, lists=5, length=20) for document in one.documents]
    assert len(ids) == len(set(ids)) > 60


def test_where_vectors_are_not_of_words_none_are_shown(planted_space):
    assert {document.words for one in sample_lists(planted_space) for document in one.documents} == {()}
    assert [one.query for one in sample_lists(planted_space)] == ["list 1", "list 2", "list 3"]


@pytest.mark.parametrize("documents", [1, 2, 5])
def test_few_documents_make_few_and_short_lists(planted_space, documents):
    known = planted_space.known
    few = VectorTable(known.labels[:documents], known.rows[:documents])
    lists = sample_lists(VectorSpace(planted_space.settings, few, None))
    assert sorted(document.id for one in lists for document in one.documents) == sorted(few.labels)


def test_words_are_those_of_the_document(world):
    """A simulated document holds words of its topic: those shown are mostly among its own."""
    for settings in (
        VectorSettings(topics=8, iterations=10),
        VectorSettings(source="encoder", encoder="lsa", dimensions=8),
    ):
        space = build_vectors(world.log, settings)
        shown = [document for one in sample_lists(space) for document in one.documents]
        places = {label: number for number, label in enumerate(world.log.documents.ids)}
        own = [set(world.log.documents.words_of(places[document.id])) for document in shown]
        hits = [word in words for document, words in zip(shown, own, strict=True) for word in document.words]
        assert np.mean(hits) > 0.8
        assert sample_lists(space) == sample_lists(space)
        assert len({one.query for one in sample_lists(space)}) == 3


def test_a_vector_of_zeros_has_no_words(space):
    assert words_of(space, np.zeros((2, space.width), np.float32)) == [(), ()]
