"""Steps that a GPU takes by itself: recorded once as a CUDA graph, then replayed.

A step on a small batch is dozens of kernels of a few microseconds each, and to launch them takes longer than they run.
A replay launches all of them at once: scores, loss, gradients, the optimiser and the constraints. What cannot be
recorded, the drawing of negatives, is done for many steps together.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from capse.training.adversarial_step import AdversarialStep
from capse.training.adversary import AdversarialObjective
from capse.training.batches import Epoch
from capse.training.losses import LOSSES
from capse.training.objectives import CorruptionObjective, Objective
from capse.training.optimizers import Optimizer
from capse.training.steps import DrawnFirst, descend

BLOCK = 64  # steps whose negatives are drawn at once: to draw waits for the GPU
WARM_UP = 3  # steps before the first recording: they make the optimiser's state and the libraries' workspaces
MOST_TRIPLES = 2**16  # of a batch, corrupted ones counted: above, kernels take longer than their launches

Work = Callable[[Tensor], Tensor]
Paces = Mapping[torch.optim.Optimizer, float]  # and what share of the training's learning rate is its own


def graph_step(objective: Objective, settings: Optimizer, optimizers: Paces, *, batch_size: int) -> GraphStep | None:
    """The step for an objective and optimisers whose kernels can be recorded; None for others."""
    if type(objective) not in (CorruptionObjective, AdversarialObjective):  # another may do what cannot be recorded
        return None
    assert isinstance(objective, CorruptionObjective | AdversarialObjective)
    if objective.model.device.type != "cuda" or objective.loss.name not in LOSSES.builtin:  # who knows what it does
        return None
    if settings.name == "adagrad" or batch_size * objective.triples_each > MOST_TRIPLES:
        return None
    if any(map(_drops_out, objective.models)):
        return None
    if isinstance(objective, AdversarialObjective) and AdversarialStep.is_fit(objective, settings):
        return GraphStep(objective, optimizers, begin=partial(AdversarialStep, objective, tuple(optimizers)))
    return GraphStep(objective, optimizers)


def _drops_out(model: nn.Module) -> bool:
    """Whether a step draws random numbers of its own, which a replay would not draw from the step's seed."""
    return any(isinstance(x, nn.modules.dropout._DropoutNd) and x.p > 0 for x in model.modules())


class DrawnBlock:
    """What is drawn for the steps of a block.

    Its random numbers are those of the block's first step: entered in the middle, it is drawn the same.
    """

    def __init__(self, objective: DrawnFirst) -> None:
        self.objective = objective
        self.at: tuple[int, int] | None = None  # the epoch and the first step of what was drawn last
        self.rows = torch.empty(0)

    def rows_of(self, epoch: Epoch, step: int) -> Tensor:
        """A step's."""
        first = step - step % BLOCK
        if self.at != (epoch.number, first):
            examples = epoch.batch(first, min(BLOCK, epoch.steps - first))
            self.rows = self.objective.rows(examples, epoch.generator(first))
            self.at = (epoch.number, first)
        start = epoch.start(first)
        return self.rows[epoch.start(step) - start : epoch.start(step + 1) - start]


class _Recording(NamedTuple):
    """A recorded step; the tensors stay where they are, and each replay reads and writes them there."""

    graph: torch.cuda.CUDAGraph
    rows: Tensor
    loss: Tensor


class GraphStep:
    """Models without dropout, on numbers that were drawn before, by fused optimisers."""

    def __init__(self, objective: DrawnFirst, optimizers: Paces, begin: Callable[[], Work] | None = None) -> None:
        """``begin`` makes what takes a step on numbers that were drawn; torch's own way if there is none."""
        self.objective, self.optimizers = objective, optimizers
        self.begin = begin or (lambda: partial(descend, objective, optimizers))
        self.device = objective.models[0].device
        self.stream = torch.cuda.Stream(self.device)
        self.records = True  # until a recording fails
        self.reload()

    def reload(self) -> None:
        self.drawn = DrawnBlock(self.objective)
        self.recordings: dict[int, _Recording] = {}  # by batch size, of which there are at most two
        self.to_warm_up = WARM_UP
        self.learning_rate = float("nan")
        # A recorded number would stay what it was, so rates are tensors.
        self.rates = {optimizer: torch.zeros((), device=self.device) for optimizer in self.optimizers}
        for optimizer, rate in self.rates.items():
            for group in optimizer.param_groups:
                group |= {"lr": rate, "capturable": True}
        self.work: Work = self.begin()

    def flush(self) -> None:
        pass

    def __call__(self, epoch: Epoch, step: int, learning_rate: float) -> Tensor:
        rows = self.drawn.rows_of(epoch, step)
        if learning_rate != self.learning_rate:
            self.learning_rate = learning_rate
            for optimizer, factor in self.optimizers.items():
                self.rates[optimizer].fill_(factor * learning_rate)
        recording = self._recording(rows)
        if recording is None:
            return self._launch(rows)
        recording.rows.copy_(rows)
        recording.graph.replay()
        return recording.loss

    def _recording(self, rows: Tensor) -> _Recording | None:
        """The recording for a batch of this size; None where steps are launched kernel by kernel."""
        if self.to_warm_up:
            self.to_warm_up -= 1
            return None
        if self.records and len(rows) not in self.recordings:
            try:
                self.recordings[len(rows)] = self._record(rows)
            except RuntimeError as error:
                warnings.warn(f"training goes on slowly: a step could not be recorded ({error})", stacklevel=2)
                self.records = False
                self.recordings.clear()
        return self.recordings.get(len(rows))

    def _record(self, rows: Tensor) -> _Recording:
        rows = rows.clone()
        graph = torch.cuda.CUDAGraph()
        pool = next((other.graph.pool() for other in self.recordings.values()), None)
        for (
            optimizer
        ) in self.optimizers:  # so that gradients are written, not added to, and lie where replays find them
            optimizer.zero_grad()
        current = torch.cuda.current_stream(self.device)  # a recording that fails does not go back to it
        with torch.cuda.stream(current), torch.cuda.graph(graph, pool=pool, stream=self.stream):
            loss = self.work(rows)
        return _Recording(graph, rows, loss)

    def _launch(self, rows: Tensor) -> Tensor:
        """The step itself, on the stream that is recorded later: what it leaves behind there is found there."""
        current = torch.cuda.current_stream(self.device)
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            loss = self.work(rows)
        current.wait_stream(self.stream)
        return loss
