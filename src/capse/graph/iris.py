"""IRIs as people read them."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from capse.graph.encoding import IntTriples, distinct
from capse.graph.readers.rows import label_problem
from capse.graph.values import renamed
from capse.graph.vocabulary import Vocabulary

if TYPE_CHECKING:
    from capse.graph.dataset import Graph

_IRI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")


def local_name(label: str) -> str:
    """The last part of an IRI, with spaces; any other label as it is.

    >>> local_name("http://x/y#Foo_Bar"), local_name("http://x/S%C3%A3o_Paulo/"), local_name("urn:isbn:12")
    ('Foo Bar', 'São Paulo', '12')
    >>> local_name("New York")
    'New York'
    """
    if not _IRI.fullmatch(label):
        return label
    last = re.split("[#/:]", label.rstrip("#/:"))[-1]
    with suppress(UnicodeDecodeError):  # escaped bytes that are not UTF-8 stay escaped
        last = unquote(last, errors="strict")
    return " ".join(last.replace("_", " ").split()) or label


def with_local_labels(graph: Graph) -> tuple[Graph, int]:
    """The graph with the local names of IRIs as labels, and how many IRIs stay: those whose local name others share."""
    entities, entity_ids, entities_stay = _relabelled(graph.entities)
    relations, relation_ids, relations_stay = _relabelled(graph.relations)

    def renumbered(triples: IntTriples) -> IntTriples:
        heads, relation, tails = triples.T
        moved = np.stack([entity_ids[heads], relation_ids[relation], entity_ids[tails]], axis=1)
        return distinct(moved, len(entities), len(relations))

    train, valid, test = map(renumbered, (graph.train, graph.valid, graph.test))
    weights = {
        split: values[_order(graph.split(split), entity_ids, relation_ids)] for split, values in graph.weights.items()
    }
    relabelled = replace(
        graph,
        entities=entities,
        relations=relations,
        train=train,
        valid=valid,
        test=test,
        weights=weights,
        values=renamed(graph.values, graph.entities.labels, [entities.labels[new] for new in entity_ids]),
    )
    return relabelled, entities_stay + relations_stay


def _order(
    triples: IntTriples, entity_ids: npt.NDArray[np.int32], relation_ids: npt.NDArray[np.int32]
) -> npt.NDArray[np.int64]:
    """Where each triple comes from, once renumbered and sorted."""
    heads, relations, tails = triples.T
    return np.lexsort((entity_ids[tails], relation_ids[relations], entity_ids[heads]))


def _relabelled(vocabulary: Vocabulary) -> tuple[Vocabulary, npt.NDArray[np.int32], int]:
    """The new vocabulary, the new id of each old one, and how many IRIs stay labels."""
    local = [local_name(label) for label in vocabulary.labels]
    taken = Counter(local) + Counter(vocabulary.labels)  # a label that is its own local name counts twice
    pairs = list(zip(vocabulary.labels, local, strict=True))
    labels = [name if taken[name] == 1 and not label_problem(name) else label for label, name in pairs]
    order = sorted(range(len(labels)), key=labels.__getitem__)
    ids = np.empty(len(labels), np.int32)
    ids[order] = np.arange(len(labels), dtype=np.int32)
    names = None if vocabulary.names is None else [vocabulary.names[old] for old in order]
    stay = sum(label != name and label == new for (label, name), new in zip(pairs, labels, strict=True))
    return Vocabulary([labels[old] for old in order], names, vocabulary.kind), ids, stay
