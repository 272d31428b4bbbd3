"""A graph run in service."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from capse.graph.link_prediction.calibration import Calibration
from capse.graph.link_prediction.candidates import Seen
from capse.graph.link_prediction.classification import Classifier
from capse.graph.link_prediction.completion import Query, complete
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.graph.link_prediction.queries import FREE
from capse.service.name_index import NameIndex


@dataclass(frozen=True)
class GraphModel:
    """A graph run that has answered a question."""

    predictor: LinkPredictor
    calibration: Calibration | None
    classifier: Classifier | None
    entities: NameIndex
    relations: NameIndex
    version: str

    @cached_property
    def seen(self) -> Seen:
        """Candidates by domain and range, kept as they take time to find."""
        return Seen(self.predictor.graph)

    @classmethod
    def load(cls, path: str | Path, version: str) -> GraphModel:
        predictor = LinkPredictor.load(path)
        assert predictor.folder is not None
        calibration, classifier = Calibration.load(predictor.folder), Classifier.load(predictor.folder)
        predictor.folder = None  # whatever becomes of the folder, this model has been read
        graph = predictor.graph
        # Whatever compiles or is kept for later does so before anybody waits; a model with NaN in it fails here.
        complete(predictor, [Query(0, 0, FREE, 1), Query(FREE, 0, 0, 1), Query(0, FREE, 0, 1)])
        return cls(predictor, calibration, classifier, NameIndex(graph.entities), NameIndex(graph.relations), version)
