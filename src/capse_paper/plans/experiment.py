"""What one line of a plan says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Settings = Literal["paper", "released", "own"]
WN18RR, FB15K237 = "wn18rr", "fb15k-237"
WORDS = (
    ("start.words", "glove/glove.6B.100d.wordnet-subset.txt.gz"),
    ("start.names", "wn18rr/entities.tsv.gz"),
)


@dataclass(frozen=True)
class Experiment:
    """One row of settings, trained once per seed."""

    name: str  # of the folder of its runs
    model: str  # as the paper writes it
    dataset: str
    settings: Settings  # the paper's, its authors' program's, or our own
    recipe: str  # a shipped recipe or a YAML file
    overrides: tuple[str, ...] = ()  # as after --set
    start: str | None = None  # the experiment whose run of the same seed the embeddings start from
    beside: str | None = None  # a second one, for the dimensions after those of the first
    beside_next: bool = False  # of that one the run of the next seed, since the run of the same seed is the start
    adversary: str | None = None  # the experiment whose run of the same seed generates the negatives
    refines: str | None = None  # the experiment whose run of the same seed is refined; the recipe is then a refinement
    against: str | None = None  # the experiment whose run of the same seed it is compared with, triple by triple
    files: tuple[tuple[str, str], ...] = ()  # settings that name a file, and the file below $CAPSE_DATA
    seeds: tuple[int, ...] = (0, 1, 2)
    routing: int | None = None  # m, for the runs of Table 3

    @property
    def starts(self) -> dict[str, str]:
        """The settings that name a run to start from, and the experiment that it is of."""
        named = {"start.run": self.start, "start.beside": self.beside, "adversary.run": self.adversary}
        return {setting: name for setting, name in named.items() if name}

    @property
    def needs(self) -> list[str]:
        """The experiments whose runs must be there first."""
        others = [name for name in (self.refines, self.against) if name]
        return list(dict.fromkeys([*self.starts.values(), *others]))

    def seed_of(self, setting: str, seed: int) -> int:
        """Of which seed the run is that a setting of the run with ``seed`` names."""
        return seed + 1 if setting == "start.beside" and self.beside_next else seed
