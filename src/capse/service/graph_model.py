"""A graph run in service."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from capse.errors import SettingsError
from capse.graph.link_prediction.calibration import Calibration
from capse.graph.link_prediction.candidates import Seen
from capse.graph.link_prediction.classification import Classifier
from capse.graph.link_prediction.completion import Query, complete
from capse.graph.link_prediction.growth import Fact, Growth
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.graph.link_prediction.queries import FREE
from capse.models import TripleModel
from capse.models.candidates import rows_of_shard
from capse.service.name_index import NameIndex


@dataclass(frozen=True)
class GraphModel:
    """A graph run that has answered a question."""

    predictor: LinkPredictor
    calibration: Calibration | None
    classifier: Classifier | None
    entities: NameIndex
    relations: NameIndex
    fingerprint: str  # of the run
    growth: Growth | None = None  # where facts are added: what to grow from
    facts: int = 0  # how many stored facts it has heard of

    @property
    def version(self) -> str:
        """Changes when the run does, and when facts are added to it."""
        return f"{self.fingerprint}+{self.facts}" if self.facts else self.fingerprint

    @cached_property
    def seen(self) -> Seen:
        """Candidates by domain and range, kept as they take time to find."""
        return Seen(self.predictor.graph)

    @classmethod
    def load(cls, path: str | Path, fingerprint: str, shard: tuple[int, int] | None = None) -> GraphModel:
        """A run, or the entities of one of its shards as answers: which, and of how many."""
        predictor = LinkPredictor.load(path)
        assert predictor.folder is not None
        if shard is not None:
            if type(predictor.model) is not TripleModel:
                raise SettingsError(f"{path} answers by more than a table of vectors", "serve it without shards")
            predictor.model.answering = rows_of_shard(len(predictor.graph.entities), *shard)
        calibration, classifier = Calibration.load(predictor.folder), Classifier.load(predictor.folder)
        predictor.folder = None  # whatever becomes of the folder, this model has been read
        graph = predictor.graph
        # Whatever compiles or is kept for later does so before anybody waits; a model with NaN in it fails here.
        complete(predictor, [Query(0, 0, FREE, 1), Query(FREE, 0, 0, 1), Query(0, FREE, 0, 1)])
        names = NameIndex(graph.entities), NameIndex(graph.relations)
        return cls(predictor, calibration, classifier, *names, fingerprint)

    def with_facts(self, stored: Sequence[Fact]) -> GraphModel:
        """The run with the facts that were stored, those aside that it does not take."""
        growth = self.growth or Growth(self.predictor)
        predictor = growth.with_facts(stored)
        known = self.predictor.graph.entities.labels == predictor.graph.entities.labels
        entities = self.entities if known else NameIndex(predictor.graph.entities)
        return replace(self, predictor=predictor, entities=entities, growth=growth, facts=len(stored))
