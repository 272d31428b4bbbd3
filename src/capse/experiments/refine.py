"""Re-rank a finished run by the shape of the graph around its answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from capse.errors import RunError, SettingsError
from capse.evaluation.metrics import Summary
from capse.experiments.engine import Listener, RunEngine
from capse.experiments.identity import identity
from capse.experiments.loading import load
from capse.experiments.motif_learner import MotifLearner
from capse.experiments.refine_recipe import RefineRecipe, refine_recipe
from capse.experiments.refined_validation import RefinedValidator
from capse.graph.dataset import Graph
from capse.graph.link_prediction.predictor import LinkPredictor, save_run_graph
from capse.graph.refinement.features import Features, check_relations
from capse.graph.refinement.refined_model import RefinedModel
from capse.graph.refinement.settings import Refinement
from capse.models import name_of
from capse.runs.atomic import write_json
from capse.runs.folder import RunFolder
from capse.runs.settings import to_mapping
from capse.training.settings import Training, Validation


def refine(
    run: LinkPredictor | str | Path,
    recipe: RefineRecipe | str | Path | None = None,
    *,
    out: str | Path | None = None,
    refinement: Refinement | None = None,
    training: Training | None = None,
    validation: Validation | None = None,
    overrides: Sequence[str] = (),
    resume: bool = False,
    listener: Listener | None = None,
) -> LinkPredictor:
    """Fit the weights of motifs against a finished run of any model, and leave a run with both in ``out``.

    ``recipe`` is a refinement: itself, its YAML file or its shipped name; ``overrides`` are ``section.key=value``. The
    run that is refined does not change, and the new one does not need it: it has a copy of its weights.

    >>> import capse
    >>> run = capse.fit("countries", capse.DistMult(dim=8), training=capse.Training(epochs=1))
    >>> refined = refine(run, training=capse.Training(epochs=1))
    >>> refined.graph.name, len(refined.predict(relation="borders", head="Kenya", top=3))
    ('countries', 3)
    """
    base = _graph_run(run)
    listener = listener or Listener()
    begun = RunFolder(out) if resume and out is not None and RunFolder(out).recipe.is_file() else None
    stored = _begun_with(begun, base) if begun else None
    chosen = refine_recipe(
        _sections(base),
        _source(recipe, stored),
        overrides=overrides,
        refinement=refinement,
        training=training,
        validation=validation,
    )
    graph = base.graph
    check_relations(graph)
    if chosen.refinement.alpha != "sum" and not len(graph.valid):
        raise SettingsError(
            f"{graph.name} has no validation triples to choose α on", "set refinement.alpha=sum, or hold some out"
        )
    engine = RunEngine(out, chosen, [*identity(graph), _digest(base).encode()], resume=resume, listener=listener)
    features = Features.of(graph.train, len(graph.entities), len(graph.relations), chosen.refinement.relations)
    keys = features.kept(chosen.refinement)
    refined = RefinedModel(base.model.to(engine.device), features, chosen.refinement, keys)
    validator = _validator(refined, graph, chosen, listener)
    learner = MotifLearner(
        refined,
        graph,
        margin=chosen.loss.margin,
        epochs=chosen.training.epochs,
        seed=chosen.training.seed,
        progress=lambda done, total: listener.prepare("drawing answers", done, total),
    )
    alone = None if validator is None else validator.of_the_run()
    predictor = LinkPredictor(refined, graph, engine.folder)
    engine.train(
        learner,
        validator,
        begin=lambda folder: _begin(folder, base),
        finish=predictor.save_weights,
        started=_started(len(keys), alone),
        results={"refined_run": {"validation": alone}, "motifs": len(keys)},
    )
    refined.eval()
    return predictor


def _graph_run(run: LinkPredictor | str | Path) -> LinkPredictor:
    found = run if isinstance(run, LinkPredictor) else load(run, device="cpu")
    if not isinstance(found, LinkPredictor):
        raise RunError(f"{run} is a run on a search log", "name a run on a graph")
    if isinstance(found.model, RefinedModel):
        raise RunError(f"{_name(found)} is refined already", "name the run that it was made from")
    return found


def _source(recipe: RefineRecipe | str | Path | None, stored: Mapping[str, Any] | None) -> Any:
    """Where the sections of a refinement are to be found: what is named, else what it was begun with."""
    if isinstance(recipe, RefineRecipe):
        return _without_base(recipe.to_mapping())
    return stored if recipe is None else recipe


def _without_base(sections: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in sections.items() if key not in ("format", "data", "model")}


def _sections(base: LinkPredictor) -> dict[str, Any]:
    """What a refined run's recipe takes over from the run that it refines."""
    settings = base.model.settings
    assert settings is not None
    return {"data": base.graph.name, "model": {"name": name_of(settings), **to_mapping(settings)}}


def _begun_with(run: RunFolder, base: LinkPredictor) -> dict[str, Any]:
    """The sections that a refinement was begun with; refuses to go on over other weights."""
    run.check_inputs()
    stored = run.read_recipe()
    if "refinement" not in stored:
        raise RunError(f"the run in {run.path} is not a refined one", "choose another --out")
    if json.loads(run.refined.read_text(encoding="utf-8"))["weights"] != _digest(base):
        raise RunError(
            f"the run in {run.path} was begun over other weights than those of {_name(base)}",
            "restore the run that it was begun over, or choose another --out",
        )
    return _without_base(stored)


def _begin(folder: RunFolder, base: LinkPredictor) -> None:
    """Write what a refinement that is stopped goes on with."""
    save_run_graph(folder, base.graph)
    write_json(folder.refined, {"run": _name(base), "weights": _digest(base)})


def _digest(base: LinkPredictor) -> str:
    """What the weights of a run are told from others by."""
    digest = hashlib.sha256()
    for name, tensor in sorted(base.model.state_dict().items()):
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _name(base: LinkPredictor) -> str:
    return base.folder.path.name if base.folder else "a run in memory"


def _validator(
    refined: RefinedModel, graph: Graph, recipe: RefineRecipe, listener: Listener
) -> RefinedValidator | None:
    if not len(graph.valid):
        return None
    return RefinedValidator(
        refined, graph, recipe, lambda done, total: listener.prepare("ranking the validation set", done, total)
    )


def _started(motifs: int, alone: Summary | None) -> str:
    before = "" if alone is None else f"; the run itself has a validation MRR of {alone['realistic']['mrr']:.4f}"
    return f"{motifs:,} motifs{before}"
