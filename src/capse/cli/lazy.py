"""Commands in files of their own, each imported only when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup


def lazy_group(package: str, commands: Mapping[str, str]) -> type[TyperGroup]:
    """A group whose commands are modules of ``package``: their names, and one line of help for each."""

    class Group(TyperGroup):
        def list_commands(self, ctx: Any) -> list[str]:
            return list(commands)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if cmd_name not in commands:
                return None
            command = typer.main.get_command(import_module(f"{package}.{cmd_name}").app)
            command.name, command.short_help = cmd_name, commands[cmd_name]
            return command

    return Group
