"""Train a recipe on a search log and leave a run folder."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from capse.errors import SettingsError
from capse.experiments.engine import Listener, RunEngine
from capse.experiments.search.list_training import ListValidator, start_users, training_lists, training_users
from capse.experiments.search.log_identity import identity, stored_identity, write_identity
from capse.experiments.search.recipe import SearchRecipe, SearchValidation
from capse.models import ModelSettings
from capse.runs.folder import RunFolder
from capse.runs.manifest import entering
from capse.search.logs.search_log import SearchLog
from capse.search.rankers.search_run import SearchRun, personal_model
from capse.search.rankers.standing import FILE as STANDING
from capse.search.rankers.standing import Standing
from capse.search.rankers.training_past import TrainingPast
from capse.search.users.user_state import ProfileSettings
from capse.search.vectors.vector_space import VectorSettings, VectorSpace, build_vectors
from capse.training.learner import GradientLearner
from capse.training.list_objective import ListObjective, Shown
from capse.training.losses import Loss
from capse.training.optimizers import Optimizer
from capse.training.settings import Training


def fit_search(
    log: SearchLog,
    model: ModelSettings | SearchRecipe | str | Path | None = None,
    *,
    out: str | Path | None = None,
    training: Training | None = None,
    loss: Loss | None = None,
    optimizer: Optimizer | None = None,
    validation: SearchValidation | None = None,
    vectors: VectorSettings | None = None,
    profile: ProfileSettings | None = None,
    shown: Shown | None = None,
    resume: bool = False,
    listener: Listener | None = None,
    space: VectorSpace | None = None,
) -> SearchRun:
    """Train on the lists of a log that have a satisfied click; leaves a run in ``out``, a temporary folder if None.

    ``model`` and the sections are as in `capse.fit`. A run that was stopped or killed goes on with ``resume``, and on a
    CPU ends with the same bits as if it had not. ``space`` is one that was built from this log with the recipe's own
    settings, where several runs share it.

    >>> import capse
    >>> from capse.search.logs.simulation import SimulationSettings, simulate
    >>> log = simulate(SimulationSettings(users=5, documents=40, impressions=60)).log
    >>> vectors = capse.VectorSettings(source="encoder", dimensions=8)
    >>> run = fit_search(log, "transe", training=capse.Training(epochs=1), vectors=vectors)
    >>> run.method, run.width
    ('transe', 8)
    """
    recipe = SearchRecipe.of(
        model,
        training=training,
        loss=loss,
        optimizer=optimizer,
        validation=validation,
        vectors=vectors,
        profile=profile,
        shown=shown,
    )
    recipe = replace(recipe, data=log.name)
    if recipe.optimizer.rows == "touched" or recipe.training.parts:
        raise SettingsError(
            "lists of a log are trained undivided, by an optimiser of whole tables",
            "leave optimizer.rows and training.parts out",
        )
    engine = RunEngine(out, recipe, [identity(log)], resume=resume, listener=listener)
    if engine.begun:
        engine.check_data([stored_identity(engine.folder.path)])
        space = VectorSpace.load(engine.folder.vectors, recipe.vectors.encoder)
    users = training_users(log) if recipe.profile.user != "profile" else []
    if space is None:
        engine.listener.message(f"making vectors of {len(log.documents)} documents")
        space = build_vectors(log, recipe.vectors)
    if space.settings != recipe.vectors:
        raise SettingsError("the vectors that are given were made with other settings", "use the recipe's own")
    given = space.vectors(log)
    for note in given.notes:
        engine.listener.message(note)
    network = personal_model(recipe.model, len(users), space.width, recipe.training.seed)
    if recipe.training.epochs and not any(len(parameter.view(-1)) for parameter in network.parameters()):
        remedy = "set profile.user=offset, or training.epochs=0"
        raise SettingsError(f"{recipe.method} has nothing to learn but users' vectors", remedy)
    past = TrainingPast.of(log)
    run = SearchRun(recipe.model, recipe.profile, network, space, users, Standing(), past, engine.folder)
    if recipe.profile.user == "trained":
        start_users(network, log, run, given)
    network.to(engine.device)
    weights = recipe.bias.weights(log, log.of_split("train"))
    objective = ListObjective(network, training_lists(log, run, given, weights), recipe.loss, recipe.shown)
    metric = recipe.validation.metric
    validator = ListValidator(log, run, given, metric, weights) if len(log.judged("valid")) else None
    found: list[Standing] = []

    def begin(folder: RunFolder) -> None:
        run.save_inputs(folder)
        write_identity(folder.path, log)

    def finish(folder: RunFolder) -> None:
        network.eval().to("cpu")
        found.append(validator.standing() if validator else Standing(unknown=recipe.profile.unknown))
        with entering(folder.path, folder.path / STANDING):
            found[0].save(folder.path)
        run.save_weights(folder)

    engine.train(
        GradientLearner(objective, recipe.training, recipe.optimizer),
        validator,
        begin=begin,
        finish=finish,
        results={"leaks": given.leaks},
    )
    return replace(run, standing=found[0])
