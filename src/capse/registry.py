"""Things that have a name: ours, and those that other packages register through Python entry points.

A package adds, say, a model by naming it in its own ``pyproject.toml``::

    [project.entry-points."capse.models"]
    rotate = "capse_rotate:RotatE"

From then on ``capse train --model rotate`` works, as for a model of ours. Nothing is imported before it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from capse.errors import CapseError, ExtensionError, UnknownNameError

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """A mapping from names to things of one ``kind``: ``builtin`` ones first, then those of the entry point ``group``.

    ``builtin`` says where ours are, as ``module:attribute``.

    >>> shapes = Registry[type]("shape", "capse.examples", {"fraction": "fractions:Fraction"})
    >>> shapes["fraction"](1, 2)
    Fraction(1, 2)
    >>> shapes["fractoin"]
    Traceback (most recent call last):
    capse.errors.UnknownNameError: unknown shape 'fractoin': did you mean 'fraction'?
    """

    def __init__(self, kind: str, group: str, builtin: Mapping[str, str]) -> None:
        self.kind = kind
        self.group = group
        self.builtin = {name: EntryPoint(name, place, group) for name, place in builtin.items()}
        self._loaded: dict[str, T] = {}

    @cached_property
    def outside(self) -> dict[str, EntryPoint]:
        """What other packages registered; a name can be taken once."""
        found: dict[str, EntryPoint] = {}
        for entry in sorted(entry_points(group=self.group), key=lambda entry: (entry.name, entry.value)):
            taken = self.builtin.get(entry.name) or found.get(entry.name)
            if taken is not None and taken.value != entry.value:
                raise ExtensionError(
                    f"the {self.kind} {entry.name!r} is registered twice: {taken.value} and {entry.value}",
                    "uninstall one of the two packages, or rename its entry point",
                )
            found[entry.name] = entry
        return found

    def __getitem__(self, name: str) -> T:
        if name not in self._loaded:
            entry = self.builtin.get(name) or self.outside.get(name)
            if entry is None:
                raise UnknownNameError(self.kind, name, self, remedy="choose one of " + ", ".join(self))
            self._loaded[name] = self._load(entry)
        return self._loaded[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else default  # noqa: SIM401  `Mapping.get` waits for a KeyError

    def __contains__(self, name: object) -> bool:
        return name in self.builtin or name in self.outside

    def __iter__(self) -> Iterator[str]:
        return iter(self.builtin | self.outside)

    def __len__(self) -> int:
        return len(self.builtin | self.outside)

    def _load(self, entry: EntryPoint) -> T:
        try:
            thing: T = entry.load()
        except CapseError:
            raise
        except Exception as error:
            if entry.name in self.builtin:
                raise
            raise ExtensionError(
                f"the {self.kind} {entry.name!r} of {entry.value} cannot be loaded ({type(error).__name__}: {error})",
                "repair or uninstall the package that registers it",
            ) from error
        return thing
