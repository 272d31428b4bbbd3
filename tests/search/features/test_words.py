"""Texts, titles and queries taken apart and compared, pair by pair."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from capse.search.features.query_pairs import QueryPairs, query_codes
from capse.search.features.text_match import TextMatch, bm25_weights, trigrams
from capse.search.logs.documents import Documents
from capse.search.logs.search_log import SearchLog
from capse.search.logs.titles import extension, folder, leaf, path_parts, site
from capse.search.vectors.sparse_rows import inverse_frequency, paired, presence, unit_rows

SHELF = Documents(
    ["d0", "d1", "d2"],
    ["kge/model/transe.py", "kge/model/conv_e.py", "docs/index.md"],
    [None] * 3,
    [{"norm": 4, "margin": 1}, {"filter": 3, "norm": 1}, {"install": 2}],
)
TEXT = TextMatch(SHELF)


@given(st.integers(0, 1_000))
def test_products_of_sparse_rows(seed):
    draw = np.random.default_rng(seed)
    left, right = (scipy.sparse.csr_array(draw.random((n, 9)) * (draw.random((n, 9)) < 0.4)) for n in (4, 5))
    i, j = draw.integers(4, size=12), draw.integers(5, size=12)
    found = paired(scipy.sparse.csr_matrix(left), i, scipy.sparse.csr_matrix(right), j)
    np.testing.assert_allclose(found, (left.toarray() @ right.toarray().T)[i, j])


def test_rarity_and_length():
    rows = presence([["a", "b"], ["a"], []], {"a": 0, "b": 1})
    assert inverse_frequency(rows) == pytest.approx([math.log1p(1.5 / 2.5), math.log1p(2.5 / 1.5)])
    lengths = np.linalg.norm(unit_rows(rows, inverse_frequency(rows)).toarray(), axis=1)
    assert lengths == pytest.approx([1, 1, 0])


@pytest.mark.parametrize(
    ("title", "parts"),
    [
        ("kge/tests/test_model.py", ("kge", "kge/tests", "test_model", ".py")),
        ("https://Host/docs/api.html", ("host", "host/docs", "api", ".html")),
        ("The Analytical Engine, vol. 2", ("", "", "The Analytical Engine, vol. 2", "")),
        ("README", ("", "", "README", "")),
        ("", ("", "", "", "")),
        ("/", ("", "", "/", "")),
    ],
)
def test_places_of_a_title(title, parts):
    assert (site(title), folder(title), leaf(title), extension(title)) == parts
    assert path_parts(title)


@given(st.text())
def test_any_title_has_places(title):
    assert leaf(title) + extension(title) == path_parts(title)[-1]
    assert folder(title).startswith(site(title))


def test_when_queries_are_the_same():
    assert list(query_codes(["Fix  it", "fix IT ", "it fix", ""])) == [0, 0, 1, 2]


def test_queries_within_and_alike():
    pairs = QueryPairs(["kge norm", "norm", "norm unheard", "margin", ""], TEXT)
    first, second = np.array([0, 1, 1, 3, 4]), np.array([1, 0, 2, 0, 0])
    assert list(pairs.same(first, second)) == [False] * 5
    assert list(pairs.within(first, second)) == [False, True, True, False, True]
    alike = pairs.alike(first, second)
    assert alike[0] == alike[1] > alike[2] > 0  # a word that no document has weighs as much as the rarest
    assert alike[3] == alike[4] == 0
    assert pairs.alike(np.array([0]), np.array([0])) == pytest.approx([1])


def test_bm25_by_its_formula():
    counts = scipy.sparse.csr_matrix(np.array([[2.0, 0, 1], [0, 1, 0], [1, 1, 4]]))
    found = bm25_weights(counts).toarray()
    lengths, documents = counts.toarray().sum(1), 3
    for d in range(3):
        for w in range(3):
            f, n = counts[d, w], np.count_nonzero(counts.toarray()[:, w])
            idf = math.log(1 + (documents - n + 0.5) / (n + 0.5))
            expected = idf * f / (f + 1.5 * (0.25 + 0.75 * lengths[d] / lengths.mean()))
            assert found[d, w] == pytest.approx(expected, abs=1e-6)


def test_trigrams_see_through_spelling():
    assert trigrams("Conv-E") == trigrams("conv_e") == ["con", "onv", "nve"]
    assert trigrams("é!") == ["é"]
    assert trigrams("42") == []


def matches(query, name):
    log = SearchLog.from_records(
        [{"time": 1, "user": "u", "query": query, "results": ["d2", "d1", "d0"], "clicks": []}], SHELF
    )
    table = TEXT.features(log, np.array([0]))
    return dict(zip(["d2", "d1", "d0"], table.column(name).tolist(), strict=True))


def test_words_that_query_and_document_share():
    assert matches("fix the norm of transe", "leaf_words_in_query") == {"d2": 0, "d1": 0, "d0": 1}
    assert matches("fix the norm of transe", "query_words_in_text")["d0"] == pytest.approx(2 / 5)
    found = matches("norm", "bm25_text")
    assert found["d0"] > found["d1"] > found["d2"] == 0
    assert matches("norm", "bm25_text.rank") == {"d2": 2, "d1": 1, "d0": 0}
    assert matches("norm", "bm25_text.below_best")["d0"] == 0


def test_letters_match_where_words_do_not():
    assert matches("ConvE trains", "leaf_spelled_out") == {"d2": 0, "d1": 5, "d0": 0}
    assert matches("ConvE trains", "leaf_letters")["d1"] == pytest.approx(1)


def test_results_of_the_same_place():
    assert matches("norm", "list_same_site") == {"d2": 1, "d1": 2, "d0": 2}


def test_a_query_without_words_matches_nothing():
    assert matches("42 !", "bm25_text") == {"d2": 0, "d1": 0, "d0": 0}
    assert matches("", "title_cosine") == {"d2": 0, "d1": 0, "d0": 0}


def test_an_empty_catalogue():
    empty = TextMatch(Documents(["d"], [""], [None], [None]))
    log = SearchLog.from_records(
        [{"time": 1, "user": "u", "query": "q", "results": ["d"], "clicks": []}], empty.documents
    )
    assert np.isfinite(empty.features(log, np.array([0])).values).all()
