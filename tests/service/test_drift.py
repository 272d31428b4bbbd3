"""Figures of drift: scores, words and documents that the run does not know, and where clicks stood."""

from __future__ import annotations

import re

from capse.service.drift import ClickRanks
from capse.service.store import Event, KeptList

NOW = 1_700_000_000


def figures(client, name):
    """Of a metric, the value of each set of labels."""
    text = client.get("/metrics").text
    found = re.findall(rf"^{name}\{{(.*?)\}} (\S+)$", text, re.MULTILINE)
    return {labels: float(value) for labels, value in found}


def ask(client, documents, query, user="ada"):
    asked = {"user": user, "session": "s", "query": query, "documents": documents, "time": NOW}
    answer = client.post("/v1/rerank", asked)
    assert answer.status_code == 200, answer.text
    return answer.json()["documents"]


def click(number, document, session="s", time=NOW + 9):
    return {"id": f"c{number}", "kind": "click", "user": "ada", "session": session, "time": time, "document": document}


def test_scores_words_and_documents(serve, search_run, database):
    client = serve(search_run, database=database)
    client.post("/v1/events", {"events": [click(0, "d3"), click(1, "d8")]})
    known = sorted(client.service.models.search.vocabulary)[0]
    ranked = ask(client, ["d1", "d2", "stranger"], f"{known} neverheardof {known}")
    scores = [one["score"] for one in ranked if one["score"] is not None]
    below = [float(label.split('"')[1]) for label, count in figures(client, "capse_best_score_bucket").items() if count]
    assert min(below) >= max(scores) > min(below) - 0.3
    assert figures(client, "capse_score_spread_sum") == {'run="a"': max(scores) - min(scores)}
    assert figures(client, "capse_reranked_documents_total") == {
        'outcome="scored",run="a"': 2.0,
        'outcome="kept in place",run="a"': 1.0,
    }
    assert figures(client, "capse_query_words_total") == {'known="yes",run="a"': 2.0, 'known="no",run="a"': 1.0}


def test_each_run_of_two_has_its_own(serve, search_run, make_search_run, tmp_path, database):
    other = make_search_run(tmp_path / "other", seed=5)
    client = serve(search_run, against=str(other), interleave=True, keep_lists=1, database=database)
    client.post("/v1/events", {"events": [click(0, "d3"), click(1, "d8")]})
    ask(client, ["d1", "d2"], "words")
    assert figures(client, "capse_best_score_count") == {'run="a"': 1.0, 'run="b"': 1.0}


def test_clicks_are_counted_by_the_rank_at_which_they_were_shown(serve, search_run, database):
    client = serve(search_run, database=database, keep_lists=1)
    documents = [f"d{number}" for number in range(1, 16)]
    ranked = ask(client, documents, "words")
    client.service.recorder.write_now()
    events = [click(0, ranked[0]["document"]), click(1, ranked[2]["document"]), click(2, ranked[11]["document"])]
    events += [click(3, "d79"), click(4, ranked[0]["document"], session="other")]
    assert client.post("/v1/events", {"events": events}).status_code == 200
    assert client.post("/v1/events", {"events": events}).json()["outcomes"] == ["repeated"] * 5
    client.service.recorder.clicks.count()
    assert figures(client, "capse_clicks_by_rank_total") == {}, "their lists may not be written yet"
    client.service.recorder.clicks.count(waits=0)
    assert figures(client, "capse_clicks_by_rank_total") == {
        'rank="1"': 1.0,
        'rank="3"': 1.0,
        'rank="above 10"': 1.0,
        'rank="of no list"': 2.0,
    }


def test_more_clicks_than_there_is_time_for_are_let_go(serve, search_run, database):
    client = serve(search_run, database=database, keep_lists=1)
    store = client.service.store
    store.keep_lists([KeptList("ada", "s", NOW * 10**6, "words", ("d1",), (1,), "va")])
    ranks = ClickRanks(store, client.service.metrics)
    at = (NOW + 9) * 10**6
    ranks.add([Event(id=f"c{n}", kind="click", user="ada", time=at, document="d1") for n in range(500)])
    ranks.add([Event(id="v", kind="view", user="ada", time=at, document="d1")])
    ranks.count(waits=0)
    assert figures(client, "capse_clicks_by_rank_total") == {'rank="1"': 200.0}
