"""Training the network of `capse.search.rankers.capsule_network` on lists of a log."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch

from capse.arrays import Float64s
from capse.experiments.engine import Listener
from capse.models.personal import PersonalModel
from capse.search.rankers.baselines import in_engine_order
from capse.search.rankers.capsule_network import (
    CapsuleNetwork,
    FeatureScale,
    NetworkSettings,
    fresh_scorer,
    matrix_sides,
    rows_of_lists,
)
from capse.search.rankers.lambdamart import LabelledLists
from capse.training.batches import draw_epoch, steps_per_epoch
from capse.training.learner import GradientLearner
from capse.training.list_objective import ListObjective, Lists, Shown
from capse.training.losses import Loss
from capse.training.optimizers import Optimizer, learning_rate_at
from capse.training.settings import Training


def fit_network(
    train: LabelledLists, valid: LabelledLists, settings: NetworkSettings, listener: Listener | None = None
) -> CapsuleNetwork:
    """Learn from ``train``; the validation lists say how good it is, and then are learned from too."""
    listener = listener or Listener()
    network = _trained(train, settings, listener, "network")
    if not len(valid.lengths):
        return network
    with_user, without_user = (_quality(one, valid) for one in (network, network.without_user()))
    if settings.refit:
        network = _trained(train.followed_by(valid), settings, listener, "network, with the validation lists")
    return replace(network, validation_mrr=with_user, validation_mrr_without_user=without_user)


def _quality(network: CapsuleNetwork, lists: LabelledLists) -> float:
    assert lists.vectors is not None
    scores = network.predict(lists.features, lists.vectors, lists.lengths)
    return lists.quality(in_engine_order(scores, lists.vectors.position.astype(np.int32)))


def _trained(lists: LabelledLists, settings: NetworkSettings, listener: Listener, what: str) -> CapsuleNetwork:
    assert lists.vectors is not None
    scale = FeatureScale.of(lists.features)
    scorer = fresh_scorer(settings, scale.width + lists.vectors.queries.shape[1])
    objective = ListObjective(
        PersonalModel(scorer, 0), _matrices(lists, scale), Loss(name="softmax", reduction="mean"), Shown()
    )
    steps = steps_per_epoch(objective.examples, settings.batch_size)
    epochs = max(settings.epochs, math.ceil(settings.least_steps / steps))
    training = Training(
        epochs=epochs,
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        seed=settings.seed,
    )
    optimizer = Optimizer(name="adamw", weight_decay=settings.weight_decay, schedule="cosine")
    learner = GradientLearner(objective, training, optimizer)
    learner.train(True)
    for number in range(epochs):
        epoch = draw_epoch(
            learner.examples,
            number,
            draw="shuffle",
            batch_size=settings.batch_size,
            seed=settings.seed,
            device=learner.device,
        )
        for step in range(steps):
            done = number * steps + step
            rate = learning_rate_at(optimizer, settings.learning_rate, done / (epochs * steps))
            learner.step(epoch, step, rate)
            listener.prepare(what, done + 1, epochs * steps)
    return CapsuleNetwork(scale, settings, scorer.eval())


def _matrices(lists: LabelledLists, scale: FeatureScale) -> Lists:
    """Every result as a document of its own: the columns [1, q], [0, u] and [x, d] of its list's matrix."""
    vectors, lengths = lists.vectors, lists.lengths
    assert vectors is not None
    rows = list(rows_of_lists(vectors.position, lengths))
    worths = _worths(lists)
    documents = np.full((len(lengths), int(lengths.max())), -1, np.int64)
    weights = np.zeros(documents.shape, np.float32)
    features = np.zeros((len(vectors.documents), scale.width), np.float32)
    for place, of_list in enumerate(rows):
        documents[place, : len(of_list)] = of_list
        weights[place, : len(of_list)] = worths[of_list]
        features[of_list] = scale(lists.features.values[of_list])
    sides = [matrix_sides(scale, query, user) for query, user in zip(vectors.queries, vectors.users, strict=True)]
    arrays = (
        np.stack([query for query, _ in sides]),
        np.stack([user for _, user in sides]),
        np.full(len(lengths), -1),
        documents,
        weights > 0,
        np.hstack([features, vectors.documents]),
    )
    plain = lists.weights is None and lists.gains is None
    found = Lists(*map(torch.from_numpy, arrays))
    return found if plain else replace(found, weights=torch.from_numpy(weights / weights[weights > 0].mean()))


def _worths(lists: LabelledLists) -> Float64s:
    """(rows,) what each result counts for where it was wanted; 0 or below where it was not."""
    found = lists.relevant.astype(np.float64) if lists.gains is None else lists.gains
    return found if lists.rows is None else np.asarray(found * lists.rows)
