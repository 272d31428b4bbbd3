"""Plant the mistakes of `planted_mistakes.yaml`, one at a time; results/planted-mistakes.md says which test fails.

python tools/planted_mistakes.py
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from datetime import date
from pathlib import Path

import yaml

from mutate import IGNORED, ROOT, failed_test, outcome
from mutation_table import commit

PLAN = Path(__file__).with_suffix(".yaml")
TABLE = ROOT / "results" / "planted-mistakes.md"
HEAD = """# Planted mistakes

Eleven mistakes, one of them in two places, could be made at commit cf3fbbc without a failing test.
`tools/planted_mistakes.py` made each of them in a copy of the tree, at commit {commit} on {date},
and ran the tests that `tools/planted_mistakes.yaml` names.

| mistake | module | the first test that fails |
| --- | --- | --- |
"""


def main() -> None:
    rows, head = [], HEAD.format(commit=commit(), date=date.today())
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tree"
        shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*IGNORED))
        for one in yaml.safe_load(PLAN.read_text(encoding="utf-8")):
            module = tree / "src" / "capse" / one["module"]
            source = module.read_text(encoding="utf-8")
            if source.count(one["code"]) != 1:
                sys.exit(f"{one['module']}: {one['code']!r} stands there {source.count(one['code'])} times")
            module.write_text(source.replace(one["code"], one["text"]), encoding="utf-8")
            result = outcome(tree, one["tests"].split(), 900)
            module.write_text(source, encoding="utf-8")
            noticed = f"`{failed_test(tree)}`" if result == "killed" else f"none ({result})"
            rows.append(f"| {one['mistake']} | `{one['module']}` | {noticed} |\n")
            print(rows[-1], end="", flush=True)
    TABLE.write_text(head + "".join(rows), encoding="utf-8")


if __name__ == "__main__":
    main()
