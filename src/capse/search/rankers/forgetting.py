"""Taking users out of a finished run: their names, what was learned of them and what they clicked.

What trees and networks have learned of everybody stays: nobody is named in it. Checkpoints are removed, since they hold
what was learned of every user; a run that has forgotten somebody cannot be trained on.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch

from capse.errors import RunError
from capse.runs.atomic import atomic_path, write_json
from capse.runs.folder import RunFolder
from capse.runs.manifest import MANIFEST, UNFINISHED, write_manifest
from capse.runs.tensors import load_tensors, save_tensors
from capse.runs.versions import Versions
from capse.search.rankers.sp_lambdamart import RANKERS
from capse.search.rankers.training_past import TrainingPast

_OFFSETS = "offsets"  # of `PersonalModel`: a row for each user


def forget_in_run(path: str | Path, forgotten: Callable[[str], bool]) -> int:
    """Remove those users of a run, and of the runs inside it, who are to be forgotten; returns how many there were.

    A RunError says that the run could not be rewritten. A kill in between may leave a run that does not fit its
    manifest; the next call ends what this one began.
    """
    folder = Path(path)
    names: set[str] = set()
    for run in [folder, *sorted(folder.glob(f"{RANKERS}/*"))]:
        found = _begun(run) | {user for user in _users_of(run) if forgotten(user)}
        if found:
            with _rewriting(run):
                _rewrite(RunFolder(run), found)
        names |= found
    if names and (folder / MANIFEST).is_file():  # of the runs inside it, too
        write_manifest(folder)
    return len(names)


def forget_in_versions(path: str | Path, forgotten: Callable[[str], bool]) -> int:
    """The same in every version of a run that is kept; returns how many users there were in the one in service.

    A version out of service that cannot be rewritten is withdrawn: nothing leads back to it any more.
    """
    versions = Versions(path)
    for version in versions.names():
        if version != versions.current:
            try:
                forget_in_run(versions.folder / version, forgotten)
            except RunError:
                versions.withdraw(version)
    return forget_in_run(path, forgotten)


def is_begun(path: str | Path) -> bool:
    """Whether somebody was being removed from a run when the process was killed."""
    return any(Path(path).rglob(UNFINISHED))


def _begun(run: Path) -> set[str]:
    try:
        return set(json.loads((run / UNFINISHED).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return set()


def _users_of(run: Path) -> set[str]:
    users = TrainingPast.load(run).users
    file = RunFolder(run).users
    return users | set(_table(file)["user"].to_pylist()) if file.is_file() else users


def _rewrite(run: RunFolder, names: set[str]) -> None:
    """Weights and names together; until the manifest says that they fit, a file says who is being removed."""
    write_json(run.path / UNFINISHED, sorted(names))
    shutil.rmtree(run.checkpoints, ignore_errors=True)
    past = TrainingPast.load(run.path)
    if past.users:
        past.without(names).save(run.path)
    if run.users.is_file():
        users = _table(run.users)["user"].to_pylist()
        kept = [place for place, user in enumerate(users) if user not in names]
        tensors, metadata = load_tensors(run.model, "train the run again")
        if _OFFSETS in tensors and len(tensors[_OFFSETS]) == len(users):
            tensors[_OFFSETS] = tensors[_OFFSETS][torch.tensor(kept, dtype=torch.int64)].clone()
            save_tensors(run.model, tensors, metadata)
        with atomic_path(run.users) as temporary:
            pq.write_table(pa.table({"user": pa.array([users[place] for place in kept], pa.string())}), temporary)
    if (run.path / MANIFEST).is_file():
        write_manifest(run.path)
    (run.path / UNFINISHED).unlink()


@contextmanager
def _rewriting(run: Path) -> Iterator[None]:
    """One process at a time; what the file system refuses is a RunError."""
    try:
        descriptor = os.open(run, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)
    except OSError as error:
        message = f"{run} still names somebody who is to be forgotten, and cannot be rewritten ({error.strerror})"
        raise RunError(message, "make it writable, or take it out of use") from error


def _table(file: Path) -> pa.Table:
    try:
        return pq.read_table(file, columns=["user"])
    except (OSError, pa.ArrowException) as error:
        raise RunError(f"{file} cannot be read ({str(error).splitlines()[0]})", "train the run again") from error
