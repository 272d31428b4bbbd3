"""Print the lowest version of every dependency that pyproject.toml allows, as constraints for pip.

torch is left out: the kernels are developed against one version of it, and older wheels are hundreds of megabytes.

    python tools/lowest_versions.py [EXTRA ...] > lowest.txt
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from packaging.requirements import Requirement

LEFT_OUT = {"torch"}


def lowest(requirements: Iterable[str]) -> Iterator[str]:
    """``name==X`` for each ``name>=X``.

    >>> list(lowest(["torch>=2.6", "numpy>=1.26", "uvloop>=0.19; sys_platform != 'win32'", "ibis[duckdb]>=9.5,<11"]))
    ['numpy==1.26', 'uvloop==0.19', 'ibis==9.5']
    """
    for requirement in map(Requirement, requirements):
        bounds = [bound.version for bound in requirement.specifier if bound.operator == ">="]
        if bounds and requirement.name not in LEFT_OUT:
            yield f"{requirement.name}=={bounds[0]}"


def main(extras: list[str]) -> None:
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"], *(one for extra in extras for one in project["optional-dependencies"][extra])]
    print("\n".join(sorted(set(lowest(wanted)))))


if __name__ == "__main__":
    main(sys.argv[1:])
