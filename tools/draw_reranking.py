"""Draw docs/images/reranked.svg: one user's results before and after, from results/search/gitsearch/example.json.

python tools/draw_reranking.py              draw the recorded example
python tools/draw_reranking.py --record     train CapsE on gitsearch, below CAPSE_DATA, and record it anew first
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.figure import Figure

from capse.experiments.search.fit import fit_search
from capse.reports.figures import COLOURS, INK, STYLE
from capse.runs.atomic import atomic_path, write_json
from capse.runs.records import provenance
from capse.search.ingest import open_log
from capse.search.logs.history import Replay, cutoffs
from capse.search.logs.search_log import SearchLog
from capse.search.serving.reranker import Reranker
from capse.search.times import to_seconds

ROOT = Path(__file__).parents[1]
EXAMPLE = ROOT / "results" / "search" / "gitsearch" / "example.json"
_LONGEST = 44  # letters of a document's name that are shown


def main(arguments: list[str]) -> None:
    if "--record" in arguments:
        torch.set_num_threads(1)
        record_example(open_log(Path(os.environ["CAPSE_DATA"], "gitsearch")))
    draw()


def record_example(log: SearchLog) -> None:
    """The first test list of a user with ten earlier clicks in which the chosen document stands lower than fifth."""
    with tempfile.TemporaryDirectory() as folder:
        fit_search(log, "capse", out=Path(folder, "run"))
        reranker = Reranker.load(Path(folder, "run"))
    states = {user: reranker.new_user() for user in log.users}
    test = set(log.judged("test").tolist())
    for event in Replay(log, cutoffs(log)):
        impression = int(log.impression[event.number]) if event.kind == "click" else event.number
        user, session = log.users[log.user[impression]], log.sessions[log.session[impression]]
        if event.kind == "click":
            document = log.documents.ids[log.document[event.number]]
            reranker.learn(states[user], document, session, to_seconds(int(log.clicked_at[event.number])))
            continue
        rows = log.rows(np.array([impression]))
        chosen = log.position[rows[log.satisfied[rows]]]
        if impression in test and len(states[user].clicks) >= 10 and chosen.min() > 5:
            break
    shown = [log.documents.ids[number] for number in log.document[rows]]
    query, at = log.queries[log.query[impression]], to_seconds(int(log.time[impression]))
    ranked = reranker.rerank(query, shown, user=user, state=states[user], session=session, time=at)
    title = dict(zip(log.documents.ids, log.documents.titles, strict=True))
    documents = [
        {
            "document": title[one.document] or one.document,
            "position": one.position,
            "rank": one.rank,
            "chosen": bool(one.position in chosen),
        }
        for one in ranked
    ]
    past = [title[click.document] or click.document for click in states[user].clicks[-3:]]
    example = {"log": log.name, "query": query, "documents": documents, "past": past}
    write_json(EXAMPLE, example | provenance())


def draw() -> None:
    """The picture in docs/, from the recorded example."""
    example = json.loads(EXAMPLE.read_text(encoding="utf-8"))
    figure = before_and_after(f"“{example['query']}”", example["documents"], example["past"])
    with rc_context({"svg.hashsalt": "capse"}), atomic_path(ROOT / "docs" / "images" / "reranked.svg") as path:
        figure.savefig(path, format="svg", metadata={"Date": None})


@rc_context(STYLE)
def before_and_after(title: str, documents: Sequence[Mapping[str, Any]], past: Sequence[str] = ()) -> Figure:
    """The engine's list on the left, the user's on the right; what the user then chose is drawn in colour.

    ``documents`` have ``document``, ``position`` and ``rank`` (both from 1) and ``chosen``; ``past`` are the user's
    last documents, the latest last.
    """
    count = len(documents)
    figure = Figure(figsize=(9.6, 1.1 + 0.3 * count + 0.22 * bool(past)))
    axes = figure.subplots()
    for row in documents:
        colour, width = (COLOURS[4], 2.2) if row["chosen"] else ("#8c959f", 1.0)
        weight = "bold" if row["chosen"] else "normal"
        axes.plot([0, 1], [row["position"], row["rank"]], color=colour, linewidth=width, marker="o", markersize=4)
        name = shorten(str(row["document"]), _LONGEST, placeholder="…") if " " in str(row["document"]) else _cut(row)
        for place, x, side in ((row["position"], -0.04, "right"), (row["rank"], 1.04, "left")):
            text = f"{name}  {place}" if side == "right" else f"{place}  {name}"
            axes.text(x, place, text, ha=side, va="center", fontsize=8.5, weight=weight, color=INK)
    axes.set_xlim(-1.9, 2.9)
    axes.set_ylim(count + 0.7, -0.1)
    axes.text(-0.04, 0.25, "the engine's order", ha="right", va="center", color=INK)
    axes.text(1.04, 0.25, "for this user", ha="left", va="center", color=INK)
    axes.set_title(title, loc="left")
    axes.set_axis_off()
    if past:
        figure.supxlabel(
            shorten("read before: " + ", ".join(past), 150, placeholder=" …"), fontsize=8.5, x=0.01, ha="left"
        )
    return figure


def _cut(row: Mapping[str, Any]) -> str:
    """The end of a path says more than its beginning."""
    name = str(row["document"])
    return name if len(name) <= _LONGEST else "…" + name[1 - _LONGEST :]


if __name__ == "__main__":
    main(sys.argv[1:])
