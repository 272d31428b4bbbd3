"""The faults of results/faults.md in the tree of an old commit: are they there?

    git worktree add /tmp/old cf3fbbc
    python tools/faults_at.py /tmp/old [FAULT ...]

Each script of faults_at.yaml runs with that tree's sources; what it shows is written to results/faults-at-COMMIT.json.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

CASES = Path(__file__).with_name("faults_at.yaml")
RESULTS = Path(__file__).resolve().parents[1] / "results"
SEEN = {0: "seen", 1: "not seen"}
PRELUDE = f"""
PYTHON={sys.executable}
python() {{ "$PYTHON" "$@"; }}
quietly() {{ python -c 'from capse.cli import main; main()' "$@"; }}
capse() {{ quietly "$@" 2>&1 | tee -a out; return ${{PIPESTATUS[0]}}; }}
trained() {{ capse train demo-transe --out run --set training.epochs=20 > log 2>&1 || exit 3; }}
mrr() {{ quietly evaluate "$@" --json 2> /dev/null | python -c "import json, sys
print(round(json.load(sys.stdin)['metrics']['both']['realistic']['mrr'], 4))" 2> /dev/null; }}
refused() {{ tail -1 out | grep "^error: "; }}
flip() {{ python -c "import sys
path, part = sys.argv[1], int(sys.argv[2])
content = bytearray(open(path, 'rb').read())
content[len(content) * part // 10] ^= 1
open(path, 'wb').write(content)" "$@"; }}
used() {{ python -c "import resource, subprocess, sys
subprocess.run([sys.executable, '-c', 'from capse.cli import main; main()', *sys.argv[1:]], check=True, stdout=2)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_maxrss // 1024, round(used.ru_utime + used.ru_stime))" "$@" 2> /dev/null; }}  # MiB, seconds of processors
touch out
"""


def main() -> None:
    tree, names = Path(sys.argv[1]).resolve(), sys.argv[2:]
    commit = subprocess.check_output(["git", "rev-parse", "--short=7", "HEAD"], cwd=tree, text=True).strip()
    record = RESULTS / f"faults-at-{commit}.json"
    found = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    for fault, script in yaml.safe_load(CASES.read_text(encoding="utf-8")).items():
        if not names or fault in names:
            found[fault] = shown(tree, script)
            print(f"{found[fault]['outcome']}: {fault}: {found[fault]['said']}", flush=True)
            record.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def shown(tree: Path, script: str) -> dict[str, str]:
    """Whether a script shows its fault in a tree, and the last line that it said."""
    environment = {"PYTHONPATH": f"{tree}/src", "TREE": str(tree), "HERE": str(RESULTS.parent)}
    environment["GRAPH"] = f"{tree}/src/capse/graph/embedded"
    with tempfile.TemporaryDirectory() as scratch:
        done = subprocess.run(
            ["bash", "-c", PRELUDE + script],
            cwd=scratch, env=os.environ | environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace",
        )  # fmt: skip
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        said = lines[-1].replace(scratch, "").strip() if lines else ""
    return {"outcome": SEEN.get(done.returncode, f"could not be tried ({done.returncode})"), "said": ascii(said)[1:-1]}


if __name__ == "__main__":
    main()
