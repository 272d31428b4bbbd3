"""capse key: keys are made, listed and revoked; mistakes are said in one line."""

from __future__ import annotations

import json

import pytest

from capse.service.store import Store


@pytest.fixture
def key(tmp_path, monkeypatch, run_command):
    """Runs ``capse key ...`` in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: run_command("key", *arguments, "--db", "capse.db")


def test_a_key_is_made_listed_and_revoked(key):
    status, plaintext, _ = key("add", "web", "--scope", "rerank", "--scope", "events", "--per-minute", "60")
    assert status == 0
    with Store.open("capse.db") as store:
        key_found = store.find_key(plaintext.strip())
        assert key_found
        assert key_found.scopes == ("rerank", "events")
    key("add", "ada's phone", "--scope", "events", "--user", "ada")
    assert key("list")[1].splitlines() == [
        "web\tvalid\trerank,events\t60/min\tany user",
        "ada's phone\tvalid\tevents\tno limit\tuser ada",
    ]
    assert key("revoke", "web")[::2] == (0, "revoked web\n")
    listed = json.loads(key("list", "--json")[1])
    assert [(one["name"], one["revoked"] is None) for one in listed] == [("web", False), ("ada's phone", True)]
    assert plaintext.strip() not in json.dumps(listed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("add", "web", "--scope", "all"), "error: unknown scope 'all': choose from predict, rerank, events"),
        (("add", "web", "--scope", "admin", "--per-minute", "0"), "error: 0 requests per minute: give 1 or more"),
        (("revoke", "web"), "error: the database capse.db cannot be reached"),
        (("list",), "error: the database capse.db cannot be reached"),
    ],
)
def test_a_mistake_is_said_in_one_line(key, arguments, message):
    status, out, error = key(*arguments)
    assert (status, out) == (2, "")
    assert error.startswith(message)
    assert error.count("\n") == 1
