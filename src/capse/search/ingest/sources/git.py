"""A log made from a git repository: every commit is somebody who looked for the files that it changed.

The commit's subject is the query, BM25 over the files of HEAD the engine, the changed files among its first ten are the
clicks. A user is an author, hashed with a salt that is drawn afresh and stored nowhere; a session is a user's commits
less than two hours apart. Commits without a changed file among the results are left out and counted.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from capse.errors import DataError, MissingExtraError, SettingsError
from capse.search.ingest.sources.repository import LARGEST_FILE, Commit, Repository
from capse.search.ingest.staging import Staging
from capse.search.logs.documents import words
from capse.search.times import SECOND

RESULTS = 10
TERMS = 250  # most frequent words that are kept of a file
SESSION_GAP = 7_200  # seconds

_QUERIES_AT_ONCE = 1_000


def suits(paths: Sequence[Path]) -> bool:
    """Whether this is a repository: a work tree's or a bare one's folder."""
    if len(paths) != 1:
        return False
    return (paths[0] / ".git").exists() or all((paths[0] / name).exists() for name in ("HEAD", "objects", "refs"))


def stage(paths: Sequence[Path], staging: Staging, *, salt: bytes | None = None) -> None:
    """Make a log from the one repository named; a fixed ``salt`` makes authors recognisable and is meant for tests."""
    if len(paths) != 1:
        raise SettingsError(f"{len(paths)} repositories", "make a log from one repository at a time")
    repository = Repository(paths[0])
    repository.check()
    files = _files(repository, staging)
    commits = sorted(repository.commits(), key=lambda commit: commit.time)
    salt = secrets.token_bytes(16) if salt is None else salt
    users = [_user(commit.author, salt) for commit in commits]
    sessions = _sessions(commits, users)
    kept = 0
    for number, (commit, shown) in enumerate(zip(commits, _Engine(files).answers(commits), strict=True)):
        changed = set(commit.files)
        clicks = [path for path in shown if path in changed]
        if not clicks:
            continue
        kept += 1
        label = f"c{number}"
        for position, path in enumerate(shown, start=1):
            staging.result(
                label,
                time=commit.time * SECOND,
                user=users[number],
                session=sessions[number],
                query=commit.subject,
                position=position,
                document=path,
            )
        for path in clicks:
            staging.click(label, path)
    _note(staging, len(commits), kept)


@dataclass(frozen=True)
class _Text:
    path: str
    terms: dict[str, int]


def _files(repository: Repository, staging: Staging) -> list[_Text]:
    """The text files of HEAD, staged as documents."""
    files: list[_Text] = []
    skipped: Counter[str] = Counter()
    for path, content, is_text in repository.files():
        if not is_text:
            skipped[content] += 1
            continue
        files.append(_Text(path, dict(Counter(words(content)).most_common(TERMS))))
        staging.document(path, title=path, terms=files[-1].terms)
    if skipped:
        why = ", ".join(f"{count:,} {reason}" for reason, count in sorted(skipped.items()))
        staging.note(f"files of HEAD that are left out: {why} (large is over {LARGEST_FILE >> 20} MiB)")
    if not any(file.terms or words(file.path) for file in files):
        raise DataError(f"{repository.folder}: no file of HEAD has words", "name a repository with text in it")
    return files


class _Engine:
    """BM25 over the words of the files and of their paths."""

    def __init__(self, files: Sequence[_Text]) -> None:
        try:
            import bm25s
        except ImportError as error:
            raise MissingExtraError("making a log from a git repository", "search") from error
        self._paths = [file.path for file in files]
        self._index = bm25s.BM25()
        tokens = [[*words(file.path), *Counter(file.terms).elements()] for file in files]
        self._index.index(tokens, show_progress=False)

    def answers(self, commits: Sequence[Commit]) -> Iterator[list[str]]:
        """For each commit the best files, best first; only files that share a word with its subject."""
        for start in range(0, len(commits), _QUERIES_AT_ONCE):
            queries = [words(commit.subject) for commit in commits[start : start + _QUERIES_AT_ONCE]]
            best, scores = self._index.retrieve(queries, k=min(RESULTS, len(self._paths)), show_progress=False)
            for files, score in zip(best, scores, strict=True):
                order = np.lexsort((files, -score))
                yield [self._paths[file] for file in files[order][score[order] > 0]]


def _user(author: str, salt: bytes) -> str:
    return "u" + hashlib.sha256(salt + author.lower().encode()).hexdigest()[:10]


def _sessions(commits: Sequence[Commit], users: Sequence[str]) -> list[str]:
    """A name for the session of each commit, in time order."""
    last: dict[str, int] = {}
    numbers: Counter[str] = Counter()
    sessions = []
    for commit, user in zip(commits, users, strict=True):
        if user not in last or commit.time - last[user] >= SESSION_GAP:
            numbers[user] += 1
        last[user] = commit.time
        sessions.append(f"{user}-{numbers[user]}")
    return sessions


def _note(staging: Staging, commits: int, kept: int) -> None:
    staging.note(
        f"{kept:,} of {commits:,} commits are impressions; for the others no changed file is in BM25's first {RESULTS}"
    )
    staging.note(
        "documents are the files of HEAD: their text is from after the commits and may hold what a commit brought; "
        "subjects are written after the work; changed files stand for clicks and have no dwell"
    )
    staging.note(
        "authors are hashed with a salt that is stored nowhere, but their subjects and times stand in the repository"
    )
