"""Versions of a run: a name always leads to a whole one, and what was decided can be read."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from capse.errors import RunError
from capse.runs.versions import Versions


@pytest.fixture
def versions(tmp_path: Path) -> Versions:
    """A run that was adopted, and two versions after it."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "name").write_text("0001")
    found = Versions(tmp_path / "run")
    with found.held():
        found.adopt()
        for _ in range(2):
            path = found.next_path()
            path.mkdir()
            (path / "name").write_text(path.name)
            found.put_in_service(path.name, "handed over")
    return found


def test_a_name_leads_to_the_version_in_service_and_back(versions: Versions) -> None:
    assert (versions.names(), versions.current) == (["0001", "0002", "0003"], "0003")
    assert (versions.run / "name").read_text() == "0003"
    assert versions.before() == "0002"
    versions.put_in_service("0001", "rolled back")
    assert (versions.run / "name").read_text() == "0001"
    assert [(line["version"], line["what"]) for line in versions.history()] == [
        ("0001", "adopted"),
        ("0002", "handed over"),
        ("0003", "handed over"),
        ("0001", "rolled back"),
    ]
    with pytest.raises(RunError, match="has no earlier version"):
        versions.before()
    with pytest.raises(RunError, match="there is no version"):
        versions.put_in_service("0009", "rolled back")
    assert versions.next_path().name == "0004"


def test_the_newest_are_kept_and_always_the_one_in_service(versions: Versions) -> None:
    versions.put_in_service("0001", "rolled back")
    assert versions.keep(2) == ["0002"]
    assert versions.names() == ["0001", "0003"]


def test_whoever_opens_the_name_meanwhile_finds_a_version(versions: Versions) -> None:
    seen, done = set(), threading.Event()

    def look() -> None:
        while not done.is_set():
            seen.add((versions.run / "name").read_text())

    looking = threading.Thread(target=look)
    looking.start()
    for number in range(20_000):  # a busy machine may leave the other thread without a turn for long
        versions.put_in_service(("0001", "0002", "0003")[number % 3], "rolled back")
        if number >= 200 and len(seen) > 1:
            break
    done.set()
    looking.join()
    assert seen <= {"0001", "0002", "0003"}
    assert len(seen) > 1


def test_one_process_at_a_time(versions: Versions) -> None:
    with versions.held(), pytest.raises(RunError, match="another process changes"), Versions(versions.run).held():
        pass
