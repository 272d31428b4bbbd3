"""The list of commands: ours and those of other packages, quick to show."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

import pytest
import typer
from typer.testing import CliRunner

from capse.cli import COMMANDS
from capse.cli.lazy import lazy_group
from capse.registry import Registry

InstallPackage = Callable[[str, str, str], None]
GREETING = '''
import typer

app = typer.Typer(short_help="Say hello.", add_completion=False)

@app.command()
def greet(name: str) -> None:
    """Greet somebody by name."""
    typer.echo(f"hello {name}")
'''


def test_a_command_of_another_package_is_listed_with_its_line_and_runs(install_package: InstallPackage) -> None:
    install_package("capse.commands", "greet = registered_greeting:app", GREETING)
    commands: Registry[typer.Typer] = Registry("command", "capse.commands", {"data": "capse.cli.data:app"})
    app = typer.Typer(cls=lazy_group(commands), rich_markup_mode=None)
    app.callback()(lambda: None)
    listed = CliRunner().invoke(app, ["--help"]).output
    assert "List, inspect, fetch and import graphs." in listed
    assert "Say hello." in listed
    assert CliRunner().invoke(app, ["greet", "Ada"]).output == "hello Ada\n"


def test_every_command_has_a_line() -> None:
    for name, app in COMMANDS.items():
        line = app.info.short_help or app.info.help
        assert str(line).endswith("."), name


def test_help_imports_neither_torch_nor_the_models() -> None:
    code = "import sys; from capse.cli import app; app(['--help'], standalone_mode=False); print(sorted(sys.modules))"
    text = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    listed, modules = text.rsplit("\n", 2)[:2]
    assert "reproduce" in listed
    assert "'typer'" in modules
    for heavy in ("torch", "numpy", "matplotlib", "capse.models"):
        assert f"'{heavy}'" not in modules


@pytest.mark.parametrize("package", ["capse", "capse_paper"])
def test_recipes_are_listed_with_the_package_they_come_with(run_command, package: str) -> None:
    status, printed, _ = run_command("recipes", "--json")
    assert status == 0
    rows = [row for row in json.loads(printed) if row["package"] == package]
    assert {row["kind"] for row in rows} >= {"recipe", "search recipe"}
    assert all(row["about"] for row in rows)
    status, printed, _ = run_command("recipes")
    assert all(row["name"] in printed for row in rows)
