"""The formats of logs that can be ingested: log sources by name, imported when they are needed.

A source is a module, or any object, with the two functions of `Source`. Another package registers one with an entry
point of the group ``capse.log_sources``::

    [project.entry-points."capse.log_sources"]
    pairs = "capse_pairs"

where ``capse_pairs.py`` is, for a log of lines ``seconds user query shown,shown,... clicked``::

    def suits(paths):
        return any(path.suffix == ".pairs" for path in files_of(paths))

    def stage(paths, staging):
        for path in files_of(paths):
            for number, line in enumerate(path.read_text().splitlines(), start=1):
                try:
                    seconds, user, query, shown, clicked = line.split(" ")
                    time = parse_time(float(seconds))
                except (ValueError, DataError) as error:
                    staging.reject(path.name, number, f"not a pair ({error})", line)
                    continue
                for position, document in enumerate(shown.split(","), start=1):
                    staging.result(str(number), time=time, user=user, query=query, position=position, document=document)
                staging.click(str(number), clicked)

From then on ``capse search ingest --format pairs`` works, the format is found out where it is not given, and
``--help`` lists it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from capse.errors import DataError
from capse.registry import Registry
from capse.search.ingest.staging import Staging


class Source(Protocol):
    """A format of logs. ``paths`` are the files and folders that the user named."""

    def suits(self, paths: Sequence[Path]) -> bool:
        """Whether these look like this format; cheap, and never an error."""
        ...

    def stage(self, paths: Sequence[Path], staging: Staging) -> None:
        """Bring the log into the staged form (`capse.search.ingest.staging`).

        A file that cannot be read at all is a DataError; a row that cannot be read is rejected.
        """
        ...


SOURCES: Registry[Source] = Registry(
    "format",
    "capse.log_sources",
    {
        "jsonl": f"{__name__}.jsonl",
        "csv": f"{__name__}.delimited",
        "parquet": f"{__name__}.parquet",
        "search17": f"{__name__}.search17",
        "trec": f"{__name__}.trec",
        "metarank": f"{__name__}.metarank",
        "ubi": f"{__name__}.ubi",
        "git": f"{__name__}.git",
    },
)


def detect(paths: Sequence[Path]) -> str:
    """The name of the format that the files are in, judged by their content."""
    for path in paths:
        if not path.exists():
            raise DataError(f"{path}: no such file or folder", "check the path")
    for name, source in SOURCES.items():
        if source.suits(paths):
            return name
    names = ", ".join(str(path) for path in paths)
    raise DataError(f"{names}: no log in a known format", f"name it with --format: {', '.join(SOURCES)}")
