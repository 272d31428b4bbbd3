"""Runs to and from PyKEEN: the same scores for every model that both have, in both directions."""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import capse
from capse.errors import MissingExtraError, SettingsError
from capse.graph.dataset import Graph
from capse.graph.exchange.pykeen import from_pykeen, to_pykeen
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.models import build_model

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("pykeen")
    from pykeen import models
    from pykeen.triples import TriplesFactory

pytestmark = pytest.mark.filterwarnings("ignore")
ROWS = [(f"e{h}", f"r{r}", f"e{t}") for h, r, t in np.random.default_rng(0).integers(0, (12, 3, 12), (60, 3)).tolist()]
FORMS = [
    capse.TransE(dim=8, norm=1),
    capse.TransE(dim=8, norm=2, reciprocal=True),
    capse.TransH(dim=8, norm=2),
    capse.TransH(dim=8, norm=1, reciprocal=True),
    capse.TransR(dim=6, norm=2),
    capse.TransR(dim=6, norm=1, reciprocal=True),
    capse.DistMult(dim=8),
    capse.DistMult(dim=8, reciprocal=True),
    capse.ComplEx(dim=8),
    capse.ComplEx(dim=8, reciprocal=True),
    capse.ConvE(dim=24, height=4, filters=5),
    capse.ConvKB(dim=8, filters=6),
    capse.ConvKB(dim=8, filters=6, reciprocal=True),
]


def named(settings):
    return f"{type(settings).__name__}{'-reciprocal' if settings.reciprocal else ''}"


def randomised(module):
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for tensor in [*module.parameters(), *module.buffers()]:
            if tensor.is_floating_point():
                tensor.copy_(torch.rand(tensor.shape, generator=generator) * 0.9 + 0.05)


def all_triples(graph):
    heads, relations, tails = np.meshgrid(*(np.arange(n) for n in (len(graph.entities), 3, len(graph.entities))))
    return np.stack([heads.ravel(), relations.ravel(), tails.ravel()], axis=1).astype(np.int64)


def their_scores(model, factory, graph, triples):
    """Of triples by our ids, by what PyKEEN predicts for their labels."""
    entities, relations = graph.entities.labels, graph.relations.labels
    rows = [
        [factory.entity_to_id[entities[h]], factory.relation_to_id[relations[r]], factory.entity_to_id[entities[t]]]
        for h, r, t in triples.tolist()
    ]
    ids = torch.tensor(rows)
    with torch.inference_mode():
        of_triples = model.predict_hrt(ids)[:, 0]
        tails = model.predict_t(ids[:, :2]).gather(1, ids[:, 2:])[:, 0]
        heads = model.predict_h(ids[:, 1:]).gather(1, ids[:, :1])[:, 0]
    return of_triples.numpy(), tails.numpy(), heads.numpy()


def compare(run, model, factory):
    triples = all_triples(run.graph)
    ours = run.score_ids(triples)
    ids = torch.from_numpy(triples)
    with torch.no_grad():
        tails = run.model.score_tails(ids[:, 0], ids[:, 1]).gather(1, ids[:, 2:])[:, 0].numpy()
        heads = run.model.score_heads(ids[:, 1], ids[:, 2]).gather(1, ids[:, :1])[:, 0].numpy()
    for mine, theirs in zip((ours, tails, heads), their_scores(model, factory, run.graph, triples), strict=True):
        assert np.ptp(mine) > 1e-3
        assert mine == pytest.approx(theirs, abs=1e-5, rel=1e-5)


@pytest.mark.parametrize("settings", FORMS, ids=named)
def test_to_pykeen_and_back(settings):
    graph = Graph.from_triples(ROWS)
    model = build_model(settings, len(graph.entities), 3)
    randomised(model)
    run = LinkPredictor(model, graph)
    theirs = to_pykeen(run)
    factory = theirs.triples_factory if hasattr(theirs, "triples_factory") else None
    factory = factory or TriplesFactory(
        mapped_triples=torch.from_numpy(graph.train.astype(np.int64)),
        entity_to_id={label: i for i, label in enumerate(graph.entities.labels)},
        relation_to_id={label: i for i, label in enumerate(graph.relations.labels)},
    )
    compare(run, theirs, factory)
    back = from_pykeen(theirs, factory)
    assert back.graph.entities.labels == graph.entities.labels
    assert np.array_equal(back.graph.train, graph.train)
    assert back.score_ids(all_triples(graph)) == pytest.approx(run.score_ids(all_triples(graph)), abs=1e-5, rel=1e-5)


THEIRS: dict[str, tuple[Any, dict[str, Any], bool]] = {
    "TransE": (models.TransE, {"embedding_dim": 8, "scoring_fct_norm": 2}, False),
    "TransH": (models.TransH, {"embedding_dim": 8}, False),
    "TransR": (models.TransR, {"embedding_dim": 6, "relation_dim": 6, "scoring_fct_norm": 2}, True),
    "DistMult": (models.DistMult, {"embedding_dim": 8}, True),
    "ComplEx": (models.ComplEx, {"embedding_dim": 8}, False),
    "ConvE": (
        models.ConvE,
        {"embedding_dim": 24, "embedding_height": 4, "output_channels": 5},
        True,
    ),
    "ConvKB": (models.ConvKB, {"embedding_dim": 8, "num_filters": 6}, False),
}


def their_model(name):
    """One of theirs with ids in an order that is not ours."""
    kind, options, inverse = THEIRS[name]
    labels = [f"e{i}" for i in (3, 11, 0, 7, 2, 9, 1, 10, 4, 8, 6, 5)]
    entity_to_id = {label: i for i, label in enumerate(labels)}
    relation_to_id = {"r2": 0, "r0": 1, "r1": 2}
    triples = np.unique([[entity_to_id[h], relation_to_id[r], entity_to_id[t]] for h, r, t in ROWS], axis=0)
    factory = TriplesFactory(
        mapped_triples=torch.from_numpy(triples),
        entity_to_id=entity_to_id,
        relation_to_id=relation_to_id,
        create_inverse_triples=inverse,
    )
    torch.manual_seed(0)
    model = kind(triples_factory=factory, **options).eval()
    randomised(model)
    if name == "TransR":
        model.interaction.max_projection_norm = 1e9
    if name == "TransH":
        with torch.no_grad():
            weight = model.relation_representations[0]._embeddings.weight
            weight.copy_(torch.nn.functional.normalize(weight, dim=1))
    return model, factory


@pytest.mark.parametrize("name", THEIRS)
def test_from_pykeen_and_back(name, tmp_path):
    model, factory = their_model(name)
    run = from_pykeen(model, factory)
    compare(run, model, factory)
    run.save(tmp_path / "run")
    again = capse.load(tmp_path / "run")
    assert isinstance(again, LinkPredictor)
    assert again.score([("e1", "r2", "e5")]) == run.score([("e1", "r2", "e5")])
    triples = all_triples(run.graph)
    theirs = to_pykeen(again)
    mapped = TriplesFactory(
        mapped_triples=torch.from_numpy(run.graph.train.astype(np.int64)),
        entity_to_id={label: i for i, label in enumerate(run.graph.entities.labels)},
        relation_to_id={label: i for i, label in enumerate(run.graph.relations.labels)},
    )
    before = their_scores(model, factory, run.graph, triples)
    for first, second in zip(before, their_scores(theirs, mapped, run.graph, triples), strict=True):
        assert first == pytest.approx(second, abs=1e-5, rel=1e-5)


class TestWhatIsAnotherFormula:
    def test_models_that_one_of_them_lacks(self):
        graph = Graph.from_triples(ROWS)
        for settings in (capse.STransE(dim=4), capse.TransD(dim=4)):
            with pytest.raises(SettingsError, match="can be exchanged"):
                to_pykeen(LinkPredictor(build_model(settings, len(graph.entities), 3), graph))
        factory = their_model("TransE")[1]
        with pytest.raises(SettingsError, match="with the formula of PyKEEN's RotatE"):
            from_pykeen(models.RotatE(triples_factory=factory, embedding_dim=4), factory)

    def test_settings_that_make_it_another(self):
        model, factory = their_model("TransE")
        model.interaction.power_norm = True
        with pytest.raises(SettingsError, match="is squared"):
            from_pykeen(model, factory)
        model, factory = their_model("TransH")
        randomised(model)
        with pytest.raises(SettingsError, match="not of length 1"):
            from_pykeen(model, factory)
        model, factory = their_model("TransR")
        model.interaction.max_projection_norm = 1.0
        with pytest.raises(SettingsError, match="cuts the length of projections"):
            from_pykeen(model, factory)

    def test_without_pykeen_the_extra_is_named(self, monkeypatch):
        graph = Graph.from_triples(ROWS)
        run = LinkPredictor(build_model(capse.DistMult(dim=2), len(graph.entities), 3), graph)
        monkeypatch.setitem(sys.modules, "pykeen.models", None)
        monkeypatch.setitem(sys.modules, "pykeen", None)
        with pytest.raises(MissingExtraError, match=r"capse\[pykeen\]"):
            to_pykeen(run)
