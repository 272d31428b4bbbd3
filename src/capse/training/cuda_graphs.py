"""Steps that a GPU takes by itself: recorded once as a CUDA graph, then replayed.

A step on a small batch is dozens of kernels of a few microseconds each, and to launch them takes longer than they run.
A replay launches all of them at once: scores, loss, gradients, the optimiser and the constraints. What cannot be
recorded, the drawing of negatives, is done for many steps together.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import torch
from torch import Tensor, nn

from capse.training.batches import Epoch
from capse.training.losses import LOSSES
from capse.training.objectives import CorruptionObjective, Objective
from capse.training.optimizers import Optimizer

BLOCK = 64  # steps whose negatives are drawn at once: to draw waits for the GPU
WARM_UP = 3  # steps before the first recording: they make the optimiser's state and the libraries' workspaces
MOST_TRIPLES = 2**16  # of a batch, corrupted ones counted: above, kernels take longer than their launches


def graph_step(
    objective: Objective, settings: Optimizer, optimizer: torch.optim.Optimizer, *, batch_size: int
) -> GraphStep | None:
    """The step for an objective and an optimiser whose kernels can be recorded; None for others."""
    if type(objective) is not CorruptionObjective or objective.model.device.type != "cuda":
        return None
    if objective.loss.name not in LOSSES.builtin:  # who knows what it does
        return None
    if settings.name == "adagrad" or batch_size * (1 + objective.count) > MOST_TRIPLES:
        return None
    return None if _drops_out(objective.model) else GraphStep(objective, optimizer)


def _drops_out(model: nn.Module) -> bool:
    """Whether a step draws random numbers of its own, which a replay would not draw from the step's seed."""
    return any(isinstance(x, nn.modules.dropout._DropoutNd) and x.p > 0 for x in model.modules())


class DrawnBlock:
    """True triples and their corrupted versions, for the steps of a block.

    Its random numbers are those of the block's first step: entered in the middle, it is drawn the same.
    """

    def __init__(self, objective: CorruptionObjective) -> None:
        self.objective = objective
        self.at: tuple[int, int] | None = None  # the epoch and the first step of what was drawn last
        self.rows = torch.empty(0)

    def versions(self, epoch: Epoch, step: int) -> Tensor:
        """A step's heads, relation and tails side by side, (B, (1 + count) + 1 + (1 + count)), the true ones first."""
        first = step - step % BLOCK
        if self.at != (epoch.number, first):
            positives = epoch.batch(first, min(BLOCK, epoch.steps - first))
            heads, relations, tails = self.objective.versions(positives, epoch.generator(first))
            self.rows = torch.cat([heads, relations.unsqueeze(1), tails], 1)
            self.at = (epoch.number, first)
        start = epoch.start(first)
        return self.rows[epoch.start(step) - start : epoch.start(step + 1) - start]


class _Recording(NamedTuple):
    """A recorded step; the tensors stay where they are, and each replay reads and writes them there."""

    graph: torch.cuda.CUDAGraph
    versions: Tensor
    loss: Tensor


class GraphStep:
    """Any model without dropout, against corrupted triples, by a fused optimiser."""

    def __init__(self, objective: CorruptionObjective, optimizer: torch.optim.Optimizer) -> None:
        self.objective, self.optimizer = objective, optimizer
        self.stream = torch.cuda.Stream(objective.model.device)
        self.records = True  # until a recording fails
        self.reload()

    def reload(self) -> None:
        device = self.objective.model.device
        self.drawn = DrawnBlock(self.objective)
        self.recordings: dict[int, _Recording] = {}  # by batch size, of which there are at most two
        self.to_warm_up = WARM_UP
        self.learning_rate = float("nan")
        self.rate = torch.zeros((), device=device)  # a recorded number would stay what it was
        for group in self.optimizer.param_groups:
            group |= {"lr": self.rate, "capturable": True}

    def flush(self) -> None:
        pass

    def __call__(self, epoch: Epoch, step: int, learning_rate: float) -> Tensor:
        versions = self.drawn.versions(epoch, step)
        if learning_rate != self.learning_rate:
            self.learning_rate = learning_rate
            self.rate.fill_(learning_rate)
        recording = self._recording(versions)
        if recording is None:
            return self._launch(versions)
        recording.versions.copy_(versions)
        recording.graph.replay()
        return recording.loss

    def _recording(self, versions: Tensor) -> _Recording | None:
        """The recording for a batch of this size; None where steps are launched kernel by kernel."""
        if self.to_warm_up:
            self.to_warm_up -= 1
            return None
        if self.records and len(versions) not in self.recordings:
            try:
                self.recordings[len(versions)] = self._record(versions)
            except RuntimeError as error:
                warnings.warn(f"training goes on slowly: a step could not be recorded ({error})", stacklevel=2)
                self.records = False
                self.recordings.clear()
        return self.recordings.get(len(versions))

    def _record(self, versions: Tensor) -> _Recording:
        versions = versions.clone()
        graph = torch.cuda.CUDAGraph()
        pool = next((other.graph.pool() for other in self.recordings.values()), None)
        self.optimizer.zero_grad()  # so that gradients are written, not added to, and lie where replays find them
        current = torch.cuda.current_stream(versions.device)  # a recording that fails does not go back to it
        with torch.cuda.stream(current), torch.cuda.graph(graph, pool=pool, stream=self.stream):
            loss = self._learn(versions)
        return _Recording(graph, versions, loss)

    def _launch(self, versions: Tensor) -> Tensor:
        """The step itself, on the stream that is recorded later: what it leaves behind there is found there."""
        current = torch.cuda.current_stream(versions.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            loss = self._learn(versions)
        current.wait_stream(self.stream)
        return loss

    def _learn(self, versions: Tensor) -> Tensor:
        """Nothing here may wait for the GPU, or depend on the numbers in its tensors."""
        objective, each = self.objective, 1 + self.objective.count
        heads, relations, tails = versions.split([each, 1, each], dim=1)
        self.optimizer.zero_grad()
        scores = objective.model.score_triples(heads, relations, tails)
        loss = objective.loss_of(scores, torch.cat([heads[:, :1], relations, tails[:, :1]], 1))
        loss.backward()
        self.optimizer.step()
        objective.model.constrain()
        return loss.detach()
