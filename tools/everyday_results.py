"""docs/everyday-results.md, from the files under results/everyday alone."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean, stdev
from typing import Any

RECORDS = Path(__file__).parents[1] / "results" / "everyday"


def render() -> str:
    """Every section whose record is there."""
    sections = {"rules": _rules}
    text: list[str] = []
    for name, section in sections.items():
        record = json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8"))
        text += [*section(record), "", *_origin(name, record), ""]
    return "\n".join(text)


def _rules(record: dict[str, Any]) -> list[str]:
    rows = []
    for data, kinds in dict.fromkeys((row["data"], row["kinds"]) for row in record["rows"]):
        same = [row for row in record["rows"] if (row["data"], row["kinds"]) == (data, kinds)]
        cells = [
            _spread([row["metrics"]["realistic"][metric] for row in same]) for metric in ("mrr", "hits@1", "hits@10")
        ]
        rows.append([data, kinds, str(len(same)), _spread([row["rules"] for row in same], 0), *cells])
    given = [
        [
            data,
            *(str(found["found"][kind]) for kind in ("symmetric", "inverse", "duplicate", "composed")),
            f"{found['by_one_step'] / found['test']:.1%}",
            f"{found['by_any'] / found['test']:.1%}",
            f"{found['seconds']} s",
        ]
        for data, found in record["patterns"].items()
    ]
    return [
        "## The rule baseline",
        "",
        "Whole test sets, both sides, filtered, realistic ranks. *inverse* is counted exactly; *all* finds its paths",
        "of two on a sample, whose seed varies. Dettmers et al. print .35 for inverse rules on WN18RR, .01 on",
        "FB15k-237.",
        "",
        *table(["data", "`model.kinds`", "seeds", "rules", "MRR", "Hits@1", "Hits@10"], rows),
        "",
        "Patterns that `capse data info` finds, and the share of test triples that follow from training triples by",
        "them:",
        "",
        *table(["data", "symmetric", "inverse", "near-duplicate", "composed", "by one fact", "by any", "time"], given),
    ]


def _origin(name: str, record: dict[str, Any]) -> list[str]:
    machine = record["machine"]
    return [
        f"`{record['command']}`, commit `{record['commit']}`, {machine['processor']}, {machine['threads']} thread(s);",
        f"recorded in [results/everyday/{name}.json](../results/everyday/{name}.json).",
    ]


def _spread(values: list[float], digits: int = 3) -> str:
    middle = f"{mean(values):,.{digits}f}"
    return middle if len(values) < 2 else f"{middle} ± {stdev(values):.{digits}f}"


def table(header: list[str], rows: list[list[str]]) -> list[str]:
    lines = [" | ".join(header), " | ".join("---" for _ in header), *(" | ".join(row) for row in rows)]
    return [f"| {line} |" for line in lines]
