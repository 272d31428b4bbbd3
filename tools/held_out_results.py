"""What docs/results.md says of graphs that no setting was chosen on, from the files under results/held-out alone."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean, stdev
from typing import Any

RECORDS = Path(__file__).parents[1] / "results" / "held-out"
GRAPHS = {"kinship": "Kinship", "umls": "UMLS", "nations": "Nations"}
METHODS = {
    "default": "`capse train --data`, nothing named",
    "tune": "`capse tune --data --minutes 15`",
    "by-hand": "ComplEx, best of eight by hand",
    "pykeen": "PyKEEN's pipeline, ComplEx, its defaults",
    "pykeen-100": "the same with 100 epochs",
}
PUBLISHED = {"kinship": ".83", "umls": ".94", "nations": ".82"}  # ConvE's test MRR in print


def render() -> list[str]:
    """Test MRR of every method on every graph."""
    found = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RECORDS.glob("*.json"))]
    rows = [[words, *(_cell(found, method, graph) for graph in GRAPHS)] for method, words in METHODS.items()]
    rows.append(["ConvE, published", *PUBLISHED.values()])
    origin, commits = found[0], dict.fromkeys(str(one["commit"]) for one in found)
    return [
        "## Graphs that no setting was chosen on",
        "",
        "Kinship, UMLS and Nations with the splits that come with PyKEEN, opened when the default recipe was frozen:",
        "test MRR, both sides, filtered, realistic ranks, mean ± standard deviation over three seeds. Epochs, and what",
        "is tuned, are chosen on the validation sets. PyKEEN's defaults train for 5 epochs, which is why a line with",
        "100 stands beside them.",
        "",
        _line(["", *GRAPHS.values()]),
        _line(["---", *("---:" for _ in GRAPHS)]),
        *map(_line, rows),
        "",
        f"`python -m benchmarks.held_out_graphs`, commits `{'`, `'.join(commits)}`, one thread of two busy cores of an",
        f"{origin['machine']['processor']}; each run's record is under [results/held-out](../results/held-out).",
        "",
    ]


def _cell(found: list[dict[str, Any]], method: str, graph: str) -> str:
    values = [one["test"]["mrr"] for one in found if (one["method"], one["graph"]) == (method, graph)]
    if not values:
        return ""
    spread = f" ± {stdev(values):.3f}" if len(values) > 1 else ""
    return f"{mean(values):.3f}{spread}" + ("" if len(values) == 3 else f" ({len(values)} of 3 seeds)")


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"
