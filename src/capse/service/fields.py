"""Types of fields that requests and the store share."""

from __future__ import annotations

import time
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, WithJsonSchema

from capse.errors import DataError
from capse.search.times import DAY, EARLIEST, SECOND, parse_time
from capse.service.limits import MAX_DOCUMENT, MAX_FIELDS, MAX_ID, MAX_QUERY, MAX_SECONDS, MAX_TEXT, MAX_VALUES


def storable(value: str) -> bool:
    """Whether databases take a text: none takes half of a surrogate pair, and PostgreSQL no zero."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return "\0" not in value


def _storable(value: str) -> str:
    if not storable(value):
        raise ValueError("text with a zero in it cannot be stored: remove it")
    return value


def _microseconds(value: object) -> int:
    try:
        return parse_time(value)
    except DataError as error:
        raise ValueError(str(error)) from error


def _believable(moment: int) -> int:
    """A time that a clock may show: as `capse search ingest` believes them by default."""
    if moment < EARLIEST:
        raise ValueError("time before 1990: see that the clock is right, and the unit")
    if moment > time.time_ns() // 1_000 + DAY:
        raise ValueError("time in the future: see that the clock is right, and the unit")
    return moment


def _addressable(value: str) -> str:
    if value in (".", ".."):
        raise ValueError(f"no address can name a user {value!r}: choose another id")
    return value


Id = Annotated[str, Field(min_length=1, max_length=MAX_ID), AfterValidator(_storable)]
UserId = Annotated[Id, AfterValidator(_addressable)]
Session = Annotated[str, Field(max_length=MAX_ID), AfterValidator(_storable)]  # may be empty: the client has none
Query = Annotated[str, Field(max_length=MAX_QUERY), AfterValidator(_storable)]
Title = Annotated[str, Field(max_length=MAX_TEXT), AfterValidator(_storable)]
DocumentText = Annotated[str, Field(max_length=MAX_DOCUMENT), AfterValidator(_storable)]
_Text = Annotated[str, Field(max_length=MAX_ID), AfterValidator(_storable)]
_Whole = Annotated[int, Field(strict=True, ge=-(2**53), le=2**53)]
_Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
FieldValue = bool | _Whole | _Number | _Text | Annotated[list[_Whole | _Text], Field(max_length=MAX_VALUES)] | None
Fields = Annotated[dict[Id, FieldValue], Field(max_length=MAX_FIELDS)]
Dwell = Annotated[float, Field(strict=True, ge=0, le=MAX_SECONDS, allow_inf_nan=False)]
Microseconds = Annotated[int, Field(strict=True), AfterValidator(_believable)]  # since 1970: as times are stored
Time = Annotated[  # seconds since 1970 or ISO 8601 text, read as microseconds
    int,
    BeforeValidator(_microseconds),
    AfterValidator(_believable),
    WithJsonSchema(
        {"anyOf": [{"type": "number", "minimum": EARLIEST // SECOND}, {"type": "string", "format": "date-time"}]}
    ),
]


def one_or_many(many: str) -> Discriminator:
    """Tells a body that has many questions under this key (Tag "many") from one that is a question (Tag "one")."""

    def tag(body: object) -> str:
        keys = body if isinstance(body, dict) else getattr(body, "__dict__", {})  # as it was sent, or a model
        return "many" if many in keys else "one"

    return Discriminator(tag)
