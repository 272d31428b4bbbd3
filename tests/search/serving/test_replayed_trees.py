"""A log replayed through the re-ranker: trees get the same features, scores and figures as in evaluation, exactly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from capse.arrays import Float64s
from capse.search.evaluation.evaluate import evaluate
from capse.search.evaluation.judged_lists import Ranker
from capse.search.evaluation.list_metrics import list_metrics
from capse.search.features import Catalogue, DocumentVectors, ShownList, list_features, log_features
from capse.search.features.text_match import TextMatch
from capse.search.logs.history import Clicks, cutoffs
from capse.search.logs.search_log import SearchLog
from capse.search.logs.simulation import Simulated, SimulationSettings, simulate
from capse.search.rankers.lambdamart import LambdaMARTSettings
from capse.search.rankers.neural import NeuralRanker
from capse.search.rankers.search_run import SearchRun
from capse.search.rankers.sp_lambdamart import SP, run_inside
from capse.search.rankers.standing import Standing
from capse.search.rankers.training_past import TrainingPast
from capse.search.serving.list_scorers import ShownDocument
from capse.search.serving.reranker import Reranker
from capse.search.times import to_seconds
from capse.search.users.everyone import Everyone
from capse.search.users.profiles import REMEMBERED
from capse.search.users.user_state import PastClick, UserState
from capse.search.vectors.vector_space import VectorSpace

QUICK = LambdaMARTSettings(trees=20, leaves=7, learning_rate=0.2, least_documents=10, patience=0)
pytestmark = pytest.mark.usefixtures("one_thread")


class Memory:
    """What is to be remembered of a log at a moment: clicks before it, and lists shown before it."""

    def __init__(self, log: SearchLog, click: Callable[[int], None], show: Callable[[int], None]) -> None:
        self.log, self.click, self.show = log, click, show
        self.clicks, self.done, self.shown = Clicks.of(log), 0, 0

    def up_to(self, time: int) -> None:
        while self.done < len(self.clicks.rows) and self.clicks.time[self.done] < time:
            self.click(int(self.clicks.rows[self.done]))
            self.done += 1
        while self.shown < len(self.log) and self.log.time[self.shown] < time:
            self.show(self.shown)
            self.shown += 1


def shown_in(log: SearchLog, impression: int) -> list[str]:
    return [log.documents.ids[number] for number in log.document[log.rows(np.array([impression]))]]


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 100))
def test_features_of_one_list_are_those_of_the_log(busy_log: Callable[[int], SearchLog], seed: int) -> None:
    log = busy_log(seed)
    vectors = np.random.default_rng(seed).random((len(log.documents), 4)).astype(np.float32)
    text = TextMatch(log.documents)
    whole = log_features(log, np.arange(len(log)), log.time, text=text, vectors=vectors)
    catalogue = Catalogue(text)
    everyone, states = Everyone(catalogue.places), {user: UserState() for user in log.users}
    of = dict(zip(log.documents.ids, vectors, strict=True))

    def click(row: int) -> None:
        list_, document, at = int(log.impression[row]), log.documents.ids[log.document[row]], int(log.clicked_at[row])
        session, query = log.sessions[log.session[list_]], log.queries[log.query[list_]]
        states[log.users[log.user[list_]]].click(PastClick(document, session, at, query))
        everyone.click(document, at, query)

    memory = Memory(log, click, lambda impression: everyone.show(shown_in(log, impression)))
    for impression in range(len(log)):
        memory.up_to(int(log.time[impression]))
        rows = log.rows(np.array([impression]))
        shown = ShownList(
            log.queries[log.query[impression]],
            shown_in(log, impression),
            log.position[rows].tolist(),
            states[log.users[log.user[impression]]],
            log.sessions[log.session[impression]],
            int(log.time[impression]),
        )
        found = list_features(shown, catalogue, everyone, DocumentVectors(of.get, 4))
        assert found.names == whole.names
        np.testing.assert_array_equal(found.values, whole.values[rows])


@pytest.fixture(scope="module")
def busier() -> SearchLog:
    """A simulated log with two heavy users: they have more clicks than are remembered of one."""
    simulated = simulate(SimulationSettings(users=6, topics=8, documents=80, impressions=1_000, days=20)).log
    return replace(simulated, user=np.minimum(simulated.user, 1).astype(np.int32) * (simulated.user > 0))


def test_of_a_heavy_user_the_latest_clicks_count_in_both(busier: SearchLog) -> None:
    log = busier
    assert np.bincount(log.user[log.impression[log.satisfied]]).max() > REMEMBERED + 100
    last = np.arange(len(log) - 30, len(log))
    text = TextMatch(log.documents)
    whole = log_features(log, last, log.time, text=text)
    assert whole.column("context.user_clicks").max() == REMEMBERED
    catalogue = Catalogue(text)
    everyone, states = Everyone(catalogue.places), {user: UserState() for user in log.users}

    def click(row: int) -> None:
        list_, document = int(log.impression[row]), log.documents.ids[log.document[row]]
        session, query = log.sessions[log.session[list_]], log.queries[log.query[list_]]
        at = int(log.clicked_at[row])
        states[log.users[log.user[list_]]].click(PastClick(document, session, at, query))
        everyone.click(document, at, query)

    memory = Memory(log, click, lambda impression: everyone.show(shown_in(log, impression)))
    found = []
    for impression in last.tolist():
        memory.up_to(int(log.time[impression]))
        positions = log.position[log.rows(np.array([impression]))].tolist()
        user, session = log.users[log.user[impression]], log.sessions[log.session[impression]]
        query, at = log.queries[log.query[impression]], int(log.time[impression])
        shown = ShownList(query, shown_in(log, impression), positions, states[user], session, at)
        found.append(list_features(shown, catalogue, everyone).values)
    np.testing.assert_array_equal(np.concatenate(found), whole.values)


@pytest.fixture(scope="module")
def rankers(
    world: Simulated, space: VectorSpace, make_run: Callable[..., SearchRun], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """The folders of SP and of a blend; the latter's model is one that was not trained."""
    log, folders = world.log, {}
    inside = NeuralRanker(make_run("scaled-capse"), ranks="model")
    everything = np.arange(len(log))
    scores = {"capse": inside.score(log, everything, cutoffs(log))}
    options: dict[str, dict[str, Any]] = {"sp": {}, "blend": {"rankers": {"capse": inside}, "scores": scores}}
    for name, more in options.items():
        folder = folders[name] = tmp_path_factory.mktemp(name)
        SP.fit(log, cutoffs(log), QUICK, space=space, **more).save(folder)
    make_run("scaled-capse").save(run_inside(folders["blend"], "capse"))
    return folders


def replayed(log: SearchLog, reranker: Reranker, lists: np.ndarray, *, since: int = 0) -> Float64s:
    """Scores of these lists, the log's clicks and showings from a moment on being told one after the other."""
    states = {user: reranker.new_user() for user in log.users}

    def click(row: int) -> None:
        list_, at = int(log.impression[row]), int(log.clicked_at[row])
        if at >= since:
            document, session = log.documents.ids[log.document[row]], log.sessions[log.session[list_]]
            state = states[log.users[log.user[list_]]]
            reranker.learn(state, document, session, to_seconds(at), log.queries[log.query[list_]])

    def show(impression: int) -> None:
        if log.time[impression] >= since:
            reranker.show(shown_in(log, impression), to_seconds(int(log.time[impression])))

    memory, found = Memory(log, click, show), []
    for impression in lists.tolist():
        memory.up_to(int(log.time[impression]))
        user, session = log.users[log.user[impression]], log.sessions[log.session[impression]]
        query, at = log.queries[log.query[impression]], to_seconds(int(log.time[impression]))
        ranked = reranker.rerank(
            query, shown_in(log, impression), user=user, state=states[user], session=session, time=at
        )
        found += [one.score for one in sorted(ranked, key=lambda one: one.position)]
    return np.array(found)


@pytest.mark.parametrize("method", ["sp", "blend"])
@pytest.mark.parametrize("told", ["the whole log", "what the run does not know"])
def test_a_replayed_log_gives_the_figures_of_evaluate(
    world: Simulated, rankers: dict[str, Path], method: str, told: str
) -> None:
    log = world.log
    ranker: Ranker = SP.load(rankers[method])
    reranker = Reranker.load(rankers[method])
    assert reranker.method == method
    lists = log.judged("test")
    since = TrainingPast.of(log).until if told != "the whole log" else 0
    scores = replayed(log, reranker, lists, since=since)
    expected = ranker.score(log, lists, cutoffs(log))
    np.testing.assert_array_equal(scores, expected)
    rows = log.rows(lists)
    by_list = list_metrics(scores, log.satisfied[rows], log.lengths[lists])
    np.testing.assert_array_equal(by_list.table, evaluate(ranker, log, beside=False).lists.table)


def test_what_everyone_does_is_known_to_the_next_list_of_anybody(rankers: dict[str, Path], world: Simulated) -> None:
    reranker, shown = Reranker.load(rankers["sp"]), list(world.log.documents.ids[:6])
    everyone = reranker.everyone
    assert everyone is not None
    clicks, seen = everyone.clicks, everyone.shown
    later = to_seconds(TrainingPast.load(rankers["sp"]).until) + 60
    reranker.show(shown, later)
    reranker.learn(reranker.new_user(), shown[2], "s", later, "q")
    assert (everyone.clicks, everyone.shown) == (clicks + 1, seen + 6)
    reranker.show(shown, 1_000.0)  # earlier than the run's own log: counted there already
    reranker.learn(reranker.new_user(), shown[2], "s", 1_000.0, "q")
    assert (everyone.clicks, everyone.shown) == (clicks + 1, seen + 6)
    assert everyone.on(shown[2])[-1].query == "q"


def test_new_documents_are_ranked_by_their_texts_and_those_without_keep_their_place(
    rankers: dict[str, Path], world: Simulated
) -> None:
    reranker, ids = Reranker.load(rankers["blend"]), list(world.log.documents.ids[:5])
    words = " ".join(world.log.documents.words_of(0))
    new = ShownDocument("new", title="A new document", text=words)
    state = reranker.new_user()
    reranker.learn(state, new, "s", 1_800_000_000, "q")
    ranked = reranker.rerank("q", [ids[0], "lost", new, *ids[1:]], state=state, session="s", explain=True)
    assert ranked[1].document == "lost"
    assert ranked[1].score is None
    assert next(one for one in ranked if one.document == "new").reasons.past[0].id == "new"
    assert sorted(one.position for one in ranked) == list(range(1, 8))


@pytest.mark.parametrize(
    ("standing", "ranked"), [(Standing(0.5, 0.7, 0.4), (True, False)), (Standing(0.5, 0.4), (False, False))]
)
def test_where_the_engine_stands_it_does_in_both(
    world: Simulated, rankers: dict[str, Path], standing: Standing, ranked: tuple[bool, bool]
) -> None:
    log, ranker = world.log, replace(SP.load(rankers["sp"]), standing=standing)
    first = np.array([int(np.flatnonzero(log.user == log.user[-1])[0])])  # nothing is known of its user
    last = np.array([len(log) - 1])
    for lists, model in ((last, ranked[0]), (first, ranked[1])):
        scores = ranker.score(log, lists, cutoffs(log))
        assert (scores == -log.position[log.rows(lists)]).all() != model
    reranker, shown = Reranker(ranker), list(log.documents.ids[:4])
    stranger = reranker.rerank("q", shown, user="stranger")
    known = reranker.rerank("q", shown, user=log.users[log.user[0]])
    assert ((known[0].score is not None), (stranger[0].score is not None)) == ranked


def test_a_deleted_user_is_not_in_the_past_any_more(rankers: dict[str, Path], world: Simulated) -> None:
    past, user = TrainingPast.load(rankers["sp"]), world.log.users[0]
    assert len(past.joined(user, UserState()).clicks) > 0
    without = past.without([user])
    assert without.joined(user, UserState()).clicks == []
    assert user not in set(without.clicks["user"].to_pylist())
    assert len(without.clicks) < len(past.clicks)
    click = past.joined(world.log.users[1], UserState()).clicks[0]
    assert past.joined(world.log.users[1], UserState([click])).clicks.count(click) == 1
