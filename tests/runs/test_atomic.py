"""Files and folders that are whole or not there, and storage errors that a user understands."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from capse.errors import SettingsError, StorageError
from capse.runs.atomic import (
    atomic_folder,
    atomic_path,
    check_free,
    replaced_folder,
    storage_errors,
    write_json,
    write_text,
)


def contents(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_a_file_replaces_the_old_one(tmp_path):
    path = tmp_path / "deep" / "er" / "a.txt"
    write_text(path, "old")
    write_text(path, "neu ü")
    assert path.read_bytes() == "neu ü".encode()
    assert contents(path.parent) == ["a.txt"]


def test_a_file_gets_ordinary_permissions(tmp_path):
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "a", "x")
        with atomic_folder(tmp_path / "b"):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "b").stat().st_mode & 0o777 == 0o750


@pytest.mark.parametrize("failure", [ValueError("x"), KeyboardInterrupt(), OSError(errno.ENOSPC, "full")])
def test_a_failure_in_the_middle_leaves_the_old_file_and_nothing_else(tmp_path, failure):
    path = tmp_path / "a.txt"
    write_text(path, "old")
    expected = StorageError if isinstance(failure, OSError) else type(failure)

    def write():
        with atomic_path(path) as temporary:
            temporary.write_text("ne")
            raise failure

    with pytest.raises(expected):
        write()
    assert path.read_text() == "old"
    assert contents(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("function", ["fsync", "replace", "chmod"])
def test_a_failing_system_call_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, function):
    path = tmp_path / "a.txt"
    write_text(path, "old")

    def fail(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, function, fail)
    with pytest.raises(StorageError, match=r"a\.txt \(No space left on device\): free space"):
        write_text(path, "new")
    monkeypatch.undo()
    assert path.read_text() == "old"
    assert contents(tmp_path) == ["a.txt"]


def test_readers_see_the_old_content_until_the_end(tmp_path):
    path = tmp_path / "a.txt"
    write_text(path, "old")
    with atomic_path(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"


def test_the_content_is_on_disk_before_it_is_renamed(tmp_path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *a, name=name, real=real: (calls.append(name), real(*a))[1])
    write_text(tmp_path / "a.txt", "new")
    assert calls == ["fsync", "replace", "fsync"]


def test_a_folder_appears_whole(tmp_path):
    path = tmp_path / "x" / "folder"
    with atomic_folder(path) as temporary:
        (temporary / "a").write_text("1")
        assert not path.exists()
    assert contents(tmp_path / "x") == ["folder", "folder/a"]


def test_a_folder_may_replace_an_empty_one_only(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").write_text("mine")
    with atomic_folder(tmp_path / "empty") as temporary:
        (temporary / "b").write_text("1")
    with pytest.raises(StorageError), atomic_folder(tmp_path / "full") as temporary:
        (temporary / "b").write_text("1")
    assert contents(tmp_path) == ["empty", "empty/b", "full", "full/a"]


@pytest.mark.parametrize("failure", [ValueError("x"), KeyboardInterrupt(), OSError(errno.EDQUOT, "quota")])
def test_a_failure_in_the_middle_leaves_no_folder(tmp_path, failure):
    expected = StorageError if isinstance(failure, OSError) else type(failure)

    def write():
        with atomic_folder(tmp_path / "folder") as temporary:
            (temporary / "inner").mkdir()
            (temporary / "inner" / "a").write_text("1")
            raise failure

    with pytest.raises(expected):
        write()
    assert contents(tmp_path) == []


@pytest.fixture
def old(tmp_path):
    """A folder that is to be replaced, and what a killed process has left beside it."""
    path = tmp_path / "run"
    for folder in (path, tmp_path / ".run.new.part", tmp_path / ".run.before.part"):
        folder.mkdir()
        (folder / "old").write_text("x")
    return path


def test_a_folder_takes_the_place_of_another(old):
    with replaced_folder(old) as fresh:
        fresh.mkdir()
        (fresh / "new").write_text("y")
        assert contents(old) == ["old"]
    assert contents(old.parent) == ["run", "run/new"]


def test_a_failure_in_the_middle_leaves_the_folder_that_was_there(old):
    def stopped():
        with replaced_folder(old) as fresh:
            fresh.mkdir()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert contents(old.parent) == ["run", "run/old"]


def test_a_folder_that_cannot_take_the_place_gives_it_back(old):
    with pytest.raises(StorageError), replaced_folder(old):
        pass  # there is no new folder
    assert contents(old.parent) == ["run", "run/old"]


def test_a_file_where_a_folder_should_be_is_a_storage_error(tmp_path):
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file" / "a", tmp_path / "file" / "b" / "a"):
        with pytest.raises(StorageError, match="cannot write"):
            write_text(path, "x")
        with pytest.raises(StorageError, match="cannot write"), atomic_folder(path):
            pass
    (tmp_path / "folder" / "x").mkdir(parents=True)
    with pytest.raises(StorageError, match="cannot write"):
        write_text(tmp_path / "folder", "x")
    with pytest.raises(StorageError, match="cannot write"):
        write_text(tmp_path / ("long" * 100), "x")
    assert contents(tmp_path) == ["file", "folder", "folder/x"]


def test_permission_errors_are_storage_errors_and_others_are_not():
    with pytest.raises(StorageError, match=r"cannot write /x \(not yours\): free space"), storage_errors(Path("/x")):
        raise PermissionError(errno.EACCES, "not yours")
    with pytest.raises(ConnectionResetError), storage_errors(Path("/x")):
        raise ConnectionResetError(errno.ECONNRESET, "x")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written(tmp_path):
    tmp_path.chmod(0o555)
    try:
        with pytest.raises(StorageError, match="Permission denied"):
            write_text(tmp_path / "a", "x")
    finally:
        tmp_path.chmod(0o755)


def test_a_real_limit_on_the_size_of_files(tmp_path):
    """RLIMIT_FSIZE makes the kernel refuse, in the middle of a write, as a full disk does."""
    script = f"""
import resource
from pathlib import Path
from capse.errors import StorageError
from capse.runs.atomic import atomic_folder, write_text
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
for write in (
    lambda: write_text({str(tmp_path / "a.txt")!r}, "x" * 2000),
    lambda: folder({str(tmp_path / "folder")!r}),
):
    def folder(path):
        with atomic_folder(path) as temporary:
            (temporary / "small").write_text("x")
            (temporary / "large").write_text("x" * 2000)
    try:
        write()
    except StorageError as error:
        print(error)
"""
    write_text(tmp_path / "a.txt", "old")
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    lines = result.stdout.splitlines()
    assert [
        f"cannot write {tmp_path / name} (File too large)" in line
        for name, line in zip(("a.txt", "folder"), lines, strict=True)
    ] == [True, True]
    assert (tmp_path / "a.txt").read_text() == "old"
    assert contents(tmp_path) == ["a.txt"]


def test_a_folder_is_free_if_nothing_is_there(tmp_path):
    check_free(tmp_path / "new")
    (tmp_path / "empty").mkdir()
    check_free(tmp_path / "empty")
    (tmp_path / "full").mkdir()
    for taken in (tmp_path / "full" / "file", tmp_path / "full"):
        write_text(tmp_path / "full" / "file", "x")
        with pytest.raises(SettingsError, match="is not an empty folder: choose another --out"):
            check_free(taken)


def test_json_is_indented_unicode_and_never_nan(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"ü": [1, None]})
    assert path.read_bytes() == '{\n  "ü": [\n    1,\n    null\n  ]\n}\n'.encode()
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"x": float("nan")})
    assert json.loads(path.read_text(encoding="utf-8")) == {"ü": [1, None]}
