"""What a format of graph files is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from capse.graph.readers.rows import Row, Source, table_of


class GraphFormat:
    """How files of one format are read. A format writes `rows`; it overrides `read` where there is a faster way.

    Another package registers an instance under the suffix of its files::

        [project.entry-points."capse.graph_formats"]
        ".pipes" = "capse_pipes:PIPES"

    From then on a folder may hold ``train.pipes``, ``capse data import`` reads it, and ``capse predict --input`` too.
    """

    unit = "line"  # what a row is called in errors
    remedy = "give three labels each: head, relation and tail"

    def rows(self, path: Path) -> Iterator[Row]:
        """Each row of a file: its number and [head, relation, tail], None for what a query leaves open.

        `capse.graph.readers.files.lines` reads text, compressed or not, without trusting it. What cannot be read is a
        DataError that names the file and the line. How many fields there are and what a label may be is checked later.
        """
        raise NotImplementedError

    def read(self, path: Path) -> Source:
        """All triples of a file."""
        return Source(table_of(path, self.rows(path), self.remedy, self.unit))
