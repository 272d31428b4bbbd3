"""What docs/results.md says of search, from results/search-served, one-network, search and benchmarks alone."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from capse.evaluation.clusters import cluster_interval
from capse.search.evaluation.comparison import compare_lists

RESULTS = Path(__file__).parents[1] / "results"
AIM = 0.86
EARLIER = {  # rows of results/search/gitsearch
    "se-paper": "the engine",
    "ci-paper": "CI, the paper's baseline",
    "history-own": "trees on rank and history",
    "transe-own": "TransE",
    "convkb-own": "ConvKB",
    "capse-own": "CapsE",
    "blend-own": "blend: SP with CapsE's score",
}
RANKERS = {
    "lambdamart": "LambdaMART over SP's features",
    "network": "one network (`--method capsules`)",
    "mean": "both, scores standardised and added",
    "among_features": "LambdaMART with the network's score among the features",
}


def render() -> list[str]:
    return [*_served(), *_gitsearch(), *_one_network(), *_speed(), *_service()]


def _served() -> list[str]:
    rows = []
    for folder in sorted(path for path in (RESULTS / "search-served").iterdir() if path.is_dir()):
        found = _seeds(folder)
        first, owners = found[0]["best"], np.array(found[0]["lists"]["owners"])
        best, sp = (np.array([one["lists"][name] for one in found]) for name in ("best", "sp"))
        low, high = cluster_interval(best.mean(0)[:, None], owners)[:, 0].tolist()
        gained = compare_lists(best.mean(0), sp.mean(0), owners)
        rows.append(
            [
                folder.name,
                f"{first['impressions']:,} of {first['users']:,} users",
                f"{first['beside']['engine']['mrr']:.3f}",
                _spread([one["sp"]["mrr"] for one in found]),
                f"{_spread([one['best']['mrr'] for one in found])} ({_count(found)})",
                f"{low:.3f} to {high:.3f}",
                f"{gained.difference:+.4f} ({gained.over_users.low:+.4f} to {gained.over_users.high:+.4f})",
            ]
        )
    origin, on_gitsearch = found[0], _seeds(RESULTS / "search-served" / "gitsearch")
    reached = "reached" if mean(one["best"]["mrr"] for one in on_gitsearch) >= AIM else "missed"
    return [
        "## Search",
        "",
        "What `capse search train` trains where no method is named, five forests, on test lists: MRR, ties in",
        "expectation, everything known that came before each list, mean ± standard deviation over seeds. Intervals are",
        "95 %, users being drawn with all their lists, of each list's mean over the seeds.",
        "",
        *_table(["log", "test lists", "engine", "SP", "forests", "over users", "forests less SP, over users"], rows),
        "",
        "Settings were chosen on *gitsearch*'s training and validation lists, and on no other log. *sources* are",
        "simulated people who look for modules of an installed package, by their docstrings, *simulated* is made by",
        "`capse search simulate`. `python -m benchmarks.search_served`, one thread of an",
        f"{origin['machine']['processor']} that others used too; records are under",
        "[results/search-served](../results/search-served).",
        f"The aim for gitsearch, an MRR of {AIM}, is {reached}.",
        "",
    ]


def _gitsearch() -> list[str]:
    rows = []
    for name, words in EARLIER.items():
        paths = sorted((RESULTS / "search" / "gitsearch" / name).glob("prequential-seed-*.json"))
        found = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
        cells = [_spread([one[metric] for one in found]) for metric in ("mrr", "hits@1", "ndcg@10")]
        rows.append([words, *cells, str(len(found))])
    served = _seeds(RESULTS / "search-served" / "gitsearch")
    for name, words in (("sp", "SP"), ("best", "forests, the default")):
        cells = [_spread([one[name][metric] for one in served]) for metric in ("mrr", "hits@1", "ndcg@10")]
        rows.append([words, *cells, str(len(served))])
    return [
        "All methods on gitsearch's test lists; all rows but the last two are",
        "[earlier records](../results/search/gitsearch):",
        "",
        *_table(["method", "MRR", "Hits@1", "NDCG@10", "seeds"], rows),
        "",
        *_kernels(),
    ]


def _kernels() -> list[str]:
    """By how much figures move with the kernels of NumPy's BLAS."""
    record = json.loads((RESULTS / "search" / "blas.json").read_text(encoding="utf-8"))
    kernels = [name.rpartition(" ")[2] for name in record["methods"]["sp"]["blas"]]
    rows = [
        [f"`{method}`, {words}"]
        + [f"{found[history][kernel]['mrr']:.4f}" for kernel in kernels]
        + [f"{found[history]['difference']['mrr']:+.4f}", f"{found[history]['lists_that_differ']:,}"]
        for method, found in record["methods"].items()
        for history, words in (("prequential", "all before"), ("frozen", "frozen history"))
    ]
    return [
        "The same seed gives other figures where NumPy's BLAS rounds differently. On gitsearch with seed",
        f"{record['seed']}, by its kernels for {kernels[0]} and {kernels[1]}; figures of other machines cannot be",
        "expected to agree more closely ([record](../results/search/blas.json)):",
        "",
        *_table(["method, history", *kernels, "difference of MRR", "lists ranked differently"], rows),
        "",
    ]


def _one_network() -> list[str]:
    rows = []
    for folder in sorted(path for path in (RESULTS / "one-network").glob("*") if path.is_dir()):
        found = _seeds(folder)
        owners = np.array(found[0]["owners"])
        ranks = {name: np.array([one["reciprocal_ranks"][name] for one in found]) for name in RANKERS}
        for name, words in RANKERS.items():
            compared = compare_lists(ranks[name].mean(0), ranks["lambdamart"].mean(0), owners)
            low, high, p = compared.over_users.low, compared.over_users.high, compared.over_users.p_value
            gained = f"{compared.difference:+.4f} ({low:+.4f} to {high:+.4f}, p = {p:.2g})"
            mrr = f"{_spread(ranks[name].mean(1).tolist())} ({_count(found)})"
            rows.append([folder.name, words, mrr, "–" if name == "lambdamart" else gained])
    if not rows:
        return []
    return [
        "### One network for everything that is known",
        "",
        "Capsules that see rank, text match, history and numbers as well as topics, and what they add to trees over",
        "the same features; tests over users of each list's mean over the seeds.",
        "",
        *_table(["log", "ranker", "MRR", "over LambdaMART, over users"], rows),
        "",
        "`python -m benchmarks.one_network`; records are under [results/one-network](../results/one-network).",
        "",
    ]


def _speed() -> list[str]:
    """How fast the default is served."""
    record = _benchmark("service") or {}
    if (best := record.get("best")) is None:
        return []
    ten, many, aims = best["rerank"], best["rerank_many"], best["targets"]
    rows = [
        [
            f"{ten['documents']} documents at {ten['rate']} requests/s",
            f"{ten['milliseconds']['50']:.1f} ms median, {ten['milliseconds']['99']:.1f} ms p99",
            f"{aims['rerank']['99']:.0f} ms p99",
        ],
        [
            f"{many['documents']} documents, {many['clients']} clients",
            f"{many['milliseconds']['50']:.1f} ms median, {many['milliseconds']['99']:.1f} ms p99",
            f"{aims['rerank_many']['50']:.0f} ms median",
        ],
        *(
            [
                f"single clicks, each on disk when it is answered, {clicks['clients']} clients, {name}",
                f"{clicks['requests_per_second']:,.0f} clicks/s",
                f"{aims['clicks_per_second']:,} clicks/s",
            ]
            for name, clicks in best["clicks"].items()
        ),
    ]
    return [
        "### How fast it is served",
        "",
        f"`{best['method']}` of gitsearch, `capse serve` with {best['workers']} workers, clients on the same cores:",
        "",
        *_table(["what", "measured", "the aim"], rows),
        "",
        f"`{record['command']}`, commit `{record['commit']}`, {record['machine']['processor']}.",
        "",
        *_replay(),
    ]


def _replay() -> list[str]:
    """Whether a log that is told to a service gives the figures of evaluation."""
    if (record := _benchmark("replay")) is None:
        return []
    return [
        "gitsearch's test period, told to `capse serve` event by event and asked for list by list:",
        f"{record['lists']:,} lists, {record['lists_with_other_scores']} with other scores than in evaluation,",
        f"MRR {record['mrr']['served']:.4f} (`{record['command']}`, commit `{record['commit']}`).",
        "",
    ]


def _service() -> list[str]:
    """What long runs of the service were recorded."""
    rows = []
    if (soak := _benchmark("soak")) is not None:
        memory = ", ".join(f"{part:,.0f}" for part in soak["resident_megabytes_by_quarter"])
        statuses = ", ".join(f"{count:,} × {status}" for status, count in soak["statuses"].items())
        rows.append(
            [
                f"{soak['seconds'] / 60:.0f} minutes of mixed load, {soak['clients']} clients, "
                f"load average {soak['load_average']:.0f}",
                f"{soak['requests']:,} requests ({statuses}), {len(soak['wrong_answers'])} wrong answers",
                f"memory by quarter {memory} MB: last over second {soak['last_quarter_over_second']:.3f}",
            ]
        )
    if (kills := _benchmark("kills")) is not None:
        wrong = kills["states_other_than_folded_from_the_beginning"]
        rows.append(
            [
                f"{kills['kills']} kills of a worker, {kills['database']}",
                f"{kills['acknowledged']:,} events acknowledged, {kills['lost']} lost, {kills['stored_twice']} twice",
                f"{wrong} of {kills['states']} states other than folded from the beginning",
            ]
        )
    if not rows:
        return []
    return [
        "### The service for long",
        "",
        *_table(["what", "answers", "afterwards"], rows),
        "",
        "`python -m benchmarks soak` and `kills`, two workers that serve a small blend, on two cores that others used",
        "too.",
        "",
    ]


def _benchmark(name: str) -> Any:
    path = RESULTS / "benchmarks" / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else None


def _seeds(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("seed-*.json"))]


def _count(seeds: list[dict[str, Any]]) -> str:
    return f"{len(seeds)} seed{'s' * (len(seeds) > 1)}"


def _spread(values: list[float]) -> str:
    return f"{mean(values):.3f}" + (f" ± {stdev(values):.3f}" if len(values) > 1 else "")


def _table(header: list[str], rows: list[list[str]]) -> list[str]:
    lines = [header, ["---"] * 2 + ["---:"] * (len(header) - 2), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]
