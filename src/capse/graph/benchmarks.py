"""The datasets that have a name, and where they are found.

A new one is one record in ``BENCHMARKS``. A benchmark is looked up in ``$CAPSE_DATA/<name>``, then in the cache, and is
downloaded into the cache if it is in neither. The dataset ``countries`` comes with the package.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from capse.errors import UnknownNameError
from capse.graph.download import fetch_folder

EMBEDDED = "countries"


@dataclass(frozen=True)
class Benchmark:
    """A public dataset: its archive, the checksum of that, and the sizes that its paper states."""

    name: str
    url: str
    sha256: str
    entities: int
    relations: int
    train: int
    valid: int
    test: int
    members: tuple[str, ...] = ("train.txt", "valid.txt", "test.txt")


BENCHMARKS = {
    benchmark.name: benchmark
    for benchmark in (
        Benchmark(
            name="wn18rr",
            url="https://github.com/TimDettmers/ConvE/raw/master/WN18RR.tar.gz",
            sha256="1eb9152f804c140d163462c0d49f65e5a0b30ab5fbb375c5e3353c11a6249060",
            entities=40_943,
            relations=11,
            train=86_835,
            valid=3_034,
            test=3_134,
        ),
        Benchmark(
            name="fb15k-237",
            url="https://github.com/TimDettmers/ConvE/raw/master/FB15k-237.tar.gz",
            sha256="311df7930f842a02979eaa7a802484a6afe62303c07f915f1e6edbc30cbe05e8",
            entities=14_541,
            relations=237,
            train=272_115,
            valid=17_535,
            test=20_466,
        ),
    )
}


def dataset_names() -> list[str]:
    """Every dataset that has a name.

    >>> dataset_names()
    ['countries', 'wn18rr', 'fb15k-237']
    """
    return [EMBEDDED, *BENCHMARKS]


def find_dataset(name: str) -> Path | None:
    """The folder of a named dataset, or None while it has not been downloaded."""
    if name == EMBEDDED:
        return Path(str(resources.files("capse.graph"))) / "embedded"
    if name not in BENCHMARKS:
        raise UnknownNameError("dataset", name, dataset_names(), f"choose from {', '.join(dataset_names())}")
    places = [Path(os.environ["CAPSE_DATA"])] if os.environ.get("CAPSE_DATA") else []
    return next((place / name for place in [*places, cache_folder()] if (place / name).is_dir()), None)


def get_dataset(name: str) -> Path:
    """The folder of a named dataset, downloaded first if need be (from ``$CAPSE_MIRROR`` if that is set)."""
    found = find_dataset(name)
    if found is not None:
        return found
    benchmark, folder = BENCHMARKS[name], cache_folder() / name
    fetch_folder(_mirrored(benchmark.url), benchmark.sha256, benchmark.members, folder)
    return folder


def cache_folder() -> Path:
    """Where downloads are kept: ``$CAPSE_CACHE``, else a folder of the platform's cache."""
    if chosen := os.environ.get("CAPSE_CACHE"):
        return Path(chosen)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "capse"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "capse"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "capse" / "Cache"
    return Path.home() / ".cache" / "capse"


def _mirrored(url: str) -> str:
    mirror = os.environ.get("CAPSE_MIRROR")
    return f"{mirror.rstrip('/')}/{url.rpartition('/')[2]}" if mirror else url
