"""The whole reproduction as one HTML file: what was to be reached, what was, and how it was measured.

It says the same each time it is written from the same records: no date, no machine but those of the runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from capse.experiments.plan import FB15K237, find
from capse.reports.figures import tie_policies
from capse.reports.html import Markup, details, element, join, page, section, table
from capse.reports.reproduction import figures, origins, tie_curve
from capse.reports.reproduction.block import Block, number
from capse.reports.reproduction.blocks import blocks, claim_block, data_name, target_block, verdict
from capse.reports.reproduction.collect import Reproduction
from capse.reports.reproduction.rows import COMPARED, Row
from capse.reports.reproduction.targets import WITHIN
from capse.reports.svg import inline_svg
from capse.runs.atomic import write_text

TRIED = "tried.md"  # beside the runs: what was tried where a line was not reached, in plain paragraphs and lists
POLICIES = ("optimistic", "realistic", "pessimistic", "expected")

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
    return page(
        "CapsE on WN18RR and FB15k-237: the paper's experiments, run again",
        _summary(found),
        _lines(found),
        _agreement(found.rows["table2"]),
        _tables("Table 2: link prediction", blocks("table2", found.rows["table2"])),
        _ties(found),
        _drawings(found),
        _tables("Table 3: routing iterations", blocks("table3", found.rows["table3"])),
        _grids(found),
        _search(found),
        _claims(found),
        _tried(found.results.folder / TRIED),
        origins.protocol(found),
        _tables("Table 1: the data", blocks("table1", found.rows["table1"])),
        origins.runs(found),
    )


def _summary(found: Reproduction) -> Markup:
    reached = _count(outcome["reached"] for outcome in found.outcomes)
    claims = _count(claim.holds() for claim in found.claims if claim.settings == "paper")
    return element(
        "p",
        f"Of {len(found.outcomes)} rows with a line to reach, {reached[True]} reached it, {reached[False]} did not and "
        f"{reached[None]} are not recorded. Of the paper's claims about its own form of CapsE, {claims[True]} came out "
        f"true, {claims[False]} false and {claims[None]} unknown for want of runs. Everything is from recorded runs: "
        "'capse reproduce all' reads them and writes this page, 'capse reproduce all --run' trains what is missing.",
    )


def _lines(found: Reproduction) -> Markup:
    note = (
        f"A figure within {WITHIN} of its line counts as reached, but a mean rank and a line that says 'above' have no "
        "such margin. The mean decides; 'seeds' says how many runs reach the line by themselves. Rows marked 'own' "
        "have settings of our own and stand beside the paper's, never in their place; "
        "'released' is the program that the paper's authors published, where it departs from the paper."
    )
    return section("What was to be reached", element("p", note), _html(target_block(found.outcomes)))


def _agreement(rows: Sequence[Row]) -> Markup:
    """The paper's figure against ours, with the paper's or its authors' settings."""
    groups: dict[str, list[str]] = {
        "Matches what the paper prints": [],
        "Better than what the paper prints": [],
        "Matches only with ties counted for the true answer": [],
        "Does not reach what the paper prints": [],
        "Not recorded": [],
    }
    for row in rows:
        if row["settings"] == "own" or row["recipe"] is None:
            continue
        name = f"{row['model']} ({row['settings']}), {data_name(row['dataset'])}"
        if row["ours"] is None:
            groups["Not recorded"].append(name)
            continue
        for metric, printed in row["paper"].items():
            if metric == "mr" or printed is None:
                continue
            optimistic, realistic = (row["ours"][policy][metric]["mean"] for policy in POLICIES[:2])
            kind = 0 if abs(realistic - printed) <= WITHIN else 1 if realistic > printed else 3
            kind = 2 if kind == 3 and optimistic >= printed - WITHIN else kind
            label = "MRR" if metric == "mrr" else f"{metric.title()} %"
            ours = f"{number(metric, realistic)} realistic, {number(metric, optimistic)} optimistic"
            groups[list(groups)[kind]].append(f"{name}: {label} {ours}; the paper has {number(metric, printed)}")
    parts = [join([element("h3", title), _list(items)]) for title, items in groups.items() if items]
    return section("What matches and what does not", *parts)


def _ties(found: Reproduction) -> Markup:
    """Why the published row of CapsE on FB15k-237 cannot be had honestly."""
    printed = {row["model"]: row["paper"] for row in found.rows["table2"] if row["dataset"] == FB15K237}
    lines: list[tuple[str, ...]] = [
        (model, "the paper", "not said", *(number(metric, printed[model][metric]) for metric in ("mrr", "hits@10")))
        for model in COMPARED
    ]
    lines += [
        (model, "Sun et al. 2020", ties, number("mrr", mrr), number("hits@10", hits))
        for model, ties, mrr, hits in MEASURED_BY_OTHERS
    ]
    shown = [row for row in found.rows["table2"] if row["dataset"] == FB15K237 and row["model"] in COMPARED]
    for row in shown:
        for policy in POLICIES if row["ours"] else ():
            means = (number(metric, row["ours"][policy][metric]["mean"]) for metric in ("mrr", "hits@10"))
            lines.append((row["model"], f"ours, {row['settings']}", policy, *means))
    paragraphs = (
        "The paper prints MRR 0.523 and Hits@10 59.3 % for CapsE on FB15k-237. The program that its authors published "
        "puts the true triple first among its competitors and ranks with ties in its favour. Ranked like that, a model "
        "that gives every triple the same score has an MRR of 1.",
        "Ties are common here. A ReLU that is off for most triples gives all of them the same zero; where all units of "
        "a triple are off, its score is the same as that of every other such triple. The published program also ranks "
        "float32 sigmoids of the length, under which short vectors that differ by several per cent tie exactly.",
        "Sun et al. measured it again with the ties counted in other ways; the table has their figures (one in their "
        "repository shows 0.032 and 5.7 % for CapsE at random). An honest rank does not favour the true answer, so the "
        "published row cannot be had honestly, and the line for this data set is what random ties gave them. "
        "'Expected' is the figure to hold against theirs; a wide gap between optimistic and pessimistic is an artefact "
        "of ties, not knowledge of the graph.",
    )
    return section(
        "Why the published FB15k-237 row of CapsE cannot be had honestly",
        *(element("p", text) for text in paragraphs),
        table("FB15k-237, test set", ("model", "measured by", "ties", "MRR", "Hits@10 %"), ("", lines)),
        _list(_gap(row) for row in shown if row["ours"]),
        tie_curve.tie_curve(found.results.folder / tie_curve.NAME),
        _tie_chart(found),
    )


def _gap(row: Row) -> str:
    """What ties alone are worth to a row, in one sentence."""
    optimistic, realistic, pessimistic = (row["ours"][policy]["mrr"]["mean"] for policy in POLICIES[:3])
    worth = f"{(optimistic - realistic) / optimistic:.0%}" if optimistic else "nothing"
    return (
        f"{row['model']}, {row['settings']} settings: MRR {number('mrr', realistic)}, which the published way to count "
        f"ties makes {number('mrr', optimistic)}: {worth} of that figure is ties. With all ties against the true "
        f"answer it is {number('mrr', pessimistic)}."
    )


def _tie_chart(found: Reproduction) -> Markup:
    evaluations = {}
    for model in COMPARED:
        for experiment in find(found.plan, model, FB15K237):
            recorded = [r.evaluation for r in found.results.records(experiment) if r.evaluation]
            if recorded:
                evaluations[f"{model}, {experiment.settings}"] = recorded[0]
    if not evaluations:
        return element("p", "No run of CapsE or ConvKB on FB15k-237 is recorded yet.", class_="note")
    drawing = inline_svg(tie_policies(evaluations), "Bar chart: MRR on FB15k-237 by tie policy and model", "ties")
    caption = "MRR by how ties are counted, first seed; the line is the 95 % interval of the realistic figure."
    return element("figure", drawing, element("figcaption", caption))


def _drawings(found: Reproduction) -> Markup:
    captions = {
        "figure2": "Figure 2: FB15k-237 by relation category. In an M-1 relation a tail has many heads.",
        "figure3": "Figure 3: WN18RR by relation, both sides.",
    }
    how = " Bars are realistic figures, mean over seeds; a line reaches from pessimistic to optimistic; diamonds are "
    parts = []
    for part, caption in captions.items():
        drawing = inline_svg(figures.FIGURES[part](found.rows[part]), f"Bar charts: {caption}", part)
        caption += how + "what the paper prints."
        parts.append(element("figure", drawing, element("figcaption", caption), class_="wide"))
        if part == "figure2":
            parts.append(_widest(found.rows[part]))
        parts.append(details(f"Figure {part[-1]} as tables", *(_html(b) for b in blocks(part, found.rows[part]))))
    return section("Figures 2 and 3: where CapsE and ConvKB are right", *parts)


def _widest(rows: Sequence[Row]) -> Markup:
    """Where ties are worth most, in one sentence; nothing where they are worth less than a point."""
    gaps = [
        (100 * (row["ours"]["optimistic"]["hits@10"]["mean"] - row["ours"]["realistic"]["hits@10"]["mean"]), place)
        for place, row in enumerate(rows)
        if row["ours"] and row["settings"] != "own"
    ]
    gap, place = max(gaps, default=(0.0, 0))
    if gap < 1:
        return Markup("")
    row = rows[place]
    realistic, optimistic = (number("hits@10", row["ours"][p]["hits@10"]["mean"]) for p in ("realistic", "optimistic"))
    return element(
        "p",
        f"Ties are worth most for {row['model']} ({row['settings']}), the {row['side']} of {row['category']} "
        f"relations: Hits@10 is {realistic} %, and {optimistic} % with ties counted for the true answer; the paper "
        f"prints {number('hits@10', row['paper']['hits@10'])} %.",
    )


def _grids(found: Reproduction) -> Markup:
    """How far the paper's grids were gone through; nothing where none was begun."""
    if not found.grids:
        return Markup("")
    note = (
        "The paper chose N, m and the learning rate on the validation set, by a grid. As many of its points as time "
        "allowed were trained with the paper's form, in the grid's order and with one seed; a trial counts with its "
        "best epoch. The rows above have the settings that the paper chose, whatever comes out here."
    )
    return section("The paper's grids", element("p", note), *(_html(grid.to_block()) for grid in found.grids))


def _search(found: Reproduction) -> Markup:
    """Table 4 and Figure 4: search personalisation."""
    notes = (
        "Of SEARCH17 the vectors of documents and queries are not to be had, so its embedding rows cannot be computed, "
        "and its queries are numbers, one for each impression: CI and P-Click, which ask what the same query led to, "
        "find nothing to go by. gitsearch is a log made from public git histories, on which every method is measured.",
        "Candidates are shuffled and ties count in expectation. 'Over' is the difference of MRR with the p-value of a "
        "paired t-test over lists, each list's reciprocal rank averaged over seeds first. Settings were chosen on the "
        "training and validation periods.",
    )
    drawing = inline_svg(figures.figure4(found.rows["figure4"]), "Line chart: validation MRR by epoch", "figure4")
    caption = "Figure 4: CapsE on gitsearch's validation set by epoch, mean over seeds, diamonds at the best epoch."
    return section(
        "Table 4 and Figure 4: search personalisation",
        *(element("p", note) for note in notes),
        *(_html(block) for block in blocks("table4", found.rows["table4"])),
        element("figure", drawing, element("figcaption", caption), class_="wide"),
        *(_html(block) for block in blocks("figure4", found.rows["figure4"])),
    )


def _claims(found: Reproduction) -> Markup:
    note = (
        "A comparison holds if the first has the higher MRR and no lower Hits@10, in the mean over seeds; a claim "
        "holds if all its comparisons do. Realistic ranks decide. A comparison is close if the difference in MRR (in "
        "Hits@10 where there is no other) is within two standard errors of the seeds. The last column applies the same "
        "rule to the figures that the paper prints, where it prints them."
    )
    rows = [
        (
            claim.text,
            claim.settings,
            *(verdict(claim.holds(policy)) for policy in POLICIES[:3]),
            f"{claim.close()} of {len(claim.comparisons)}",
            verdict(claim.holds_in_paper()) if any(c.paper[0] for c in claim.comparisons) else "not printed",
        )
        for claim in found.claims
    ]
    header = ("claim", "settings", *POLICIES[:3], "close", "in the paper's figures")
    return section(
        "The paper's claims",
        element("p", note),
        element("div", table("Claims", header, ("", rows)), class_="words"),
        details("The comparisons", *(_html(claim_block(claim)) for claim in found.claims)),
    )


def _tried(path: Path) -> Markup:
    """Paragraphs, headings (##) and lists (*) of a text file, if there is one."""
    if not path.is_file():
        return Markup("")
    parts: list[Markup] = []
    for paragraph in path.read_text(encoding="utf-8").split("\n\n"):
        lines = paragraph.strip().splitlines()
        if paragraph.strip().startswith("* "):
            parts.append(_list(" ".join(item.split()) for item in paragraph.strip().removeprefix("* ").split("\n* ")))
        elif lines and lines[0].startswith("#"):
            parts += [element("h3", lines[0].lstrip("# ")), *([element("p", " ".join(lines[1:]))] if lines[1:] else [])]
        elif lines:
            parts.append(element("p", " ".join(lines)))
    return section("What was tried", *parts)


def _tables(title: str, shown: Iterable[Block]) -> Markup:
    return section(title, *(_html(block) for block in shown))


def _html(block: Block) -> Markup:
    return table(block.title, block.header, ("", block.rows))


def _list(items: Iterable[str]) -> Markup:
    return element("ul", *(element("li", item) for item in items))


def _count(verdicts: Iterable[bool | None]) -> dict[bool | None, int]:
    known = list(verdicts)
    return {kind: sum(verdict is kind for verdict in known) for kind in (True, False, None)}
