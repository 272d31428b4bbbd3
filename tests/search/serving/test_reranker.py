"""The re-ranker gives what the ranker of the whole log gives, and leaves alone what it knows nothing of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from capse.errors import CapseError, RunError, SettingsError
from capse.runs.manifest import write_manifest
from capse.search.logs.history import Replay, cutoffs
from capse.search.logs.simulation import Simulated
from capse.search.rankers.neural import NeuralRanker
from capse.search.rankers.search_run import LIST_MODELS, SearchRun
from capse.search.serving.reranker import Reranker, ShownDocument
from capse.search.times import to_seconds
from capse.search.users.user_state import ProfileSettings
from capse.search.vectors.topics import Topics
from capse.search.vectors.vector_space import VectorSettings, build_vectors

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
    unknown = 0
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
            unknown += 1
            assert ranked == by_position
            np.testing.assert_array_equal(expected[rows], -log.position[rows])
        else:
            np.testing.assert_allclose([one.score for one in by_position], expected[rows], rtol=2e-5, atol=1e-7)
            assert [one.score for one in ranked] == sorted((one.score for one in ranked), reverse=True)
    assert 0 < unknown < len(log) / 2


def test_a_blend_gets_the_score_of_the_model_for_users_of_whom_nothing_is_known(
    world: Simulated, make_run: MakeRun
) -> None:
    run, log = make_run(), world.log
    asked = np.arange(len(log))
    plain, all_scored = (
        NeuralRanker(run, unknown=unknown).score(log, asked, cutoffs(log)) for unknown in ("engine", "model")
    )
    engine = plain == -log.position
    assert 0 < engine.sum() < len(engine)
    np.testing.assert_array_equal(plain[~engine], all_scored[~engine])
    without = NeuralRanker(run).without_user().score(log, asked, cutoffs(log))
    np.testing.assert_array_equal(all_scored[engine], without[engine])


def test_engine_order_is_kept_where_nothing_is_known(make_run: MakeRun, world: Simulated) -> None:
    reranker = Reranker(make_run())
    shown = list(world.log.documents.ids[:4])
    for given in ({}, {"user": "stranger"}, {"state": reranker.new_user()}):
        ranked = reranker.rerank("anything", shown, explain=True, **given)
        assert [(one.document, one.score, one.position, one.rank) for one in ranked] == [
            (label, None, place, place) for place, label in enumerate(shown, start=1)
        ]
    known = world.log.users[0]
    assert [one.document for one in reranker.rerank("q", ["x", "y"], user=known)] == ["x", "y"]
    assert reranker.rerank("q", [], user=known) == []
    assert reranker.rerank("", shown, user=known)[0].score is not None


def test_an_unknown_document_keeps_its_place_among_those_that_move(make_run: MakeRun, world: Simulated) -> None:
    reranker = Reranker(make_run())
    shown = list(world.log.documents.ids[:6])
    known = world.log.users[0]
    alone = [one.document for one in reranker.rerank("q", shown, user=known)]
    ranked = reranker.rerank("q", [shown[0], "lost", *shown[1:]], user=known)
    assert ranked[1].document == "lost"
    assert ranked[1].score is None
    assert [one.document for one in ranked if one.document != "lost"] == alone


def test_a_new_document_gets_its_vector_from_its_text_and_is_then_known_by_its_id(make_run: MakeRun) -> None:
    run = make_run()
    reranker = Reranker(run)
    topics = run.space.model
    assert isinstance(topics, Topics)
    words = " ".join(topics.words[:30])
    assert reranker.vector("new") is None
    vector = reranker.vector(ShownDocument("new", text=words))
    np.testing.assert_array_equal(vector, run.space.document(words))
    np.testing.assert_array_equal(reranker.vector("new"), vector)
    other = reranker.vector(ShownDocument("new", title="another", text=topics.words[-1]))
    assert not np.array_equal(other, vector)
    state = reranker.new_user()
    assert reranker.learn(state, "new", "s", NOW)
    assert not reranker.learn(state, "lost", "s", NOW)
    assert reranker.rerank("q", ["new"], state=state, session="s", time=NOW)[0].score is not None


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


def test_a_state_of_another_run_is_refused(make_run: MakeRun) -> None:
    state = Reranker(make_run(profile=ProfileSettings(decay=0.5))).new_user()
    with pytest.raises(SettingsError, match="begin with new_user"):
        Reranker(make_run()).rerank("q", ["d"], state=state)


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
        scores = Reranker(run).score(query, user, documents)
        assert len(set(scores.tolist())) == 2
        alone = Reranker(run).score(query, user, documents[count // 2 :][:1])
        np.testing.assert_allclose(scores[count // 2], alone[0], rtol=1e-5)
