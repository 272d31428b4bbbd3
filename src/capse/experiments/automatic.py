"""The recipe of a training that names no model: the best that is known, scaled to the graph and to the machine.

It is ComplEx with reciprocal relations, one softmax over all entities, relation prediction beside it, N3 and Adagrad
(Lacroix et al., ICML 2018; Chen et al., AKBC 2021), ended early by the validation set. Five settings follow the graph:

    N3          0.2 / (training triples per entity)^0.6, at most 0.1: vectors that are seen often need less of it
    relations   their prediction weighs 0.25; from 60,000 training triples on a 60th of their number, at most 4
    batch       a 256th of the training triples, as a power of two from 128 to 1,024
    rank        200 for small graphs, 500 from 20,000 training triples on, 1,000 from 60,000 on
    candidates  all entities

Rank and candidates as far as `EPOCHS` epochs fit into `SECONDS` on this machine: else the rank is lowered, and where
100 is too many still, answers are compared with a sample of entities. Chosen on validation sets: decision 032.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from capse.experiments.recipe import Recipe
from capse.graph.dataset import Graph
from capse.models.complex import ComplEx
from capse.runs.devices import choose_device
from capse.training.losses import Loss
from capse.training.negatives import Negatives
from capse.training.optimizers import Optimizer
from capse.training.regularizers import Regularizer
from capse.training.settings import Training, Validation

SECONDS = 1800  # what most trainings should end within
EPOCHS = 40  # after which most trainings have ended
MOST_EPOCHS = 100  # when none has
UNVALIDATED_EPOCHS = 20  # where no validation set says when to end
LARGE = 60_000  # training triples
RANKS = ((LARGE, 1000), (20_000, 500), (0, 200), (0, 100))  # for as many training triples or more
LEAST_RANK = 100
SMALL_WEIGHT = 0.25  # of relation prediction
SAMPLE = 2000  # entities, where there are too many to compare with all
MOST_VALIDATION_TRIPLES = 10_000
MANY_ENTITIES = 100_000  # from here on a step touches a few of them, unless a recipe says otherwise
CORE_SPEED, GPU_SPEED = 2e10, 3e13  # multiply-adds, twice, in a second of training


@dataclass(frozen=True)
class Machine:
    """Where a training is to run, and the floating-point operations of a step that it does in a second."""

    name: str
    speed: float
    gpu: bool

    @classmethod
    def here(cls, device: str = "auto") -> Machine:
        if choose_device(device).type == "cuda":
            return cls("a GPU", GPU_SPEED, gpu=True)
        cores = torch.get_num_threads()
        return cls(f"{cores} core{'s' * (cores > 1)}", cores * CORE_SPEED, gpu=False)


@dataclass(frozen=True)
class Size:
    """What of a graph the settings follow."""

    entities: int
    relations: int
    triples: int  # of the training set
    validated: bool  # whether there is a validation set

    @classmethod
    def of(cls, graph: Graph) -> Size:
        return cls(len(graph.entities), len(graph.relations), len(graph.train), bool(len(graph.valid)))

    @property
    def per_entity(self) -> float:
        return self.triples / self.entities

    def operations(self, rank: int, candidates: int) -> float:
        """Of an epoch: a product and its two gradients for each triple and its inverse, with vectors of 2k numbers."""
        return 2 * self.triples * (candidates + 2 * self.relations) * 2 * rank * 6


def choose(graph: Graph, device: str = "auto") -> Recipe:
    """The recipe for a graph on this machine."""
    return recipe_for(Size.of(graph), Machine.here(device))


def recipe_for(size: Size, machine: Machine) -> Recipe:
    """
    >>> small = Size(entities=100, relations=25, triples=8_000, validated=True)
    >>> recipe = recipe_for(small, Machine("2 cores", 2 * CORE_SPEED, gpu=False))
    >>> recipe.model_name, recipe.model.dim, recipe.regularizer.n3, recipe.training.batch_size
    ('complex', 200, 0.0144, 128)
    """
    rank, candidates = next(_affordable(size, machine))
    sampled = candidates < size.entities
    weight = min(4.0, round(size.relations / 60, 2)) if size.triples >= LARGE else SMALL_WEIGHT
    return Recipe(
        data=None,
        model=ComplEx(dim=rank, reciprocal=True),
        training=Training(
            epochs=MOST_EPOCHS if size.validated else UNVALIDATED_EPOCHS,
            batch_size=2 ** round(math.log2(min(1024, max(128, size.triples / 256)))),
            learning_rate=0.1,
            precision="tf32" if machine.gpu else "float32",
        ),
        loss=Loss(name="softmax", reduction="mean", relation_weight=weight),
        negatives=Negatives(sampler="shared", count=candidates) if sampled else Negatives(sampler="all"),
        optimizer=Optimizer(name="adagrad"),
        regularizer=Regularizer(n3=round(min(0.1, 0.2 / size.per_entity**0.6), 4)),
        validation=Validation(every=2, metric="mrr", patience=5, triples=MOST_VALIDATION_TRIPLES),
    )


def _affordable(size: Size, machine: Machine) -> Iterator[tuple[int, int]]:
    """Ranks and numbers of candidates that fit, the best first; the cheapest in any case."""
    wanted = next(rank for triples, rank in RANKS if size.triples >= triples)
    sample = min(SAMPLE, size.entities)
    for candidates in (size.entities, sample):
        for _, rank in RANKS:
            if rank <= wanted and size.operations(rank, candidates) * EPOCHS <= SECONDS * machine.speed:
                yield rank, candidates
    yield LEAST_RANK, sample


def sampled_where_large(recipe: Recipe, graph: Graph) -> tuple[Recipe, list[str]]:
    """A model's recipe, with its softmax over a sample where there are too many entities; and what to say of that."""
    entities = len(graph.entities)
    if entities < MANY_ENTITIES or recipe.negatives.sampler != "all" or recipe.loss.name != "softmax":
        return recipe, []
    return replace(recipe, negatives=Negatives(sampler="shared", count=SAMPLE)), [
        f"answers are scored against {SAMPLE:,} sampled entities in each step, as {entities:,} would take too long; "
        "negatives.sampler=all takes all"
    ]


def explain(recipe: Recipe, graph: Graph) -> list[str]:
    """What was chosen and why, in three lines."""
    size, machine = Size.of(graph), Machine.here(recipe.training.device)
    model, among = recipe.model, "all entities"
    if recipe.negatives.sampler == "shared":
        among = f"{recipe.negatives.count:,} sampled entities, since all {size.entities:,} would take too long here"
    end = "ended early by the validation set" if size.validated else "as there is no validation set to end it"
    limit = f"at most {recipe.training.epochs} epochs on {machine.name}, {end}"
    return [
        f"no model is named, so the best that is known is trained: ComplEx of rank {model.dim}, reciprocal relations, "
        f"a softmax over {among}, relation prediction",
        f"{size.triples:,} triples, {size.per_entity:.1f} for each of {size.entities:,} entities: "
        f"N3 of {recipe.regularizer.n3:g}, batches of {recipe.training.batch_size:,}",
        f"{limit}; to choose otherwise, name a model or a recipe",
    ]
