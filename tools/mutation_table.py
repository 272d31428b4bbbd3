"""The mutants of the core: try what `mutation.yaml` names, and write results/mutation.json and results/mutation.md.

    python tools/mutation_table.py [MODULE ...]

Of each module so many mutants are drawn with one seed and tried. A later call draws as many as the first, tries again
what survived, with the tests as they are by then, and leaves the rest alone; where a module has changed, so that other
mutants are drawn, all of them are tried. The outcome of the first trial stays in the table, which so says what the
tests had missed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import yaml

from mutate import ROOT, Mutant, sample, try_mutants

PLAN = Path(__file__).with_name("mutation.yaml")
RECORD, TABLE = ROOT / "results" / "mutation.json", ROOT / "results" / "mutation.md"
COLUMNS = ("mutants", "noticed", "survived", "killed since", "explained", "open")
HEAD = """# Mutants of the core

`tools/mutation_table.py` makes {count} small mistakes in each module (12 in those that were tried first), one at a
time, drawn with seed {seed}, and runs the tests that `tools/mutation.yaml` names. A timeout counts as noticed. Then
tests were written, and what had *survived* was tried again with them. *Explained*: the mistake makes no difference,
and `mutation.yaml` says why.
*Open*: neither. Commits and every mutant are in `mutation.json`.

**{noticed} of {all} were noticed at first, {now} of {all} are now.** Not tried: {untried}.

"""


def main() -> None:
    plan = yaml.safe_load(PLAN.read_text(encoding="utf-8"))
    record: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    for name, tests in plan["modules"].items():
        if not sys.argv[1:] or name in sys.argv[1:]:
            record[name] = tried(Path("src/capse") / name, tests.split(), plan, record.get(name))
            RECORD.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    record = {name: record[name] for name in plan["modules"] if name in record}
    RECORD.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    TABLE.write_text(table(record, plan), encoding="utf-8")


def tried(module: Path, tests: list[str], plan: dict[str, Any], known: dict[str, Any] | None) -> dict[str, Any]:
    """A module's mutants with their first and their last outcome."""
    source = (ROOT / module).read_text(encoding="utf-8")
    count = len(known["mutants"]) if known else plan["count"]
    drawn, lines = sample(source, count, plan["seed"]), source.splitlines()
    now = {"commit": commit(), "date": date.today().isoformat()}
    rows = [{"code": lines[one.line - 1].strip(), "was": one.was, "text": one.text} for one in drawn]
    if known is None or rows != [{key: row[key] for key in ("code", "was", "text")} for row in known["mutants"]]:
        known = {"first": now, "mutants": [row | {"first": None, "last": "survived"} for row in rows]}
    open_ones = [
        row["last"] == "survived" and not (row["first"] and reason(plan, module, row)) for row in known["mutants"]
    ]
    again = [at for at, is_open in enumerate(open_ones) if is_open]
    for mutant, result in try_mutants(module, tests, [drawn[at] for at in again]) if again else ():
        row = known["mutants"][drawn.index(mutant)]
        row["last"], row["first"] = result, row["first"] or result
        if result == "survived":
            show(module, mutant)
    return {"tests": tests, **known, "last": now if again else known.get("last", now)}


def show(module: Path, mutant: Mutant) -> None:
    print(f"{module}:{mutant.line}: {mutant.was!r} -> {mutant.text!r} survived", flush=True)


def reason(plan: dict[str, Any], module: Path, row: dict[str, Any]) -> str | None:
    """Why a mutant makes no difference, if somebody has said so."""
    for one in plan["explained"]:
        where = (module.relative_to("src/capse").as_posix(), row["code"], row["text"])
        if where == (one["module"], one["code"], one["text"]):
            return str(one["why"])
    return None


def commit() -> str:
    """The commit of the tree, with a + where sources or tests differ from it."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    return git("rev-parse", "--short=12", "HEAD") + ("+" if git("status", "--porcelain", "--", "src", "tests") else "")


def table(record: dict[str, Any], plan: dict[str, Any]) -> str:
    lines, total = [], Counter[str]()
    for name, entry in record.items():
        counts = Counter[str](mutants=len(entry["mutants"]))
        for row in entry["mutants"]:
            counts["survived" if row["first"] == "survived" else "noticed"] += 1
            if row["first"] == "survived":
                why = reason(plan, Path("src/capse") / name, row)
                counts["explained" if why else "killed since" if row["last"] != "survived" else "open"] += 1
        total += counts
        lines.append(f"| `{name}` | " + " | ".join(str(counts[column]) for column in COLUMNS) + " |")
    lines.append("| all | " + " | ".join(str(total[column]) for column in COLUMNS) + " |")
    noticed = total["noticed"]
    head = HEAD.format(**plan, noticed=noticed, all=total["mutants"], now=noticed + total["killed since"])
    titles = ["| module | " + " | ".join(COLUMNS) + " |", "| --- |" + " ---: |" * len(COLUMNS)]
    return head + "\n".join([*titles, *lines]) + "\n"


if __name__ == "__main__":
    main()
