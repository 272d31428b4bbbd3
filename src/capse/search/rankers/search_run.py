"""A trained search run: a scorer over (query, user, document), the vectors it was trained with, and its users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import torch
import yaml

from capse.errors import RunError, SettingsError
from capse.models import MODELS, ModelSettings, PersonalModel, model_settings, name_of
from capse.runs.atomic import atomic_path, write_text
from capse.runs.folder import RunFolder
from capse.runs.formats import FORMAT
from capse.runs.manifest import entering, write_manifest
from capse.runs.settings import fill, to_mapping
from capse.runs.tensors import load_tensors, save_tensors
from capse.search.rankers.standing import Standing
from capse.search.rankers.training_past import TrainingPast
from capse.search.users.user_state import ProfileSettings
from capse.search.vectors.vector_space import VectorSpace

# The models that are trained on lists and serve, and the method that each belongs to.
LIST_MODELS = {"transe": "transe", "convkb": "convkb", "capse": "capse", "scaled-capse": "capse"}
TRAIN = "capse search train"
_REMEDY = "train the run again"


@dataclass(frozen=True)
class SearchRun:
    """What `capse search train` leaves, apart from how it was trained."""

    settings: ModelSettings
    profile: ProfileSettings
    model: PersonalModel
    space: VectorSpace
    users: Sequence[str]  # whom the rows of the model's offsets belong to
    standing: Standing = field(default_factory=Standing)
    past: TrainingPast = field(default_factory=TrainingPast.empty, repr=False)
    folder: RunFolder | None = None

    @classmethod
    def load(cls, path: str | Path, encoder: str | None = None) -> SearchRun:
        """A finished run. Nothing in the folder is executed: it is numbers and text.

        Where documents were encoded by a function of the user's own, name it again as ``encoder`` to have it called.
        """
        run = RunFolder.open(path, TRAIN)
        if not run.vectors.is_dir():
            raise RunError(f"{path} is not a run of a search log: it has no vectors", f"give one made by '{TRAIN}'")
        recipe = run.read_recipe()
        try:
            settings = model_settings(recipe["model"])
            profile = fill(ProfileSettings, recipe["profile"], "profile")
        except (KeyError, TypeError, AttributeError) as error:
            raise RunError(f"{run.recipe} is damaged", _REMEDY) from error
        space = VectorSpace.load(run.vectors, encoder)
        users = _read_users(run.users)
        model = personal_model(settings, len(users), space.width)
        tensors, _ = load_tensors(run.model, _REMEDY)
        try:
            model.load_state_dict(tensors)
        except RuntimeError as error:
            raise RunError(f"{run.model} does not fit its recipe, vectors and users", _REMEDY) from error
        past = TrainingPast.load(run.path)
        return cls(settings, profile, model.eval(), space, users, Standing.load(run.path), past, run)

    def save(self, path: str | Path, recipe: str | None = None) -> None:
        """Keep the run in a folder: a copy of its own, or with another ``recipe`` all that `load` reads."""
        if recipe is None and self.folder is not None:
            self.folder.copy_to(path)
            return
        run = RunFolder(path)
        sections = {
            "format": FORMAT,
            "model": {"name": name_of(self.settings), **to_mapping(self.settings)},
            "vectors": to_mapping(self.space.settings),
            "profile": to_mapping(self.profile),
        }
        write_text(run.recipe, recipe or yaml.safe_dump(sections, sort_keys=False, allow_unicode=True))
        self.save_inputs(run)
        self.standing.save(run.path)
        self.save_weights(run)
        write_manifest(run.path)

    def save_inputs(self, run: RunFolder) -> None:
        """Write what the model is asked with: vectors, users and what they clicked."""
        self.space.save(run.vectors)
        self.past.save(run.path)
        with atomic_path(run.users) as temporary:
            pq.write_table(pa.table({"user": pa.array(self.users, pa.string())}), temporary)

    def save_weights(self, run: RunFolder) -> None:
        with entering(run.path, run.model):
            save_tensors(run.model, dict(self.model.state_dict()), {})

    @property
    def method(self) -> str:
        return list_method(self.settings)

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


def list_method(settings: ModelSettings) -> str:
    """The method that learns by this model."""
    name = name_of(settings)
    if name not in LIST_MODELS:
        raise SettingsError(f"model.name is {name!r}", f"search is learned by {', '.join(LIST_MODELS)}")
    return LIST_MODELS[name]


def personal_model(settings: ModelSettings, users: int, width: int, seed: int = 0) -> PersonalModel:
    """A fresh model on the CPU for vectors of ``width`` numbers; the same seed gives the same weights."""
    list_method(settings)
    if settings.dim != width:
        raise SettingsError(
            f"model.dim is {settings.dim}, but the vectors have {width} numbers", f"set model.dim={width}"
        )
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return PersonalModel(MODELS[name_of(settings)](settings), users)


def _read_users(path: Path) -> list[str]:
    try:
        users: list[str] = pq.read_table(path, columns=["user"])["user"].to_pylist()
    except (OSError, pa.ArrowException) as error:
        raise RunError(f"{path} cannot be read ({str(error).splitlines()[0]})", _REMEDY) from error
    return users
