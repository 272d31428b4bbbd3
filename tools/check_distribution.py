"""Build sdist and wheel, check their metadata, and try the wheel in an empty environment without the repository.

python tools/check_distribution.py [--build-only] [--out dist]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
QUICK = ["--set", "training.epochs=1", "--set", "model.dim=8"]
TRIED = [  # by somebody who has just installed the package
    ["capse", "--version"],
    ["python", "-m", "capse", "--help"],
    ["capse", "train", "--data", "countries", "--model", "transe", "--out", "run", *QUICK],
    ["capse", "evaluate", "run", "--json"],
    ["capse", "predict", "run", "--relation", "borders", "--head", "Kenya", "--json"],
    ["capse", "recipes"],
    ["capse", "reproduce", "table2", "--json", "--results", str(ROOT / "results")],  # the records are in no wheel
    ["python", "-c", "import capse; print(capse.load('run').evaluate('valid').triples)"],
]


def build(out: Path) -> Path:
    """The wheel, built from the sdist, so that the sdist is known to hold all that it needs."""
    subprocess.run([sys.executable, "-m", "build", "--outdir", out, ROOT], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *out.iterdir()], check=True)
    (wheel,) = out.glob("*.whl")
    return wheel


def try_out(wheel: Path, folder: Path) -> None:
    """Install ``wheel`` into an environment below ``folder`` and run what is in `TRIED` there."""
    venv.create(folder / "venv", with_pip=True)
    programs = folder / "venv" / "bin"
    outside = {
        key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "CAPSE", "VIRTUAL_ENV"))
    }
    install = [programs / "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel]
    subprocess.run(install, check=True, cwd=folder, env=outside)
    for program, *arguments in TRIED:
        command = [programs / program, *arguments]
        answer = subprocess.run(command, check=True, cwd=folder, env=outside, stdout=subprocess.PIPE, text=True)
        assert answer.stdout, arguments
        print(program, *arguments, "->", answer.stdout.splitlines()[0][:80], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build-only", action="store_true", help="leave out the trial in an empty environment")
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where the sdist and the wheel go")
    arguments = parser.parse_args()
    for old in [*arguments.out.glob("capse-*")]:
        old.unlink()
    wheel = build(arguments.out)
    if not arguments.build_only:
        with tempfile.TemporaryDirectory() as folder:
            try_out(wheel, Path(folder))


if __name__ == "__main__":
    main()
