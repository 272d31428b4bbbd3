"""The rule baseline: its scores by definition, in every direction; as a run like any other."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

import capse
from capse.errors import SettingsError
from capse.graph.dataset import Graph, load_graph
from capse.models import build_model
from capse.models.rules import RuleModel, Rules

FACTS = np.array([[0, 0, 1], [1, 0, 2], [2, 1, 3], [3, 0, 0], [1, 1, 0], [4, 2, 1]])
RULES = np.array([[2, 0, 0, -1, -1], [2, 1, 1, -1, -1], [2, 0, 1, 1, 1], [1, 1, 0, -1, -1]])
CONFIDENCES = np.array([0.9, 0.5, 0.7, 0.25], np.float32)


@pytest.fixture
def model():
    model = build_model(Rules(), 5, 3)
    assert isinstance(model, RuleModel)
    model.learn(FACTS, RULES, CONFIDENCES)
    return model


def by_definition(h, r, t):
    facts = {tuple(fact) for fact in FACTS.tolist()}
    scores = [0.0]
    for (head, first, ahead, second, ahead2), confidence in zip(RULES.tolist(), CONFIDENCES.tolist(), strict=True):
        ends = {b if ahead else a for a, s, b in facts if s == first and (a if ahead else b) == h}
        if second >= 0:
            ends = {b if ahead2 else a for a, s, b in facts if s == second and (a if ahead2 else b) in ends}
        if r == head and t in ends:
            scores.append(confidence)
    return max(scores)


def test_every_direction_scores_by_the_definition(model):
    wanted = torch.tensor([[[by_definition(h, r, t) for t in range(5)] for r in range(3)] for h in range(5)])
    assert (wanted > 0).sum() > 6
    h, r, t = torch.meshgrid(torch.arange(5), torch.arange(3), torch.arange(5), indexing="ij")
    assert torch.equal(model.score_triples(h, r, t), wanted)
    pairs = torch.cartesian_prod(torch.arange(5), torch.arange(3)).T
    assert torch.equal(model.score_tails(*pairs), wanted.view(15, 5))
    assert torch.equal(model.score_heads(pairs[1], pairs[0]), wanted.permute(2, 1, 0).reshape(15, 5))
    some = torch.tensor([4, 1])
    assert torch.equal(model.score_tails(*pairs, some), wanted.view(15, 5)[:, some])
    ends = torch.cartesian_prod(torch.arange(5), torch.arange(5)).T
    assert torch.equal(model.score_relations(*ends), wanted.permute(0, 2, 1).reshape(25, 3))


def mirrored():
    pairs = [(f"a{i}", f"b{i}") for i in range(30)]
    facts = [(a, "over", b) for a, b in pairs] + [(b, "under", a) for a, b in pairs]
    return Graph.from_triples(facts[:-6], valid=facts[-6:-3], test=facts[-3:], name="mirrored")


def test_a_test_set_of_mirror_images_is_solved(tmp_path):
    run = capse.fit(mirrored(), capse.Rules(), out=tmp_path / "run")
    assert run.evaluate("test").metrics["both"]["pessimistic"]["mrr"] == 1
    again = capse.load(tmp_path / "run")
    assert isinstance(again, capse.LinkPredictor)
    (answer,) = again.predict(relation="under", head="b28", top=1)
    assert answer.entity == "a28"
    assert answer.score == pytest.approx(24 / (30 + 5))
    assert again.explain(head="b28", relation="under", tail="a28").score == pytest.approx(24 / 35)
    assert again.score([("b28", "under", "a28"), ("b28", "under", "a1")]) == [pytest.approx(24 / 35), 0]


def test_paths_of_two_are_rules_where_they_are_asked_for():
    facts = [(f"c{i}", "in", f"r{i % 4}") for i in range(24)] + [(f"r{i}", "part of", f"w{i % 2}") for i in range(4)]
    lies = [(f"c{i}", "lies in", f"w{i % 2}") for i in range(24)]
    graph = Graph.from_triples(facts + lies[:20], valid=lies[20:22], test=lies[22:], name="paths")
    inverse, every = (
        capse.fit(graph, capse.Rules(kinds=kinds)).evaluate("test").metrics["tail"]["realistic"]["mrr"]
        for kinds in ("inverse", "all")
    )
    assert (inverse < 0.1, every) == (True, 1)


def test_it_is_a_model_like_any_other_on_the_command_line(tmp_path, run_command):
    status, output, _ = run_command("train", "--model", "rules", "--data", "countries", "--out", tmp_path / "run")
    assert (status, output.strip()) == (0, str(tmp_path / "run"))
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert (results["model"], results["dataset"], results["rules"]) == ("rules", "countries", 1)
    assert {"command", "commit", "machine"} <= set(results)
    status, output, _ = run_command("evaluate", tmp_path / "run", "--json")
    assert json.loads(output)["triples"] == len(load_graph("countries").test)
    assert run_command("train", "--model", "rules", "--data", "countries", "--out", tmp_path / "run")[0] == 2
    again = run_command("train", "--model", "rules", "--data", "countries", "--out", tmp_path / "run", "--resume")
    assert again[0] == 0
    status, _, errors = run_command(
        *("train", "--model", "rules", "--data", "countries", "--out", tmp_path / "run", "--resume"),
        *("--set", "model.doubt=1"),
    )
    assert (status, "was begun with other settings" in errors) == (2, True)
    assert run_command("evaluate", tmp_path / "run", "--exact")[0] == 2


@pytest.mark.parametrize("setting", ["least_confidence=1.5", "least_support=0", "doubt=-1", "dim=5"])
def test_settings_that_make_no_sense(setting, tmp_path, run_command):
    status, _, errors = run_command(
        *("train", "--model", "rules", "--data", "countries", "--out", tmp_path / "run"),
        *("--set", f"model.{setting}"),
    )
    assert (status, errors.count("\n"), (tmp_path / "run").exists()) == (2, 1, False)


def test_vectors_cannot_be_asked_for(model):
    with pytest.raises(NotImplementedError, match="not at vectors"):
        model.scorer.score_triples(torch.empty(1, 0), torch.empty(1, 0), torch.empty(1, 0))
    with pytest.raises(SettingsError, match="least_confidence is 2"):
        Rules(least_confidence=2)
