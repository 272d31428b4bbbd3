"""The whole reproduction as one HTML file: what was to be reached, what was, and how it was measured.

It says the same each time it is written from the same records: no date, no machine but those of the runs. The prose is
in ``templates/reproduction.html.j2``; here is what it is about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from markdown_it import MarkdownIt
from markupsafe import Markup

from capse.evaluation.intervals import RESAMPLES
from capse.reports.figures import tie_policies
from capse.reports.pages import render_page
from capse.reports.svg import inline_svg
from capse.runs.atomic import write_text
from capse_paper.findings.collect import Reproduction
from capse_paper.findings.rows import COMPARED, Row
from capse_paper.findings.targets import WITHIN
from capse_paper.plans.graphs import FB15K237, find
from capse_paper.report.block import number
from capse_paper.report.blocks import SHOWN, blocks, claim_block, data_name, grid_block, target_block, verdict
from capse_paper.report.figures import FIGURES
from capse_paper.report.origins import run_settings, run_table
from capse_paper.report.tie_curve import tie_curve

TIES = "ties.json"  # beside the runs: see `tie_curve`
TRIED = "tried.md"  # beside the runs: what was tried where a line was not reached
POLICIES = (*SHOWN, "expected")
CAPTIONS = {
    "figure2": "Figure 2: FB15k-237 by relation category. In an M-1 relation a tail has many heads.",
    "figure3": "Figure 3: WN18RR by relation, both sides.",
}

# Sun et al., 'A Re-evaluation of Knowledge Graph Completion Methods', ACL 2020: model, ties, MRR, Hits@10
MEASURED_BY_OTHERS = (
    ("CapsE", "for the true answer", 0.511, 0.586),
    ("CapsE", "at random", 0.150, 0.356),
    ("ConvKB", "at random", 0.243, 0.421),
    ("ConvKB", "against the true answer", 0.130, None),
)


def write_report(found: Reproduction, path: str | Path) -> None:
    """Write the report, whole or not at all."""
    write_text(path, render(found))


def render(found: Reproduction) -> str:
    """The report as one HTML document that needs nothing else."""
    compared = [row for row in found.rows["table2"] if row["dataset"] == FB15K237 and row["model"] in COMPARED]
    return render_page(
        "reproduction.html.j2",
        "capse_paper.report",
        found=found,
        reached=Counter(outcome["reached"] for outcome in found.outcomes),
        claimed=Counter(claim.holds() for claim in found.claims if claim.settings == "paper"),
        within=WITHIN,
        targets=target_block(found.outcomes),
        agreement=_agreement(found.rows["table2"]),
        blocks={part: blocks(part, rows) for part, rows in found.rows.items()},
        measured=list(_measured(compared)),
        compared=[{**row, "means": _means(row, "mrr")} for row in compared if row["ours"]],
        tied=tie_curve(found.results.folder / TIES),
        captions=CAPTIONS,
        drawings=_drawings(found),
        widest=_widest(found.rows["figure2"]),
        grids=[grid_block(grid) for grid in found.grids],
        claims=list(_claims(found)),
        comparisons=[claim_block(claim) for claim in found.claims],
        tried=_tried(found.results.folder / TRIED),
        seeds=sorted({record.seed for each in found.plan for record in found.results.records(each)}),
        resamples=RESAMPLES,
        absent=[experiment.name for experiment in found.plan if not found.results.records(experiment)],
        trained=run_table(found),
        settings=run_settings(found),
    )


def _agreement(rows: Sequence[Row]) -> dict[str, list[dict[str, str]]]:
    """The paper's figures against ours, with the paper's or its authors' settings."""
    matches, better, by_ties, short, absent = (
        "Matches what the paper prints",
        "Better than what the paper prints",
        "Matches only with ties counted for the true answer",
        "Does not reach what the paper prints",
        "Not recorded",
    )
    groups: dict[str, list[dict[str, str]]] = {matches: [], better: [], by_ties: [], short: [], absent: []}
    for row in rows:
        if row["settings"] == "own" or row["recipe"] is None:
            continue
        named = {"model": row["model"], "settings": row["settings"], "dataset": data_name(row["dataset"]), "metric": ""}
        if row["ours"] is None:
            groups[absent].append(named)
            continue
        for metric, printed in row["paper"].items():
            if metric == "mr" or printed is None:
                continue
            means = _means(row, metric)
            if abs(means["realistic"] - printed) <= WITHIN:
                kind = matches
            elif means["realistic"] > printed:
                kind = better
            else:
                kind = by_ties if means["optimistic"] >= printed - WITHIN else short
            figures = {policy: number(metric, means[policy]) for policy in ("realistic", "optimistic")}
            label = "MRR" if metric == "mrr" else f"{metric.title()} %"
            groups[kind].append({**named, "metric": label, **figures, "printed": number(metric, printed)})
    return groups


def _measured(compared: Sequence[Row]) -> Iterator[tuple[str, ...]]:
    """CapsE and ConvKB on FB15k-237: as printed, as measured by others, and ours with ties counted in each way."""
    for model in COMPARED:
        printed = next(row["paper"] for row in compared if row["model"] == model)
        yield model, "the paper", "not said", *(number(metric, printed[metric]) for metric in ("mrr", "hits@10"))
    for model, ties, mrr, hits in MEASURED_BY_OTHERS:
        yield model, "Sun et al. 2020", ties, number("mrr", mrr), number("hits@10", hits)
    for row in compared:
        for policy in POLICIES if row["ours"] else ():
            figures = (number(metric, row["ours"][policy][metric]["mean"]) for metric in ("mrr", "hits@10"))
            yield row["model"], f"ours, {row['settings']}", policy, *figures


def _drawings(found: Reproduction) -> dict[str, Markup | None]:
    drawn: dict[str, Markup | None] = {
        part: inline_svg(FIGURES[part](found.rows[part]), f"Bar charts: {caption}", part)
        for part, caption in CAPTIONS.items()
    }
    figure4 = FIGURES["figure4"](found.rows["figure4"])
    drawn["figure4"] = inline_svg(figure4, "Line chart: validation MRR by epoch", "figure4")
    recorded = {
        f"{model}, {experiment.settings}": record.evaluation
        for model in COMPARED
        for experiment in find(found.plan, model, FB15K237)
        for record in reversed(found.results.records(experiment))  # the first seed comes last, and stays
        if record.evaluation
    }
    about = "Bar chart: MRR on FB15k-237 by tie policy and model"
    drawn["ties"] = inline_svg(tie_policies(recorded), about, "ties") if recorded else None
    return drawn


def _widest(rows: Sequence[Row]) -> dict[str, str] | None:
    """The cell of Figure 2 where ties are worth most; none where they are worth less than a point."""
    shown = [(row, _means(row, "hits@10")) for row in rows if row["ours"] and row["settings"] != "own"]
    gaps = [(100 * (means["optimistic"] - means["realistic"]), place) for place, (_, means) in enumerate(shown)]
    gap, place = max(gaps, default=(0.0, 0))
    if gap < 1:
        return None
    row, means = shown[place]
    figures = {policy: number("hits@10", means[policy]) for policy in SHOWN}
    return {**row, **figures, "printed": number("hits@10", row["paper"]["hits@10"])}


def _claims(found: Reproduction) -> Iterator[tuple[str, ...]]:
    for claim in found.claims:
        printed = any(comparison.paper[0] for comparison in claim.comparisons)
        yield (
            claim.text,
            claim.settings,
            *(verdict(claim.holds(policy)) for policy in SHOWN),
            f"{claim.close()} of {len(claim.comparisons)}",
            verdict(claim.holds_in_paper()) if printed else "not printed",
        )


def _tried(path: Path) -> Markup | None:
    """A Markdown file, if there is one, its headings below those of the page; HTML in it is text."""
    if not path.is_file():
        return None
    markdown = MarkdownIt("commonmark", {"html": False})
    tokens = markdown.parse(path.read_text(encoding="utf-8"))
    for token in tokens:
        token.tag = "h3" if token.type.startswith("heading") else token.tag
    return Markup(markdown.renderer.render(tokens, markdown.options, {}))


def _means(row: Row, metric: str) -> dict[str, float]:
    return {policy: row["ours"][policy][metric]["mean"] for policy in SHOWN}
