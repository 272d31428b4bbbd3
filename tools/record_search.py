"""Train and evaluate search methods on a log and record them under results/search/.

    python tools/record_search.py gitsearch capse convkb transe              five seeds, both histories
    python tools/record_search.py gitsearch capse --seeds 1 --recipe capse-paper
    python tools/record_search.py gitsearch --curves 50,100,200,400,500      CapsE's validation MRR for each N
    python tools/record_search.py gitsearch --picture                        one user's results before and after

The log is a folder of that name below CAPSE_DATA. Seeds are 0, 1, 2, ... and all of them count; a record that is there
is left as it is, so a recording that was stopped goes on. The test set is looked at here and nowhere before.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from matplotlib import rc_context

from capse.experiments.search.choice import Choice
from capse.experiments.search.fit import fit_search
from capse.experiments.search.recipe import load_search_recipe
from capse.experiments.search.records import curve_path, record_path, write_curve, write_record
from capse.reports.reranking import before_and_after
from capse.runs.atomic import atomic_path, write_json
from capse.runs.folder import RunFolder
from capse.runs.records import provenance
from capse.search.baselines import CI, SE
from capse.search.evaluation import evaluate
from capse.search.history import HistoryKind, Replay, cutoffs
from capse.search.ingest import open_log
from capse.search.log import SearchLog
from capse.search.neural import NeuralRanker
from capse.search.reranker import Reranker
from capse.search.run import METHODS
from capse.search.vectors import VectorSpace, build_vectors

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"
EXAMPLE = "search/{log}/example.json"  # one user's list before and after
HISTORIES: tuple[HistoryKind, ...] = ("prequential", "frozen")
CURVE = ["vectors.dimensions=50", "training.epochs=10", "validation.patience=0"]  # what two cores have time for


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("log")
    parser.add_argument("methods", nargs="*")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--recipe")
    parser.add_argument("--curves", default="")
    parser.add_argument("--picture", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    log = open_log(Path(os.environ["CAPSE_DATA"], arguments.log))
    for method in arguments.methods:
        record(log, method, range(arguments.seeds), arguments.recipe)
    if arguments.curves:
        curves(log, [int(count) for count in arguments.curves.split(",")])
    if arguments.picture:
        picture(log)


def record(log: SearchLog, method: str, seeds: Sequence[int], recipe: str | None) -> None:
    """Train with each seed and evaluate on the test set, compared with the engine's order and CI."""
    settings = "paper" if recipe and recipe.endswith("-paper") else "own"
    choice = Choice(method, recipe=recipe)
    space = build_vectors(log, choice.resolved.vectors) if method in METHODS else None
    others = {
        history: [evaluate(one, log, history=history, beside=False) for one in (SE(), CI())] for history in HISTORIES
    }
    for seed in seeds:
        missing = [
            history
            for history in HISTORIES
            if not (RESULTS / record_path(log.name, method, settings, history, seed)).exists()
        ]
        if not missing:
            continue
        ranker, resolved, training = _trained(log, choice, space, seed)
        for history in missing:
            found = evaluate(ranker, log, history=history, method=method, against=others[history])
            write_record(
                RESULTS,
                found,
                settings=settings,
                seed=seed,
                recipe=(recipe or method) if resolved else None,
                resolved=resolved,
                training=training,
            )
            p_values = {name: compared.p_value for name, compared in found.comparisons.items()}
            print(method, history, seed, round(found.mrr, 4), {k: f"{p:.2g}" for k, p in p_values.items()}, flush=True)


def _trained(log: SearchLog, choice: Choice, space: VectorSpace | None, seed: int):
    if space is None:
        return replace(choice, seed=seed).ranker(log), None, None
    recipe = replace(choice.resolved, training=replace(choice.resolved.training, seed=seed))
    with tempfile.TemporaryDirectory() as folder:
        run = fit_search(log, recipe, out=Path(folder, "run"), space=space)
        lines = RunFolder(Path(folder, "run")).read_metrics()
    best = max(lines, key=lambda line: line["validation"]["mrr"], default=None)
    training = {"epochs": len(lines), "best": best, "seconds": lines[-1]["seconds"] if lines else 0.0}
    return NeuralRanker(run), recipe.to_mapping(), training


def curves(log: SearchLog, counts: Sequence[int]) -> None:
    """The validation MRR of CapsE after each epoch, for each number of filters; one seed."""
    space = build_vectors(log, load_search_recipe(method="capse", overrides=CURVE).vectors)
    for count in counts:
        if (RESULTS / curve_path(log.name, "capse", "own", count, 0)).exists():
            continue
        recipe = load_search_recipe(method="capse", overrides=[*CURVE, f"model.filters={count}"])
        with tempfile.TemporaryDirectory() as folder:
            fit_search(log, recipe, out=Path(folder, "run"), space=space)
            lines = RunFolder(Path(folder, "run")).read_metrics()
        write_curve(
            RESULTS, log.name, "capse", count, lines, settings="own", recipe="capse", resolved=recipe.to_mapping()
        )
        print(count, [round(line["validation"]["mrr"], 4) for line in lines], flush=True)


def picture(log: SearchLog) -> None:
    """The first test list of a user with ten earlier clicks in which the chosen document stands lower than fifth."""
    with tempfile.TemporaryDirectory() as folder:
        fit_search(log, method="capse", out=Path(folder, "run"))
        reranker = Reranker.load(Path(folder, "run"))
    states = {user: reranker.new_user() for user in log.users}
    test = set(log.judged("test").tolist())
    for event in Replay(log, cutoffs(log)):
        impression = int(log.impression[event.number]) if event.kind == "click" else event.number
        user, session = log.users[log.user[impression]], log.sessions[log.session[impression]]
        if event.kind == "click":
            document = log.documents.ids[log.document[event.number]]
            reranker.learn(states[user], document, session, int(log.clicked_at[event.number]))
            continue
        rows = log.rows(np.array([impression]))
        chosen = log.position[rows[log.satisfied[rows]]]
        if impression in test and len(states[user].recent) >= 10 and chosen.min() > 5:
            break
    shown = [log.documents.ids[number] for number in log.document[rows]]
    query, at = log.queries[log.query[impression]], int(log.time[impression])
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
    past = [title[document.id] or document.id for document in states[user].recent[-3:]]
    example = {"log": log.name, "query": query, "documents": documents, "past": past}
    write_json(RESULTS / EXAMPLE.format(log=log.name), example | provenance())
    draw(log.name)


def draw(name: str) -> None:
    """The picture in docs/, from the recorded example."""
    example = json.loads((RESULTS / EXAMPLE.format(log=name)).read_text(encoding="utf-8"))
    figure = before_and_after(f"“{example['query']}”", example["documents"], example["past"])
    with rc_context({"svg.hashsalt": "capse"}), atomic_path(ROOT / "docs" / "images" / "reranked.svg") as path:
        figure.savefig(path, format="svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
