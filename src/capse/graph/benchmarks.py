"""The datasets that have a name, and where they are found.

A new one is one record in `capse.graph.benchmark_records`. A benchmark is looked up in ``$CAPSE_DATA/<name>``, then in
the cache, and is downloaded into the cache if it is in neither. The dataset ``countries`` comes with the package.
"""

from __future__ import annotations

import os
import sys
from importlib import resources
from pathlib import Path

from capse.errors import UnknownNameError
from capse.graph.benchmark_records import BENCHMARKS as BENCHMARKS
from capse.graph.benchmark_records import Benchmark as Benchmark
from capse.graph.download import Source, fetch_folder
from capse.graph.trust import FirstUse

EMBEDDED = "countries"


def dataset_names() -> list[str]:
    """Every dataset that has a name.

    >>> dataset_names()[:6]
    ['countries', 'wn18rr', 'fb15k-237', 'kinship', 'umls', 'nations']
    """
    return [EMBEDDED, *BENCHMARKS]


def find_dataset(name: str) -> Path | None:
    """The folder of a named dataset, or None while it has not been downloaded."""
    if name == EMBEDDED:
        return Path(str(resources.files("capse.graph"))) / "embedded"
    if name not in BENCHMARKS:
        raise UnknownNameError("dataset", name, dataset_names(), "'capse data list' shows those there are")
    places = [Path(os.environ["CAPSE_DATA"])] if os.environ.get("CAPSE_DATA") else []
    return next((place / name for place in [*places, cache_folder()] if (place / name).is_dir()), None)


def get_dataset(name: str) -> Path:
    """The folder of a named dataset, downloaded first if need be (from ``$CAPSE_MIRROR`` if that is set).

    Where no checksum is known, the first download is trusted, and every later one has to have the same bytes.
    """
    found = find_dataset(name)
    if found is not None:
        return found
    benchmark, folder = BENCHMARKS[name], cache_folder() / name
    fetch_folder(_source(benchmark), folder, first_use(name))
    return folder


def first_use(name: str) -> FirstUse:
    """What is remembered of the first download of a dataset."""
    return FirstUse(cache_folder() / "trusted.json", name)


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


def _source(benchmark: Benchmark) -> Source:
    checksums = benchmark.sha256 if isinstance(benchmark.sha256, tuple) else (benchmark.sha256,)
    return Source(_mirrored(benchmark), checksums if benchmark.tried else (), benchmark.members, benchmark.files)


def _mirrored(benchmark: Benchmark) -> str:
    """Where to download from: a mirror has archives by their names, and the files of other sets in folders."""
    mirror = os.environ.get("CAPSE_MIRROR")
    if not mirror:
        return benchmark.url
    return f"{mirror.rstrip('/')}/" + (
        f"{benchmark.name}/" if benchmark.is_folder else benchmark.url.rpartition("/")[2]
    )
