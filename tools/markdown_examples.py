"""The examples of a Markdown page, run as a reader would run them: python tools/markdown_examples.py README.md

What happens to a fenced block is said by the first word after the fence:

    console   lines that begin with '$ ' are run; what stands below them, if anything, is the output to expect
    sh        commands that need a network, a GPU or a checkout: not run, but their options and settings must exist
    python    run, all blocks of a page in one namespace; with '>>>' in it, a block is a doctest

A file's name after the first word makes any block a file, which is written and not run. `capse` is run in this process,
so that torch is imported once; `make` and `pip` are only checked, wherever they stand.
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
from collections.abc import Iterator
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    """A fenced block."""

    language: str  # the first word after the fence
    file: str  # the second, or ''
    text: str
    line: int  # of its first line in the page


@dataclass(frozen=True)
class Command:
    """A command of a console block and the output that stands below it."""

    words: list[str]
    expected: str


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page.

    >>> blocks("Save this:\\n```yaml fast.yaml\\ntraining: {epochs: 2}\\n```\\n")
    [Block(language='yaml', file='fast.yaml', text='training: {epochs: 2}\\n', line=3)]
    """
    found = []
    for match in _FENCE.finditer(text):
        language, _, file = match["info"].strip().partition(" ")
        found.append(Block(language, file.strip(), match["text"], text.count("\n", 0, match.start()) + 2))
    return found


def commands(block: Block) -> list[Command]:
    """The commands of a console or sh block; in an sh block every line is one, and comments are left out.

    >>> [command.words for command in commands(Block("console", "", "$ capse data \\\\\\n    info countries\\n", 1))]
    [['capse', 'data', 'info', 'countries']]
    """
    found: list[Command] = []
    prompt = "$ " if block.language == "console" else ""
    for line in block.text.replace("\\\n", " ").splitlines():
        if prompt and not line.startswith(prompt):
            if not found:
                raise ValueError(f"line {block.line}: a console block begins with '$ ', a prompt")
            found[-1] = Command(found[-1].words, found[-1].expected + line + "\n")
        elif words := shlex.split(line.removeprefix(prompt), comments=True):
            found.append(Command(words, ""))
    return found


def run_page(page: Path, folder: Path) -> int:
    """Run every example of a page in ``folder``; returns how many there were. A wrong one is an AssertionError."""
    namespace: dict[str, Any] = {"__name__": page.stem}
    count = 0
    with chdir(folder), one_thread():
        for block in blocks(page.read_text(encoding="utf-8")):
            where = f"{page.name}, line {block.line}"
            if block.file:
                Path(block.file).parent.mkdir(parents=True, exist_ok=True)
                Path(block.file).write_text(block.text, encoding="utf-8")
            elif block.language == "python":
                run_python(block.text, namespace, where)
                count += 1
            elif block.language in ("console", "sh"):
                for command in commands(block):
                    checked_only = block.language == "sh" or command.words[0] in ("make", "pip")
                    check_command(command.words) if checked_only else run_command(command, where)
                    count += 1
    return count


def run_python(text: str, namespace: dict[str, Any], where: str) -> None:
    """Run a block of Python, as a doctest if it is one."""
    output = io.StringIO()
    with redirect_stdout(output):
        if ">>> " not in text:
            exec(compile(text, where, "exec"), namespace)
            return
        test = doctest.DocTestParser().get_doctest(text, namespace, where, where, 0)
        failed = doctest.DocTestRunner(optionflags=_FLAGS).run(test, clear_globs=False).failed
    namespace.update(test.globs)
    assert not failed, output.getvalue()


def run_command(command: Command, where: str) -> None:
    """Run a command. It must succeed, or end with status 2 if the page shows an error, and print what the page says."""
    if command.words[0] == "capse":
        status, output = run_capse(command.words[1:])
    else:
        done = subprocess.run(
            command.words, check=False, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60
        )
        status, output = done.returncode, done.stdout
    line = shlex.join(command.words)
    wanted = 2 if re.search(r"^error: ", command.expected, re.MULTILINE) else 0
    assert status == wanted, f"{where}: status {status} from {line}\n{output}"
    if command.expected:
        same = doctest.OutputChecker().check_output(command.expected, output, _FLAGS)
        assert same, f"{where}: {line}\nprints\n{output}\nbut the page says\n{command.expected}"


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
    else:
        assert program in ("cd", "export", "git", "tensorboard", "python"), f"cannot check {shlex.join(words)}"


def _parse(arguments: list[str]) -> None:
    """Parse a capse command line without running it, and fill the settings that it names."""
    import typer

    from capse.cli import app
    from capse.experiments.recipe import load_recipe, shipped_recipes

    command: Any = typer.main.get_command(app)
    name = "capse"
    while hasattr(command, "get_command"):
        name, *arguments = arguments
        command = command.get_command(None, name)
        assert command is not None, f"no command {name}"
    given = command.make_context(name, arguments).params
    if given.get("settings"):
        recipe = given["recipe"] if given["recipe"] in shipped_recipes() else None
        load_recipe(recipe, model=given["model"], overrides=given["settings"])


@contextmanager
def one_thread() -> Iterator[None]:
    """Examples are small: threads would spend their time waiting for each other."""
    import numba
    import torch

    before = torch.get_num_threads(), numba.get_num_threads()
    torch.set_num_threads(1)
    numba.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        numba.set_num_threads(before[1])


if __name__ == "__main__":
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as scratch:
            print(f"{name}: {run_page(Path(name).resolve(), Path(scratch))} examples")
