"""Two runs at once: who gets which, what is kept of it, and which of them is better."""

from __future__ import annotations

import json
import math
from collections import Counter

import pytest
from sqlalchemy import select

from capse.cli import main
from capse.errors import SettingsError
from capse.service.loaded_models import fingerprint
from capse.service.settings import ServiceSettings
from capse.service.store import Event, KeptList, Store
from capse.service.store.schema import lists
from capse.service.trial import Trial, place

NOW = 1_700_000_000
DOCUMENTS = [f"d{number}" for number in (3, 5, 1, 8, 13, 21, 34, 55)]


@pytest.fixture(scope="module")
def other_run(make_search_run, tmp_path_factory):
    return make_search_run(tmp_path_factory.mktemp("other") / "run", seed=5)


def ask(client, user, **more):
    answer = client.post("/v1/rerank", {"query": "words", "documents": DOCUMENTS, "user": user, "time": NOW} | more)
    assert answer.status_code == 200, answer.text
    return answer.json()


def like(client, users):
    """So that something is known of them, and lists are not those of strangers."""
    clicks = [
        {"id": f"{user}-{one}", "kind": "click", "user": user, "session": "s", "time": NOW - 9_000, "document": one}
        for user in users
        for one in ("d2", "d7")
    ]
    assert client.post("/v1/events", {"events": clicks}).status_code == 200


def kept(client):
    client.service.recorder.write_now()
    with client.service.store.reading() as connection:
        return connection.execute(select(lists).order_by(lists.c.number)).all()


def test_users_are_dealt_by_their_hash_and_stay(serve, search_run, other_run, database):
    client = serve(search_run, against=str(other_run), trial="spring", keep_lists=1, database=database)
    versions = {"a": fingerprint(search_run), "b": fingerprint(other_run)}
    assert client.get("/ready").json()["versions"] == {"search": versions["a"], "against": versions["b"]}
    users = [f"u{number}" for number in range(40)]
    like(client, users)
    answers = {user: ask(client, user) for user in users}
    arms = {user: Trial("spring").arm(user) for user in users}
    assert {user: answer["model"] for user, answer in answers.items()} == {u: versions[arm] for u, arm in arms.items()}
    assert 10 <= Counter(arms.values())["b"] <= 30
    assert {user: ask(client, user)["model"] for user in users} == {user: versions[arm] for user, arm in arms.items()}
    assert ask(client, None)["model"] == versions["a"], "nobody takes part without a name"
    assert {(row.trial, row.arm, row.model) for row in kept(client)} == {
        ("spring", arm, versions[arm]) for arm in ("a", "b")
    }
    alone = serve(other_run, database=str(database) + "2")
    like(alone, users)
    of_b = next(user for user, arm in arms.items() if arm == "b")
    assert ask(alone, of_b)["documents"] == answers[of_b]["documents"], "the second run is served as if alone"


def test_users_below_the_share_get_the_run_against():
    ada = place("spring", "ada")
    assert Trial("spring", share=ada).arm("ada") == "a"
    assert Trial("spring", share=math.nextafter(ada, 1)).arm("ada") == "b"
    assert not Trial("spring").interleaved


def test_interleaved_lists_have_documents_of_both(serve, search_run, other_run, database):
    client = serve(search_run, against=str(other_run), interleave=True, keep_lists=1, database=database)
    like(client, ["ada"])
    answer = ask(client, "ada")
    assert answer["model"] == f"{fingerprint(search_run)}+{fingerprint(other_run)}"
    assert sorted(one["document"] for one in answer["documents"]) == sorted(DOCUMENTS)
    assert [one["rank"] for one in answer["documents"]] == list(range(1, 9))
    assert ask(client, "ada")["documents"] == answer["documents"], "the same question has the same answer"
    ask(client, "ada", documents=["d3"])
    first, _, single = kept(client)
    assert Counter(first.arm) == {"a": 4, "b": 4}
    assert (first.trial, single.trial, single.arm) == ("trial", None, None)


def test_a_bulk_of_lists_names_both_versions(serve, search_run, other_run, database):
    client = serve(search_run, against=str(other_run), keep_lists=1, database=database)
    users = {arm: next(f"u{n}" for n in range(99) if Trial("trial").arm(f"u{n}") == arm) for arm in ("a", "b")}
    bulk = [{"query": "words", "documents": DOCUMENTS, "user": users[arm]} for arm in ("b", "a")]
    answer = client.post("/v1/rerank", {"requests": bulk}).json()
    assert answer["model"] == f"{fingerprint(search_run)}+{fingerprint(other_run)}"


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"against": "other"}, r"--against is given without --keep-lists: lists say which"),
        ({"against": "other", "keep_lists": 1.0, "share": 1.0}, r"--share is 1: write a share"),
        ({"against": "other", "keep_lists": 1.0, "share": float("nan")}, r"--share is nan: write a share"),
        ({"against": "other", "keep_lists": 1.0, "trial": ""}, r"--trial has 0 characters"),
        ({"interleave": True}, r"--interleave is given without --against"),
    ],
)
def test_settings_that_make_no_sense(given, says):
    with pytest.raises(SettingsError, match=says):
        ServiceSettings(runs=("run",), **given)


def test_a_second_run_is_another_search_run(serve, search_run, graph_run, database):
    for served, against, says in (
        (search_run, search_run, "is the run that is served"),
        (search_run, graph_run, "takes a search run"),
        (graph_run, search_run, "takes a search run"),
    ):
        with pytest.raises(SettingsError, match=says):
            serve(served, against=str(against), keep_lists=1, database=database)


def fill(database, trial, users=40, interleaved=False):
    """Users who click the first result of b's lists and the third of a's, or what b brought into joint ones."""
    with Store.open(str(database)) as store:
        for number in range(users):
            user, version = f"{trial}{number}", {"a": "va", "b": "vb"}
            arm = "ab" * 2 if interleaved else Trial(trial).arm(user)
            shown = KeptList(
                user=user,
                session="s",
                time=(NOW + number) * 10**6,
                query="words",
                documents=("d1", "d2", "d3", "d4"),
                shown=(4, 3, 2, 1),
                model="va+vb" if interleaved else version[arm],
                trial=trial,
                arm=arm,
            )
            store.keep_lists([shown])
            clicked = "d3" if interleaved or (arm == "b" and number % 5) else "d2"  # d3 is second, d2 third
            about = {"user": user, "session": "s", "document": clicked}
            at = (NOW + number) * 10**6
            store.add(
                [
                    Event(id="c", kind="click", time=at + 9_000_000, **about),
                    Event(id="p", kind="purchase", time=at + 99_000_000, **about),
                    Event(id="old", kind="click", time=at - 9_000_000, **about | {"session": "before"}),
                ]
            )


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as exit:
        main(["search", "trial", *map(str, arguments)])
    said = capsys.readouterr()
    return exit.value.code or 0, said.out, said.err


def test_the_command_says_which_run_is_better(database, capsys):
    fill(database, "spring")
    status, out, _ = run(capsys, database, "--json")
    found = json.loads(out)
    assert status == 0
    assert (found["trial"], found["better"], found["decided_by"]) == ("spring", "b", "mrr")
    assert found["versions"]["b"] == {"vb": found["arms"]["b"]["lists"]}
    assert found["arms"]["a"]["mrr"] == pytest.approx(1 / 3)
    assert found["arms"]["a"]["worth"] == 5.0, "a purchase, which is worth more than the click on the same"
    assert "b is better" in run(capsys, database)[1]


def test_interleaved_trials_and_several_of_them(database, capsys):
    fill(database, "joint", interleaved=True)
    found = json.loads(run(capsys, database, "--json")[1])
    assert (found["interleaved"], found["better"], found["differences"]["preference"]["mean"]) == (True, "b", 1.0)
    assert "40 interleaved lists of 40 users" in run(capsys, database)[1]
    fill(database, "spring")
    status, _, err = run(capsys, database)
    assert (status, "several trials are stored: joint (40 lists), spring (40 lists)" in err) == (2, True)
    assert "b is better" in run(capsys, database, "--name", "spring")[1]


def test_what_makes_a_trial_dishonest_is_said(database, capsys):
    fill(database, "spring")
    with Store.open(str(database)) as store:
        user = next(f"spring{n}" for n in range(40) if Trial("spring").arm(f"spring{n}") == "a")
        again = KeptList(user, "s", (NOW + 99_999) * 10**6, "words", ("d1", "d2"), (1, 2), "vc", "spring", "b")
        other = KeptList("new", "s", (NOW + 99_999) * 10**6, "words", ("d1", "d2"), (1, 2), "vc", "spring", "b")
        store.keep_lists([again, other])
    _, _, err = run(capsys, database)
    assert "1 users had lists of both runs and are left out" in err
    assert "run b had 2 versions while the trial went on" in err
    found = json.loads(run(capsys, database, "--json", "--share", "0.01")[1])
    assert found["better"] is None
    assert "no share of 0.01, so nothing is decided" in found["warnings"][-1]


def test_there_is_nothing_to_compare(database, capsys):
    with Store.open(str(database)) as store:
        store.keep_lists([KeptList("ada", "s", NOW * 10**6, "words", ("d1",), (1,), "va")])
    for arguments, says in (
        ((), "holds no trial: serve two runs"),
        (("--name", "autumn"), "no list of a trial 'autumn' is stored"),
        (("--share", "0"), "--share is 0"),
    ):
        status, _, err = run(capsys, database, *arguments)
        assert (status, says in err) == (2, True), err
