"""A trained search run: a scorer over (query, user, document), the vectors it was trained with, and its users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import torch
import yaml

from capse.errors import RunError, SettingsError
from capse.models import ModelSettings, PersonalModel, model_settings, scorer_class
from capse.runs.atomic import atomic_path, write_text
from capse.runs.folder import RunFolder
from capse.runs.settings import fill, load_yaml, to_mapping
from capse.runs.tensors import load_tensors, save_tensors
from capse.search.live import ProfileSettings
from capse.search.vectors import VectorSpace

Float32s = npt.NDArray[np.float32]

METHODS = ("transe", "convkb", "capse")  # the models that are trained on lists and serve
TRAIN = "capse search train"
_REMEDY = "train the run again"


@dataclass(frozen=True)
class SearchRun:
    """What `capse search train` leaves, apart from how it was trained."""

    method: str
    settings: ModelSettings
    profile: ProfileSettings
    model: PersonalModel
    space: VectorSpace
    users: Sequence[str]  # whom the rows of the model's offsets belong to

    @classmethod
    def load(cls, path: str | Path, encoder: str | None = None) -> SearchRun:
        """A finished run. Nothing in the folder is executed: it is numbers and text.

        Where documents were encoded by a function of the user's own, name it again as ``encoder`` to have it called.
        """
        run = RunFolder.open(path, TRAIN)
        if not run.vectors.is_dir():
            raise RunError(f"{path} is not a run of a search log: it has no vectors", f"give one made by '{TRAIN}'")
        try:
            recipe = load_yaml(run.recipe.read_text(encoding="utf-8"), str(run.recipe))
            name, settings = model_settings(recipe["model"])
            profile = fill(ProfileSettings, recipe["profile"], "profile")
        except (OSError, UnicodeDecodeError, KeyError, TypeError, AttributeError) as error:
            raise RunError(f"{run.recipe} is damaged", _REMEDY) from error
        space = VectorSpace.load(run.vectors, encoder)
        users = _read_users(run.users)
        model = personal_model(name, settings, len(users), space.width)
        tensors, _ = load_tensors(run.model, _REMEDY)
        try:
            model.load_state_dict(tensors)
        except RuntimeError as error:
            raise RunError(f"{run.model} does not fit its recipe, vectors and users", _REMEDY) from error
        return cls(name, settings, profile, model.eval(), space, users)

    def save(self, path: str | Path, recipe: str | None = None) -> None:
        """Write all that `load` reads, and the whole ``recipe`` where there is one."""
        run = RunFolder(path)
        sections = {
            "model": {"name": self.method, **to_mapping(self.settings)},
            "vectors": to_mapping(self.space.settings),
            "profile": to_mapping(self.profile),
        }
        write_text(run.recipe, recipe or yaml.safe_dump(sections, sort_keys=False, allow_unicode=True))
        self.space.save(run.vectors)
        with atomic_path(run.users) as temporary:
            pq.write_table(pa.table({"user": pa.array(self.users, pa.string())}), temporary)
        self.save_model(run)

    def save_model(self, run: RunFolder) -> None:
        """Write the weights alone."""
        save_tensors(run.model, dict(self.model.state_dict()), {})

    @property
    def width(self) -> int:
        return self.space.width

    @cached_property
    def numbers(self) -> dict[str, int]:
        """The row of the offsets of every user that training knows."""
        return {user: number for number, user in enumerate(self.users)}

    @property
    def follows_clicks(self) -> bool:
        """Whether a user that training knows has a vector that moves with the next click."""
        return self.profile.user != "trained"


def personal_model(name: str, settings: ModelSettings, users: int, width: int, seed: int = 0) -> PersonalModel:
    """A fresh model on the CPU for vectors of ``width`` numbers; the same seed gives the same weights."""
    if name not in METHODS:
        raise SettingsError(f"model.name is {name!r}", f"search is learned by {', '.join(METHODS)}")
    if settings.dim != width:
        raise SettingsError(
            f"model.dim is {settings.dim}, but the vectors have {width} numbers", f"set model.dim={width}"
        )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return PersonalModel(scorer_class(name)(settings), users)


def _read_users(path: Path) -> list[str]:
    try:
        users: list[str] = pq.read_table(path, columns=["user"])["user"].to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise RunError(f"{path} cannot be read ({str(error).splitlines()[0]})", _REMEDY) from error
    return users
