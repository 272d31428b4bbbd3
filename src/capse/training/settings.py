"""How a training goes: for how long, how fast, where, and when it is validated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from capse.errors import SettingsError
from capse.runs.settings import Section, check_choices


@dataclass(frozen=True)
class Training(Section):
    """How long, how fast and where."""

    epochs: int = 50  # 0 makes an untrained run
    batch_size: int = 128  # examples in a step: triples, or with the losses bce and kl questions
    learning_rate: float = 1e-4  # of all parameters
    seed: int = 0  # fixes everything that is drawn
    draw: Literal["shuffle", "replacement"] = "shuffle"  # replacement: independent draws, as the released program
    device: str = "auto"  # auto takes a GPU when there is one
    precision: Literal["float32", "tf32", "bf16"] = "float32"  # tf32: of matrix products; bf16: torch's autocast
    checkpoint_seconds: float = 30.0  # at least this long between two checkpoints
    tensorboard: bool = False  # also write events into the run's tensorboard/; needs the extra tensorboard
    parts: int = 0
    """Parts of a batch that are drawn and differentiated one by one, so that any number of processes up to it gives the
    same weights; a power of 2. 0: undivided where one process trains, 8 or more where torchrun starts it."""
    parallel: Literal["auto", "data", "rows"] = "auto"
    """What several processes have of the entity table: all of it (``data``), or a share of its rows (``rows``).
    ``auto``: ``rows`` where the table and its optimiser's state take more than 1 GiB."""
    wait_seconds: float = 300.0  # that a process waits for another before the job ends with an error

    def __post_init__(self) -> None:
        check_choices(self, "training")
        if self.epochs < 0:
            raise SettingsError(f"training.epochs is {self.epochs}", "choose 0 (an untrained run) or more")
        if self.batch_size < 1:
            raise SettingsError(f"training.batch_size is {self.batch_size}", "choose 1 or more")
        if self.learning_rate <= 0:
            raise SettingsError(f"training.learning_rate is {self.learning_rate}", "choose a number above 0")
        if self.parts < 0 or self.parts & (self.parts - 1):
            raise SettingsError(f"training.parts is {self.parts}", "choose a power of 2, or 0 to have it chosen")
        if self.wait_seconds <= 0:
            raise SettingsError(f"training.wait_seconds is {self.wait_seconds}", "choose a number above 0")
        if not 0 <= self.seed < 2**63:
            raise SettingsError(f"training.seed is {self.seed}", "choose a number from 0 up to, but not, 2^63")


@dataclass(frozen=True)
class ValidationPlan(Section):
    """When to validate, and what to choose the best epoch by."""

    every: int = 10  # epochs between two validations; 0 never validates and keeps the last epoch
    metric: str = "mrr"  # realistic, both sides, filtered; or e.g. tail.pessimistic.hits@10
    patience: int = 0  # stop after this many validations without gain; 0 never stops early

    def __post_init__(self) -> None:
        check_choices(self, "validation")
        for key in ("every", "patience"):
            if getattr(self, key) < 0:
                raise SettingsError(f"validation.{key} is {getattr(self, key)}", "choose 0 or more")


@dataclass(frozen=True)
class Validation(ValidationPlan):
    """When to validate, and what to choose the best epoch by."""

    triples: int = 0  # validate on this many triples only, a fixed sample; 0 takes all

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.triples < 0:
            raise SettingsError(f"validation.triples is {self.triples}", "choose 0 or more")
