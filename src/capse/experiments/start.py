"""Where embeddings start: another run, word vectors or an encoder, values, or the model's own random start."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from capse.arrays import Bools, Float32s
from capse.errors import DataError, SettingsError
from capse.experiments.recipe import Start
from capse.graph.dataset import Graph
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.graph.readers.files import lines
from capse.graph.values import features
from capse.graph.word_vectors import average_word_vectors
from capse.models import TripleModel, model_settings
from capse.runs.folder import RunFolder
from capse.search.vectors.encoders import load_encoder


@torch.no_grad()
def start_embeddings(model: TripleModel, graph: Graph, settings: Start, dim: int) -> str:
    """Fill the tables of a model of size ``dim`` as the settings say; returns one line about what was done."""
    if settings.run:
        return _from_runs(model, graph, [settings.run, *([settings.beside] if settings.beside else [])], dim)
    said, room = [], dim
    if settings.values:
        room, line = _from_values(model, graph, dim)
        said.append(line)
    if settings.words or settings.encoder:
        said.insert(0, _from_texts(model, graph, settings, room, dim - room))
    if said:
        model.constrain()
    return "; ".join(said) or "embeddings start at random"


def _from_values(model: TripleModel, graph: Graph, dim: int) -> tuple[int, str]:
    """Entities' numbers in the last of ``dim`` columns, as large as what stands there; how many columns are left."""
    names, numbers = features(graph.values, graph.entities)
    if not names:
        raise SettingsError(f"no property of {graph.name} has two values", "leave out start.values, or import values")
    if len(names) >= dim:
        remedy = f"set model.dim above {len(names)}, or import fewer properties"
        raise SettingsError(f"there are {len(names):,} properties with values, and model.dim is {dim}", remedy)
    first = dim - len(names)
    size = model.entities[:, first:dim].square().mean().sqrt()
    model.entities[:, first:dim] = torch.from_numpy(numbers).to(model.entities) * size
    known = int((numbers != 0).any(axis=1).sum())
    return first, f"{known:,} of {len(graph.entities):,} entities start with values of {', '.join(names)}"


def _from_runs(model: TripleModel, graph: Graph, paths: list[str], dim: int) -> str:
    """Each run's vectors in the dimensions after those of the run before it."""
    sources = [LinkPredictor.load(path, device="cpu") for path in paths]
    if model.scorer.blocks:
        return _into_blocks(model, graph, sources, paths, model.scorer.blocks)
    sizes = [model_settings(RunFolder(path).read_recipe()["model"]).dim for path in paths]
    if sum(sizes) != dim:
        found = " and ".join(f"{size} in {path}" for size, path in zip(sizes, paths, strict=True))
        remedy = "give both the same model.dim" if len(paths) == 1 else f"set model.dim={sum(sizes)}"
        raise SettingsError(f"model.dim is {dim}, and {found}", remedy)
    done, first = [], 0
    parts = _parts(model, dim)
    for source, path, size in zip(sources, paths, sizes, strict=True):
        alone = len(paths) == 1  # else what a vector has beyond its dimensions would lie where the other run's are
        done.append(
            _from_run(model, graph, source, path, first, None if alone else parts * size, 1 if alone else parts)
        )
        first += size
    return "; ".join(done)


def _parts(model: TripleModel, dim: int) -> int:
    """How many numbers a vector has for each dimension, one after the other: 2 of ComplEx, real and imaginary parts."""
    widths = {table.shape[1] for table in (model.entities, model.relations)}
    return widths.pop() // dim if len(widths) == 1 else 1


def _into_blocks(
    model: TripleModel, graph: Graph, sources: list[LinkPredictor], paths: list[str], blocks: tuple[int, ...]
) -> str:
    """Each run's vectors, whole, in the next block of columns."""
    done, first = [], 0
    for place, (source, path) in enumerate(zip(sources, paths, strict=True)):
        width, room = source.model.entities.shape[1], blocks[place] if place < len(blocks) else 0
        if width != room:
            raise SettingsError(
                f"the vectors in {path} have {width} numbers, and the model's part for them {room}",
                "give start.run a ComplEx of model.dim, and start.beside a TransE of model.distance_dims",
            )
        done.append(_from_run(model, graph, source, path, first, width))
        first += width
    return "; ".join(done)


def _from_run(
    model: TripleModel, graph: Graph, source: LinkPredictor, path: str, first: int, most: int | None, parts: int = 1
) -> str:
    """A run's vectors in the columns from ``first`` on, of each part: at most so many, or all that there are."""
    tables = [
        (model.entities, graph.entities, source.model.entities, source.graph.entities),
        (model.relations, graph.relations, source.model.relations, source.graph.relations),
    ]
    copied = []
    for target, labels, values, known in tables:
        width, room = values.shape[1], most or target.shape[1]
        if width > room:
            raise SettingsError(
                f"the vectors in {path} have {width} numbers, and there is room for {room}",
                "start from a simpler model, e.g. TransE",
            )
        columns = _columns(first, width, target.shape[1], parts)
        pairs = [(i, known.id(label)) for i, label in enumerate(labels.labels) if label in known]
        here, there = (torch.tensor([pair[side] for pair in pairs], dtype=torch.long) for side in (0, 1))
        target[here[:, None], columns] = values[there]
        copied.append(f"{len(pairs):,} of {len(labels):,}")
    if model.reciprocal:
        relations, count = source.model.relations, source.model.relation_count
        inverses = relations[count:] if source.model.reciprocal else source.model.scorer.inverse(relations)
        if inverses is not None:
            model.relations[here[:, None] + model.relation_count, columns] = inverses[there]
    return f"{copied[0]} entities and {copied[1]} relations start from {path}"


def _columns(first: int, width: int, room: int, parts: int) -> Tensor:
    """Where the ``width`` numbers of a vector go among ``room``, its parts to where each part begins there."""
    starts = torch.arange(parts) * (room // parts) + first
    return (starts[:, None] + torch.arange(width // parts)).reshape(-1)


def _from_texts(model: TripleModel, graph: Graph, settings: Start, dim: int, of_values: int) -> str:
    """Vectors of names in the first ``dim`` columns; ``of_values`` more are taken."""
    names = entity_texts(graph, settings)
    vectors, covered = text_vectors(names, settings)
    width, source = vectors.shape[1], settings.words or settings.encoder
    if width != dim:
        raise SettingsError(
            f"{source} has vectors of {width} numbers, the model's have {dim}", f"set model.dim={width + of_values}"
        )
    rows: Tensor = torch.from_numpy(np.flatnonzero(covered))
    model.entities[rows, :width] = torch.from_numpy(vectors[covered])
    what = "the words in" if settings.words else "their texts by"
    return f"{covered.sum():,} of {len(names):,} entities start from {what} {source}"


def text_vectors(texts: Sequence[str], settings: Start) -> tuple[Float32s, Bools]:
    """What the settings make of texts (n, k), and which of them say something (n,)."""
    if settings.encoder:
        vectors = load_encoder(settings.encoder).encode(texts)
        return vectors, np.abs(vectors).sum(axis=1) > 0
    vectors, covered = average_word_vectors(texts, Path(str(settings.words)))
    if settings.normalise:
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return vectors, covered


def entity_texts(graph: Graph, settings: Start) -> list[str]:
    """The text of every entity that vectors are made of."""
    if settings.names is None:
        return [graph.entities.name(i) for i in range(len(graph.entities))]
    path = Path(settings.names)
    texts: dict[str, str] = {}
    place = -1
    for number, line in lines(path):
        cells = line.rstrip("\r\n").split("\t")
        if number == 1:
            if settings.column not in cells:
                raise DataError(
                    f"{path}, line 1: there is no column {settings.column!r}",
                    f"set start.column to one of {', '.join(cells[1:])}",
                )
            place = cells.index(settings.column)
        elif len(cells) <= place:
            raise DataError(f"{path}, line {number}: {len(cells)} columns", f"give {place + 1} or more, as in line 1")
        else:
            texts[cells[0]] = cells[place]
    return [texts.get(label, "") for label in graph.entities.labels]
