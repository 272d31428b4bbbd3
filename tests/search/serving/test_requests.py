"""Requests as JSON lines: clicks are remembered by user, and what is wrong is said with its place."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from capse.errors import CapseError
from capse.search.logs.simulation import Simulated
from capse.search.rankers.search_run import SearchRun
from capse.search.serving.requests import Requests
from capse.search.serving.reranker import Reranker

MakeRun = Callable[..., SearchRun]


def test_clicks_are_remembered_from_one_line_to_the_next(make_run: MakeRun, world: Simulated) -> None:
    requests = Requests(Reranker(make_run()), explain=True)
    shown = list(world.log.documents.ids[:4])
    asked = {"query": "q", "user": "new", "documents": shown}
    first = requests.answer_line(json.dumps(asked), "line 1")
    assert all(row["score"] is not None for row in first["documents"])  # by the model without a user
    second = requests.answer_line(json.dumps({**asked, "clicked": [shown[1], {"id": "x", "text": "no"}]}), "line 2")
    third = requests.answer_line(json.dumps(asked), "line 3")
    assert third["documents"] == second["documents"]
    assert sorted(row["position"] for row in third["documents"]) == [1, 2, 3, 4]
    assert all(row["score"] is not None and "reasons" in row for row in third["documents"])
    assert third["documents"] != first["documents"]
    other = requests.answer_line(json.dumps({**asked, "user": ""}), "line 4")
    assert other["documents"] == first["documents"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 7 is not JSON"),
        ("[1]", "line 7 is not a JSON object"),
        ('{"documents": []}', "line 7: query is missing"),
        ('{"query": "q"}', "line 7: documents is missing"),
        ('{"query": "q", "documents": "d"}', "line 7: documents is not a list"),
        ('{"query": "q", "documents": [3]}', "line 7: one of its documents is 3"),
        ('{"query": "q", "documents": [], "time": "now"}', "line 7: time is 'now'"),
        ('{"query": "q", "documents": [], "users": "u"}', "did you mean 'user'"),
        ('{"query": "q", "documents": [], "user": 3}', "line 7: user is 3"),
    ],
)
def test_a_wrong_request_is_refused_with_its_place(make_run: MakeRun, line: str, message: str) -> None:
    with pytest.raises(CapseError, match=message.replace("[", r"\[")):
        Requests(Reranker(make_run())).answer_line(line, "line 7")
