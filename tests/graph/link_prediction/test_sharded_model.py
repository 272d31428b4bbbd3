"""Ranks against blocks of an entity table: those against the whole table, ties between blocks included."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from capse.evaluation.ranks import NonFiniteScoreError
from capse.graph.link_prediction.ranking import rank_split
from capse.graph.link_prediction.sharded_model import ShardedModel, _EqualRows
from capse.models import TripleModel, build_model, model_settings
from capse.processes.blocks import Blocks
from capse.processes.group import Group
from capse.processes.shards import Shards
from capse.runs.folder import RunFolder
from capse.runs.tensors import load_tensors, save_tensors
from capse.triples import TripleIndex

ENTITIES, RELATIONS = 23, 3
FORMS: dict[str, dict[str, object]] = {
    "transe": {},
    "complex": {"reciprocal": True},
    "distmult": {"self_loops": True},
    "convkb": {"filters": 3},
    "capse": {"filters": 3},
}


def a_model(name: str, **settings: object) -> TripleModel:
    """Of which some entities, in different blocks, have the same vector."""
    model = build_model(model_settings({"name": name, "dim": 6, "reciprocal": False, **settings}), ENTITIES, RELATIONS)
    with torch.no_grad():
        model.entities.normal_(generator=torch.Generator().manual_seed(0))
        model.entities[[7, 15, 22]] = model.entities[2].clone()
        model.entities[16] = -model.entities[4] * 0.0
        model.entities[5] = 0.0
    return model


def drawn_triples() -> np.ndarray:
    rng = np.random.default_rng(1)
    columns = rng.integers(ENTITIES, size=90), rng.integers(RELATIONS, size=90), rng.integers(ENTITIES, size=90)
    return np.stack(columns, 1).astype(np.int32)


def divided(model: TripleModel, blocks: int = 8) -> ShardedModel:
    return ShardedModel(model, Shards(Blocks(ENTITIES, blocks), Group()))


@pytest.mark.parametrize("name", FORMS)
def test_ranks_against_blocks_are_those_against_all(name: str) -> None:
    model = a_model(name, **FORMS[name]).double()
    model.count_self_loops(drawn_triples()[:60])
    triples = drawn_triples()
    known = TripleIndex(triples[:60], ENTITIES, RELATIONS)
    for found, expected in zip(divided(model).rank(triples, known), rank_split(model, triples, known), strict=True):
        np.testing.assert_array_equal(found.greater, expected.greater)
        np.testing.assert_array_equal(found.equal, expected.equal)
        np.testing.assert_array_equal(found.candidates, expected.candidates)
    assert found.equal.any()


@pytest.mark.parametrize("name", ["transe", "complex", "capse"])
def test_equal_vectors_tie_wherever_they_lie(name: str) -> None:
    model = a_model(name, **FORMS[name])
    asked = np.array([[0, 0, 2], [1, 1, 15], [3, 2, 22]], np.int32)
    none = TripleIndex(np.empty((0, 3), np.int32), ENTITIES, RELATIONS)
    for blocks in (1, 2, 8, 16):
        assert (divided(model, blocks).rank(asked, none)[1].equal >= 3).all()


def test_a_score_that_is_no_number_is_said() -> None:
    model = a_model("distmult")
    with torch.no_grad():
        model.entities[20] = torch.nan
    with pytest.raises(NonFiniteScoreError, match="nan"):
        divided(model).rank(drawn_triples(), TripleIndex(drawn_triples(), ENTITIES, RELATIONS))


def test_equal_rows_are_found_by_their_bits() -> None:
    table = torch.tensor([[1.0, 2.0], [0.0, -0.0], [1.0, 2.0], [2.0, 1.0]])
    given, found = _EqualRows(table).to(torch.tensor([[0.0, 0.0], [5.0, 5.0], [1.0, 2.0]]))
    assert sorted(zip(given.tolist(), found.tolist(), strict=True)) == [(0, 1), (2, 0), (2, 2)]


def test_a_file_written_by_pieces_says_what_one_written_at_once_does(tmp_path) -> None:
    model = build_model(model_settings({"name": "conve"}), ENTITIES, RELATIONS)  # it has whole numbers too
    run = RunFolder(tmp_path)
    divided(model).save(run)
    save_tensors(tmp_path / "whole", dict(model.state_dict()), {})
    read, whole = load_file(run.model), load_file(tmp_path / "whole")
    assert read.keys() == whole.keys()
    assert all(torch.equal(read[name], x) for name, x in whole.items())
    load_tensors(run.model, "")  # whose checksum is that of what was written
