"""The format of recipes and runs, and how an older one is read.

format 1   up to capse 0.1: no number
format 2   the number; `scaled-capse` is a model of its own, which was ``variant: scaled`` of `capse`
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import capse
from capse.errors import RunError

FORMAT = 2

Sections = dict[str, Any]


def upgraded(values: Mapping[str, Any], source: str) -> Sections:
    """The sections of a recipe, a grid or a run in today's terms, without their format's number."""
    number = values.get("format", 1)
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise RunError(f"format is {number!r} in {source}", f"write 'format: {FORMAT}', or leave it out")
    if number > FORMAT:
        raise RunError(
            f"{source} has format {number}, and capse {capse.__version__} reads up to format {FORMAT}",
            f"install a capse newer than {capse.__version__}",
        )
    sections = {key: value for key, value in values.items() if key != "format"}
    for step in _STEPS[number - 1 :]:
        sections = step(sections)
    return sections


def as_named_today(model: Mapping[str, Any]) -> dict[str, Any]:
    """A ``model`` section whose model may have another name today: CapsE's scaled form was a variant of it.

    >>> as_named_today({"name": "capse", "variant": "scaled", "readout": "length", "dim": 50})
    {'name': 'scaled-capse', 'dim': 50}
    """
    if model.get("name") != "capse":
        return dict(model)
    if model.get("variant") != "scaled":
        return _without(model, {"distance_dims": 0, "distance_weight": 0.5})
    _say_once("model.variant=scaled is deprecated: write model.name=scaled-capse and leave the variant out")
    return {**_without(model, {"variant": "scaled", "readout": "length"}), "name": "scaled-capse"}


def _without(model: Mapping[str, Any], meaningless: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in model.items() if key not in meaningless or value != meaningless[key]}


@cache
def _say_once(message: str) -> None:
    logging.getLogger("capse").warning(message)


def _to_2(sections: Sections) -> Sections:
    model = sections.get("model")
    return {**sections, "model": as_named_today(model)} if isinstance(model, Mapping) else sections


_STEPS: list[Callable[[Sections], Sections]] = [_to_2]  # the first leads from format 1 to 2
