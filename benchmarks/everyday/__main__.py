"""Measure what is named, and record it with command, commit and machine."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Any

from benchmarks import __main__ as speed
from capse.runs.atomic import write_json
from capse.runs.records import provenance

NAMES = ("rules", "classification", "fold_in", "fold_in_small", "inductive", "explanations", "exchange", "costs")


def main(arguments: list[str]) -> None:
    names = [one for one in arguments if not one.isdigit()]
    seeds = tuple(int(one) for one in arguments if one.isdigit())
    unknown = set(names) - set(NAMES)
    if unknown or not names:
        sys.exit(f"name some of {', '.join(NAMES)}, and seeds where not all are to be measured")
    for name in names:
        module: Any = import_module(f"benchmarks.everyday.{name}")
        if seeds:
            module.SEEDS = seeds
        measured = module.run()
        command = " ".join(["python -m benchmarks.everyday", name, *map(str, seeds)])
        write_json(speed.RESULTS / "everyday" / f"{name}.json", {**measured, **provenance(), "command": command})
        print(f"== {name}\n{json.dumps(measured, indent=2)}")


if __name__ == "__main__":
    main(sys.argv[1:])
