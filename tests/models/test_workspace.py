"""Derived directions go over the candidates in chunks: the chunk's size changes the memory and never the scores."""

from __future__ import annotations

import pytest
import torch

from capse import CapsE, ConvE, ConvKB
from capse.kernels import reference, workspace
from capse.models import build_model

BATCH, ENTITIES = 4, 2000
WORKSPACE = 2**16

CHUNKED = {
    "capse-paper": CapsE(dim=8, filters=16, capsule_dim=4),
    "capse-paper-routed": CapsE(dim=8, filters=16, capsule_dim=4, routing=3),
    "capse-released": CapsE(dim=8, filters=16, capsule_dim=4, variant="released"),
    "capse-released-routed": CapsE(dim=8, filters=16, capsule_dim=4, variant="released", routing=3),
    "capse-few-filters": CapsE(dim=8, filters=2, capsule_dim=4),
    "capse-large-capsule": CapsE(dim=8, filters=4, capsule_dim=16, routing=3),
    "convkb": ConvKB(dim=8, filters=16),
    "conve": ConvE(dim=12, height=3, filters=16, reciprocal=False),
}


@pytest.fixture(autouse=True)
def plain_formula(monkeypatch):
    """The derived directions, where a model has a faster way too."""
    monkeypatch.setenv("CAPSE_KERNEL", "reference")


def measured(model, live_floats):
    """The peaks of scoring all tails and all heads."""
    queries, relations = torch.arange(BATCH), torch.arange(BATCH) % 3
    peaks = []
    for score in (lambda: model.score_tails(queries, relations), lambda: model.score_heads(relations, queries)):
        with torch.no_grad(), live_floats(model) as live:
            score()
        peaks.append(live.peak)
    return peaks


@pytest.mark.parametrize("floats", [1, 1000, 12345])
def test_scores_do_not_depend_on_the_workspace(make, monkeypatch, floats):
    """From one candidate at a time to all at once."""
    model = make(entities=37).double()
    queries, relations = torch.tensor([3, 0, 3, 36]), torch.tensor([2, 0, 1, 1])
    with torch.no_grad():
        tails, heads = model.score_tails(queries, relations), model.score_heads(relations, queries)
        between = model.score_relations(queries, queries.flip(0))
        monkeypatch.setattr(workspace, "CPU", floats)
        torch.testing.assert_close(model.score_tails(queries, relations), tails, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(model.score_heads(relations, queries), heads, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(model.score_relations(queries, queries.flip(0)), between, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", CHUNKED)
def test_memory_stays_within_the_workspace(monkeypatch, live_floats, name):
    """Whatever the number of candidates: the workspace, give or take a quarter, beside the scores themselves."""
    model = build_model(CHUNKED[name], entities=ENTITIES, relations=3).eval()
    scores = 2 * BATCH * ENTITIES  # the chunks' and their concatenation
    unbounded = max(measured(model, live_floats))
    monkeypatch.setattr(workspace, "CPU", WORKSPACE)
    bounded = max(measured(model, live_floats))
    assert unbounded > 2 * WORKSPACE + scores, "without a bound this case would fit anyway"
    assert bounded <= 1.25 * WORKSPACE + scores


def test_a_workspace_too_small_for_one_candidate_takes_one_at_a_time(monkeypatch):
    model = build_model(CHUNKED["capse-paper"], entities=9, relations=3)
    sizes = []
    score = reference.score

    def recording(stage, h, r, t):
        sizes.append(len(t))
        return score(stage, h, r, t)

    monkeypatch.setattr(workspace, "CPU", 1)
    monkeypatch.setattr(reference, "score", recording)
    model.score_tails(torch.tensor([0, 1]), torch.tensor([0, 1]))
    assert sizes == [1] * 9
