"""Mutation testing: make small mistakes in a module, one at a time, and see whether its tests notice.

    python tools/mutate.py src/capse/evaluation/ranks.py --tests tests/evaluation --count 30 --out mutants.jsonl

A mutant is the module with one comparison, operator, constant, condition or statement changed. It is tried in a copy of
the tree, so that the working tree stays as it is. A mutant that all tests pass has *survived*: a test is missing, or
the change makes no difference, and a person says which. The sample is drawn by ``--seed``; the same tree, seed and
count give the same mutants.
"""

from __future__ import annotations

import argparse
import ast
import json
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOG = "tests.log"
# Tests start as forks of a process that has imported what is slow to import and is never mutated.
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["numba", "pandas", "pyarrow.parquet", "pytest", "scipy.stats", "torch", "typer"])
IGNORED = (".git", ".venv", "results", "site", "docs", "*.egg-info", ".mypy_cache", ".ruff_cache", ".hypothesis")

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}
_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "*",
    ast.Mod: "*",
    ast.Pow: "*",
    ast.BitAnd: "|",
    ast.BitOr: "&",
}


@dataclass(frozen=True)
class Mutant:
    """One mistake: the characters from ``start`` to ``end`` of the module replaced by ``text``."""

    line: int
    start: int
    end: int
    text: str
    was: str

    def apply(self, source: str) -> str:
        return source[: self.start] + self.text + source[self.end :]


def mutants(source: str) -> list[Mutant]:
    """Every mistake that is made in a module's code; annotations, docstrings and imports are left alone.

    >>> [(mutant.was, mutant.text) for mutant in mutants("def f(x):\\n    return x < 2")]
    [('return x < 2', 'return None'), ('x < 2', 'x <= 2'), ('2', '3')]
    """
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    raw = source.encode()

    def place(node: ast.AST) -> tuple[int, int]:
        first, last = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        return len(raw[:first].decode()), len(raw[:last].decode())

    found = {}
    for node, text in _changes(ast.parse(source), lambda part: source[slice(*place(part))]):
        start, end = place(node)
        if text != source[start:end]:
            found[start, end, text] = Mutant(node.lineno, start, end, text, source[start:end])  # type: ignore[attr-defined]
    return sorted(found.values(), key=lambda mutant: (mutant.start, mutant.end, mutant.text))


def _changes(tree: ast.AST, code: Callable[[ast.AST], str]) -> Iterator[tuple[ast.AST, str]]:
    """The nodes that can be wrong, and what stands there instead."""
    for node in _code_of(tree):
        match node:
            case ast.If(test=test) | ast.While(test=test):
                yield test, f"(not ({code(test)}))"
            case ast.Return(value=value) if value is not None and not isinstance(value, ast.Constant):
                yield node, "return None"
            case ast.Expr(value=ast.Call()) | ast.AugAssign():
                yield node, "pass"
            case ast.expr() if (text := _changed(node, code)) is not None:
                yield node, text


def _changed(node: ast.expr, code: Callable[[ast.AST], str]) -> str | None:
    """What may stand in the place of an expression."""
    match node:
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARISONS:
            return f"{code(left)} {_COMPARISONS[type(op)]} {code(right)}"
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return f"({code(left)}) {_OPERATORS[type(op)]} ({code(right)})"
        case ast.BoolOp(op=op, values=values):
            word = " or " if isinstance(op, ast.And) else " and "
            return word.join(f"({code(value)})" for value in values)
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            return f"({code(operand)})"
        case ast.Constant(value=bool(value)):
            return str(not value)
        case ast.Constant(value=int(value) | float(value)):
            return repr(value + 1)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            return f"({code(orelse)} if {code(test)} else {code(body)})"
    return None


def _code_of(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below ``node`` that are executed code."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_comment"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.JoinedStr | ast.Import | ast.ImportFrom | ast.Raise | ast.Assert):
                continue
            if isinstance(child, ast.AST):
                yield child
                yield from _code_of(child)


def outcome(tree: Path, tests: list[str], limit: float) -> str:
    """killed, survived or timeout: what the tests say of the tree as it is."""
    trial = _FORKS.Process(target=_run_tests, args=(tree, tests))
    trial.start()
    trial.join(limit)
    if trial.is_alive():
        assert trial.pid is not None
        os.killpg(trial.pid, signal.SIGKILL)
        trial.join()
        return "timeout"
    return "survived" if trial.exitcode == 0 else "killed"


def _run_tests(tree: Path, tests: list[str]) -> None:
    """The tests of a tree, in a process that leads its own group; what they say goes into a file."""
    import pytest

    os.setsid()
    os.chdir(tree)
    os.environ |= {"PYTHONPATH": str(tree / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(tree / "src"))
    log = os.open(tree / LOG, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    sys.exit(int(pytest.main(["-q", "-x", "-p", "no:cacheprovider", *tests])))


def failed_test(tree: Path) -> str:
    """The test that failed in the last trial of a tree."""
    lines = (tree / LOG).read_text(encoding="utf-8", errors="replace").splitlines()
    failed = [line.split(" - ")[0].partition(" ")[2] for line in lines if line.startswith(("FAILED ", "ERROR "))]
    return failed[0] if failed else "no test: the module cannot be imported"


def sample(source: str, count: int, seed: int) -> list[Mutant]:
    """So many of a module's mutants, in its order; 0 means all."""
    every = mutants(source)
    if not 0 < count < len(every):
        return every
    return sorted(random.Random(seed).sample(every, count), key=lambda mutant: mutant.start)


def try_mutants(module: Path, tests: list[str], tried: list[Mutant]) -> Iterator[tuple[Mutant, str]]:
    """Each mutant of a module with its outcome, in a copy of the tree."""
    source = (ROOT / module).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*IGNORED))
        began = time.monotonic()
        if outcome(tree, tests, 1800) != "survived":
            sys.exit(f"{module}: the tests fail without a mutant")
        limit = 30 + 5 * (time.monotonic() - began)
        for mutant in tried:
            (tree / module).write_text(mutant.apply(source), encoding="utf-8")
            yield mutant, outcome(tree, tests, limit)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("module", type=Path, help="the file to make mistakes in")
    parser.add_argument("--tests", nargs="+", required=True, help="what should notice them")
    parser.add_argument("--count", type=int, default=30, help="how many mutants to try; 0 tries all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a file that gets one JSON line for each mutant")
    options = parser.parse_args()
    module = options.module.resolve().relative_to(ROOT)
    tried = sample((ROOT / module).read_text(encoding="utf-8"), options.count, options.seed)
    counts = dict.fromkeys(("killed", "timeout", "survived"), 0)
    for mutant, result in try_mutants(module, options.tests, tried):
        counts[result] += 1
        if options.out:
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"module": str(module), "outcome": result, **asdict(mutant)}) + "\n")
        if result == "survived":
            print(f"{module}:{mutant.line}: {mutant.was!r} -> {mutant.text!r} survived", flush=True)
    print(f"{module}: {len(tried)} mutants, " + ", ".join(f"{count} {word}" for word, count in counts.items()))


if __name__ == "__main__":
    main()
