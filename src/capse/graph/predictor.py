"""A trained model together with the graph it was trained on: what a run folder holds and what people ask."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from capse.errors import RunError
from capse.graph.calibration import Calibration, calibrate
from capse.graph.dataset import Graph, load_graph
from capse.graph.explanation import Asked, Explanation, explain
from capse.graph.link_prediction import LinkPredictionResult, evaluate
from capse.graph.prediction import Prediction, predict
from capse.graph.vocabulary import Vocabulary
from capse.graph.writing import save_graph
from capse.models import TripleModel, build_model, model_settings
from capse.runs.folder import RunFolder
from capse.runs.settings import load_yaml
from capse.runs.tensors import load_tensors, save_tensors
from capse.triples import Triples

_REMEDY = "train the model again"
_WORKSPACE = 2**24  # floats that scoring triples may hold at a time


class LinkPredictor:
    """A trained model that knows its graph: score, evaluate and predict by label or name."""

    def __init__(self, model: TripleModel, graph: Graph, folder: RunFolder | None = None) -> None:
        self.model = model.eval()
        self.graph = graph
        self.folder = folder

    @classmethod
    def load(cls, path: str | Path, device: str = "auto") -> LinkPredictor:
        """The predictor of a finished run. Nothing in the folder is executed: it is numbers and text."""
        run = RunFolder.open(path)
        section = read_recipe(run).get("model")
        if not isinstance(section, dict):
            raise RunError(f"{run.recipe} does not say which model this is", _REMEDY)
        name, settings = model_settings(section)
        graph = load_run_graph(run)
        model = build_model(name, settings, len(graph.entities), len(graph.relations))
        tensors, _ = load_tensors(run.model, _REMEDY)
        try:
            model.load_state_dict(tensors)
        except RuntimeError as error:
            raise RunError(f"{run.model} does not fit its recipe and vocabulary", _REMEDY) from error
        return cls(model.to(choose_device(device)), graph, run)

    def save(self, run: RunFolder) -> None:
        """Write the weights into a run folder."""
        save_tensors(run.model, dict(self.model.state_dict()), {})
        self.folder = run

    def encode(self, triples: Iterable[Sequence[str]]) -> Triples:
        """Ids (n, 3) of triples given by labels or names."""
        entities, relations = self.graph.entities, self.graph.relations
        rows = [(entities.id(h), relations.id(r), entities.id(t)) for h, r, t in triples]
        return np.array(rows, np.int64).reshape(-1, 3)

    def score(self, triples: Iterable[Sequence[str]]) -> list[float]:
        """The score of each (head, relation, tail), given by labels or names; higher is more plausible."""
        scores: list[float] = self.score_ids(self.encode(triples)).tolist()
        return scores

    @torch.no_grad()
    def score_ids(self, triples: Triples) -> npt.NDArray[np.floating]:
        """The scores (n,) of triples (n, 3) given by ids."""
        ids = torch.from_numpy(triples).to(self.model.device)
        size = max(1, _WORKSPACE // self.model.scorer.floats_per_triple)
        parts = [self.model.score_triples(*part.unbind(1)) for part in ids.split(size)]
        scores: npt.NDArray[np.floating] = torch.cat(parts).cpu().numpy()
        return scores

    def evaluate(self, split: str = "test", data: str | Path | None = None, **options: Any) -> LinkPredictionResult:
        """Rank both sides of every triple of a split of the run's own graph, or of other data in its vocabulary."""
        graph = self.graph
        if data is not None:
            graph = load_graph(data, (graph.entities, graph.relations))
        return evaluate(self.model, graph, split, **options)

    def predict(
        self, *, relation: str, head: str | None = None, tail: str | None = None, top: int = 10, new: bool = False
    ) -> list[Prediction]:
        """The entities that best complete (head, relation, ?) or (?, relation, tail); see `capse.graph.prediction`."""
        return predict(self, relation=relation, head=head, tail=tail, top=top, new=new)

    def explain(self, *, head: str, relation: str, tail: str, asked: Asked = "tail", most: int = 5) -> Explanation:
        """What speaks for (head, relation, tail); see `capse.graph.explanation`."""
        return explain(self, head=head, relation=relation, tail=tail, asked=asked, most=most)

    def calibrate(self, seed: int = 0) -> Calibration:
        """Fit probabilities to the validation triples, and keep the fit in the run: predictions then have them."""
        calibration = calibrate(self.model, self.graph, seed)
        if self.folder:
            calibration.save(self.folder)
        return calibration


def save_run_graph(run: RunFolder, graph: Graph) -> None:
    """Keep the graph in the run, so that the run can be moved, evaluated and asked without the files it came from."""
    save_graph(graph, run.graph)
    graph.entities.save(run.vocabulary / "entities.parquet")
    graph.relations.save(run.vocabulary / "relations.parquet")


def load_run_graph(run: RunFolder) -> Graph:
    """The graph that `save_run_graph` kept, under the name it was trained by."""
    if not run.graph.is_dir():
        raise RunError(f"{run.graph} is missing", "restore it, or train the model again")
    vocabularies = tuple(Vocabulary.load(run.vocabulary / f"{kind}.parquet") for kind in ("entities", "relations"))
    graph = load_graph(run.graph, (vocabularies[0], vocabularies[1]))
    name = read_recipe(run).get("data") or graph.name
    return Graph(str(name), graph.entities, graph.relations, graph.train, graph.valid, graph.test)


def read_recipe(run: RunFolder) -> dict[str, Any]:
    """The resolved recipe of a run as plain values."""
    try:
        return load_yaml(run.recipe.read_text(encoding="utf-8"), str(run.recipe))
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{run.recipe} cannot be read ({error})", _REMEDY) from error


def choose_device(name: str) -> torch.device:
    """'auto' is a GPU when there is one."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise RunError(
            f"there is no device {name!r} here", "use --device cpu, or cuda where a GPU is present"
        ) from error
    return device
