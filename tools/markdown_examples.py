"""The examples of a Markdown page, run as a reader would run them: python tools/markdown_examples.py README.md

Sybil finds the fenced blocks and runs those in Python. What happens to the others is said by the word after the fence:

    console   lines that begin with '$ ' are run; what stands below them, if anything, is the output to expect
    sh        commands that need a network, a GPU or a checkout: not run, but their options and settings must exist

A block of any language with title="NAME" is a file, which is written and not run. `capse` is run in this process, so
that torch is imported once; `make` and `pip` are only checked, wherever they stand.
"""

from __future__ import annotations

import doctest
import io
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from sybil import Document, Example, Region, Sybil
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser
from sybil.parsers.markdown.lexers import RawFencedCodeBlockLexer

from capse.cli.demo import one_thread

ROOT = Path(__file__).resolve().parents[1]
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_TITLED = RawFencedCodeBlockLexer(re.compile(r'\w+ title="(?P<file>[^"\n]+)"$\n', re.MULTILINE))


def run_page(page: Path, folder: Path) -> int:
    """Run every example of a page in ``folder``; returns how many blocks there were. A wrong one is an error."""
    with chdir(folder), one_thread(), redirect_stdout(io.StringIO()):
        return sum(example.evaluate() is None for example in PAGE.parse(page).examples())


def commands(text: str, prompt: str = "$ ") -> list[tuple[list[str], str]]:
    """The commands of a block as words, and the output that stands below each. Comments are left out.

    >>> commands("$ capse data \\\\\\n    info countries  # a comment\\n804 entities\\n")
    [(['capse', 'data', 'info', 'countries'], '804 entities\\n')]
    """
    found: list[tuple[list[str], str]] = []
    for line in text.replace("\\\n", " ").splitlines():
        if not line.startswith(prompt):
            found[-1] = (found[-1][0], found[-1][1] + line + "\n")
        elif words := shlex.split(line.removeprefix(prompt), comments=True):
            found.append((words, ""))
    return found


def files(text: str) -> dict[str, str]:
    """The files that a page's titled blocks hold."""
    return {region.lexemes["file"]: str(region.lexemes["source"]) for region in _TITLED(Document(text, "page.md"))}


def _file_parser(document: Document) -> Iterable[Region]:
    for region in _TITLED(document):
        yield Region(region.start, region.end, (region.lexemes["file"], region.lexemes["source"]), _write_file)


def _write_file(example: Example) -> None:
    name, text = example.parsed
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text, encoding="utf-8")


def _run_console(example: Example) -> None:
    for words, expected in commands(example.parsed):
        if words[0] in ("make", "pip"):
            check_command(words)
        else:
            _run_command(words, expected)


def _check_shell(example: Example) -> None:
    for words, _ in commands(example.parsed, prompt=""):
        check_command(words)


def _run_command(words: list[str], expected: str) -> None:
    """Run a command. It must succeed, or end with status 2 if the page shows an error, and print what the page says."""
    if words[0] == "capse":
        status, output = run_capse(words[1:])
    else:
        done = subprocess.run(
            words, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60
        )
        status, output = done.returncode, done.stdout
    wanted = 2 if re.search(r"^error: ", expected, re.MULTILINE) else 0
    assert status == wanted, f"status {status} from {shlex.join(words)}\n{output}"
    if expected:
        same = doctest.OutputChecker().check_output(expected, output, _FLAGS)
        assert same, f"{shlex.join(words)}\nprints\n{output}\nbut the page says\n{expected}"


def run_capse(arguments: list[str]) -> tuple[int, str]:
    """Run the command line in this process: its exit status, and what it wrote to both streams."""
    from capse.cli import main

    output, status = io.StringIO(), 0
    with redirect_stdout(output), redirect_stderr(output):
        try:
            main(arguments)
        except SystemExit as exit:
            status = exit.code if isinstance(exit.code, int) else 0
    return status, output.getvalue()


def check_command(words: list[str]) -> None:
    """Check a command that cannot be run here: that its target, extra, option or setting exists."""
    words = [word for i, word in enumerate(words) if not (i == 0 and re.match(r"[A-Z_]+=", word))]
    program, *arguments = words
    if program == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        for target in arguments:
            assert re.search(rf"^{re.escape(target)}:", makefile, re.MULTILINE), f"no target {target} in the Makefile"
    elif program == "pip":
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        for extra in re.findall(r"[\w-]+", "".join(re.findall(r"\[(.*?)\]", arguments[-1]))):
            assert extra in project["optional-dependencies"], f"no extra {extra} in pyproject.toml"
    elif program == "capse":
        _parse(arguments)
    elif program == "torchrun":
        _parse(arguments[arguments.index("capse") + 1 :])
    else:
        assert program in ("cd", "export", "git", "jupyter", "tensorboard", "python"), (
            f"cannot check {shlex.join(words)}"
        )


def _parse(arguments: list[str]) -> None:
    """Parse a capse command line without running it, and fill the settings that it names."""
    import typer

    from capse.cli import app
    from capse.experiments.recipe import Recipe
    from capse.experiments.shipped import shipped

    command: Any = typer.main.get_command(app)
    name = "capse"
    while hasattr(command, "get_command"):
        name, *arguments = arguments
        command = command.get_command(None, name)
        assert command is not None, f"no command {name}"
    given = command.make_context(name, arguments).params
    if given.get("settings"):
        recipe = given["recipe"] if given["recipe"] in shipped("recipe") else None
        Recipe.resolve(recipe, model=given["model"], overrides=given["settings"])


PAGE = Sybil(
    [
        PythonCodeBlockParser(doctest_optionflags=_FLAGS),
        CodeBlockParser("console", _run_console),
        CodeBlockParser("sh", _check_shell),
        _file_parser,
    ]
)

if __name__ == "__main__":
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as scratch:
            print(f"{name}: {run_page(Path(name).resolve(), Path(scratch))} examples")
