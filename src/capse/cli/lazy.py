"""Commands that are imported only when they are asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import typer
from typer.core import TyperGroup


def lazy_group(commands: Mapping[str, typer.Typer]) -> type[TyperGroup]:
    """A group of these commands; the line beside each in the list of them is its app's ``short_help`` or ``help``."""

    class Group(TyperGroup):
        def list_commands(self, ctx: Any) -> list[str]:
            return list(commands)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if cmd_name not in commands:
                return None
            app = commands[cmd_name]
            command = typer.main.get_command(app)
            command.name = cmd_name
            command.short_help = app.info.short_help or app.info.help or command.short_help
            return command

    return Group
