"""A log from the installed sources of a package: real texts and questions, simulated people.

A document is a module. A question is some words of a docstring's first line, and what is wanted is the module that
holds it. A user works on one or two folders of the package and on some of their modules more than on others; the
engine is BM25, whose first ten modules are shown, and a list without the wanted module is left out, as in logs that
``capse search ingest --from-git`` makes. Everything is drawn from one seed and the installed version.
"""

from __future__ import annotations

import ast
import json
from collections import Counter, defaultdict
from importlib.util import find_spec
from pathlib import Path

import bm25s
import numpy as np

from capse.search.logs.documents import words

USERS, IMPRESSIONS, RESULTS, TERMS = 60, 5_000, 10, 250
WORDS = (2, 4)  # of a question: least and most
AGAIN = 0.6  # the chance that a user goes on in a session
HOURS = 3  # between two sessions of anybody


def write_source_log(package: str, folder: Path, *, seed: int = 0) -> None:
    """Write ``log.jsonl`` and ``documents.jsonl``, as ``capse search ingest`` reads them."""
    found = find_spec(package)
    assert found is not None
    assert found.origin is not None
    root = Path(found.origin).parent
    texts = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in sorted(root.rglob("*.py"))}
    terms = {path: dict(Counter(words(text)).most_common(TERMS)) for path, text in texts.items()}
    questions = {path: asked for path, text in texts.items() if (asked := _first_lines(text))}
    documents = [{"doc": path, "title": path, "terms": terms[path]} for path in texts]
    for name, lines in (("documents", documents), ("log", _lists(questions, _Engine(terms), seed))):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


def _first_lines(text: str) -> list[list[str]]:
    """The words of each docstring's first line, if there are enough."""
    nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    lines = [words((ast.get_docstring(node) or "\n").splitlines()[0]) for node in nodes]
    return [line for line in lines if len(line) >= WORDS[0]]


class _Engine:
    def __init__(self, terms: dict[str, dict[str, int]]) -> None:
        self.paths, self.index = list(terms), bm25s.BM25()
        self.index.index([[*words(path), *Counter(terms[path]).elements()] for path in terms], show_progress=False)

    def __call__(self, query: list[str]) -> list[str]:
        places, scores = self.index.retrieve([query], k=RESULTS, show_progress=False)
        return [self.paths[place] for place, score in zip(places[0], scores[0], strict=True) if score > 0]


def _lists(questions: dict[str, list[list[str]]], engine: _Engine, seed: int) -> list[dict[str, object]]:
    random = np.random.default_rng(seed)
    folders: dict[str, list[str]] = defaultdict(list)
    for path in questions:
        folders[path.rpartition("/")[0]].append(path)
    names, sizes = list(folders), np.array([len(paths) for paths in folders.values()])
    users = []
    for _ in range(USERS):
        chosen = random.choice(names, size=random.integers(1, 3), replace=False, p=sizes / sizes.sum())
        modules = [path for name in chosen for path in folders[name]]
        often = 1 / np.arange(1, len(modules) + 1)
        users.append((random.permutation(np.array(modules)), often / often.sum()))
    activity = 1 / np.arange(1, USERS + 1) ** 0.7
    lists: list[dict[str, object]] = []
    time, user, session = 1_704_067_200.0, 0, 0
    while len(lists) < IMPRESSIONS:
        if random.random() > AGAIN or not session:
            user, session = int(random.choice(USERS, p=activity / activity.sum())), session + 1
            time += random.exponential(3_600 * HOURS)
        time += random.exponential(120)
        modules, often = users[user]
        wanted = str(random.choice(modules, p=often))
        line = questions[wanted][random.integers(len(questions[wanted]))]
        kept = sorted(random.permutation(len(line))[: random.integers(WORDS[0], WORDS[1] + 1)])
        shown = engine([line[place] for place in kept])
        if wanted in shown:
            lists.append(
                {
                    "split": "train",
                    "timestamp": int(time),
                    "user": f"u{user}",
                    "session": f"s{session}",
                    "query_id": f"q{len(lists)}",
                    "query": " ".join(line[place] for place in kept),
                    "results": shown,
                    "clicks": [wanted],
                }
            )
    for number, made in enumerate(lists):
        made["split"] = "train" if number < 0.7 * IMPRESSIONS else "valid" if number < 0.8 * IMPRESSIONS else "test"
    return lists
