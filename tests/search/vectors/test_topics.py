"""Topics: the equations written out, the same topics for the same seed, and none of the labels in them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import psi

from capse.errors import DataError, RunError, SettingsError
from capse.search.logs.documents import count_matrix
from capse.search.logs.search_log import SearchLog
from capse.search.logs.simulation import SimulationSettings, simulate
from capse.search.vectors.topics import Topics, TopicSettings, fit_topics
from capse.search.vectors.vocabulary import TextSettings, choose_words, training_documents

SMALL = TopicSettings(topics=6, iterations=15)


@pytest.fixture(scope="module")
def world():
    """A log about five topics, whose documents are known to be about one each."""
    return simulate(SimulationSettings(users=6, topics=5, meanings=2, documents=60, impressions=120))


@pytest.fixture(scope="module")
def topics(world):
    return fit_topics(world.log.documents, np.arange(60), SMALL)


def test_the_papers_size_is_the_default():
    assert TopicSettings().topics == 200


def test_the_planted_topics_are_found(world, topics):
    shares = topics.infer(world.log.documents.counts(topics.vocabulary))
    assert shares.sum(axis=1) == pytest.approx(1, abs=1e-5)
    alike = shares @ shares.T
    np.fill_diagonal(alike, -1)
    nearest = world.document_topics[alike.argmax(axis=1)]
    assert (nearest == world.document_topics).mean() > 0.95


def test_inference_is_the_equations(world, topics):
    """γ from the module's docstring, written with dense matrices."""
    counts = np.asarray(world.log.documents.counts(topics.vocabulary).todense())
    lam = topics.components.astype(np.float64)
    beta = np.exp(psi(lam) - psi(lam.sum(axis=1))[:, None])
    for row in (0, 7):
        gamma = np.ones(len(lam))
        for _ in range(100):
            theta = np.exp(psi(gamma) - psi(gamma.sum()))
            gamma = topics.document_prior + theta * (beta @ (counts[row] / (theta @ beta)))
        assert topics.infer(count_matrix([world.log.documents.words_of(row)], topics.vocabulary))[0] == pytest.approx(
            gamma / gamma.sum(), abs=2e-3
        )


def test_inference_agrees_with_scikit_learn(world, topics):
    from sklearn.decomposition import LatentDirichletAllocation

    counts = world.log.documents.counts(topics.vocabulary)
    model = LatentDirichletAllocation(6, doc_topic_prior=0.05, topic_word_prior=0.01, max_iter=1, random_state=0)
    model.fit(counts)
    model.components_ = topics.components.astype(np.float64)
    model.exp_dirichlet_component_ = np.exp(psi(model.components_) - psi(model.components_.sum(axis=1))[:, None])
    assert topics.infer(counts) == pytest.approx(model.transform(counts), abs=1e-5)


def test_the_same_seed_gives_the_same_topics(world, topics):
    again = fit_topics(world.log.documents, np.arange(60), SMALL)
    assert np.array_equal(again.components, topics.components)
    other = fit_topics(world.log.documents, np.arange(60), replace(SMALL, seed=1))
    assert not np.allclose(other.components, topics.components)


def of_words(topics, counts):
    """The topics of one document."""
    return topics.infer(count_matrix([counts], topics.vocabulary))[0]


def test_a_document_has_the_same_topics_alone_and_among_others(world, topics):
    """To the last bit, so that what is computed live is what was computed in bulk."""
    documents = world.log.documents
    together = topics.infer(documents.counts(topics.vocabulary))
    for number in (0, 31, 59):
        assert np.array_equal(of_words(topics, documents.words_of(number)), together[number])


def test_a_new_document_gets_topics_at_once(world, topics):
    """Words of one topic, in a mixture that no document has."""
    own = world.log.documents.terms[3]
    rare = dict.fromkeys(list(own)[:12], 1) | {"neverseenbefore": 9}
    share = of_words(topics, rare)
    usual = of_words(topics, own)
    assert share.argmax() == usual.argmax()
    assert of_words(topics, {"neverseenbefore": 9}) == pytest.approx(np.full(6, 1 / 6))


def test_top_words(topics):
    topic = 2
    words = topics.top_words(topic, 5)
    order = np.argsort(-topics.components[topic], kind="stable")[:5]
    assert words == [topics.words[column] for column in order]
    assert len(topics.top_words(topic, 10**6)) == len(topics.words)


def test_save_and_load(topics, tmp_path):
    topics.save(tmp_path / "topics.safetensors")
    again = Topics.load(tmp_path / "topics.safetensors")
    assert (again.words, again.document_prior) == (topics.words, topics.document_prior)
    assert np.array_equal(again.components, topics.components)
    (tmp_path / "topics.safetensors").write_bytes(b"x" * 100)
    with pytest.raises(RunError):
        Topics.load(tmp_path / "topics.safetensors")


@pytest.mark.parametrize(
    "settings", [{"topics": 0}, {"iterations": 0}, {"word_prior": 0}, {"max_share": 0}, {"min_documents": 0}]
)
def test_settings_that_make_no_sense_are_refused(settings):
    with pytest.raises(SettingsError, match=f"vectors.{next(iter(settings))}"):
        TopicSettings(**settings)


class TestWhatTopicsLearnFrom:
    RECORDS = (
        {"time": 1, "user": "u", "query": "q", "results": ["a", "b"], "clicks": ["b"], "split": "train"},
        {"time": 2, "user": "u", "query": "q", "results": ["c"], "clicks": [], "split": "valid"},
        {"time": 3, "user": "u", "query": "q", "results": ["a", "d", "e"], "clicks": ["e"], "split": "test"},
    )

    def chosen(self, records, **settings):
        log = SearchLog.from_records(records)
        return {log.documents.ids[number] for number in training_documents(log, TextSettings(**settings))}

    def test_everything_shown_before_the_test_period(self):
        assert self.chosen(self.RECORDS) == {"a", "b", "c"}

    def test_labels_do_not_matter(self):
        unlabelled = [{**record, "clicks": []} for record in self.RECORDS]
        assert self.chosen(unlabelled) == {"a", "b", "c"}

    def test_the_papers_way_takes_the_relevant_ones_and_is_marked_as_leaking(self):
        assert self.chosen(self.RECORDS, fitted_on="relevant") == {"b", "e"}
        assert TextSettings(fitted_on="relevant").leaks
        assert not TextSettings().leaks

    def test_many_are_sampled_with_the_seed(self):
        assert len(self.chosen(self.RECORDS, max_documents=2)) == 2
        assert self.chosen(self.RECORDS, max_documents=2) == self.chosen(self.RECORDS, max_documents=2)

    def test_a_log_with_nothing_before_the_test_period_is_an_error(self):
        with pytest.raises(DataError, match="no document to learn topics from"):
            self.chosen(self.RECORDS[2:])

    def test_words_that_are_too_rare_or_too_common_are_left_out(self):
        documents = [{"the", "cat"}, {"the", "cat"}, {"the", "dog"}, {"the", "emu", "cat"}]
        assert choose_words(documents, TextSettings(max_share=0.75)) == ["cat"]
        assert choose_words(documents, TextSettings(max_share=1.0)) == ["cat", "the"]
        assert choose_words(documents, TextSettings(max_share=1.0, min_documents=1, max_words=2)) == ["cat", "the"]
        with pytest.raises(DataError, match="no word occurs in at least 3 and at most 2 of 4 documents"):
            choose_words(documents, TextSettings(min_documents=3))
