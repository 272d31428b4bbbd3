"""Fits the weights of motifs: what the trainer drives where a run is refined."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from capse.arrays import Bools, Float32s, Float64s, Int32s, Int64s
from capse.errors import RunError
from capse.graph.dataset import Graph
from capse.graph.link_prediction.ranking import BYTES_PER_SCORE, MOST_CPU_MEMORY
from capse.graph.refinement.refined_model import RefinedModel
from capse.graph.refinement.settings import Refinement
from capse.kernels.motifs.drawing import draw
from capse.kernels.motifs.fitting import Drawn, Questions, Step, Weights, descend
from capse.training.batches import Epoch
from capse.triples import HEAD, RELATION, TAIL


class MotifLearner:
    """Ranks the true answers of each question above answers drawn by the run's own softmax.

    The run does not change, so all that is drawn, for every epoch, is drawn before the first: its scores are asked for
    once. An example is a question.
    """

    def __init__(
        self,
        refined: RefinedModel,
        graph: Graph,
        *,
        margin: float,
        epochs: int,
        seed: int,
        progress: Callable[[int, int], None] = lambda done, total: None,
    ) -> None:
        self.refined = refined
        self.model = refined.motifs
        self.device = torch.device("cpu")
        self.margin = margin
        self.settings = refined.refinement
        keys = refined.motifs.keys.cpu().numpy()
        self.loops = refined.features.motifs(keys, refined.weights.copy(), legs=self.settings.legs)
        self.squares = np.zeros(len(keys), np.float64)
        self.questions, self.drawn = draw_answers(refined, graph, epochs, seed, progress)
        self.examples = torch.arange(len(self.questions.nodes))

    def train(self, mode: bool) -> None:
        pass

    def step(self, epoch: Epoch, step: int, learning_rate: float) -> Tensor:
        """One step of Adagrad for each question of the batch; returns the mean hinge times their number."""
        order = epoch.batch(step).numpy()
        values = self.refined.weights.copy()
        chosen = self.settings
        how = Step(learning_rate, self.margin, chosen.clip, chosen.penalty)
        weights = Weights(values, self.squares)
        total, count = descend(self.loops, weights, self.questions, self.drawn[epoch.number], order, how)
        self.model.values.copy_(torch.from_numpy(values))
        return torch.tensor(total / max(count, 1) * len(order), dtype=torch.float64)

    def flush(self) -> None:
        pass

    def state_dict(self) -> dict[str, Tensor]:
        kept = {"squares": self.squares, "weighted": self.loops.totals.weighted}
        weights = {f"motifs.{key}": value for key, value in self.model.state_dict().items()}
        return weights | {key: torch.from_numpy(value.copy()) for key, value in kept.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.model.load_state_dict({key.removeprefix("motifs."): state[key] for key in state if "." in key})
        self.squares[:] = state["squares"].numpy()
        self.loops.totals.weighted[:] = state["weighted"].numpy()


def draw_answers(
    refined: RefinedModel, graph: Graph, epochs: int, seed: int, progress: Callable[[int, int], None]
) -> tuple[Questions, list[Drawn]]:
    """All questions of the training facts, and the negatives of each true answer for each epoch."""
    chosen = refined.refinement
    sides = [_of_side(graph, free) for free in ((HEAD, TAIL) if chosen.sides == "both" else (TAIL,))]
    relations, nodes, of_heads, counts, answers = (np.concatenate(parts) for parts in zip(*sides, strict=True))
    starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    questions = Questions(relations, nodes, of_heads, starts, answers, np.empty(len(answers), np.float32))
    generator = np.random.default_rng(seed)
    uniform = generator.random((epochs, len(answers), chosen.negatives), np.float32)
    shape = len(answers), chosen.negatives
    drawn = [
        Drawn(np.empty(shape, np.int32), np.empty(shape, np.float32), np.empty(shape, np.float32))
        for _ in range(epochs)
    ]
    size = max(1, MOST_CPU_MEMORY // (2 * BYTES_PER_SCORE * len(graph.entities)))
    for bounds in (slice(0, len(sides[0][0])), slice(len(sides[0][0]), len(nodes))):
        for start in range(bounds.start, bounds.stop, size):
            part = slice(start, min(start + size, bounds.stop))
            _draw_part(refined, chosen, questions, drawn, uniform, part)
            progress(part.stop, len(nodes))
    return questions, drawn


Side = tuple[Int64s, Int64s, Bools, Int64s, Int64s]


def _of_side(graph: Graph, free: int) -> Side:
    """Relation and given entity of each question, whether it is for heads, how many answers it has, and the answers."""
    given = HEAD + TAIL - free
    triples = graph.train[np.lexsort((graph.train[:, free], graph.train[:, given], graph.train[:, RELATION]))]
    rows: Int64s = triples.astype(np.int64)
    key = rows[:, RELATION] * len(graph.entities) + rows[:, given]
    distinct, counts = np.unique(key, return_counts=True)
    heads_asked: Bools = np.full(len(distinct), free == HEAD)
    relations, nodes = np.divmod(distinct, len(graph.entities))
    return relations, nodes, heads_asked, counts.astype(np.int64), rows[:, free].copy()


@torch.no_grad()
def _draw_part(
    refined: RefinedModel,
    chosen: Refinement,
    questions: Questions,
    drawn: list[Drawn],
    uniform: Float32s,
    part: slice,
) -> None:
    device = refined.device
    relations, nodes = (torch.from_numpy(ids[part]).to(device) for ids in (questions.relations, questions.nodes))
    scores = refined.base_scores(relations, nodes, of_heads=bool(questions.of_heads[part.start]))
    first, last = questions.starts[part.start], questions.starts[part.stop]
    rows = np.repeat(np.arange(len(nodes)), np.diff(questions.starts[part.start : part.stop + 1]))
    true = torch.from_numpy(rows).to(device), torch.from_numpy(questions.answers[first:last]).to(device)
    questions.scores[first:last] = scores[true].cpu().numpy()
    if not np.isfinite(questions.scores[first:last]).all():
        raise RunError("the run gives a training fact a score that is no number", "train it again, with a lower rate")
    allowed = scores.clone()
    allowed[true] = -torch.inf
    if not chosen.self_loops:
        allowed[torch.arange(len(nodes), device=device), nodes] = -torch.inf
    chances = allowed.softmax(1).nan_to_num_(0.0).cpu().numpy()
    for number, answers in enumerate(drawn):
        entities, q = draw(chances, rows, uniform[number, first:last])
        answers.nodes[first:last] = entities
        answers.scores[first:last] = _gather(scores, rows, entities)
        answers.importance[first:last] = _importance(q) if chosen.importance else q > 0


def _gather(scores: Tensor, rows: Int64s, entities: Int32s) -> Float32s:
    places = torch.from_numpy(rows[:, None]).to(scores.device), torch.from_numpy(entities).long().to(scores.device)
    found: Float32s = scores[places].float().cpu().numpy()
    return found


def _importance(q: Float64s) -> Float64s:
    """1/q, within float32; what could not be drawn has no weight."""
    return np.where(q > 0, 1 / np.maximum(q, 1e-30), 0.0)
