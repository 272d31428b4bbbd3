"""The re-ranker gives what the ranker of the whole log gives, and leaves alone what it knows nothing of."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capse.errors import CapseError, RunError
from capse.runs.manifest import write_manifest
from capse.search.logs.history import Replay, cutoffs, earlier_clicks
from capse.search.logs.simulation import Simulated
from capse.search.rankers.neural import NeuralRanker, score_list
from capse.search.rankers.search_run import LIST_MODELS, SearchRun
from capse.search.rankers.standing import Standing
from capse.search.serving.list_scorers import ShownDocument
from capse.search.serving.reasons import reasons_of
from capse.search.serving.reranker import Reranker
from capse.search.serving.text_vectors import TextVectors
from capse.search.times import to_seconds
from capse.search.users.user_state import PastClick, ProfileSettings, UserState
from capse.search.vectors.encoders import Lsa
from capse.search.vectors.topics import Topics
from capse.search.vectors.vector_space import VectorSettings, build_vectors, digest

MakeRun = Callable[..., SearchRun]
pytestmark = pytest.mark.usefixtures("one_thread")
NOW = 1_800_000_000


@pytest.mark.parametrize(
    ("method", "user"),
    [
        *((method, "offset") for method in LIST_MODELS),
        ("scaled-capse", "profile"),
        ("scaled-capse", "trained"),
        ("released", "profile"),
    ],
)
def test_a_replayed_log_gets_the_scores_of_the_ranker(
    world: Simulated, make_run: MakeRun, method: str, user: Any, tmp_path: Path
) -> None:
    form = {"variant": method} if method == "released" else {}
    run = make_run("capse" if form else method, ProfileSettings("nearest", user=user), **form)
    run.save(tmp_path)
    reranker = Reranker.load(tmp_path)
    log = world.log
    asked = np.arange(len(log))
    expected = NeuralRanker(run).score(log, asked, cutoffs(log))
    states = {name: reranker.new_user() for name in log.users}
    for event in Replay(log, cutoffs(log)):
        impression = int(log.impression[event.number]) if event.kind == "click" else event.number
        name, session = log.users[log.user[impression]], log.sessions[log.session[impression]]
        if event.kind == "click":
            document = log.documents.ids[log.document[event.number]]
            reranker.learn(states[name], document, session, to_seconds(int(log.clicked_at[event.number])))
            continue
        rows = log.rows(np.array([impression]))
        shown = [log.documents.ids[number] for number in log.document[rows]]
        query, at = log.queries[log.query[impression]], to_seconds(int(log.time[impression]))
        ranked = reranker.rerank(query, shown, user=name, state=states[name], session=session, time=at)
        by_position = sorted(ranked, key=lambda one: one.position)
        assert [one.document for one in by_position] == shown
        if ranked[0].score is None:
            assert ranked == by_position
            np.testing.assert_array_equal(expected[rows], -log.position[rows])
        else:
            np.testing.assert_array_equal([one.score for one in by_position], expected[rows])
            assert [one.score for one in ranked] == sorted((one.score for one in ranked), reverse=True)


STANDINGS = {
    "nothing measured": Standing(),
    "above the engine": Standing(0.5, 0.7, 0.6),
    "below without a user": Standing(0.5, 0.7, 0.4),
    "below": Standing(0.5, 0.4, 0.6),
    "the paper's rule": Standing(0.5, 0.7, 0.6, "engine"),
}


@pytest.mark.parametrize(("name", "known", "unknown"), [
    ("nothing measured", True, True),
    ("above the engine", True, True),
    ("below without a user", True, False),
    ("below", False, False),
    ("the paper's rule", True, False),
])  # fmt: skip
def test_where_the_engine_stands_ranker_and_reranker_agree(
    world: Simulated, make_run: MakeRun, name: str, known: bool, unknown: bool
) -> None:
    run, log = replace(make_run(), standing=STANDINGS[name]), world.log
    lists = np.arange(len(log))
    scores, model = (NeuralRanker(run, ranks=ranks).score(log, lists, cutoffs(log)) for ranks in ("standing", "model"))
    without = NeuralRanker(run).without_user().score(log, lists, cutoffs(log))
    somebody = (earlier_clicks(log, lists, cutoffs(log)) > 0) | (log.user < 8)  # the first eight have offsets
    assert 0 < somebody.sum() < len(log)
    for chosen, ranked, expected in ((somebody, known, model), (~somebody, unknown, without)):
        rows = chosen[log.impression]
        np.testing.assert_array_equal(scores[rows], expected[rows] if ranked else -log.position[rows])
    shown = list(log.documents.ids[:4])
    reranker = Reranker(run)
    for user, ranked in (("stranger", unknown), (log.users[0], known)):
        given = reranker.rerank("anything", shown, user=user, explain=True)
        assert (given[0].score is not None) == ranked
        if not ranked:
            assert [(one.document, one.position, one.rank) for one in given] == [
                (label, place, place) for place, label in enumerate(shown, start=1)
            ]
    assert reranker.rerank("q", [], user="stranger") == []
    assert [one.document for one in reranker.rerank("q", ["x", "y"], user=log.users[0])] == ["x", "y"]


def test_an_unknown_document_keeps_its_place_among_those_that_move(make_run: MakeRun, world: Simulated) -> None:
    reranker = Reranker(make_run())
    shown = list(world.log.documents.ids[:6])
    known = world.log.users[0]
    alone = [one.document for one in reranker.rerank("q", shown, user=known)]
    ranked = reranker.rerank("q", [shown[0], "lost", *shown[1:]], user=known)
    assert ranked[1].document == "lost"
    assert ranked[1].score is None
    assert [one.document for one in ranked if one.document != "lost"] == alone


def test_a_new_document_gets_its_vector_from_its_text_whoever_said_what_of_its_id(make_run: MakeRun) -> None:
    run = make_run()
    reranker = Reranker(run)
    topics = run.space.model
    assert isinstance(topics, Topics)
    words = " ".join(topics.words[:30])
    assert reranker.vector("new") is None
    vector = reranker.vector(ShownDocument("new", text=words))
    np.testing.assert_array_equal(vector, run.space.document(words))
    assert reranker.vector("new") is None, "what one caller says of an id is nobody else's"
    other = reranker.vector(ShownDocument("new", title="another", text=topics.words[-1]))
    assert not np.array_equal(other, vector)
    np.testing.assert_array_equal(reranker.vector(ShownDocument("new", text=words)), vector)
    state = reranker.new_user()
    assert not reranker.learn(state, "new", "s", NOW)
    assert reranker.learn(state, ShownDocument("new", text=words), "s", NOW)
    assert reranker.rerank("q", [ShownDocument("new", text=words)], state=state, session="s", time=NOW)[0].score


def test_a_document_that_says_something_else_now_gets_a_new_vector(make_run: MakeRun, world: Simulated) -> None:
    run = make_run()
    topics = run.space.model
    assert isinstance(topics, Topics)
    label, then, now = run.space.known.labels[0], topics.words[0], topics.words[-1]
    digests = np.zeros(len(run.space.known.labels), np.int64)
    digests[0] = digest("title", then)
    reranker = Reranker(replace(run, space=replace(run.space, digests=digests)))
    known = run.space.known.rows[0]
    for same in (label, ShownDocument(label, "title", then), ShownDocument(label, "another title")):
        np.testing.assert_array_equal(reranker.vector(same), known)
    changed = reranker.vector(ShownDocument(label, "title", now))
    np.testing.assert_array_equal(changed, run.space.document(now, title="title"))
    assert not np.array_equal(changed, known)
    old = Reranker(run)  # of a run that does not know what its documents said
    assert run.space.digests is None or not run.space.digests.any(), "this log has counts of words, and no texts"
    np.testing.assert_array_equal(old.vector(ShownDocument(label, "title", now)), known)


def test_threads_may_ask_for_the_same_texts(make_run: MakeRun) -> None:
    run = make_run()
    topics = run.space.model
    assert isinstance(topics, Topics)
    vectors = TextVectors(run.space)
    texts = [" ".join(topics.words[n : n + 5]) for n in range(20)]
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda text: vectors.vector("", text), texts * 10))
    for text, vector in zip(texts * 10, found, strict=True):
        np.testing.assert_array_equal(vector, run.space.document(text))


def test_reasons_name_shared_topics_and_the_nearest_past_documents(make_run: MakeRun, world: Simulated) -> None:
    run = make_run()
    reranker = Reranker(run)
    state = reranker.new_user()
    wanted = int(world.document_topics[0])
    same = [run.space.known.labels[i] for i in np.flatnonzero(world.document_topics == wanted)[:4]]
    other = [run.space.known.labels[i] for i in np.flatnonzero(world.document_topics != wanted)[:4]]
    for label in same[:3]:
        reranker.learn(state, label, "s", NOW)
    ranked = reranker.rerank("q", [other[0], same[3]], state=state, session="s", time=NOW, explain=True)
    reasons = {one.document: one.reasons for one in ranked}[same[3]]
    assert {near.id for near in reasons.past} <= set(same[:3])
    strongest = int(np.argmax(reranker.vector(same[3])))
    assert reasons.topics[0].topic == strongest
    assert isinstance(run.space.model, Topics)
    assert reasons.topics[0].words == tuple(run.space.model.top_words(strongest, 5))
    assert reasons.topics[0].user > 0.1


def test_with_lsa_reasons_are_the_words_near_to_both(make_run: MakeRun, world: Simulated) -> None:
    run = make_run()
    space = build_vectors(world.log, VectorSettings(source="encoder", dimensions=8, max_words=150))
    reranker = Reranker(replace(run, space=space))
    state = reranker.new_user()
    first, second = (space.known.labels[i] for i in np.flatnonzero(world.document_topics == 0)[:2])
    reranker.learn(state, first, "s", NOW)
    (ranked,) = reranker.rerank("q", [second], state=state, session="s", time=NOW, explain=True)
    encoder: Any = space.model
    directions = encoder.directions
    near = np.maximum(directions @ reranker.vector(first), 0) * np.maximum(directions @ reranker.vector(second), 0)
    (topic,) = ranked.reasons.topics
    assert topic.words == tuple(encoder.words[column] for column in np.argsort(-near)[:5])
    assert topic.user == pytest.approx(float(reranker.vector(first) @ reranker.vector(second)), rel=1e-5)


def test_a_state_goes_with_any_run(make_run: MakeRun, world: Simulated) -> None:
    """It holds clicks; a document that no run knows by its id is known by the text that the state holds."""
    first, second = Reranker(make_run(profile=ProfileSettings(decay=0.5))), Reranker(make_run())
    topics = first.space.model
    assert isinstance(topics, Topics)
    words = " ".join(topics.words[:30])
    state = first.new_user()
    assert first.learn(state, ShownDocument("new", text=words), "s", NOW, "q")
    stored = UserState.from_bytes(state.to_bytes())
    space = second.space
    (ranked,) = second.rerank("q", [space.known.labels[0]], state=stored, session="s", time=NOW)
    shown, user = space.known.rows[:1], space.document(words)
    assert ranked.score == score_list(make_run().model.scorer, space.query("q", shown), user, shown)[0]


def test_what_is_not_a_search_run_is_refused(make_run: MakeRun, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="capse search train --out"):
        Reranker.load(tmp_path / "none")
    make_run().save(tmp_path)
    (tmp_path / "users.parquet").write_bytes(b"no")
    with pytest.raises(RunError, match=r"users\.parquet is damaged"):
        Reranker.load(tmp_path)
    write_manifest(tmp_path)
    with pytest.raises(RunError, match=r"users\.parquet cannot be read"):
        Reranker.load(tmp_path)
    (tmp_path / "recipe.yaml").write_text("model: 3", encoding="utf-8")
    write_manifest(tmp_path)
    with pytest.raises(CapseError, match="train the run again"):
        Reranker.load(tmp_path)


@pytest.mark.parametrize("method", LIST_MODELS)
def test_equal_documents_tie_exactly(make_run: MakeRun, method: str) -> None:
    """Wherever they stand in the list: a matrix product may round its last rows by another route."""
    run = make_run(method)
    random = np.random.default_rng(0)
    query, user, document, other = random.random((4, run.width), np.float32)
    for count in (2, 3, 9, 17):
        documents = np.stack([document] * count)
        documents[count // 2] = other
        scores = score_list(run.model.scorer, query, user, documents)
        assert len(set(scores.tolist())) == 2
        alone = score_list(run.model.scorer, query, user, documents[count // 2 :][:1])
        np.testing.assert_allclose(scores[count // 2], alone[0], rtol=1e-5)


@pytest.mark.parametrize("source", ["topics", "encoder"])
def test_reasons_are_those_of_one_document_at_a_time(world: Simulated, source: Any) -> None:
    """By the definitions, a document and a past click at a time."""
    settings = VectorSettings(topics=6, iterations=2, source=source, dimensions=6)
    space = build_vectors(world.log, settings)
    model, rows, labels = space.model, space.known.rows, space.known.labels
    user = rows[:3].mean(axis=0)
    past = [(PastClick(labels[n], "s", 10**15 + n), rows[n]) for n in (3, 4, 5, 4)]
    past.append((PastClick("nothing", "s", 10**15), 0 * rows[0]))

    def cosine(a: Any, b: Any) -> float:
        lengths = np.linalg.norm(a) * np.linalg.norm(b)
        return float(a @ b / lengths) if lengths else 0.0

    for document, found in zip(rows[:20], reasons_of(space, user, past, rows[:20]), strict=True):
        near = {click.document: cosine(vector, document) for click, vector in past}
        expected = sorted((one for one in near.items() if one[1] >= 0.02), key=lambda one: -one[1])[:3]
        assert [one.id for one in found.past] == [id for id, _ in expected]
        assert [one.likeness for one in found.past] == pytest.approx([likeness for _, likeness in expected], abs=1e-6)
        if isinstance(model, Topics):
            best = sorted(range(6), key=lambda topic: -user[topic] * document[topic])[:3]
            kept = [topic for topic in best if min(user[topic], document[topic]) > 0.02]
            assert [shared.topic for shared in found.topics] == kept
            assert all(shared.words == tuple(model.top_words(int(shared.topic or 0), 5)) for shared in found.topics)
        elif cosine(user, document) >= 0.02:
            assert isinstance(model, Lsa)
            (shared,) = found.topics
            assert shared.user == shared.document == pytest.approx(cosine(user, document), abs=1e-6)
            both = np.maximum(model.directions @ user, 0) * np.maximum(model.directions @ document, 0)
            assert shared.words[0] == model.words[int(both.argmax())]
