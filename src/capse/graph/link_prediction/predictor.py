"""A trained model together with the graph it was trained on: what a run folder holds and what people ask."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import torch
import yaml

from capse.arrays import Int64s
from capse.errors import DataError, RunError
from capse.evaluation.judgements import Judgements
from capse.graph.columns import is_columns
from capse.graph.dataset import Graph, load_graph
from capse.graph.fold_in import FoldIn
from capse.graph.link_prediction.calibration import Calibration, calibrate
from capse.graph.link_prediction.candidates import Candidates
from capse.graph.link_prediction.classification import (
    Classifier,
    Verdict,
    fit_classifier,
    judged_scores,
    verdicts,
)
from capse.graph.link_prediction.completion import PredictedRelation, Prediction, predict
from capse.graph.link_prediction.evaluation import LinkPredictionResult, evaluate
from capse.graph.link_prediction.explanation import Asked, Explanation, explain
from capse.graph.link_prediction.neighbours import Neighbour, similar
from capse.graph.link_prediction.supporting_rules import Rulebook
from capse.graph.link_prediction.triple_files import read_known_triples
from capse.graph.link_prediction.updating import updated
from capse.graph.readers.memory import labelled_rows
from capse.graph.refinement.refined_model import RefinedModel
from capse.graph.refinement.settings import Refinement
from capse.graph.vocabulary import Vocabulary
from capse.graph.writing import save_graph
from capse.kernels.workspace import chunk_size
from capse.models import TripleModel, build_model, model_settings, name_of
from capse.runs.atomic import atomic_folder, check_free, replaced_folder, write_text
from capse.runs.devices import choose_device
from capse.runs.folder import RunFolder
from capse.runs.formats import FORMAT
from capse.runs.manifest import entering, write_manifest
from capse.runs.settings import fill, to_mapping
from capse.runs.tensors import load_tensors, save_tensors
from capse.triples import RELATION, TripleIndex, Triples

LEAST_MAPPED = 2**28  # bytes of a run's numbers, from which on they stay in their file

_REMEDY = "train the model again"


class LinkPredictor:
    """A trained model that knows its graph: score, evaluate and predict by label or name."""

    def __init__(self, model: TripleModel, graph: Graph, folder: RunFolder | None = None) -> None:
        self.model = model.eval()
        self.graph = graph
        self.folder = folder

    @classmethod
    def load(cls, path: str | Path, device: str | torch.device = "auto") -> LinkPredictor:
        """The predictor of a finished run. Nothing in the folder is executed: it is numbers and text.

        On a CPU a large table stays in its file, mapped: what is not in use can leave the memory.
        """
        run = RunFolder.open(path)
        if run.vectors.is_dir():
            raise RunError(f"{path} is a run of a search log", "use it with the commands of 'capse search'")
        recipe = run.read_recipe()
        section, refinement = recipe.get("model"), recipe.get("refinement")
        if not isinstance(section, dict):
            raise RunError(f"{run.recipe} does not say which model this is", _REMEDY)
        settings = model_settings(section)
        graph = load_run_graph(run)
        tensors, _ = load_tensors(run.model, _REMEDY)
        chosen_device = choose_device(device)
        mapped = chosen_device.type == "cpu" and sum(x.nbytes for x in tensors.values()) >= LEAST_MAPPED
        table = partial(torch.empty, device="meta") if mapped else torch.empty
        model = build_model(settings, len(graph.entities), len(graph.relations), table=table)
        try:
            if refinement is not None:
                chosen = fill(Refinement, refinement, "refinement")
                model = RefinedModel.stored(model, graph.train, chosen, tensors)
            model.load_state_dict(tensors, assign=mapped)
        except (RuntimeError, KeyError) as error:
            raise RunError(f"{run.model} does not fit its recipe and vocabulary", _REMEDY) from error
        return cls(model.to(chosen_device), graph, run)

    def save(self, path: str | Path) -> None:
        """Write a new run folder: everything that `load` and the command line need, and the record of the training."""
        check_free(Path(path))
        with atomic_folder(path) as temporary:
            run = RunFolder(temporary)
            if self.folder is not None:
                for name in ("recipe", "metrics", "results", "calibration", "classifier"):
                    source: Path = getattr(self.folder, name)
                    if source.is_file():
                        shutil.copyfile(source, getattr(run, name))
            elif self.model.settings is not None:
                model = {"name": name_of(self.model.settings), **to_mapping(self.model.settings)}
                sections = {"format": FORMAT, "data": self.graph.name, "model": model}
                write_text(run.recipe, yaml.safe_dump(sections, sort_keys=False))
            else:
                raise RunError("this model does not say what its settings are", "make it with build_model")
            save_run_graph(run, self.graph)
            self.save_weights(run)
            write_manifest(temporary)
        self.folder = RunFolder(path)

    def replace(self, path: str | Path) -> None:
        """Write this run in place of the one in ``path``, which stays as it is if anything goes wrong."""
        with replaced_folder(path) as temporary:
            self.save(temporary)
        self.folder = RunFolder(path)

    def save_weights(self, run: RunFolder) -> None:
        """Write the weights into a run that has everything else."""
        with entering(run.path, run.model):
            save_tensors(run.model, dict(self.model.state_dict()), {})

    def encode(self, triples: Any) -> Triples:
        """Ids (n, 3) of triples given by labels or names, in any form that `Graph.from_triples` takes."""
        entities, relations = self.graph.entities, self.graph.relations
        rows = [(entities.id(h), relations.id(r), entities.id(t)) for h, r, t in labelled_rows("triples", triples)]
        return np.array(rows, np.int64).reshape(-1, 3)

    def score(self, triples: Any) -> list[float]:
        """The score of each (head, relation, tail), given by labels or names; higher is more plausible."""
        scores: list[float] = self.score_ids(self.encode(triples)).tolist()
        return scores

    @torch.no_grad()
    def score_ids(self, triples: Triples) -> npt.NDArray[np.floating]:
        """The scores (n,) of triples (n, 3) given by ids."""
        if not len(triples):
            return np.empty(0, np.float32)
        ids = torch.from_numpy(triples).to(self.model.device)
        size = chunk_size(self.model.scorer.floats_per_triple, self.model.device)
        parts = [self.model.score_triples(*part.unbind(1)) for part in ids.split(size)]
        scores: npt.NDArray[np.floating] = torch.cat(parts).cpu().numpy()
        return scores

    def evaluate(self, split: str = "test", data: str | Path | None = None, **options: Any) -> LinkPredictionResult:
        """Rank both sides of every triple of a split of the run's own graph, or of other data in its vocabulary.

        Other data may be a folder with a test file alone. The run's own triples do not compete with its triples, and
        what training never saw is counted by them.
        """
        if data is None:
            return evaluate(self.model, self.graph, split, **options)
        other = load_graph(data, (self.graph.entities, self.graph.relations), train_required=False)
        return evaluate(self.model, other, split, trained_on=self.graph, **options)

    @overload
    def predict(
        self,
        *,
        relation: str,
        head: str | None = None,
        tail: str | None = None,
        top: int = 10,
        new: bool = False,
        among: Candidates | None = None,
    ) -> list[Prediction]: ...

    @overload
    def predict(self, *, head: str, tail: str, top: int = 10, new: bool = False) -> list[PredictedRelation]: ...

    def predict(
        self,
        *,
        relation: str | None = None,
        head: str | None = None,
        tail: str | None = None,
        top: int = 10,
        new: bool = False,
        among: Candidates | None = None,
    ) -> list[Prediction] | list[PredictedRelation]:
        """What best completes (head, relation, ?), (?, relation, tail) or (head, ?, tail); see `completion.predict`."""
        return predict(self, relation=relation, head=head, tail=tail, top=top, new=new, among=among)

    def similar(self, entity: str, top: int = 10) -> list[Neighbour]:
        """The entities whose vectors are nearest to one's; see `neighbours.similar`."""
        return similar(self, entity, top)

    @cached_property
    def _rulebook(self) -> Rulebook:
        """The rules of the graph, which explanations look up."""
        return Rulebook(self.graph)

    def explain(
        self, *, head: str, relation: str, tail: str, asked: Asked = "tail", most: int = 5, removals: bool = False
    ) -> Explanation:
        """What speaks for (head, relation, tail); see `explanation.explain`."""
        return explain(self, head=head, relation=relation, tail=tail, asked=asked, most=most, removals=removals)

    def calibrate(self, seed: int = 0) -> Calibration:
        """Fit probabilities to the validation triples, and keep the fit in the run: predictions then have them."""
        calibration = calibrate(self.model, self.graph, seed)
        if self.folder:
            calibration.save(self.folder)
        return calibration

    def classifier(self, negatives: Any = None, seed: int = 0) -> Classifier:
        """Choose what decides whether a triple is true, on the validation triples, and keep it in the run.

        ``negatives`` are false triples to choose with, a file or by labels; without them hard ones are made.
        """
        if negatives is None:
            chosen = fit_classifier(self, seed=seed)
        else:
            chosen = fit_classifier(self, self._ids(negatives), seed=seed, named=_named(negatives))
        if self.folder:
            chosen.save(self.folder)
        return chosen

    def classify(self, triples: Any, *, classifier: Classifier | None = None) -> list[Verdict]:
        """Whether triples, a file or by labels, are true: by ``classifier``, else the run's, which may be made now."""
        return verdicts(self, classifier or self._classifier(), self._ids(triples))

    def judge(self, true: Any, false: Any, *, classifier: Classifier | None = None) -> Judgements:
        """How well true triples are told from false ones, both files or by labels; none may be among both."""
        positives, negatives = self._ids(true), self._ids(false)
        twice = TripleIndex(positives, len(self.graph.entities), len(self.graph.relations)).contains(*negatives.T)
        if twice.any():
            raise DataError(f"{int(twice.sum()):,} triples are given as true and as false", "take them out of one")
        both = np.concatenate([positives, negatives])
        truth = np.arange(len(both)) < len(positives)
        return (classifier or self._classifier()).judge(judged_scores(self, both), both[:, RELATION], truth)

    def updated(
        self,
        facts: Any,
        settings: FoldIn | None = None,
        *,
        skip_known: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> LinkPredictor:
        """A predictor that knows new facts and their new entities, without training again; see `updating.updated`."""
        return updated(self, facts, settings, skip_known=skip_known, progress=progress)

    def _classifier(self) -> Classifier:
        return (Classifier.load(self.folder) if self.folder else None) or self.classifier()

    def _ids(self, triples: Any) -> Int64s:
        if isinstance(triples, str | Path):
            return read_known_triples(triples, self.graph)
        return self.encode(triples).astype(np.int64)


def _named(negatives: Any) -> str:
    return f"the triples of {Path(negatives).name}" if isinstance(negatives, str | Path) else "given triples"


def save_run_graph(run: RunFolder, graph: Graph) -> None:
    """Keep the graph in the run, so that the run can be moved, evaluated and asked without the files it came from."""
    save_graph(graph, run.graph)
    graph.entities.save(run.vocabulary / "entities.parquet")
    graph.relations.save(run.vocabulary / "relations.parquet")


def load_run_graph(run: RunFolder) -> Graph:
    """The graph that `save_run_graph` kept, under the name it was trained by."""
    if not run.graph.is_dir():
        raise RunError(f"{run.graph} is missing", "restore it, or train the model again")
    if is_columns(run.graph):
        graph = load_graph(run.graph)
    else:
        vocabularies = [Vocabulary.load(run.vocabulary / f"{kind}.parquet") for kind in ("entities", "relations")]
        graph = load_graph(run.graph, (vocabularies[0], vocabularies[1]))
    name = run.read_recipe().get("data") or graph.name
    return replace(graph, name=str(name), repeated={}, headers=())
