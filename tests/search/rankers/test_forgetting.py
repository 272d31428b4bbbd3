"""A run without some of its users: their names and numbers gone, everybody else's as they were."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from capse.errors import RunError
from capse.runs.folder import RunFolder
from capse.runs.manifest import check_files
from capse.search.logs.simulation import Simulated
from capse.search.rankers import forgetting
from capse.search.rankers.forgetting import forget_in_run, is_begun
from capse.search.rankers.search_run import SearchRun
from capse.search.rankers.training_past import TrainingPast
from capse.search.serving.reranker import Reranker

NOW = 1_800_000_000
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def run(make_run: Callable[..., SearchRun], world: Simulated, tmp_path: Path) -> Path:
    replace(make_run(), past=TrainingPast.of(world.log)).save(tmp_path / "run")
    return tmp_path / "run"


def names_in(folder: Path, name: str) -> list[str]:
    """The files of a folder that hold a name, as they are or in a column of Parquet, whatever compresses it."""
    found = [file for file in folder.rglob("*") if file.is_file() and name.encode() in file.read_bytes()]
    for file in folder.rglob("*.parquet"):
        table = pq.read_table(file)
        texts = [column for column in table.itercolumns() if column.type == pa.string()]
        if any(name in column.to_pylist() for column in texts):
            found.append(file)
    return sorted({file.name for file in found})


def test_what_a_run_knows_of_a_user_is_gone_and_nothing_else(run: Path, world: Simulated) -> None:
    gone, stays = world.log.users[2], world.log.users[5]
    shown = list(world.log.documents.ids[:9])
    RunFolder(run).checkpoints.mkdir()
    (RunFolder(run).checkpoints / "latest").write_text(gone)
    before, others = Reranker.load(run), SearchRun.load(run)
    assert names_in(run, gone)
    assert forget_in_run(run, {gone, "nobody"}.__contains__) == 1
    assert names_in(run, gone) == []
    check_files(run, required=True)
    after, kept = Reranker.load(run), SearchRun.load(run)
    assert list(kept.users) == [user for user in others.users if user != gone]
    for user in kept.users:
        np.testing.assert_array_equal(kept.model.offsets[kept.numbers[user]].detach(),
                                      others.model.offsets[others.numbers[user]].detach())  # fmt: skip
    assert after.rerank("q", shown, user=stays, time=NOW) == before.rerank("q", shown, user=stays, time=NOW)
    assert after.rerank("q", shown, user=gone, time=NOW) == after.rerank("q", shown, user="a stranger", time=NOW)
    assert after.rerank("q", shown, user=gone, time=NOW) != before.rerank("q", shown, user=gone, time=NOW)
    assert forget_in_run(run, {gone}.__contains__) == 0


def test_all_of_its_users(run: Path, world: Simulated) -> None:
    assert forget_in_run(run, lambda user: True) == len({*world.log.users})
    assert list(SearchRun.load(run).users) == []
    assert len(TrainingPast.load(run).clicks) == 0


def test_a_run_that_cannot_be_rewritten_is_named(run: Path, world: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(30, "Read-only file system")

    monkeypatch.setattr(forgetting, "save_tensors", refuse)
    with pytest.raises(RunError, match=r"still names somebody .* \(Read-only file system\): make it writable"):
        forget_in_run(run, {world.log.users[0]}.__contains__)


def test_what_was_begun_is_ended(run: Path, world: Simulated, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed after any of its steps, the next call finds the user again."""
    gone = world.log.users[1]
    for step in ("save_tensors", "atomic_path", "write_manifest"):
        with monkeypatch.context() as patched:
            patched.setattr(forgetting, step, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            if any(names_in(run, gone)):
                with pytest.raises(KeyboardInterrupt):
                    forget_in_run(run, {gone}.__contains__)
    assert is_begun(run)
    forget_in_run(run, lambda user: False)
    assert not is_begun(run)
    assert names_in(run, gone) == []
    assert len(SearchRun.load(run).users) == 7
    check_files(run, required=True)
