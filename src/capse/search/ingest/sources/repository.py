"""The commits of a git repository and the files of its HEAD, read with git's own commands and without a shell."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from capse.errors import DataError

LARGEST_FILE = 1 << 20  # bytes; what is larger is data, not text
_LOOKED_AT = 8_000  # bytes in which a NUL means binary, as for git itself
_FORMAT = "--format=tformat:%x00%at%x00%aE%x00%s"
_PLAIN = ("-c", "log.showSignature=false", "-c", "core.fsmonitor=false")

Skipped = Literal["too large", "binary", "a link or a submodule"]


@dataclass(frozen=True)
class Commit:
    time: int  # seconds since 1970, when its author made it
    author: str  # e-mail address, as .mailmap has it
    subject: str
    files: Sequence[str]  # that it added or changed


@dataclass(frozen=True)
class Repository:
    """The repository that a folder belongs to, at its HEAD."""

    folder: Path

    def check(self) -> None:
        """Raise unless there is a repository here, with a commit."""
        if not self.folder.is_dir():
            raise DataError(f"{self.folder}: no such folder", "name a folder with a git repository")
        self._git("rev-parse", "--git-dir", otherwise="not a git repository")
        self._git("rev-parse", "--verify", "HEAD^{commit}", otherwise="a git repository without a commit")

    def commits(self) -> Iterator[Commit]:
        """The commits that HEAD has behind it, without merges, newest first.

        With ``-z`` each commit is a NUL, then three fields and its files, each ended by a NUL; a line end precedes the
        first file.
        """
        options = ("--no-merges", "--no-renames", "--no-relative", "--diff-filter=d", "--encoding=UTF-8")
        pieces = self._git("log", "-z", "--name-only", *options, _FORMAT, "HEAD").split(b"\0")
        place = 0
        while place < len(pieces) - 1:
            time, author, subject = pieces[place + 1 : place + 4]
            first = place = place + 4
            while place < len(pieces) and pieces[place]:
                place += 1
            files = [_path(piece.removeprefix(b"\n")) for piece in pieces[first:place]]
            yield Commit(int(time), _text(author), _text(subject), files)

    def files(self) -> Iterator[tuple[str, str | Skipped, bool]]:
        """The files of HEAD: path, then the text and True, or why there is none and False."""
        entries = self._git("ls-tree", "-r", "-z", "--long", "--full-tree", "HEAD").split(b"\0")[:-1]
        with subprocess.Popen(
            ["git", *_PLAIN, "-C", str(self.folder), "cat-file", "--batch"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_environment(),
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            for entry in entries:
                head, _, path = entry.partition(b"\t")
                mode, kind, name, size = head.split()
                if kind != b"blob" or mode == b"120000":
                    yield _path(path), "a link or a submodule", False
                elif int(size) > LARGEST_FILE:
                    yield _path(path), "too large", False
                else:
                    process.stdin.write(name + b"\n")
                    process.stdin.flush()
                    process.stdout.readline()
                    content = process.stdout.read(int(size) + 1)[:-1]
                    is_text = b"\0" not in content[:_LOOKED_AT]
                    yield _path(path), _text(content) if is_text else "binary", is_text
            process.stdin.close()

    def _git(self, *arguments: str, otherwise: str = "") -> bytes:
        """What a git command prints; where it fails, an error that says ``otherwise`` or what git says."""
        command = ["git", *_PLAIN, "-C", str(self.folder), *arguments]
        try:
            done = subprocess.run(command, capture_output=True, env=_environment(), check=False)
        except FileNotFoundError as error:
            raise DataError("git is not installed", "install it to make a log from a repository") from error
        if done.returncode:
            said = _text(done.stderr).strip().partition("\n")[0].removeprefix("fatal: ")
            owner = "dubious ownership" in said
            raise DataError(f"{self.folder}: {said if owner or not otherwise else otherwise}", "name another folder")
        return done.stdout


def _environment() -> dict[str, str]:
    """The environment without what would point git elsewhere (a hook sets GIT_DIR), and with nothing fetched."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return kept | {"LC_ALL": "C", "GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0"}


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def _path(content: bytes) -> str:
    """A path; bytes that are not UTF-8 are spelt out, so that different names stay different."""
    return content.decode("utf-8", "backslashreplace")
