"""docs/everyday-results.md, from the files under results/everyday alone."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import mean, stdev
from typing import Any

_INDUCTIVE = ("mrr", "hits@1", "hits@10")
RECORDS = Path(__file__).parents[1] / "results" / "everyday"


def render() -> str:
    """Every section whose record is there."""
    text: list[str] = []
    for name, section in SECTIONS.items():
        path = RECORDS / f"{name}.json"
        if path.is_file():
            record = json.loads(path.read_text(encoding="utf-8"))
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


def _classification(record: dict[str, Any]) -> list[str]:
    rows = []
    for data in dict.fromkeys(row["data"] for row in record["rows"]):
        same = [row for row in record["rows"] if row["data"] == data]
        ways = {
            "a threshold for each relation": ("judgements", "by_relation"),
            "one threshold": ("judgements", "one_threshold"),
            "probability of random corruptions": ("fitted_to_random_corruptions", "one_threshold"),
        }
        for way, (fitted, decided) in ways.items():
            found = [row[fitted] if fitted == "judgements" else row[fitted]["error"] for row in same]
            cells = [
                *(_spread([one[decided][metric] for one in found]) for metric in ("accuracy", "f1")),
                *(_spread([one[metric] for one in found]) for metric in ("auc", "average_precision")),
                _spread([one["expected_calibration_error"] for one in found]),
                f"{mean(one['mean_probability_false'] for one in found):.2f}",
            ]
            rows.append([data, str(len(same)), way, *cells])
    stated = {
        row["data"]: row["fitted_to_random_corruptions"]["stated_error"] for row in record["rows"] if row["seed"] == 0
    }
    header = [
        "data",
        "seeds",
        "decided by",
        "accuracy",
        "F1",
        "AUC",
        "average precision",
        "calibration error",
        "p of false",
    ]
    return [
        "## Is this fact true?",
        "",
        "Test triples, each beside a hard negative: another answer of the same relation and range that makes no known",
        "fact. Thresholds and curves were chosen on validation triples with negatives of their own. The last rows take",
        "the probabilities that `capse predict --calibrate` fits to random corruptions, and .5 as their threshold; on",
        f"such corruptions they state an error of {' and '.join(f'{one:.3f}' for one in stated.values())} (seed 0).",
        "*p of false* is the mean probability given to false facts.",
        "",
        *table(header, rows),
    ]


def _fold_in(record: dict[str, Any]) -> list[str]:
    rows = [
        [
            row["data"],
            str(row["seed"]),
            f"{row['given']:,}",
            f"{row['asked']:,}",
            *(f"{row['mrr'][name]:.3f}" for name in ("folded in", "begin alone", "trained again")),
            f"{row['share']:.0%}",
            f"{row['seconds_per_entity']:.3f}",
            *(f"{row['mrr_of_others'][name]:.3f}" for name in ("before", "after")),
            "yes" if row["old_scores_unchanged"] else "**no**",
        ]
        for row in record["rows"]
    ]
    shares = [row["share"] for row in record["rows"]]
    reached = "reached with every seed" if min(shares) >= 0.9 else "missed" if max(shares) < 0.9 else "missed with some"
    header = ["data", "seed", "given", "asked", "folded in", "its beginning", "trained again", "share", "s an entity"]
    return [
        "## New entities",
        "",
        "Held-out entities with 4 to 50 facts. Half of each one's facts is given back, the other half is asked for",
        "(both sides, filtered, MRR), of 500 entities that no setting of folding in was chosen on. *Trained again* is",
        "a training on all that is given; the record has what is trained.",
        f"That folding in keeps 90 % of it is **{reached}**; the mean is",
        f"{mean(shares):.0%}. *Others* is the MRR of validation triples without a held-out entity, before the new",
        "entities came and after: they are candidates there too.",
        "",
        *table([*header, "others before", "after", "old scores unchanged"], rows),
    ]


def _fold_in_small(record: dict[str, Any]) -> list[str]:
    heading, *rest = _fold_in(record)
    return [f"{heading}: the embedded graph", *(line.replace("500 entities", "100 entities") for line in rest)]


def _inductive(record: dict[str, Any]) -> list[str]:
    rows = []
    for data, by in dict.fromkeys((row["data"], row["by"]) for row in record["rows"]):
        same = [row for row in record["rows"] if (row["data"], row["by"]) == (data, by)]
        sizes = [f"{mean(row[name] for row in same):,.0f}" for name in ("trained", "entities", "given", "asked")]
        metrics = [_spread([row[name] for row in same]) if name in same[0] else "" for name in _INDUCTIVE]
        rows.append([data, *sizes, by, *metrics])
    header = ["data", "trained on", "unseen entities", "given", "asked", "by", "MRR", "Hits@1", "Hits@10"]
    return [
        "## A graph of unseen entities",
        "",
        "`capse.inductive_split` of each graph, drawn anew for each seed: trained on one part, asked about the other,",
        "of which no entity was seen. Its entities are folded in from its own facts, all but a tenth, which is asked",
        "for: both sides, filtered, ranked among the unseen entities. Rules are mined on the first part.",
        "",
        *table(header, rows),
    ]


def _explanations(record: dict[str, Any]) -> list[str]:
    found = record["summary"]
    rows = [
        [name, str(found["moved"][key]), f"{found['mean_change'][key]:+.3f}"]
        for name, key in (("the named fact", "named"), ("a fact drawn by chance", "drawn"))
    ]
    return [
        "## What an answer hangs on",
        "",
        f"{found['questions']} answers of test questions on {record['data']} that stand among the first ten, three",
        "seeds. Each is trained again twice: without the fact that `--removals` names first, and without one drawn by",
        "chance.",
        f"{record['model']}.",
        "",
        *table(["removed", "answers whose rank got worse", "mean change of log share"], rows),
        "",
        f"More answers move without the named fact: p = {found['moved_p']:.2g}. It lowers the share more than the",
        f"other in {found['named_lowers_the_share_more']} of {found['questions']} pairs: p = {found['lowers_p']:.2g}",
        "(exact, one-sided, over pairs). Estimated and real changes have a rank correlation of",
        f"{found['estimate_against_truth']:.2f}; an estimate takes {found['seconds']:.2f} s in the median.",
    ]


def _exchange(record: dict[str, Any]) -> list[str]:
    rows = []
    for model in dict.fromkeys(row["model"] for row in record["pykeen"]):
        same = [row for row in record["pykeen"] if row["model"] == model]
        gaps = [f"{max(row[way] for row in same):.1e}" for way in ("there", "back")]
        rows.append([model, str(len(same)), *gaps])
    near, loaded = record["faiss"], record["hugging_face"]
    scores = "the same" if loaded["same_scores"] else "**other**"
    return [
        "## Other programs",
        "",
        "The largest difference between scores of all known triples of the embedded graph: in PyKEEN, and in the run",
        "that comes back from there.",
        "",
        *table(["model", "seeds", "to PyKEEN", "and back"], rows),
        "",
        f"A FAISS index of {near['data']} ({near['entities']:,} entities) has the ten nearest of brute force, in their",
        f"order, for {near['same_ten']} of {near['asked']} entities. A Hugging Face folder, loaded where there is",
        f"nothing but capse and what it cannot be without ({len(loaded['packages'])} packages), gives {scores} scores.",
    ]


def _costs(record: dict[str, Any]) -> list[str]:
    rows = [
        [row["data"], f"`{row['feature']}`", f"{row['seconds']}", f"{row['cpu_seconds']}", f"{row['mib']:,}"]
        for row in record["rows"]
    ]
    return [
        "## Time and memory",
        "",
        "A fresh process each, Python and torch included. By facts FB15k-237 is the largest graph at hand, by entities",
        f"WN18RR. The machine had a load of {record['load_before']:.0f} on two cores, so processor seconds say more.",
        "",
        *table(["data", "`capse ...`", "seconds", "processor seconds", "MiB"], rows),
    ]


SECTIONS = {
    "rules": _rules,
    "classification": _classification,
    "fold_in": _fold_in,
    "fold_in_small": _fold_in_small,
    "inductive": _inductive,
    "explanations": _explanations,
    "exchange": _exchange,
    "costs": _costs,
}


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
