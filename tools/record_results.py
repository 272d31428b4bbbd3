"""Put recorded results into the pages that show them: the README, docs/results.md and docs/exact-scoring.md.

    make demo && python tools/record_results.py demo
    python tools/record_results.py

Given a demo's folder, evaluates its two runs, writes results/demo.json with where they come from and draws
docs/images/demo.svg from it. Then, or without one, renders the parts of the pages between their results markers: no
figure in those is typed by hand.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib import rc_context

from capse.reports.figures import by_relation
from capse.reports.recorded import record_runs
from capse.runs.atomic import atomic_path, write_json, write_text
from capse_paper.findings.rows import Row, table2
from capse_paper.plans.graphs import PLAN
from capse_paper.recorded.runs import Results

sys.path.insert(0, str(Path(__file__).parent))
import everyday_results
import held_out_results
import search_results

ROOT = Path(__file__).parents[1]
WIDE = 0.02  # a gap between optimistic and realistic MRR that is worth a sentence
BEGIN, END = "<!-- results -->", "<!-- /results -->"
# The README's rows: data, model, settings.
SHOWN = [
    ("wn18rr", "Capsules from ComplEx", "own"),
    ("wn18rr", "ComplEx", "own"),
    ("wn18rr", "CapsE", "own"),
    ("wn18rr", "CapsE", "released"),
    ("fb15k-237", "CapsE", "own"),
    ("fb15k-237", "CapsE", "released"),
]
METRICS = {"mr": "MR", "mrr": "MRR", "hits@1": "Hits@1", "hits@3": "Hits@3", "hits@10": "Hits@10"}


def main(arguments: list[str]) -> None:
    if arguments:
        record_demo(Path(arguments[0]))
    for name, render in PAGES.items():
        before, rest = (ROOT / name).read_text(encoding="utf-8").split(BEGIN)
        _, after = rest.split(END)
        write_text(ROOT / name, f"{before}{BEGIN}\n{render()}{END}{after}")


def record_demo(demo: Path) -> None:
    runs = record_runs([demo / "transe", demo / "capse"])
    record = {
        "runs": [
            {"model": run.name, "recipe": run.recipe, "training": run.results, "evaluation": run.evaluation.to_json()}
            for run in runs
        ]
    }
    write_json(ROOT / "results" / "demo.json", record)
    picture = by_relation({run.name: run.evaluation.to_json() for run in runs}, runs[0].relation_names)
    with rc_context({"svg.hashsalt": "capse"}), atomic_path(ROOT / "docs" / "images" / "demo.svg") as path:
        picture.savefig(path, format="svg", metadata={"Date": None})


def render_results() -> str:
    """docs/results.md, from the files under results/ alone."""
    demo = json.loads((ROOT / "results" / "demo.json").read_text(encoding="utf-8"))["runs"]
    rows = [[run["model"], *_cells(run["evaluation"]["metrics"]["both"]["realistic"])] for run in demo]
    figures = [run["evaluation"]["metrics"]["both"] for run in demo]
    ties = max(figure["optimistic"]["mrr"] - figure["pessimistic"]["mrr"] for figure in figures)
    origin = demo[-1]["training"]
    seconds = sum(run["training"]["training_seconds"] for run in demo)
    text = [
        "## The demo",
        "",
        f"What `make demo` prints: {demo[0]['evaluation']['triples']} test triples of the embedded graph, both sides,",
        f"filtered, realistic ranks, seed 0; ties are worth {ties:.3f} of MRR. CapsE starts from the TransE above it.",
        "",
        *_table(["model", *METRICS.values()], rows),
        "",
        "![Realistic MRR of TransE and CapsE for each relation of the embedded graph](images/demo.svg)",
        "",
        f"Trained in {seconds:.0f} s on {_machine(origin)}, commit `{origin['commit']}`;",
        "recorded in [results/demo.json](../results/demo.json).",
        "",
    ]
    text += _benchmarks()
    text += held_out_results.render()
    text += search_results.render()
    text += _speed()
    return "\n".join(text)


def render_rows() -> str:
    """The README's rows: what this library reaches, and what ties are worth to the released program's settings."""
    recorded = {(row["dataset"], row["model"], row["settings"]): row for row in table2(Results(ROOT / "results"), PLAN)}
    rows = []
    for key in SHOWN:
        ours, paper = recorded[key]["ours"], recorded[key]["paper"]
        figures = ours["realistic"]["mrr"], ours["optimistic"]["mrr"]
        hits = _spread(ours["realistic"]["hits@10"], 100)
        rows.append([key[0], f"{key[1]}, {key[2]}", *map(_spread, figures), hits, _printed(paper.get("mrr"), 1)])
    header = ["data", "model, settings", "MRR", "MRR, ties for the truth", "Hits@10", "the paper's MRR"]
    return "\n".join([*_table(header, rows), ""])


def _benchmarks() -> list[str]:
    """Table 2's rows that are recorded, the paper's figures beside ours."""
    rows = []
    recorded = [row for row in table2(Results(ROOT / "results"), PLAN) if row["ours"]]
    for row in recorded:
        realistic = row["ours"]["realistic"]
        link = f"[{row['model']}, {row['settings']}]({Path('../results') / row['runs'][0] / 'recipe.yaml'})"
        ties = " / ".join(_spread(row["ours"][policy]["mrr"]) for policy in ("optimistic", "pessimistic"))
        paper = [_printed(row["paper"].get(metric), scale) for metric, scale in (("mrr", 1), ("hits@10", 100))]
        cells = [_spread(realistic[metric], 1 if metric in ("mr", "mrr") else 100) for metric in METRICS]
        rows.append([row["dataset"], link, *cells, str(len(realistic["mrr"]["seeds"])), ties, " / ".join(paper)])
    header = ["data", "model, settings", *METRICS.values(), "seeds", "MRR optimistic / pessimistic"]
    return [
        "## The paper's benchmarks",
        "",
        "The paper's two benchmarks: whole test sets, both sides, filtered, realistic ranks, the epoch chosen on the",
        "validation set, mean ± standard deviation over seeds, unseen entities included. *paper* means its settings,",
        "*released* its authors' program's, *own* ours (CapsE of our own begins as DistMult and TransE [added",
        "up](decisions/022-begin-as-a-simpler-model.md)); *M3GM, released protocol* are M3GM's runs with the",
        "candidates of its authors' evaluation, which leaves out the question's own entity and what is known the other",
        "way round; the last column is what the paper printed (MRR / Hits@10).",
        "",
        *_table([*header, "the paper"], rows),
        "",
        *(_worth_of_ties(row) for row in recorded if _gap(row) > WIDE),
        "",
        "`capse reproduce all` shows every row, those that are missing too, and writes",
        "[results/report.html](../results/report.html): protocol, machines, claims, and which aims were missed. Each",
        "row links its recipe, and its record is beside it. What was filled in by hand is said in",
        "[results/README.md](../results/README.md).",
        "",
    ]


def _gap(row: Row) -> float:
    """What ties are worth to a row, in MRR."""
    return float(row["ours"]["optimistic"]["mrr"]["mean"] - row["ours"]["realistic"]["mrr"]["mean"])


def _worth_of_ties(row: Row) -> str:
    optimistic, realistic = (row["ours"][policy]["mrr"]["mean"] for policy in ("optimistic", "realistic"))
    return (
        f"* {row['model']} with {row['settings']} settings on {row['dataset']}: MRR {realistic:.3f}. Were ties counted "
        f"for the true answer, it would be {optimistic:.3f}; the paper printed {row['paper']['mrr']:.3f}."
    )


def _spread(figure: dict[str, Any], scale: float = 1) -> str:
    digits = 3 if scale == 1 and figure["mean"] < 1 else 1
    text = f"{scale * figure['mean']:,.{digits}f}"
    return text if figure["std"] is None else f"{text} ± {scale * figure['std']:.{digits}f}"


def _printed(figure: float | None, scale: float) -> str:
    return "–" if figure is None else f"{scale * figure:.{3 if scale == 1 else 1}f}"


def _speed() -> list[str]:
    """What `make bench` recorded, as ratios to a peer measured in the same run."""
    imported, training, evaluation, scoring = (
        _json(ROOT / "results" / "benchmarks" / f"{name}.json")
        for name in ("import", "training", "evaluation", "scoring")
    )
    rows = [
        [
            f"training {model}",
            f"{row['capse']['triples_per_second']:,.0f} triples/s",
            f"{row['ratio']:.1f} times PyKEEN's {row['pykeen']['model']}",
        ]
        for model, row in training["models"].items()
    ]
    rows += [
        [
            f"ranking FB15k-237's test set, {model}",
            f"{row['capse']['seconds']:.1f} s",
            f"{row['ratio']:.0f} times PyKEEN, whose {row['pykeen']['seconds']:.0f} s were timed once",
        ]
        for model, row in evaluation["models"].items()
    ]
    rows += [
        [
            f"CapsE, all entities of {data}, one question",
            f"{sizes['capse']['kernel_ms']:.1f} ms",
            f"{sizes['capse']['ratio']:.0f} times plain torch",
        ]
        for data, sizes in scoring["sizes"].items()
    ]
    on_gpu = _json(ROOT / "results" / "benchmarks" / "gpu-scoring.json")
    rows += [
        [
            f"CapsE, {data}'s whole test set",
            f"{seconds:.0f} s",
            f"{on_gpu['test_set_seconds'][f'{data} paper']:.2f} s on an H200",
        ]
        for data, seconds in scoring["test_set_seconds"].items()
    ]
    repeat = _json(ROOT / "results" / "benchmarks" / "training-repeat.json")["models"].values()
    again = ", ".join(f"{row['ratio']:.2f}" for row in repeat)
    seconds, memory = imported["import"]["seconds"], imported["import"]["peak_gib"]
    rows.append([f"importing {imported['triples']:,} triples", f"{seconds:.0f} s", f"{memory:.1f} GiB at most"])
    rows += _search_and_service()
    return [
        "## Speed",
        "",
        "Two cores, each ratio from one run of `make bench`:",
        "",
        *_table(["what", "capse", "compared"], rows),
        "",
        f"Timings vary from run to run: a second run of the training benchmark gave {again} times for its four rows;",
        f"for CapsE against plain torch on wn18rr and fb15k-237, {_earlier_ratios()}.",
        f"Measured on an {training['machine']['processor']}, commit `{training['commit']}` (training), PyKEEN 1.11;",
        "settings and all figures are under [results/benchmarks](../results/benchmarks).",
        "",
    ]


def _search_and_service() -> list[list[str]]:
    """What search and the service were measured at; these are compared with the lines drawn for them."""
    ingest, rerank, service = (
        _json(ROOT / "results" / "benchmarks" / f"{name}.json") for name in ("ingest", "rerank", "service")
    )
    served = service["rerank"]
    taken, in_process = ingest["ingest"], rerank["milliseconds"]["capse"]["rerank"]["clock"]
    return [
        [
            f"ingesting {ingest['rows']:,} results of a search log",
            f"{taken['seconds']:.0f} s",
            f"{taken['peak_gib']:.1f} GiB at most; the aim was {ingest['target']['seconds']:.0f} s",
        ],
        [
            "re-ranking ten documents with CapsE in process, k = 200, N = 400",
            f"{in_process['50']:.1f} ms median, {in_process['99']:.1f} ms p99",
            "the aim was 2 ms p99",
        ],
        *(
            [
                f"`/v1/predict` over wn18rr's entities, N = 400, {clients} at a time",
                f"{row['milliseconds']['50']:.0f} ms median, {row['milliseconds']['99']:.0f} ms p99",
                f"{row['requests_per_second']:.0f} requests/s",
            ]
            for clients, row in service["predict"]["clients"].items()
            if clients in ("1", "32")
        ),
        [
            f"`/v1/rerank` of ten documents at {served['rate']} requests/s",
            f"{served['milliseconds']['50']:.1f} ms median, {served['milliseconds']['99']:.1f} ms p99",
            f"the aim was {served['target_99th_percentile']:.0f} ms p99",
        ],
    ]


def _earlier_ratios() -> str:
    """What other runs of the scoring benchmark gave for CapsE against plain torch."""
    runs = _json(ROOT / "results" / "benchmarks" / "scoring-repeats.json")["runs"]
    pairs = (" and ".join(f"{size['capse']:.0f}" for size in run["ratios"].values()) for run in runs)
    return "earlier runs gave " + ", ".join(f"{pair} times" for pair in pairs)


def render_scoring() -> str:
    """The figures of docs/exact-scoring.md."""
    cpu, gpu = (_json(ROOT / "results" / "benchmarks" / f"{name}.json") for name in ("scoring", "gpu-scoring"))
    sizes, growth, batch, whole = cpu["sizes"], cpu["training_growth"], gpu["milliseconds"], gpu["test_set_seconds"]
    rows: dict[str, Callable[[str], str]] = {
        "plain torch, a question": lambda data: f"{sizes[data]['capse']['plain_ms']:,.0f} ms",
        "the kernel": lambda data: f"{sizes[data]['capse']['kernel_ms']:.1f} ms",
        "times as fast": lambda data: f"{sizes[data]['capse']['ratio']:.0f}",
        "the released form, times as fast": lambda data: f"{sizes[data]['capse-released']['ratio']:.0f}",
        "ConvKB, times as fast as PyKEEN's": lambda data: f"{sizes[data]['pykeen-convkb']['ratio']:,.0f}",
        "share of that time in arithmetic": lambda data: f"{cpu['arithmetic'][data]['share']:.0%}",
        "forward, N = 800 against 50": lambda data: f"{growth[data]['forward']:.2f} times the time",
        "backward, N = 800 against 50": lambda data: f"{growth[data]['backward']:.2f} times the time",
        "a whole test set": lambda data: f"{cpu['test_set_seconds'][data]:.0f} s",
        "a whole test set, H200": lambda data: f"{whole[f'{data} paper']:.2f} s",
        "the same, the released form, H200": lambda data: f"{whole[f'{data} released']:.2f} s",
        "128 questions forward, H200": lambda data: f"{batch[f'{data} paper']['batch_votes']:.1f} ms",
        "128 questions backward, H200": lambda data: f"{batch[f'{data} paper']['batch_gradients']:.1f} ms",
    }
    on_gpu = max(error for form, found in gpu["errors"].items() if "float32" in form for error in found.values())
    text = [
        "CapsE with k = 100, d = 10, at the sizes of WN18RR (40,943 entities, N = 400) and FB15k-237 (14,541, N = 50):",
        "random weights, all entities, two cores where no GPU is named.",
        "",
        *_table(["", *sizes], [[what, *map(cell, sizes)] for what, cell in rows.items()]),
        "",
        "A test set is both sides, filtered, all tie policies. The largest errors of float32 scores, in shares of a",
        "question's largest score:",
        "",
        *_table(
            ["", "kernel", "plain torch"],
            [[model, *(f"{error:.0e}" for error in found.values())] for model, found in cpu["errors"].items()],
        ),
        "",
        f"On the GPU float32 votes and gradients are within {on_gpu:.0e} of a tensor's largest number.",
        "",
        f"Measured on an {cpu['machine']['processor']}, commit `{cpu['commit']}`, and an {gpu['machine']['gpu']},",
        f"commit `{gpu['commit']}`; [results/benchmarks](../results/benchmarks) has all figures. Plain torch's time",
        f"varies most: for the third row, {_earlier_ratios()}.",
        "",
    ]
    return "\n".join(text)


def _table(header: list[str], rows: list[list[str]]) -> list[str]:
    lines = [header, ["---"] * 2 + ["---:"] * (len(header) - 2), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def _cells(metrics: dict[str, float]) -> list[str]:
    hits = (f"{100 * metrics[key]:.1f}" for key in METRICS if key.startswith("hits"))
    return [f"{metrics['mr']:,.1f}", f"{metrics['mrr']:.3f}", *hits]


def _machine(origin: dict[str, Any]) -> str:
    machine = origin["machine"]
    return f"one {machine['gpu']}" if "gpu" in machine else f"one thread of an {machine['processor']}"


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


PAGES = {
    "README.md": render_rows,
    "docs/results.md": render_results,
    "docs/everyday-results.md": everyday_results.render,
    "docs/exact-scoring.md": render_scoring,
}

if __name__ == "__main__":
    main(sys.argv[1:])
