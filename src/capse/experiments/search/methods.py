"""Search methods by name: how each makes a ranker from a log, and what it keeps as a run.

Another package registers one with an entry point of the group ``capse.search_methods``::

    [project.entry-points."capse.search_methods"]
    newest = "capse_newest:METHOD"

From then on ``capse search train`` and ``evaluate`` take ``--method newest``, and list it in their help.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from capse.errors import RunError, SettingsError
from capse.registry import Registry

if TYPE_CHECKING:  # the names of methods are listed without waiting for what they are made of
    from capse.experiments.engine import Listener
    from capse.search.evaluation.judged_lists import Ranker
    from capse.search.logs.search_log import SearchLog

COMMAND = "capse search train"
BEST = "forests"  # where no method is named


class SearchMethod:
    """A way to rank the lists of a log. One that learns nothing has `fit` alone.

    >>> import numpy as np
    >>> class Reversed(SearchMethod):
    ...     "The engine's order, upside down."
    ...     def fit(self, log, recipe=None, *, seed=None, listener=None):
    ...         return self
    ...     def score(self, log, impressions, cutoffs):
    ...         return log.position[log.rows(impressions)].astype(float)
    >>> METHOD = Reversed("reversed")

    What one that learns is trained with is its ``recipe``: whatever `resolve` makes of ``--recipe`` and ``--set``, None
    where there is nothing to choose. A run folder is whatever `save` writes, and ``recipe.yaml``.
    """

    learns = False  # whether there is anything to train, to save and to load

    def __init__(self, name: str) -> None:
        self.name = name

    def resolve(self, recipe: str | Path | None = None, overrides: Sequence[str] = ()) -> Any:
        """What to train with; raises what is wrong with it."""
        if recipe or overrides:
            raise SettingsError(f"--method {self.name} has no recipe", "leave out --recipe and --set")

    def epochs(self, recipe: Any) -> int:
        """How many epochs training takes; 0 if it is not counted in epochs."""
        return 0

    def fit(
        self, log: SearchLog, recipe: Any = None, *, seed: int | None = None, listener: Listener | None = None
    ) -> Ranker:
        """A ranker made from the training and validation periods of a log; ``seed`` takes the place of the recipe's.

        Without a ``recipe`` it is the method's own.
        """
        raise NotImplementedError

    def save(self, ranker: Any, folder: Path, recipe: Any = None) -> None:
        """Write what `load` reads into a folder."""
        raise NotImplementedError

    def settings(self, ranker: Any, recipe: Any = None) -> dict[str, Any]:
        """What is said of a ranker in ``recipe.yaml``, beside the method."""
        return {}

    def notes(self, ranker: Any) -> list[str]:
        """What whoever trains a ranker should know of it, a line each."""
        return []

    def load(self, run: Path) -> Ranker:
        """The ranker of a run of this method."""
        raise NotImplementedError

    def recipe_of(self, run: Path) -> Path | None:
        """The recipe to train a run's ranker anew with, as `resolve` takes it."""
        return None

    def train(
        self,
        log: SearchLog,
        recipe: Any = None,
        *,
        out: str | Path,
        resume: bool = False,
        listener: Listener | None = None,
    ) -> None:
        """Fit and leave a run in ``out``, whole or not at all."""
        import yaml

        from capse.experiments.search.log_identity import write_identity
        from capse.runs.atomic import atomic_folder, check_free, write_text
        from capse.runs.folder import RunFolder
        from capse.runs.formats import FORMAT
        from capse.runs.manifest import write_manifest

        if resume:
            raise SettingsError(f"--resume is given with --method {self.name}", "train it anew, with another --out")
        check_free(Path(out))
        ranker = self.fit(log, recipe, listener=listener)
        if listener is not None:
            for note in self.notes(ranker):
                listener.message(note)
        with atomic_folder(Path(out)) as folder:
            self.save(ranker, folder, recipe)
            write_identity(folder, log)
            sections = {"format": FORMAT, "method": self.name, **self.settings(ranker, recipe)}
            write_text(RunFolder(folder).recipe, yaml.safe_dump(sections, sort_keys=False, allow_unicode=True))
            write_manifest(folder)


_BASELINES = "capse.experiments.search.baseline_methods"
_LAMBDAMART = "capse.experiments.search.lambdamart_methods"
_NEURAL = "capse.experiments.search.neural_methods"

METHODS: Registry[SearchMethod] = Registry(
    "method",
    "capse.search_methods",
    {
        "se": f"{_BASELINES}:SE_METHOD",
        "ci": f"{_BASELINES}:CI_METHOD",
        "pclick": f"{_BASELINES}:PCLICK_METHOD",
        "session-refinding": f"{_BASELINES}:SESSION_REFINDING",
        "user-refinding": f"{_BASELINES}:USER_REFINDING",
        "click-through": f"{_BASELINES}:CLICK_THROUGH",
        "document-only": f"{_BASELINES}:DOCUMENT_ONLY",
        "sp": f"{_LAMBDAMART}:SP_METHOD",
        "forests": f"{_LAMBDAMART}:FORESTS_METHOD",
        "capsules": f"{_LAMBDAMART}:CAPSULES",
        "transe": f"{_NEURAL}:TRANSE",
        "convkb": f"{_NEURAL}:CONVKB",
        "capse": f"{_NEURAL}:CAPSE",
        "blend": f"{_LAMBDAMART}:BLEND",
    },
)


def trainable(name: str) -> SearchMethod:
    """The method of this name, which must be one that learns."""
    method = METHODS[name]
    if not method.learns:
        learn = ", ".join(other for other in METHODS if METHODS[other].learns)
        raise SettingsError(f"--method {name} learns nothing", f"runs are of {learn}")
    return method


def method_of(run: str | Path) -> str:
    """The method that a run was trained with: its recipe's ``method``, or that of its model."""
    from capse.runs.folder import RunFolder
    from capse.search.rankers.search_run import LIST_MODELS

    folder = RunFolder(run)
    recipe = folder.read_recipe() if folder.recipe.is_file() else {}
    model = recipe.get("model")
    name = recipe.get("method") or (isinstance(model, dict) and LIST_MODELS.get(model.get("name", "")))
    if not name:
        raise RunError(f"{run} is not a run of a search log", f"give the folder named by --out in '{COMMAND}'")
    return str(name)


def load_search_run(run: str | Path) -> Ranker:
    """The ranker of a run of any method."""
    from capse.runs.folder import RunFolder

    method = trainable(method_of(run))
    RunFolder(run).check()
    return method.load(Path(run))
