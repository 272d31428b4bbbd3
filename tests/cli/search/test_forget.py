"""capse search forget."""

from __future__ import annotations

from capse.search.logs.search_log import SearchLog
from capse.search.rankers.search_run import SearchRun
from capse.service.store import Event, Store


def test_a_user_is_taken_out_of_all_that_is_named(run_command, tmp_path):
    small = ["--set", "simulation.users=6", "--set", "simulation.impressions=120", "--set", "simulation.documents=40"]
    assert run_command("search", "simulate", "--out", tmp_path / "raw", *small)[0] == 0
    assert run_command("search", "ingest", tmp_path / "raw", "--out", tmp_path / "log")[0] == 0
    quick = ["--set", "training.epochs=1", "--set", "vectors.dimensions=8", "--set", "model.filters=4"]
    trained = ["--log", tmp_path / "log", "--method", "capse", "--out", tmp_path / "run", *quick]
    status, _, errors = run_command("search", "train", *trained)
    assert status == 0, errors
    gone = SearchRun.load(tmp_path / "run").users[0]
    database = str(tmp_path / "capse.db")
    with Store.open(database) as store:
        store.add([Event(id="c", kind="click", user=gone, time=1_700_000_000_000_000, document="d1")])
    named = ["--log", tmp_path / "log", "--run", tmp_path / "run", "--db", database]
    status, output, errors = run_command("search", "forget", gone, "nobody", *named)
    assert (status, errors) == (0, "")
    assert "1 of 2 users removed" in output
    assert "1 events removed" in output
    assert gone not in SearchLog.load(tmp_path / "log").users
    assert gone not in SearchRun.load(tmp_path / "run").users
    with Store.open(database) as store:
        assert store.events(gone) == []
        assert store.is_forgotten(gone)


def test_nothing_to_look_at(run_command):
    status, output, errors = run_command("search", "forget", "ada")
    assert (status, output) == (2, "")
    assert "name it with --log, --run or --db" in errors
