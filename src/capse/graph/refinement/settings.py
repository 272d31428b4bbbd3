"""Which motifs re-rank a run's answers, how their weights are fitted, and how the two scores become one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from capse.errors import SettingsError
from capse.runs.settings import Section, check_choices


@dataclass(frozen=True)
class Refinement(Section):
    """Motifs of the training graph that re-rank a run's best answers; see `capse.kernels.motifs`."""

    top: int = 100  # how many of a question's best answers may change places; below them nothing moves
    relations: Literal[2, 3] = 3  # motifs of up to so many relations
    least: int = 1  # keep motifs that occur so often in training; of few relations all are kept that there can be
    self_loops: bool = True  # whether a question's own entity may be a negative, and told from others
    legs: bool = False  # count closures of paths that the edge is part of, too; the published model does not
    alpha: Literal["sum", "one", "relation"] = "sum"
    """A plain sum of both scores; or (1 − α) score + α motifs with ``one`` α for all relations, or one for each, chosen
    on the validation set."""
    symmetric: bool = False  # put t first where (t, r, s) is a training fact of a relation that goes both ways
    sides: Literal["both", "tail"] = "both"  # which questions the weights are fitted to
    negatives: int = 10  # negatives of each true answer, drawn as the run's own softmax has it
    importance: bool = True  # weigh a drawn answer by 1/q, q being its chance to be drawn
    clip: float = 5.0  # the greatest length of a question's gradient
    penalty: float = 0.01  # λ, of the length of w

    def __post_init__(self) -> None:
        check_choices(self, "refinement")
        for key in ("top", "least", "negatives"):
            if getattr(self, key) < 1:
                raise SettingsError(f"refinement.{key} is {getattr(self, key)}", "choose 1 or more")
        if self.clip <= 0:
            raise SettingsError(f"refinement.clip is {self.clip}", "choose a number above 0")
        if self.penalty < 0:
            raise SettingsError(f"refinement.penalty is {self.penalty}", "choose 0 or more")
