"""Refine a finished run, and evaluate it as M3GM's released program does, beside the standard protocol.

    python -m capse_paper.jobs.refining RUN --out REFINED

does all that a row needs with a run from anywhere: refines it, evaluates both on the test set, and records the paired
test between them and the figures of the released protocol in the new run's folder.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from capse.cli.display import RefiningProgress, show_metrics
from capse.cli.output import echo
from capse.evaluation.breakdowns import summarize_sides
from capse.evaluation.metrics import contributions
from capse.experiments.engine import Listener
from capse.experiments.refine import refine
from capse.experiments.refine_recipe import RefineRecipe
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.graph.link_prediction.ranking import rank_split
from capse.runs.atomic import write_json
from capse.triples import HEAD, RELATION, TAIL, TripleIndex
from capse_paper.recorded.comparisons import COMPARISON, write_comparison
from capse_paper.recorded.runs import EVALUATION, RELEASED


def make_refined(
    base: Path,
    recipe: RefineRecipe | str,
    out: Path,
    listener: Listener | None = None,
    changes: Sequence[str] = (),
) -> LinkPredictor:
    """Refine a run, going on with what was begun; leaves the figures of the released protocol in the new run."""
    predictor = refine(base, recipe, out=out, resume=True, listener=listener, overrides=changes)
    write_json(out / RELEASED, evaluate_as_released(predictor))
    return predictor


def evaluate_as_released(predictor: LinkPredictor) -> dict[str, Any]:
    """The test set with the candidates of M3GM's released evaluation.

    A question's own entity s is no candidate, and no wrong t is with (t, r, s) in the training or validation set. The
    published figures count ties for the truth: they are the optimistic ones. Where no rule answers for symmetric
    relations the released program also drops the questions whose true answer is such a t; ``without_dropped`` are the
    figures of those that are left.
    """
    graph = predictor.graph
    sizes = len(graph.entities), len(graph.relations)
    reverse = np.concatenate([graph.train, graph.valid])[:, [TAIL, RELATION, HEAD]]
    ends = np.unique(graph.test[:, [HEAD, TAIL]])
    loops = [np.column_stack([ends, np.full(len(ends), r), ends]) for r in range(sizes[1])]
    index = TripleIndex(np.concatenate([graph.split("all"), reverse, *loops]), *sizes)
    heads, tails = (contributions(ranks) for ranks in rank_split(predictor.model, graph.test, index))
    sides = {"both": (heads + tails) / 2, "head": heads, "tail": tails}
    kept = ~TripleIndex(reverse, *sizes).contains(*graph.test.T)
    return {
        "triples": len(kept),
        "dropped": int((~kept).sum()),
        "metrics": summarize_sides(sides),
        "without_dropped": summarize_sides({side: values[kept] for side, values in sides.items()}),
    }


def main(arguments: Sequence[str] | None = None) -> None:
    """What the first lines of this file say."""
    parser = argparse.ArgumentParser(description="Refine a finished run and record what a row of Table 2 needs.")
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--recipe", default="m3gm-own")
    parser.add_argument("--set", action="append", default=[], dest="changes", metavar="SECTION.KEY=VALUE")
    chosen = parser.parse_args(arguments)
    with RefiningProgress() as progress:
        refined = make_refined(chosen.run, chosen.recipe, chosen.out, progress, chosen.changes)
    result = refined.evaluate("test")
    before = LinkPredictor.load(chosen.run).evaluate("test", breakdowns=False)
    write_comparison(chosen.out, result, chosen.run.name, before)
    write_json(chosen.out / EVALUATION, result.to_json())
    released = json.loads((chosen.out / RELEASED).read_text())
    shown = {"the run": before.metrics, "refined": result.metrics, "refined, released protocol": released["metrics"]}
    show_metrics("test set, realistic ranks", {name: figures["both"]["realistic"] for name, figures in shown.items()})
    echo((chosen.out / COMPARISON).read_text())


if __name__ == "__main__":
    main()
