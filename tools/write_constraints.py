"""Write constraints.txt: the exact version of everything in this environment, as `make install` puts it together.

python tools/write_constraints.py
"""

from __future__ import annotations

from importlib.metadata import distributions
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import Version

TARGET = Path(__file__).parents[1] / "constraints.txt"
HEADER = (
    "# Exact versions for development and CI, by `make constraints`; pyproject.toml keeps the ranges open for users.\n"
)
NOT_OURS_TO_PIN = {"capse", "pip", "setuptools", "wheel"}


def pins() -> list[str]:
    """``name==version`` of each distribution; a build's local part, as in 2.13.0+cpu, is no business of ours."""
    installed = {canonicalize_name(one.metadata["Name"]): Version(one.version).public for one in distributions()}
    return [f"{name}=={version}" for name, version in sorted(installed.items()) if name not in NOT_OURS_TO_PIN]


if __name__ == "__main__":
    TARGET.write_text(HEADER + "".join(f"{pin}\n" for pin in pins()), encoding="utf-8")
