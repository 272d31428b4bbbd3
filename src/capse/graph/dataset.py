"""A knowledge graph: two vocabularies and three splits of triples, loaded by name or from a folder."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from capse.arrays import Float32s
from capse.errors import DataError, SettingsError, UnknownNameError
from capse.graph.benchmarks import dataset_names, get_dataset
from capse.graph.columns import is_columns, open_columns
from capse.graph.encoding import IntTriples, distinct, encode, labels_of, weights_of
from capse.graph.iris import local_name
from capse.graph.names import read_names
from capse.graph.readers import READERS, read_triples
from capse.graph.readers.columnar import label_table
from capse.graph.readers.files import name_parts
from capse.graph.readers.memory import read_ids, read_objects
from capse.graph.readers.rows import COLUMNS, Source
from capse.graph.readers.weights import checked_weights
from capse.graph.splits import split_graph
from capse.graph.values import placed, read_values
from capse.graph.vocabulary import Vocabulary
from capse.triples import TripleIndex

SPLITS = ("train", "valid", "test")
_SPLIT_OF_STEM = {
    "train": "train",
    "valid": "valid",
    "validation": "valid",
    "val": "valid",
    "dev": "valid",
    "test": "test",
}
_NAMES_STEMS = ("entities", "relations")
_FEW = 10  # triples; among fewer, one may well have nothing in common with the others


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
    in_named_graphs: int = 0  # statements of RDF files whose graph's name was left out
    headers: Sequence[str] = ()  # of delimited text: which first lines were read as the names of columns
    doubtful: Sequence[str] = ()  # of delimited text: first lines read as triples that may be names of columns
    weights: Mapping[str, Float32s] = field(default_factory=dict)  # of a split's triples; all 1 where it has none
    values: pa.Table | None = None  # numbers and dates of entities by label, see `capse.graph.values`
    values_left_out: int = 0  # those of entities that no triple has
    columns: Path | None = None  # the folder that vocabularies and triples are mapped from

    @classmethod
    def from_triples(
        cls,
        train: Any,
        valid: Any = (),
        test: Any = (),
        name: str = "graph",
        *,
        entities: Sequence[str] | Vocabulary | None = None,
        relations: Sequence[str] | Vocabulary | None = None,
        weights: Any = None,
        seed: int = 0,
        allow_unseen: bool = False,
    ) -> Graph:
        """A graph of triples in memory: an array (n, 3), a data frame, an Arrow table, or an iterable of triples.

        ``valid`` and ``test`` are triples too, or the shares of ``train`` to hold out with ``seed``, as in
        `split_graph`. Triples hold labels (a number is a label, too); with the labels of ``entities`` and
        ``relations`` they hold ids, which are places in those two lists. ``weights`` are numbers, one for each training
        triple; a data frame or table may have a column 'weight' or 'confidence' instead.

        >>> ids = np.array([[0, 0, 1], [1, 0, 2]])
        >>> graph = Graph.from_triples(ids, entities=["paris", "france", "europe"], relations=["in"])
        >>> [[graph.entities.labels[h], graph.entities.labels[t]] for h, r, t in graph.train]
        [['france', 'europe'], ['paris', 'france']]
        """
        if isinstance(valid, float) or isinstance(test, float):
            whole = cls.from_triples(train, name=name, entities=entities, relations=relations, weights=weights)
            return split_graph(whole, _share(valid), _share(test), seed, allow_unseen)
        given = {"train": train, "valid": valid, "test": test}
        if entities is not None and relations is not None:
            return _of_ids(name, given, entities, relations, weights=weights)
        if entities is not None or relations is not None:
            raise SettingsError("the labels of entities or of relations are missing", "give both, or neither")
        sources = {split: read_objects(split, triples, split == "train") for split, triples in given.items()}
        if weights is not None:
            checked = checked_weights("train", weights, sources["train"].table.num_rows)
            sources["train"] = replace(sources["train"], weights=checked)
        parts = {split: [(split, source)] for split, source in sources.items()}
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


def as_graph(data: Any) -> Graph:
    """A graph as it is, a dataset by its name or folder, or triples in memory as `Graph.from_triples` takes them."""
    if isinstance(data, Graph):
        return data
    return load_graph(data) if isinstance(data, str | Path) else Graph.from_triples(data)


def load_graph(
    source: str | Path, vocabularies: tuple[Vocabulary, Vocabulary] | None = None, train_required: bool = True
) -> Graph:
    """Load a dataset by its name, or from a folder with train.*, perhaps valid.*, test.*, entities.tsv, relations.tsv.

    Numbers and dates of entities may lie beside them, as values.tsv (see `capse.graph.values`) or values.parquet. With
    the ``vocabularies`` of a run (entities, relations), ids are those of the run and every label must be known.
    """
    if str(source) in dataset_names():
        name, folder = str(source), get_dataset(str(source))
    else:
        name, folder = Path(source).resolve().name, Path(source)
        if not folder.is_dir():
            wanted = "train.tsv" if train_required else "test.tsv"
            remedy = f"give a name that 'capse data list' shows, or a folder with a file {wanted}"
            raise UnknownNameError("dataset", str(source), dataset_names(), remedy)
    if is_columns(folder):
        return _of_columns(name, folder, vocabularies)
    files = [path for path in sorted(folder.iterdir()) if path.is_file()]
    splits = split_files(path for path in files if name_parts(path)[0] in _SPLIT_OF_STEM)
    if not splits or (train_required and "train" not in splits):
        raise DataError(f"{folder}: no train file", f"put a file train there, as one of {' '.join(READERS)}")
    names = [path for path in files if name_parts(path)[0] in _NAMES_STEMS and name_parts(path)[1] == ".tsv"]
    values = [path for path in files if name_parts(path)[0] == "values"]
    return read_graph(name, {split: [path] for split, path in splits.items()}, names, vocabularies, values_files=values)


def _of_columns(name: str, folder: Path, vocabularies: tuple[Vocabulary, Vocabulary] | None) -> Graph:
    entities, relations, splits, said = open_columns(folder)
    if vocabularies is None or (
        vocabularies[0].labels == entities.labels and vocabularies[1].labels == relations.labels
    ):
        train, valid, test = (splits[split] for split in SPLITS)
        repeated, skipped = said["repeated"], said["skipped"]
        return Graph(name, entities, relations, train, valid, test, repeated, skipped, columns=folder)
    words = [v.arrow() for v in (entities, relations, entities)]
    encoded = {}
    for split, triples in splits.items():
        columns = [label.take(pa.array(np.ascontiguousarray(ids))) for label, ids in zip(words, triples.T, strict=True)]
        encoded[split] = [encode(folder, label_table(columns), *vocabularies)]
    return _of_splits(name, *vocabularies, encoded, {})


def split_files(paths: Iterable[Path]) -> dict[str, Path]:
    """Which file holds which split, by how their names end; empty if some name is not that of a split.

    >>> sorted(split_files([Path("dev.tsv"), Path("umls_train.tsv.gz")]))
    ['train', 'valid']
    >>> split_files([Path("train.tsv"), Path("more.tsv")])
    {}
    """
    splits: dict[str, Path] = {}
    for path in paths:
        split = _SPLIT_OF_STEM.get(re.split("[-_. ]", name_parts(path)[0].lower())[-1])
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
    layout: Mapping[str, Any] | None = None,
    values_files: Sequence[Path] = (),
) -> Graph:
    """Read the files of each split, and files of names and of values, into one graph.

    ``layout`` describes delimited text that is not as its suffix says: delimiter, columns, encoding, trim, comment;
    see `capse.graph.readers.delimited.Delimited`.
    """
    names: dict[str, dict[str, str]] = {"entity": {}, "relation": {}}
    for path in names_files:
        kind, named = read_names(path)
        names[kind].update(named)
    parts = {split: [(path, read_triples(path, layout)) for path in paths] for split, paths in files.items()}
    graph = _build(name, parts, names, vocabularies)
    stated = [value for part in parts.values() for _, source in part for value in source.values]
    values, left_out = placed(
        [*stated, *(value for path in values_files for value in read_values(path))], graph.entities
    )
    return replace(graph, values=values, values_left_out=left_out)


def _build(
    name: str,
    parts: Mapping[str, Sequence[tuple[object, Source]]],
    names: Mapping[str, Mapping[str, str]],
    vocabularies: tuple[Vocabulary, Vocabulary] | None = None,
) -> Graph:
    """A graph of the sources of each split; with each source comes what errors call it."""
    sources = [source for part in parts.values() for _, source in part]
    if vocabularies is None:
        tables = [source.table for source in sources]
        iris = labels_of([source.table for source in sources if source.iris], *COLUMNS)
        stated = {iri: local_name(iri) for iri in iris}
        stated.update(item for source in sources for item in source.names.items())
        entities = Vocabulary.of(labels_of(tables, "head", "tail"), {**stated, **names["entity"]}, "entity")
        relations = Vocabulary.of(labels_of(tables, "relation"), {**stated, **names["relation"]}, "relation")
    else:
        entities, relations = vocabularies
    encoded = {
        split: [encode(where, source.table, entities, relations) for where, source in parts.get(split, [])]
        for split in SPLITS
    }
    weighted = {split: _weights([source for _, source in part]) for split, part in parts.items()}
    graph = _of_splits(name, entities, relations, encoded, weighted)
    left_out = {split: sum(source.repeated for _, source in parts.get(split, [])) for split in SPLITS}
    headers = [f"{where}: {', '.join(s.header)}" for part in parts.values() for where, s in part if s.header]
    return replace(
        graph,
        repeated={split: count + left_out[split] for split, count in graph.repeated.items()},
        skipped=sum(source.skipped for source in sources),
        in_named_graphs=sum(source.in_named_graphs for source in sources),
        headers=headers,
        doubtful=[
            f"{where}: {', '.join(str(column[0]) for column in source.table.columns)}"
            for split, part in parts.items()
            for (where, source), triples in zip(part, encoded[split], strict=True)
            if source.unnamed and _is_alone(graph, triples[0])
        ],
    )


def _is_alone(graph: Graph, triple: npt.NDArray[np.int32]) -> bool:
    """Whether a triple shares no label with any other of a graph, as names of columns do that are read as one."""
    head, relation, tail = triple
    related = [
        rows[(rows[:, 1] == relation) | np.isin(rows[:, ::2], (head, tail)).any(axis=1)]
        for rows in map(graph.split, SPLITS)
    ]
    return len(graph.train) >= _FEW and all((rows == triple).all() for rows in related)


def _weights(sources: Sequence[Source]) -> Float32s | None:
    """The weights of a split's rows, 1 where a file has none; None where no file has any."""
    if all(source.weights is None for source in sources):
        return None
    every = (np.ones(len(s.table), np.float32) if s.weights is None else s.weights for s in sources)
    return np.concatenate([*every])


def _of_ids(name: str, given: Mapping[str, Any], *labels: Sequence[str] | Vocabulary, weights: Any = None) -> Graph:
    (entities, entity_ids), (relations, relation_ids) = map(Vocabulary.in_order, labels, ("entity", "relation"))
    encoded = {}
    for split, triples in given.items():
        heads, relation, tails = read_ids(split, triples, len(entities), len(relations)).T
        encoded[split] = [np.stack([entity_ids[heads], relation_ids[relation], entity_ids[tails]], axis=1)]
    weighted = {} if weights is None else {"train": checked_weights("train", weights, len(encoded["train"][0]))}
    return _of_splits(name, entities, relations, encoded, weighted)


def _of_splits(
    name: str,
    entities: Vocabulary,
    relations: Vocabulary,
    encoded: Mapping[str, Sequence[IntTriples]],
    weighted: Mapping[str, Float32s | None],
) -> Graph:
    joined = {split: np.concatenate([np.empty((0, 3), np.int32), *encoded.get(split, [])]) for split in SPLITS}
    train, valid, test = (distinct(joined[split], len(entities), len(relations)) for split in SPLITS)
    kept = zip(SPLITS, (train, valid, test), strict=True)
    repeated = {split: len(joined[split]) - len(triples) for split, triples in kept}
    graph = Graph(name, entities, relations, train, valid, test, repeated)
    index = TripleIndex(train[:0], len(entities), len(relations))
    weights = {
        split: weights_of(graph.split(split), joined[split], given, index)
        for split, given in weighted.items()
        if given is not None
    }
    return replace(graph, weights=weights)


def _share(part: Any) -> float:
    if isinstance(part, float):
        return part
    if isinstance(part, int | tuple) and not part:
        return 0.0
    raise SettingsError("one split is given and the other is a share", "give two splits, or two shares such as 0.1")
