"""Who ranks: the model, or the engine whose lists it is given. The validation lists decide.

A user of whom nothing is known gets the model without a user. Where a model is not above the engine on the validation
lists, with the user or without, the engine's order stands for those whom that concerns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from capse.arrays import Bools, Float64s, Int64s
from capse.errors import RunError
from capse.runs.atomic import write_json

FILE = "standing.json"  # in the run


@dataclass(frozen=True)
class Standing:
    """MRR, or graded NDCG, on the validation lists; None where there was nothing to measure, and then the model ranks.

    >>> standing = Standing(engine=0.5, model=0.7, without_user=0.4)
    >>> standing.ranks_known, standing.ranks_unknown
    (True, False)
    """

    engine: float | None = None
    model: float | None = None  # with whatever is known of each list's user
    without_user: float | None = None  # for everybody
    unknown: str = "model"  # 'engine' keeps its order for users of whom nothing is known, whatever was measured
    metric: str = "MRR"

    @property
    def ranks_known(self) -> bool:
        """Whether the model ranks for users of whom something is known."""
        return _above(self.model, self.engine)

    @property
    def ranks_unknown(self) -> bool:
        """Whether it ranks for the others."""
        return self.unknown == "model" and self.ranks_known and _above(self.without_user, self.engine)

    def ranks(self, known: Bools) -> Bools:
        """Whether it ranks, given of whom anything is known."""
        return np.where(known, self.ranks_known, self.ranks_unknown)

    def applied(self, scores: Float64s, position: Float64s, known: Bools, lengths: Int64s) -> Float64s:
        """Scores (rows,) in which the engine's order stands where it should, given of which lists' users is known."""
        return np.where(np.repeat(self.ranks(known), lengths), scores, -position)

    def warning(self, method: str) -> str:
        """One line where the engine's order stands because of what was measured; else empty."""
        if not self.ranks_known:
            name, figure, who = method, self.model, "the engine's order stands"
        elif self.unknown == "model" and not self.ranks_unknown:
            name, figure = f"{method} without a user", self.without_user
            who = "users of whom nothing is known keep the engine's order"
        else:
            return ""
        measured = f"an {self.metric}" if self.metric == "MRR" else f"a {self.metric}"
        return f"on the validation lists {name} has {measured} of {figure:.4f}, the engine {self.engine:.4f}: {who}"

    def save(self, folder: Path) -> None:
        write_json(folder / FILE, asdict(self))

    @classmethod
    def load(cls, folder: Path) -> Standing:
        """That of a run; of one from before it was measured, by the paper's rule, which it was then validated by."""
        path = folder / FILE
        if not path.is_file():
            return cls(unknown="engine")
        try:
            content: Mapping[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            engine, model, without_user = (_figure(content[name]) for name in ("engine", "model", "without_user"))
            return cls(engine, model, without_user, str(content["unknown"]), str(content.get("metric", "MRR")))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RunError(f"{path} is damaged", "train the run again") from error


def _above(figure: float | None, engine: float | None) -> bool:
    return figure is None or engine is None or figure > engine


def _figure(value: Any) -> float | None:
    return None if value is None else float(value)
