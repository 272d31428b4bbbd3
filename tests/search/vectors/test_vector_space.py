"""Vectors of documents and queries: the decayed mean written out, every source, and new ones at once."""

from __future__ import annotations

import sys
import types
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from capse.errors import RunError, SettingsError
from capse.search.evaluation.judged_lists import shuffled
from capse.search.logs.documents import Documents, count_matrix
from capse.search.logs.search_log import SearchLog
from capse.search.logs.simulation import SimulationSettings, simulate
from capse.search.vectors.topics import Topics
from capse.search.vectors.vector_files import VectorTable, write_vectors
from capse.search.vectors.vector_space import VectorSettings, VectorSpace, build_vectors, query_vectors

TOPICS = VectorSettings(topics=4, iterations=3)


@pytest.fixture(scope="module")
def log():
    return simulate(SimulationSettings(users=4, topics=4, meanings=2, documents=50, impressions=60)).log


def test_a_query_is_the_decayed_mean_of_what_was_shown(log):
    """Σ λ_i v_i over the first ten, λ_i proportional to 0.8^(i−1); from the formula, list by list."""
    documents = np.random.default_rng(0).normal(size=(len(log.documents), 5)).astype(np.float32)
    for found in (query_vectors(log, documents), query_vectors(shuffled(log, 3), documents)):
        for number in range(len(log)):
            rows = slice(log.offsets[number], log.offsets[number + 1])
            shown = log.document[rows][np.argsort(log.position[rows])][:10]
            weights = np.array([0.8**place for place in range(len(shown))])
            assert found[number] == pytest.approx(weights / weights.sum() @ documents[shown], abs=1e-5)


def test_only_the_first_documents_count():
    results = [f"d{number}" for number in range(15)]
    log = SearchLog.from_records([{"time": 1, "user": "u", "query": "q", "results": results, "clicks": []}])
    found = query_vectors(log, np.eye(15, dtype=np.float32))[0]
    assert found[10:].tolist() == [0] * 5
    assert found.sum() == pytest.approx(1)
    assert found[0] / found[1] == pytest.approx(1 / 0.8)
    few = query_vectors(log, np.eye(15, dtype=np.float32), decay=0.5, n=2)[0]
    assert few[:3] == pytest.approx([2 / 3, 1 / 3, 0])


class TestTopics:
    def test_documents_are_their_topics(self, log):
        space = build_vectors(log, TOPICS)
        vectors = space.vectors(log)
        assert vectors.documents.shape == (50, 4)
        assert vectors.queries.shape == (60, 4)
        assert vectors.documents.sum(axis=1) == pytest.approx(1, abs=1e-5)
        assert not vectors.leaks
        assert isinstance(space.model, Topics)
        counts = count_matrix([log.documents.words_of(7)], space.model.vocabulary)
        (expected,) = space.model.infer(counts)
        assert np.array_equal(space.document(terms=log.documents.terms[7]), expected)
        first = log.document[log.rows(np.array([0]))]
        assert space.query("any", vectors.documents[first]) == pytest.approx(vectors.queries[0], abs=1e-6)

    def test_neither_labels_nor_what_only_the_test_period_shows_change_them(self, log):
        test = log.split[log.impression] == 2
        # The last twenty documents are as if new in the test period.
        kept = (log.document < 30) | test
        records: list[dict[str, Any]] = []
        for number in range(len(log)):
            rows = log.rows(np.array([number]))
            rows = rows[kept[rows]]
            labels = [log.documents.ids[document] for document in log.document[rows]]
            split = ("train", "valid", "test")[log.split[number]]
            clicks = [label for label, row in zip(labels, rows, strict=True) if log.satisfied[row]]
            records.append(
                {"time": number, "user": "u", "query": "q", "results": labels, "clicks": clicks, "split": split}
            )
        records = [record for record in records if record["results"]]

        def components(records, late_word, settings=TOPICS):
            terms = [
                dict(terms) if number < 30 else {**terms, late_word: 50}
                for number, terms in enumerate(log.documents.terms)
            ]
            documents = Documents(log.documents.ids, log.documents.titles, log.documents.texts, terms)
            model = build_vectors(SearchLog.from_records(records, documents), settings).model
            assert isinstance(model, Topics)
            return model.components

        expected = components(records, "one")
        assert np.array_equal(components(records, "other"), expected)
        relabelled = [{**record, "clicks": record["results"][:1]} for record in records]
        assert np.array_equal(components(relabelled, "one"), expected)
        # The paper's way sees both.
        relevant = replace(TOPICS, fitted_on="relevant")
        leaking = components(records, "one", relevant)
        assert leaking.shape != expected.shape or not np.array_equal(leaking, expected)
        assert relevant.leaks

    def test_a_leaking_space_says_so(self, log):
        assert build_vectors(log, replace(TOPICS, fitted_on="relevant")).vectors(log).leaks

    def test_a_document_that_came_later_gets_its_vector_at_once(self, log):
        space = build_vectors(log, TOPICS)
        new = Documents(
            [*log.documents.ids, "new"],
            [*log.documents.titles, ""],
            [*log.documents.texts, None],
            [*log.documents.terms, log.documents.terms[7]],
        )
        later = SearchLog.from_records(
            [{"time": 1, "user": "u", "query": "q", "results": ["d7", "new"], "clicks": []}], new
        )
        vectors = space.vectors(later).documents
        assert np.array_equal(vectors[50], vectors[7])

    def test_save_and_load(self, log, tmp_path):
        space = build_vectors(log, TOPICS)
        space.save(tmp_path)
        again = VectorSpace.load(tmp_path)
        assert again.settings == TOPICS
        assert isinstance(again.model, Topics)
        before, after = space.vectors(log), again.vectors(log)
        assert np.array_equal(before.documents, after.documents)
        assert np.array_equal(before.queries, after.queries)
        (tmp_path / "settings.json").write_text("{}}")
        with pytest.raises(RunError, match=r"settings.json is missing or damaged"):
            VectorSpace.load(tmp_path)


class TestFiles:
    @pytest.fixture
    def files(self, log, tmp_path):
        random = np.random.default_rng(0)
        ids = log.documents.ids[:-5]
        write_vectors(tmp_path / "d.parquet", VectorTable(ids, random.normal(size=(45, 3)).astype(np.float32)))
        queries = log.queries[:-1]
        write_vectors(
            tmp_path / "q.parquet", VectorTable(queries, random.normal(size=(len(queries), 3)).astype(np.float32))
        )
        return tmp_path

    def test_vectors_are_the_files(self, log, files):
        settings = VectorSettings(source="file", documents=str(files / "d.parquet"), queries=str(files / "q.parquet"))
        space = build_vectors(log, settings)
        vectors = space.vectors(log)
        assert np.array_equal(vectors.documents[:45], space.known.rows)
        assert not vectors.documents[45:].any()
        assert vectors.notes[0].endswith("d.parquet lacks 5 of 50 documents: they are zero")
        assert f"q.parquet lacks 1 of {len(log.queries)} queries: theirs are means" in vectors.notes[1]
        means = query_vectors(log, vectors.documents)
        for number in range(len(log)):
            stored = space.known_queries.get(log.queries[log.query[number]])
            assert np.array_equal(vectors.queries[number], means[number] if stored is None else stored)
        assert np.array_equal(space.query(log.queries[0], vectors.documents[:2]), space.known_queries.rows[0])
        space.save(files / "space")
        again = VectorSpace.load(files / "space")
        assert np.array_equal(again.vectors(log).queries, vectors.queries)

    def test_files_that_do_not_fit_are_refused(self, log, files):
        other = VectorTable(["nobody"], np.ones((1, 3), np.float32))
        write_vectors(files / "other.parquet", other)
        with pytest.raises(SettingsError, match="has no document of the log"):
            build_vectors(log, VectorSettings(source="file", documents=str(files / "other.parquet")))
        write_vectors(files / "wide.parquet", VectorTable([log.queries[0]], np.ones((1, 4), np.float32)))
        wide = VectorSettings(source="file", documents=str(files / "d.parquet"), queries=str(files / "wide.parquet"))
        with pytest.raises(SettingsError, match=r"vectors of 4 numbers, .* of 3: give vectors of one length"):
            build_vectors(log, wide)


class TestEncoders:
    def test_latent_semantic_analysis_encodes_queries_too(self, log):
        space = build_vectors(log, VectorSettings(source="encoder", dimensions=8))
        vectors = space.vectors(log)
        assert vectors.documents.shape == (50, 8)
        assert vectors.queries[0] == pytest.approx(space.query(log.queries[log.query[0]], vectors.documents), abs=1e-6)
        shown = build_vectors(log, VectorSettings(source="encoder", dimensions=8, query_text=False)).vectors(log)
        assert np.array_equal(shown.queries, query_vectors(log, shown.documents))

    def test_ones_own_function_is_run_again_only_where_it_is_named(self, log, tmp_path, monkeypatch):
        own: Any = types.ModuleType("my_encoders")
        own.encode = lambda texts: [[len(text), 1.0] for text in texts]
        monkeypatch.setitem(sys.modules, "my_encoders", own)
        space = build_vectors(log, VectorSettings(source="encoder", encoder="my_encoders:encode"))
        space.save(tmp_path)
        plain = VectorSpace.load(tmp_path)
        with pytest.raises(SettingsError, match="code that is not run unless you name it: give encoder="):
            plain.document("something new")
        named = VectorSpace.load(tmp_path, encoder="my_encoders:encode")
        assert np.array_equal(named.document("something new"), space.document("something new"))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"source": "files"}, "vectors.source is 'files'"),
        ({"source": "file"}, "source 'file' goes with a file of document vectors"),
        ({"documents": "v.parquet"}, "source 'file' goes with a file of document vectors"),
        ({"queries": "v.parquet"}, "vectors.queries is a file: set vectors.source=file"),
        ({"query_decay": 0}, "vectors.query_decay is 0"),
        ({"query_documents": 0}, "vectors.query_documents is 0"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(SettingsError, match=message):
        VectorSettings(**settings)


class TestDocuments:
    def test_words_come_from_counts_or_else_from_title_and_text(self):
        documents = Documents(
            ["a", "b", "c"], ["Title", "Two words", ""], [None, "and a fewWords", None], [{"x": 2}, None, {}]
        )
        assert documents.words_of(0) == {"x": 2}
        assert documents.words_of(1) == {"two": 1, "words": 2, "and": 1, "few": 1}
        assert documents.words_of(2) == {}
        assert documents.text_of(0) == "Title\nx"
        assert documents.text_of(1) == "Two words\nand a fewWords"
        assert documents.text_of(2) == ""

    def test_counts_of_a_vocabulary(self):
        documents = Documents.of_terms({"a": {"x": 2, "y": 1}, "b": {"z": 3}})
        assert documents.counts({"z": 0, "x": 1}).toarray().tolist() == [[0, 2], [3, 0]]
        assert documents.ids == ["a", "b"]
