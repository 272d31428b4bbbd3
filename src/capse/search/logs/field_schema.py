"""Which fields of items, users, requests and results become features, and what their values are: a short YAML file.

    item:                       # of a document, in every list the same
      price: number
      brand: category           # one text
      tags: list                # several
      in_stock: boolean
      released: time            # seconds since 1970, or ISO 8601 text
    user: {country: category}   # of who asks, as told with each list
    request: {device: category}
    result: {relevance: number} # of a document in this list alone
    match: [[item.brand, user.brands]]
    windows: [7, 30]            # days over which clicks and showings are counted, beside those of all time

A field that a log or a request has and no schema names is left alone. One that is missing is missing: trees take that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, get_args

import yaml

from capse.errors import DataError, SettingsError
from capse.search.times import parse_time

FieldType = Literal["number", "category", "boolean", "time", "list"]
Scope = Literal["item", "user", "request", "result"]
Value = float | tuple[str, ...]

TYPES: tuple[FieldType, ...] = get_args(FieldType)
SCOPES: tuple[Scope, ...] = get_args(Scope)
SETS: tuple[FieldType, ...] = ("category", "list")  # whose values are texts; the others are numbers
MOST_DAYS = 400  # of a window

_FORM = "write 'item: {price: number}', with the types number, category, boolean, time and list"


@dataclass(frozen=True)
class FieldSchema:
    """The fields of each scope with their types, which of them are compared, and windows in days.

    >>> schema = FieldSchema.of({"item": {"price": "number", "brand": "category"}})
    >>> schema.read("item", {"price": 3, "brand": "acme", "colour": "red"})
    {'price': 3.0, 'brand': ('acme',)}
    """

    item: Mapping[str, FieldType] = field(default_factory=dict)
    user: Mapping[str, FieldType] = field(default_factory=dict)
    request: Mapping[str, FieldType] = field(default_factory=dict)
    result: Mapping[str, FieldType] = field(default_factory=dict)
    match: tuple[tuple[str, str], ...] = ()  # an item's field of texts, and a user's or a request's
    windows: tuple[int, ...] = ()  # days, ascending

    def __bool__(self) -> bool:
        return bool(self.windows or any(self.types(scope) for scope in SCOPES))

    def types(self, scope: Scope) -> Mapping[str, FieldType]:
        """The fields of a scope."""
        of: Mapping[str, FieldType] = getattr(self, scope)
        return of

    def names(self, scope: Scope, *types: FieldType) -> list[str]:
        """The fields of a scope that are of these types."""
        return [name for name, kind in self.types(scope).items() if kind in types]

    @property
    def most_days(self) -> int:
        """The longest window; 0 where there is none."""
        return max(self.windows, default=0)

    def __iter__(self) -> Iterator[tuple[Scope, str, FieldType]]:
        return ((scope, name, kind) for scope in SCOPES for name, kind in self.types(scope).items())

    def read(self, scope: Scope, values: Mapping[str, Any], bad: list[str] | None = None) -> dict[str, Value]:
        """What is said in fields of a scope; the names of those of another type are added to ``bad``."""
        found: dict[str, Value] = {}
        for name, kind in self.types(scope).items():
            given = values.get(name)
            if given is None:
                continue
            value = read_value(kind, given)
            if value is not None:
                found[name] = value
            elif bad is not None:
                bad.append(name)
        return found

    @classmethod
    def load(cls, path: str | Path) -> FieldSchema:
        try:
            content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            reason = " ".join(str(error).split())
            raise SettingsError(f"{path} cannot be read as a schema ({reason})", _FORM) from error
        return cls.of(content, str(path))

    @classmethod
    def of(cls, content: Any, place: str = "the schema") -> FieldSchema:
        """A schema from what its file holds."""
        if not isinstance(content, Mapping):
            raise SettingsError(f"{place} names no field", _FORM)
        for key in content:
            if key not in (*SCOPES, "match", "windows"):
                raise SettingsError(f"{place} has a part {key!r}", f"its parts are {', '.join(SCOPES)}, match, windows")
        types = {scope: _types(content.get(scope), scope, place) for scope in SCOPES}
        schema = cls(**types, match=_match(content.get("match"), types, place), windows=_windows(content, place))
        if not schema:
            raise SettingsError(f"{place} names no field", _FORM)
        return schema

    def to_mapping(self) -> dict[str, Any]:
        """What `of` reads."""
        parts: dict[str, Any] = {scope: dict(self.types(scope)) for scope in SCOPES if self.types(scope)}
        parts |= {"match": [list(pair) for pair in self.match]} if self.match else {}
        return parts | ({"windows": list(self.windows)} if self.windows else {})

    def differences(self, other: FieldSchema) -> list[str]:
        """What this schema has otherwise than another, in words."""
        mine, theirs = ({f"{s}.{name}": kind for s, name, kind in schema} for schema in (self, other))
        found = [
            f"{name} is {mine.get(name, 'not there')} instead of {theirs.get(name, 'not there')}"
            for name in sorted(mine.keys() | theirs.keys())
            if mine.get(name) != theirs.get(name)
        ]
        found += ["match"] if self.match != other.match else []
        return found + (["windows"] if self.windows != other.windows else [])


def read_value(kind: FieldType, value: Any) -> Value | None:
    """A value of a type: a number (truths are 0 and 1, times microseconds), or texts in order; None if it is none.

    >>> read_value("list", ["b", "a", "b"]), read_value("category", 7), read_value("number", "7")
    (('a', 'b'), ('7',), None)
    """
    if kind == "boolean":
        return float(value) if isinstance(value, bool) else None
    if kind == "number":
        number = isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e300
        return float(value) if number and math.isfinite(value) else None
    if kind == "time":
        try:
            return float(parse_time(value))
        except DataError:
            return None
    parts = value if kind == "list" and isinstance(value, (list, tuple)) else [value]
    if not all(isinstance(part, (str, int)) and not isinstance(part, bool) for part in parts):
        return None
    return tuple(sorted({str(part) for part in parts}))


def _types(content: Any, scope: Scope, place: str) -> dict[str, FieldType]:
    if content is None:
        return {}
    if not isinstance(content, Mapping):
        raise SettingsError(f"{place}: {scope} is no mapping of names to types", _FORM)
    allowed = TYPES if scope != "result" else ("number", "boolean")
    for name, kind in content.items():
        if not isinstance(name, str) or kind not in allowed:
            raise SettingsError(f"{place}: the type of {scope}.{name} is {kind!r}", f"choose from {', '.join(allowed)}")
    return dict(content)


def _match(content: Any, types: Mapping[Scope, Mapping[str, FieldType]], place: str) -> tuple[tuple[str, str], ...]:
    found: list[tuple[str, str]] = []
    for pair in content or ():
        if not isinstance(pair, (list, tuple)) or len(pair) != 2 or not all(isinstance(one, str) for one in pair):
            raise SettingsError(f"{place}: match has {pair!r}", "write pairs such as [item.brand, user.brands]")
        for one, scopes in zip(pair, (("item",), ("user", "request")), strict=True):
            scope, _, name = one.partition(".")
            if scope not in scopes or types[scope].get(name) not in SETS:
                raise SettingsError(
                    f"{place}: match has {one!r}, which is no category or list of {' or '.join(scopes)}",
                    "write pairs such as [item.brand, user.brands]",
                )
        found.append((pair[0], pair[1]))
    return tuple(found)


def _windows(content: Mapping[str, Any], place: str) -> tuple[int, ...]:
    days = content.get("windows") or []
    whole = isinstance(days, list) and all(type(one) is int and 1 <= one <= MOST_DAYS for one in days)
    if not whole or any(later <= earlier for earlier, later in pairwise(days)):
        raise SettingsError(
            f"{place}: windows is {days!r}", f"write days from 1 to {MOST_DAYS}, ascending, such as [7, 30]"
        )
    return tuple(days)
