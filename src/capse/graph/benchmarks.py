"""The datasets that have a name, and where they are found.

A new one is one record in ``benchmarks.yaml``. A benchmark is looked up in ``$CAPSE_DATA/<name>``, then in
the cache, and is downloaded into the cache if it is in neither. The dataset ``countries`` comes with the package.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import yaml

from capse.errors import UnknownNameError
from capse.graph.download import Source, fetch_folder
from capse.graph.trust import FirstUse

EMBEDDED = "countries"
_SPLITS = ("train.txt", "valid.txt", "test.txt")


@dataclass(frozen=True)
class Benchmark:
    """A public dataset: where it is, its checksums, and the sizes that its authors state (None: they do not)."""

    name: str
    url: str  # of an archive, or of a folder of plain files; a folder's ends in /
    sha256: tuple[str, ...]  # of the archive, or of each file of a folder; empty where no byte was ever seen
    sizes: dict[str, int | None]  # its published counts by name
    members: tuple[str, ...]  # train, valid and test in the archive or folder; some sets have no others
    licence: str

    @property
    def is_folder(self) -> bool:
        return self.url.endswith("/")

    @property
    def tried(self) -> bool:
        """Whether its bytes were seen, so that what is downloaded can be compared with them."""
        return bool(self.sha256)

    @property
    def files(self) -> tuple[str, ...]:
        """What its members are called here: train.txt, valid.txt, test.txt."""
        return _SPLITS[: len(self.members)]


def _read() -> dict[str, Benchmark]:
    records = yaml.safe_load(resources.files("capse.graph").joinpath("benchmarks.yaml").read_text(encoding="utf-8"))
    counted = ("entities", "relations", "train", "valid", "test")
    return {
        name: Benchmark(
            name,
            record["url"],
            tuple(record.get("sha256", ())),
            dict(zip(counted, record["sizes"], strict=True)),
            tuple(record.get("members", _SPLITS)),
            record.get("licence", "not stated"),
        )
        for name, record in records.items()
    }


BENCHMARKS = _read()


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
    return Source(_mirrored(benchmark), benchmark.sha256, benchmark.members, benchmark.files)


def _mirrored(benchmark: Benchmark) -> str:
    """Where to download from: a mirror has archives by their names, and the files of other sets in folders."""
    mirror = os.environ.get("CAPSE_MIRROR")
    if not mirror:
        return benchmark.url
    return f"{mirror.rstrip('/')}/" + (
        f"{benchmark.name}/" if benchmark.is_folder else benchmark.url.rpartition("/")[2]
    )
