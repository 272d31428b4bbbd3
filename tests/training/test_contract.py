"""What comes next fits the contract of learner, trainer and checkpoints as it is: tried with small stand-ins."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, distributed
from torch.nn.parallel import DistributedDataParallel

from capse.models import TripleModel
from capse.training.adversarial_learner import AdversarialLearner
from capse.training.adversary import Adversary, build_adversarial
from capse.training.checkpoints import Checkpoints, Position
from capse.training.learner import GradientLearner, Learner
from capse.training.loop import StepReport, Trainer
from capse.training.losses import Loss, build_loss
from capse.training.negatives import Negatives
from capse.training.objectives import Objective, build_objective
from capse.training.optimizers import Optimizer
from capse.training.regularizers import Regularizer
from capse.training.settings import Training, Validation
from capse.triples import Triples

TRAINING = Training(epochs=4, batch_size=7, learning_rate=0.05, device="cpu", checkpoint_seconds=0.0)
ModelOf = Callable[..., TripleModel]


class Killed(Exception):
    """Nothing is written any more, as after kill -9."""


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def kill() -> None:
    raise Killed


def trained(
    learner: Learner,
    checkpoints: Checkpoints,
    stop_after: int | None = None,
    stop: Callable[[], None] = interrupt,
    resume: bool = False,
) -> dict[str, Tensor]:
    """The state at the end, or nothing where it is stopped after so many steps."""
    steps = 0

    def on_step(report: StepReport) -> None:
        nonlocal steps
        steps += 1
        if steps == stop_after:
            stop()

    def validate() -> tuple[float, dict[str, Any]]:
        return float(sum(x.double().sum() for x in learner.model.state_dict().values())), {}

    plan = Validation(every=1)
    trainer = Trainer(learner, TRAINING, Optimizer(), plan, checkpoints, validate=validate, on_step=on_step)
    if resume:
        trainer.resume()
    try:
        list(trainer.run())
    except (KeyboardInterrupt, Killed):
        return {}
    return {name: tensor.clone() for name, tensor in learner.state_dict().items()}


def assert_ends_alike(make: Callable[[], Learner], checkpoints: Callable[[str], Checkpoints]) -> None:
    """Stopped or killed at any step and gone on with by new objects, a training ends with the same bits."""
    whole = trained(make(), checkpoints("whole"))
    for step, stop in ((1, interrupt), (8, interrupt), (8, kill), (13, kill)):
        folder = f"{stop.__name__}-{step}"
        assert not trained(make(), checkpoints(folder), stop_after=step, stop=stop)
        again = trained(make(), checkpoints(folder), resume=True)
        assert again.keys() == whole.keys()
        assert all(torch.equal(again[name], whole[name]) for name in whole)


def test_two_scorers_two_optimisers_and_a_state_of_its_own(
    make_model: ModelOf, triples: Triples, tmp_path: Path
) -> None:
    settings = Adversary(learning_rate=0.02, embedding_decay=0.1, candidates=5)
    loss, negatives = Loss(name="margin", margin=3.0), Negatives(count=2)

    def make() -> AdversarialLearner:
        models = make_model("transd", bounded="all"), make_model("convkb", seed=1, filters=3)
        objective = build_adversarial(*models, triples, settings, loss, negatives, Regularizer(l2=0.1))
        return AdversarialLearner(objective, TRAINING, Optimizer(), settings)

    learner = make()
    assert trained(learner, Checkpoints(tmp_path, "x"))["baseline.value"] < 0
    assert {name.partition(".")[0] for name in learner.state_dict()} == {
        "generator", "generator_optimizer", "model", "optimizer", "baseline"
    }  # fmt: skip
    best = load_file(tmp_path / "best.safetensors")
    assert best.keys() == learner.model.state_dict().keys(), "what is validated is what is kept"
    assert_ends_alike(make, lambda name: Checkpoints(tmp_path / name, "x"))


class RelationObjective(Objective):
    """The true relation among all relations: the slot that is free is the relation's."""

    def __init__(self, model: TripleModel, triples: Triples) -> None:
        super().__init__()
        self.model: TripleModel = model
        self.examples: Tensor = torch.from_numpy(triples).long()
        self.loss = Loss(name="softmax")
        self.function: Any = build_loss(self.loss)

    def forward(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        heads, relations, tails = batch.unbind(1)
        loss: Tensor = self.function.reduce(
            self.function.of_entities(self.model.score_relations(heads, tails), relations)
        )
        return loss


@pytest.mark.parametrize("name", ["distmult", "capse"])
def test_a_relation_that_is_free(make_model: ModelOf, triples: Triples, tmp_path: Path, name: str) -> None:
    def make() -> GradientLearner:
        return GradientLearner(RelationObjective(make_model(name), triples), TRAINING, Optimizer())

    def ranks(model: TripleModel) -> float:
        heads, relations, tails = torch.from_numpy(triples).long().unbind(1)
        with torch.no_grad():
            scores = model.score_relations(heads, tails)
            every = model.score_triples(heads[:, None], torch.arange(3), tails[:, None])
        torch.testing.assert_close(scores, every)
        return float((scores > scores.gather(1, relations[:, None])).sum())

    learner = make()
    before = ranks(make_model(name))
    trained(learner, Checkpoints(tmp_path / "once", "x"))
    assert ranks(make_model(name)) == before
    if name == "distmult":
        assert ranks(learner.objective.model) < before  # type: ignore[arg-type]
    assert_ends_alike(make, lambda name: Checkpoints(tmp_path / name, "x"))


class WeightedTriples:
    """Triples with how sure each is, in a column beside them."""

    def __init__(self, triples: Triples, weights: Tensor) -> None:
        self.triples, self.weights = torch.from_numpy(triples).long(), weights

    def __len__(self) -> int:
        return len(self.triples)

    def __getitem__(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return self.triples[rows], self.weights[rows]


class WeightedObjective(Objective):
    """Each triple's terms count as much as its weight says."""

    def __init__(self, model: TripleModel, triples: Triples, weights: Tensor) -> None:
        super().__init__()
        self.model: TripleModel = model
        self.examples = WeightedTriples(triples, weights)
        self.loss = Loss(name="softmax")
        self.function: Any = build_loss(self.loss)

    def forward(self, batch: tuple[Tensor, Tensor], generator: torch.Generator) -> Tensor:
        triples, weights = batch
        heads, relations, tails = triples.unbind(1)
        terms = self.function.of_entities(self.model.score_tails(heads, relations), tails)
        loss: Tensor = self.function.reduce(weights * terms)
        return loss


def test_a_weight_column(make_model: ModelOf, triples: Triples, tmp_path: Path) -> None:
    """A weight of 0 is as good as no triple, and one of 2 as good as the triple twice, in one batch of all of them."""
    weights = torch.ones(len(triples))
    weights[::3], weights[1::3] = 0.0, 2.0
    repeated = np.repeat(triples, weights.int().numpy(), axis=0)
    one_batch = Training(epochs=3, batch_size=1000, learning_rate=0.05)
    ends = []
    for rows, column in ((triples, weights), (repeated, torch.ones(len(repeated)))):
        learner = GradientLearner(WeightedObjective(make_model(), rows, column), one_batch, Optimizer(name="sgd"))
        checkpoints = Checkpoints(tmp_path / str(len(rows)), "x")
        list(Trainer(learner, one_batch, Optimizer(name="sgd"), Validation(every=0), checkpoints).run())
        ends.append(learner.state_dict()["model.entities"])
    torch.testing.assert_close(ends[0], ends[1])
    assert_ends_alike(
        lambda: GradientLearner(WeightedObjective(make_model(), triples, weights), TRAINING, Optimizer()),
        lambda name: Checkpoints(tmp_path / name, "x"),
    )


class ShardedCheckpoints(Checkpoints):
    """Every process writes its rows of each tensor; the manifest, written last, says that all of them are there."""

    def __init__(self, folder: Path, fingerprint: str) -> None:
        super().__init__(folder, fingerprint)
        self.rank, self.size = distributed.get_rank(), distributed.get_world_size()

    def _shard(self, path: Path, rank: int) -> Path:
        return path.with_name(f"{path.stem}-{rank + 1:05}-of-{self.size:05}.safetensors")

    @staticmethod
    def _manifest(path: Path) -> Path:
        return path.with_suffix(".json")

    @property
    def exists(self) -> bool:
        return self._manifest(self.last).exists()

    def save(self, state: Mapping[str, Tensor], position: Position) -> None:
        self._put(self.last, state, {"position": asdict(position)})

    def load(self) -> tuple[dict[str, Tensor], Position]:
        tensors, metadata = self._get(self.last)
        return tensors, Position(**metadata["position"])

    def save_best(self, weights: Mapping[str, Tensor]) -> None:
        self._put(self.best, weights, {})

    def load_best(self) -> dict[str, Tensor]:
        return self._get(self.best)[0]

    def _put(self, path: Path, tensors: Mapping[str, Tensor], metadata: dict[str, Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        own = {
            name: tensor.detach().reshape(-1).tensor_split(self.size)[self.rank].clone()
            for name, tensor in tensors.items()
        }
        save_file(own, self._shard(path, self.rank))
        distributed.barrier()
        if self.rank == 0:
            shapes = {name: list(tensor.shape) for name, tensor in tensors.items()}
            content = {"shards": self.size, "shapes": shapes, "fingerprint": self.fingerprint, **metadata}
            self._manifest(path).write_text(json.dumps(content), encoding="utf-8")

    def _get(self, path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
        manifest = json.loads(self._manifest(path).read_text(encoding="utf-8"))
        assert manifest["fingerprint"] == self.fingerprint
        shards = [load_file(self._shard(path, rank)) for rank in range(manifest["shards"])]
        whole = {
            name: torch.cat([shard[name] for shard in shards]).view(shape) for name, shape in manifest["shapes"].items()
        }
        return whole, manifest


@pytest.fixture
def process_group(tmp_path: Path) -> Iterator[None]:
    """A group of this process alone."""
    distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'group'}", rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


@pytest.mark.usefixtures("process_group")
def test_a_process_group_of_one_with_sharded_checkpoints(make_model: ModelOf, triples: Triples, tmp_path: Path) -> None:
    def alone() -> GradientLearner:
        objective = build_objective(make_model("convkb", filters=3), triples, Loss(), Negatives(count=2), Regularizer())
        learner = GradientLearner(objective, TRAINING, Optimizer())
        learner.quick_step = None  # gradients are shared by autograd's hooks
        return learner

    def in_a_group() -> GradientLearner:
        learner = alone()
        learner.compute = DistributedDataParallel(learner.objective)
        return learner

    expected = trained(alone(), Checkpoints(tmp_path / "alone", "x"))
    found = trained(in_a_group(), ShardedCheckpoints(tmp_path / "group-of-one", "x"))
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert sorted(path.name for path in (tmp_path / "group-of-one").iterdir()) == [
        "best-00001-of-00001.safetensors", "best.json", "last-00001-of-00001.safetensors", "last.json"
    ]  # fmt: skip
    assert_ends_alike(in_a_group, lambda name: ShardedCheckpoints(tmp_path / name, "x"))
