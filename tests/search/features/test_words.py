"""Texts, titles and queries taken apart and compared, pair by pair."""

from __future__ import annotations

import math

import bm25s
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capse.search.features.query_pairs import Queries, query_codes
from capse.search.features.text_match import TextMatch, bm25_weights, trigrams
from capse.search.features.word_rows import Rows, _by_halving, _side_by_side, paired, paired_in_runs
from capse.search.logs.documents import Documents
from capse.search.logs.titles import extension, folder, leaf, path_parts, site

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
    left, right = (draw.random((n, 9)) * (draw.random((n, 9)) < 0.4) for n in (4, 5))
    i, j = draw.integers(4, size=12), draw.integers(5, size=12)
    np.testing.assert_allclose(paired(sparse(left), i, sparse(right), j), (left @ right.T)[i, j])


@given(st.integers(0, 1_000), st.integers(0, 3), st.integers(0, 60))
def test_either_way_through_two_rows_gives_the_bits_of_adding_up_in_order(seed, few, many):
    draw = np.random.default_rng(seed)
    one, other = (dict(zip(draw.permutation(70)[:n].tolist(), draw.random(n), strict=True)) for n in (few, many))
    total = 0.0
    for column in sorted(one):
        total += one[column] * other[column] if column in other else 0.0
    a, b = Rows.of([one]), Rows.of([other])
    given = a.columns, a.values, 0, few, b.columns, b.values, 0, many
    nothing = np.zeros(1, np.int64)
    assert {_by_halving(*given), _side_by_side(*given), *paired(a, nothing, b, nothing)} == {total}


@given(st.integers(0, 1_000))
def test_a_row_that_is_spread_out_gives_the_same_bits(seed):
    draw = np.random.default_rng(seed)
    rows = sparse(draw.random((6, 9)) * (draw.random((6, 9)) < 0.5))
    i, j = np.repeat(draw.integers(6, size=4), draw.integers(4, size=4)), draw.integers(6, size=20)
    np.testing.assert_array_equal(paired_in_runs(rows, i, j[: len(i)]), paired(rows, i, rows, j[: len(i)]))


@given(st.integers(0, 1_000))
def test_sparse_rows_are_what_they_stand_for(seed):
    draw = np.random.default_rng(seed)
    table = draw.random((5, 7)) * (draw.random((5, 7)) < 0.4)
    rows, weights, chosen = sparse(table), draw.random(7), draw.integers(5, size=4)
    np.testing.assert_allclose(dense(rows, 7), table)
    np.testing.assert_allclose(rows.sums, table.sum(1))
    np.testing.assert_array_equal(dense(rows.signs, 7), table > 0)
    np.testing.assert_allclose(dense(rows.weighted(weights), 7), table * weights)
    np.testing.assert_allclose(dense(rows.take(chosen), 7), table[chosen])
    np.testing.assert_allclose(dense(Rows.stacked([rows, rows.take(chosen)]), 7), np.vstack([table, table[chosen]]))
    found = (table > 0).sum(0)
    np.testing.assert_allclose(rows.rarity(7), np.log(1 + (5 - found + 0.5) / (found + 0.5)))


def test_rows_of_length_one():
    rows = Rows.present([["b", "a"], ["a"], []], {"a": 0, "b": 1})
    assert rows.columns.tolist() == [0, 1, 0]
    lengths = np.linalg.norm(dense(rows.weighted(np.array([3.0, 4.0])).unit(), 2), axis=1)
    assert lengths == pytest.approx([1, 1, 0])


def sparse(table):
    return Rows.of({int(c): row[c] for c in np.flatnonzero(row)} for row in table)


def dense(rows, width):
    table = np.zeros((len(rows), width))
    table[rows.owner, rows.columns] = rows.values
    return table


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
    pairs = Queries(TEXT).pairs(["kge norm", "norm", "norm unheard", "margin", ""])
    first, second = np.array([0, 1, 1, 3, 4]), np.array([1, 0, 2, 0, 0])
    assert list(pairs.same(first, second)) == [False] * 5
    assert list(pairs.within(first, second)) == [False, True, True, False, True]
    alike = pairs.alike(first, second)
    assert alike[0] == alike[1] > alike[2] > 0  # a word that no document has weighs as much as the rarest
    assert alike[3] == alike[4] == 0
    assert pairs.alike(np.array([0]), np.array([0])) == pytest.approx([1])


def test_bm25_by_its_formula():
    counts = np.array([[2.0, 0, 1], [0, 1, 0], [1, 1, 4]])
    lengths, documents = counts.sum(1), 3
    rows = sparse(counts)
    found = dense(bm25_weights(rows, rows.rarity(3), lengths.mean()), 3)
    for d in range(3):
        for w in range(3):
            f, n = counts[d, w], np.count_nonzero(counts[:, w])
            idf = math.log(1 + (documents - n + 0.5) / (n + 0.5))
            expected = idf * f / (f + 1.5 * (0.25 + 0.75 * lengths[d] / lengths.mean()))
            assert found[d, w] == pytest.approx(expected, abs=1e-6)


def test_bm25_as_bm25s_has_it():
    draw = np.random.default_rng(0)
    counts = draw.integers(0, 4, (20, 15)) * (draw.random((20, 15)) < 0.5)
    corpus = [[str(w) for w in range(15) for _ in range(int(row[w]))] for row in counts]
    engine = bm25s.BM25(method="lucene", k1=1.5, b=0.75)
    engine.index(corpus, show_progress=False)
    rows = sparse(counts.astype(float))
    found = dense(bm25_weights(rows, rows.rarity(15), counts.sum(1).mean()), 15)
    for word in range(15):
        np.testing.assert_allclose(engine.get_scores([str(word)]), found[:, word], rtol=1e-5)


def test_trigrams_see_through_spelling():
    assert trigrams("Conv-E") == trigrams("conv_e") == ["con", "onv", "nve"]
    assert trigrams("é!") == ["é"]
    assert trigrams("42") == []


def matches(query, name):
    found = TEXT.columns(TEXT.taken, np.array([2, 1, 0]), [query], np.zeros(3, int), np.array([3]))
    return dict(zip(["d2", "d1", "d0"], found[name].tolist(), strict=True))


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


@pytest.mark.parametrize("query", ["q", ""])
def test_an_empty_catalogue(query):
    for documents in (Documents(["d"], [""], [None], [None]), Documents(["d"], ["q"], ["q"], [None])):
        empty = TextMatch(Documents([], [], [], []))
        taken = empty.taken_apart(documents)
        found = empty.columns(taken, np.array([0]), [query], np.array([0]), np.array([1]))
        assert all(np.isfinite(column).all() for column in found.values())


def test_a_document_taken_apart_alone_is_what_it_is_in_its_catalogue():
    again = TEXT.taken.take(np.array([2])).followed_by(TEXT.taken_apart(Documents(*(x[:2] for x in fields_of(SHELF)))))
    order = np.array([1, 2, 0])
    for column, other in zip(
        TEXT.columns(TEXT.taken, np.arange(3), ["norm docs"], np.zeros(3, int), np.array([3])).values(),
        TEXT.columns(again, order, ["norm docs"], np.zeros(3, int), np.array([3])).values(),
        strict=True,
    ):
        np.testing.assert_array_equal(column, other)


def fields_of(documents):
    return documents.ids, documents.titles, documents.texts, documents.terms
