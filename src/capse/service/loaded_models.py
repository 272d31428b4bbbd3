"""The loaded runs, each with what answering needs: immutable, so that a new one takes an old one's place at once."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from capse.errors import CapseError, RunError, SettingsError
from capse.runs.folder import RunFolder
from capse.service.graph_model import GraphModel
from capse.service.problems import Problem
from capse.service.search_model import SearchModel
from capse.service.store import Store


@dataclass(frozen=True)
class Models:
    """What is in service."""

    graph: GraphModel | None = None
    search: SearchModel | None = None
    against: SearchModel | None = None  # a second search run

    @classmethod
    def load(cls, runs: Sequence[str], against: str | None = None, shard: tuple[int, int] | None = None) -> Models:
        """Load every run, at most one of each kind, and one against the search run; an error leaves nothing behind."""
        models: dict[str, Any] = {}
        for name in runs:
            run = str(Path(name).resolve())  # of versions one, whatever the name leads to meanwhile
            kind = "search" if RunFolder(run).vectors.is_dir() else "graph"
            if kind in models:
                raise SettingsError(f"{name} is a second {kind} run", "serve one graph run, one search run, or both")
            version = fingerprint(run)
            models[kind] = SearchModel.load(run, version) if kind == "search" else GraphModel.load(run, version, shard)
        return cls(**models, against=None if against is None else _against(against, models.get("search")))

    def reloaded(self, runs: Sequence[str], against: str | None = None, shard: tuple[int, int] | None = None) -> Models:
        """What lies in the folders now; these models themselves where nothing has changed."""
        every = runs if against is None else (*runs, against)
        if sorted(map(fingerprint, every)) == sorted(self.fingerprints.values()):
            return self
        return Models.load(runs, against, shard)

    @property
    def searching(self) -> list[SearchModel]:
        """The search runs, the one that is served first."""
        return [model for model in (self.search, self.against) if model is not None]

    def with_stored_facts(self, store: Store) -> Models:
        """With the facts that were added to the graph; these models themselves where they have heard of all."""
        graph = self.require_graph()
        if graph.growth is not None and graph.facts == store.fact_count():
            return self
        return replace(self, graph=graph.with_facts(store.facts()))

    @property
    def fingerprints(self) -> dict[str, str]:
        """Of the run of each kind that is in service."""
        graph = {} if self.graph is None else {"graph": self.graph.fingerprint}
        return graph | dict(zip(("search", "against"), (model.version for model in self.searching), strict=False))

    @property
    def versions(self) -> dict[str, str]:
        """Of each kind of model that is in service: of a run and, where there are any, of the facts that were added."""
        all_of_them = {"graph": self.graph, "search": self.search, "against": self.against}
        return {kind: model.version for kind, model in all_of_them.items() if model is not None}

    def require_graph(self) -> GraphModel:
        if self.graph is None:
            raise Problem("no-such-model", "no graph run is served", "start the service with one: capse serve RUN")
        return self.graph

    def require_search(self) -> SearchModel:
        if self.search is None:
            raise Problem("no-such-model", "no search run is served", "start the service with one: capse serve RUN")
        return self.search


def _against(name: str, search: SearchModel | None) -> SearchModel:
    """The second search run; two of the same would tell nothing apart."""
    run = str(Path(name).resolve())
    if search is None or not RunFolder(run).vectors.is_dir():
        raise SettingsError("--against takes a search run, beside one that is served", "serve two search runs")
    version = fingerprint(run)
    if version == search.version:
        raise SettingsError(f"--against {name} is the run that is served", "name another")
    return SearchModel.load(run, version)


def fingerprint(path: str | Path) -> str:
    """Twelve hexadecimal digits that change when the files of a run do, those aside that only training reads."""
    run = RunFolder.open(path)
    records = (run.checkpoints, run.tensorboard, run.tracking, run.metrics, run.results)
    not_served = {run.manifest.name, *(path.name for path in records)}  # a manifest changes with the records
    digest = hashlib.sha256()
    for file in sorted(run.path.rglob("*")):
        relative = file.relative_to(run.path)
        if relative.parts[0] in not_served or relative.name.startswith(".") or not file.is_file():
            continue
        digest.update(f"{relative}\0".encode())
        try:
            with file.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
        except OSError as error:
            raise RunError(f"{file} cannot be read ({error.strerror})", "check its permissions") from error
    return digest.hexdigest()[:12]


def without_paths(error: CapseError, runs: Sequence[str]) -> str:
    """What an error says, with 'RUN' in place of where the runs lie."""
    text = " ".join(str(error).split())
    for run in sorted(runs, key=len, reverse=True):
        text = text.replace(str(Path(run)), "RUN").replace(run, "RUN")
    return text
