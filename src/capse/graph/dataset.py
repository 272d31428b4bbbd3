"""A knowledge graph: two vocabularies and three splits of triples, loaded by name or from a folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from capse.errors import DataError, UnknownNameError
from capse.graph.benchmarks import dataset_names, get_dataset
from capse.graph.encoding import IntTriples, distinct, encode, labels_of
from capse.graph.files import name_parts
from capse.graph.names import read_names
from capse.graph.readers import READERS, read_triples
from capse.graph.rows import Source, table_of
from capse.graph.vocabulary import Vocabulary
from capse.triples import TripleIndex

SPLITS = ("train", "valid", "test")
_SPLIT_OF_STEM = {"train": "train", "valid": "valid", "validation": "valid", "dev": "valid", "test": "test"}
_NAMES_STEMS = ("entities", "relations")


@dataclass(frozen=True, eq=False)
class Graph:
    """A knowledge graph whose triples are divided into train, valid and test.

    Within a split, triples are sorted and distinct, so that a graph depends on what its files say, not on their order;
    ``repeated`` keeps how many lines of each split said again what an earlier one had said.

    >>> graph = Graph.from_triples([("berlin", "capital_of", "germany"), ("paris", "capital_of", "france")])
    >>> graph.train
    array([[0, 0, 2],
           [3, 0, 1]], dtype=int32)
    >>> graph.entities.labels, len(graph.test)
    (['berlin', 'france', 'germany', 'paris'], 0)
    """

    name: str
    entities: Vocabulary
    relations: Vocabulary
    train: IntTriples
    valid: IntTriples
    test: IntTriples
    repeated: Mapping[str, int] = field(default_factory=dict)
    skipped: int = 0  # statements of RDF files that are no triples between two IRIs

    @classmethod
    def from_triples(
        cls,
        train: Iterable[Sequence[str]],
        valid: Iterable[Sequence[str]] = (),
        test: Iterable[Sequence[str]] = (),
        name: str = "graph",
    ) -> Graph:
        """A graph of labelled triples."""
        parts: dict[str, list[tuple[Path, Source]]] = {}
        for split, triples in zip(SPLITS, (train, valid, test), strict=True):
            where, rows = Path(split), list(enumerate(triples, start=1))
            if rows or split == "train":
                parts[split] = [(where, Source(table_of(where, rows, "give three labels each", unit="triple")))]
        return _build(name, parts, names={"entity": {}, "relation": {}})

    def split(self, name: str) -> IntTriples:
        """The triples of 'train', 'valid', 'test' or 'all'."""
        if name == "all":
            return np.concatenate([self.train, self.valid, self.test])
        if name not in SPLITS:
            raise UnknownNameError("split", name, [*SPLITS, "all"], f"choose from {', '.join(SPLITS)}, all")
        triples: IntTriples = getattr(self, name)
        return triples

    @cached_property
    def known(self) -> TripleIndex:
        """Every triple of the three splits."""
        return TripleIndex(self.split("all"), len(self.entities), len(self.relations))

    @cached_property
    def known_in_train(self) -> TripleIndex:
        """Every training triple."""
        return TripleIndex(self.train, len(self.entities), len(self.relations))


def load_graph(source: str | Path, vocabularies: tuple[Vocabulary, Vocabulary] | None = None) -> Graph:
    """Load a dataset by its name, or from a folder with train.*, perhaps valid.*, test.*, entities.tsv, relations.tsv.

    With the ``vocabularies`` of a run (entities, relations), ids are those of the run and every label must be known.
    """
    if str(source) in dataset_names():
        name, folder = str(source), get_dataset(str(source))
    else:
        name, folder = Path(source).resolve().name, Path(source)
        if not folder.is_dir():
            remedy = f"give one of {', '.join(dataset_names())}, or a folder with a file train.tsv"
            raise UnknownNameError("dataset", str(source), dataset_names(), remedy)
    files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    splits = split_files(path for path in files if name_parts(path)[0] in _SPLIT_OF_STEM)
    if "train" not in splits:
        raise DataError(f"{folder}: no train file", f"put a file train there, as one of {' '.join(READERS)}")
    names = [path for path in files if name_parts(path)[0] in _NAMES_STEMS and name_parts(path)[1] == ".tsv"]
    return read_graph(name, {split: [path] for split, path in splits.items()}, names, vocabularies)


def split_files(paths: Iterable[Path]) -> dict[str, Path]:
    """Which file holds which split, by their names; empty if some name is not that of a split.

    >>> sorted(split_files([Path("dev.tsv"), Path("train.tsv.gz")]))
    ['train', 'valid']
    >>> split_files([Path("train.tsv"), Path("more.tsv")])
    {}
    """
    splits: dict[str, Path] = {}
    for path in paths:
        split = _SPLIT_OF_STEM.get(name_parts(path)[0])
        if split is None:
            return {}
        if split in splits:
            raise DataError(f"{splits[split]} and {path} are both the {split} split", "keep one of them")
        splits[split] = path
    return splits


def read_graph(
    name: str,
    files: Mapping[str, Sequence[Path]],
    names_files: Sequence[Path] = (),
    vocabularies: tuple[Vocabulary, Vocabulary] | None = None,
) -> Graph:
    """Read the files of each split, and files of names, into one graph."""
    names: dict[str, dict[str, str]] = {"entity": {}, "relation": {}}
    for path in names_files:
        kind, named = read_names(path)
        names[kind].update(named)
    parts = {split: [(path, read_triples(path)) for path in paths] for split, paths in files.items()}
    return _build(name, parts, names, vocabularies)


def _build(
    name: str,
    parts: Mapping[str, Sequence[tuple[Path, Source]]],
    names: Mapping[str, Mapping[str, str]],
    vocabularies: tuple[Vocabulary, Vocabulary] | None = None,
) -> Graph:
    sources = [source for part in parts.values() for _, source in part]
    if vocabularies is None:
        stated = {label: text for source in sources for label, text in source.names.items()}
        tables = [source.table for source in sources]
        entities = Vocabulary.of(labels_of(tables, "head", "tail"), {**stated, **names["entity"]}, "entity")
        relations = Vocabulary.of(labels_of(tables, "relation"), {**stated, **names["relation"]}, "relation")
    else:
        entities, relations = vocabularies
    splits, repeated = {}, {}
    for split in SPLITS:
        encoded = [encode(path, source.table, entities, relations) for path, source in parts.get(split, [])]
        triples = np.concatenate([np.empty((0, 3), np.int32), *encoded])
        splits[split] = distinct(triples, len(entities), len(relations))
        repeated[split] = len(triples) - len(splits[split])
    skipped = sum(source.skipped for source in sources)
    return Graph(name, entities, relations, **splits, repeated=repeated, skipped=skipped)
