"""Runs and vectors in other programs: PyKEEN in both directions, FAISS against brute force, Hugging Face folders.

The folder is loaded by an environment that is made for it: capse and what it cannot be without, linked from this one.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import venv
import warnings
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

import numpy as np
import torch
from packaging.requirements import Requirement

import capse
from benchmarks.everyday.classification import trained
from capse.graph.exchange.faiss_index import similar_by_index, write_index
from capse.graph.exchange.hugging_face import write_hugging_face
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.models import build_model

FORMS = (
    capse.TransE(dim=50),
    capse.TransH(dim=50),
    capse.TransR(dim=20),
    capse.DistMult(dim=50),
    capse.ComplEx(dim=50),
    capse.ConvE(dim=24, height=4, filters=8),
    capse.ConvKB(dim=50, filters=8),
)
SEEDS = (0, 1, 2)
ASKED = 50  # entities whose neighbours are looked for


def run() -> dict[str, Any]:
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        pykeen = [_round_trip(settings, seed) for settings in FORMS for seed in SEEDS]
        return {"data": "countries", "pykeen": pykeen, "faiss": _neighbours(), "hugging_face": _loaded(Path(folder))}


def _round_trip(settings: capse.ModelSettings, seed: int) -> dict[str, Any]:
    graph = capse.load_graph("countries")
    model = build_model(settings, len(graph.entities), len(graph.relations), seed=seed)
    run = LinkPredictor(model, graph)
    triples = graph.split("all").astype(np.int64)
    ours = run.score_ids(triples)
    theirs = capse.to_pykeen(run)
    with torch.inference_mode():
        there = theirs.predict_hrt(torch.from_numpy(triples))[:, 0].numpy()
    from pykeen.triples import TriplesFactory

    factory = TriplesFactory(
        mapped_triples=torch.from_numpy(graph.train.astype(np.int64)),
        entity_to_id={label: i for i, label in enumerate(graph.entities.labels)},
        relation_to_id={label: i for i, label in enumerate(graph.relations.labels)},
    )
    back = capse.from_pykeen(theirs, factory).score_ids(triples)
    gaps = {name: float(np.abs(scores - ours).max()) for name, scores in (("there", there), ("back", back))}
    return {"model": type(settings).__name__, "seed": seed, "triples": len(triples), **gaps}


def _neighbours() -> dict[str, Any]:
    run = trained("wn18rr", 0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index.faiss"
        write_index(run, path)
        labels = run.graph.entities.labels
        chosen = np.random.default_rng(0).choice(len(labels), ASKED, replace=False).tolist()
        same = sum(
            [near.entity for near in similar_by_index(run, path, labels[i])]
            == [near.entity for near in run.similar(labels[i])]
            for i in chosen
        )
    return {"data": "wn18rr", "entities": len(labels), "asked": ASKED, "same_ten": same}


def _loaded(folder: Path) -> dict[str, Any]:
    run = capse.fit("countries", capse.DistMult(dim=20), training=capse.Training(epochs=2))
    assert run.folder is not None
    write_hugging_face(run.folder, folder / "exported")
    entities, relations = run.graph.entities.labels, run.graph.relations.labels
    triples = [(entities[h], relations[r], entities[t]) for h, r, t in run.graph.test[:20].tolist()]
    linked = _empty_environment(folder / "empty")
    code = f"import capse, json, sys; print(json.dumps(capse.load(sys.argv[1]).score({triples!r})))"
    python = folder / "empty" / "bin" / "python"
    done = subprocess.run(
        [python, "-I", "-c", code, folder / "exported"], capture_output=True, text=True, check=True, cwd=folder, env={}
    )
    return {"packages": linked, "same_scores": json.loads(done.stdout) == run.score(triples), "triples": len(triples)}


def _empty_environment(folder: Path) -> list[str]:
    """An environment with capse and the packages that it cannot be without; their names."""
    venv.create(folder, with_pip=False)
    site = next((folder / "lib").iterdir()) / "site-packages"
    (site / "capse").symlink_to(Path(capse.__file__).parent)
    found: dict[str, Distribution] = {}
    wanted = ["capse"]
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = distribution(name)
            requirements = map(Requirement, found[name].requires or ())
            wanted += [one.name for one in requirements if one.marker is None or one.marker.evaluate({"extra": ""})]
    for name, package in found.items():
        tops = {path.parts[0] for path in package.files or () if path.parts[0] not in ("..", "__pycache__")}
        for top in tops if name != "capse" else ():
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(package.locate_file(top))))
    return sorted(found)
