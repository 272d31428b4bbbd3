"""Measure what is named, and record it with command, commit and machine."""

from __future__ import annotations

import json
import sys
from importlib import import_module

from benchmarks import __main__ as speed
from capse.runs.atomic import write_json
from capse.runs.records import provenance

NAMES = ("rules", "classification", "fold_in", "explanations", "exchange", "costs")


def main(names: list[str]) -> None:
    unknown = set(names) - set(NAMES)
    if unknown or not names:
        sys.exit(f"name some of {', '.join(NAMES)}")
    for name in names:
        measured = import_module(f"benchmarks.everyday.{name}").run()
        origin = provenance() | {"command": f"python -m benchmarks.everyday {name}"}
        write_json(speed.RESULTS / "everyday" / f"{name}.json", {**measured, **origin})
        print(f"== {name}\n{json.dumps(measured, indent=2)}")


if __name__ == "__main__":
    main(sys.argv[1:])
