"""How long a history of Metarank's events takes to become a log: of the size that Metarank's own page has figures of.

    python -m benchmarks metarank

https://docs.metarank.ai describes its smallest data set as 128 thousand users and 100 thousand items, two rankings for
each user and two clicks on each, 896 thousand events with some of the items, and says that importing it took 8 minutes.
The events here are made up in the same proportions, ten items in a ranking and seven fields of an item; RankLens itself
is not at hand, nor Metarank's machine.
"""

from __future__ import annotations

import json
import random
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.import_speed import measure

USERS, ITEMS, RANKINGS, CLICKS, SHOWN = 128_000, 100_000, 2, 2, 10
EPOCH = 1_704_067_200_000  # milliseconds
NUMBERS = ("popularity", "vote_avg", "vote_cnt", "budget", "runtime")
SCHEMA = {"item": dict.fromkeys(NUMBERS, "number") | {"genres": "list"}, "windows": [7, 30]}


def run() -> dict[str, Any]:
    code = "import sys; from benchmarks.metarank_import import {0}; {0}(*sys.argv[1:])"
    with tempfile.TemporaryDirectory() as scratch:
        raw, out = Path(scratch, "events.jsonl"), Path(scratch, "log")
        events = make(raw)
        found = measure(code.format("ingest_log"), raw, out)
        counts = json.loads((out / "log.json").read_text())["counts"]
        assert counts["impressions"] == USERS * RANKINGS
        return {
            "users": USERS,
            "events": events,
            "file_mib": round(raw.stat().st_size / 2**20, 1),
            "clicks": counts["clicks"]["kept"],
            "fields": counts["fields"]["kept"],
            "ingest": found,
            "events_per_second": round(events / found["seconds"]),
        }


def make(path: Path) -> int:
    """Write the events in the order of their times; returns how many."""
    draw = random.Random(0)
    words = [f"word{number}" for number in range(2_000)]
    events = 0
    with path.open("w") as file:
        for item in range(ITEMS):
            fields: list[dict[str, Any]] = [{"name": name, "value": round(draw.random(), 3)} for name in NUMBERS]
            fields.append({"name": "title", "value": " ".join(draw.sample(words, 3))})
            fields.append({"name": "genres", "value": draw.sample(words[:15], 2)})
            event = {"event": "item", "id": f"i{item}", "timestamp": str(EPOCH), "item": f"m{item}", "fields": fields}
            file.write(json.dumps(event) + "\n")
            events += 1
        for number in range(USERS * RANKINGS):
            shown = [f"m{draw.randrange(ITEMS)}" for _ in range(SHOWN)]
            shown = list(dict.fromkeys(shown))
            who = {"user": f"u{number // RANKINGS}", "session": f"s{number // RANKINGS}"}
            at = EPOCH + 1_000 * number
            about = {"event": "ranking", "id": f"r{number}", "timestamp": str(at), **who}
            file.write(json.dumps(about | {"items": [{"id": one} for one in shown]}) + "\n")
            for place, one in enumerate(draw.sample(shown, CLICKS)):
                click = {"event": "interaction", "id": f"c{number}.{place}", "ranking": f"r{number}", **who}
                file.write(json.dumps(click | {"timestamp": str(at + 500), "type": "click", "item": one}) + "\n")
            events += 1 + CLICKS
    return events


def ingest_log(source: str, out: str) -> None:
    from capse.search.ingest import ingest
    from capse.search.logs.field_schema import FieldSchema

    ingest(source, out, fields=FieldSchema.of(SCHEMA))
