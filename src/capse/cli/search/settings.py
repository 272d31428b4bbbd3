"""Settings that the search commands take with ``--set section.key=value``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from capse.runs.settings import check_key, fill, override

T = TypeVar("T")


def settings_of(cls: type[T], section: str, options: Sequence[str] | None) -> T:
    """The settings of one section, the defaults changed by the ``section.key=value`` of ``options``.

    >>> from capse.search.logs.simulation import SimulationSettings
    >>> settings_of(SimulationSettings, "simulation", ["simulation.users=3"]).users
    3
    """
    sections = override({section: {}}, list(options or ()))
    for name in sections:
        check_key(name, [section])
    return fill(cls, sections[section], section)
