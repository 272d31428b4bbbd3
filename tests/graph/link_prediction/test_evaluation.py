"""Ranking a whole split: sides, filters, memory, ties, breakdowns."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from capse.errors import DataError, SettingsError, UnknownNameError
from capse.evaluation.metrics import METRICS, POLICIES, summarize
from capse.evaluation.ranks import NonFiniteScoreError, Ranks
from capse.graph.dataset import Graph
from capse.graph.link_prediction import ranking
from capse.graph.link_prediction.evaluation import FREQUENCY_BUCKETS, FREQUENCY_EDGES, evaluate
from capse.graph.link_prediction.ranking import BYTES_PER_SCORE, rank_split
from capse.triples import TripleIndex

ENTITIES, RELATIONS = 30, 4


class TableModel:
    """A score for each triple of the world, read from a table (E, R, E)."""

    device = torch.device("cpu")

    def __init__(self, table):
        self.table = torch.as_tensor(table, dtype=torch.float32)
        self.largest = 0

    def score_tails(self, heads, relations):
        self.largest = max(self.largest, len(heads))
        return self.table[heads, relations]

    def score_heads(self, relations, tails):
        self.largest = max(self.largest, len(tails))
        return self.table[:, relations, tails].T


def random_table(seed=0, values=8):
    return np.random.default_rng(seed).integers(0, values, (ENTITIES, RELATIONS, ENTITIES))


@pytest.fixture(scope="module")
def graph():
    """About 300 triples; entities e28 and e29 occur in no training triple."""
    generator = np.random.default_rng(0)
    ids = np.unique(np.stack([generator.integers(0, n, 400) for n in (28, RELATIONS, 28)], axis=1), axis=0)
    ids = generator.permutation(ids)
    labelled = [(f"e{h:02}", f"r{r}", f"e{t:02}") for h, r, t in ids.tolist()]
    unseen = [("e28", "r0", "e03"), ("e04", "r1", "e29"), ("e28", "r2", "e29")]
    everyone = [(f"e{i:02}", "r3", f"e{(i + 1) % 28:02}") for i in range(28)]
    return Graph.from_triples([*labelled[60:], *everyone], labelled[40:60], [*labelled[:40], *unseen], name="planted")


def plain_rank(model, graph, triple, free, filtered):
    """(greater, equal) of one triple by masks."""
    query = list(triple)
    query[free] = slice(None)
    scores = model.table[tuple(query)].numpy()
    competes = np.ones(ENTITIES, bool)
    if filtered:
        for other in graph.split("all"):
            if all(other[c] == triple[c] for c in range(3) if c != free):
                competes[other[free]] = False
    competes[triple[free]] = False
    true = scores[triple[free]]
    return (scores[competes] > true).sum(), (scores[competes] == true).sum()


def test_triples_count_as_they_weigh_where_any_weighs(graph):
    triples, model = graph.split("test"), TableModel(random_table())
    weights = np.linspace(0, 2, len(triples), dtype=np.float32)
    found = evaluate(model, replace(graph, weights={"test": weights}), breakdowns=False, intervals=False)
    expected = np.average(1 / found.heads.realistic, weights=weights)
    assert found.weighted["head"]["realistic"]["mrr"] == pytest.approx(expected)
    assert evaluate(model, replace(graph, weights={"test": weights * 0}), intervals=False).weighted == {}


@pytest.mark.parametrize("filtered", [True, False])
def test_every_rank_by_masks(graph, filtered):
    model = TableModel(random_table())
    heads, tails = rank_split(model, graph.test, graph.known if filtered else None)
    for ranks, free in ((heads, 0), (tails, 2)):
        expected = [plain_rank(model, graph, triple, free, filtered) for triple in graph.test]
        np.testing.assert_array_equal(np.stack([ranks.greater, ranks.equal], axis=1), expected)


class WithRelations(TableModel):
    quick_relations = True

    def score_relations(self, heads, tails):
        return self.table[heads, :, tails]


@pytest.mark.parametrize("filtered", [True, False])
def test_every_relations_rank_by_masks(graph, filtered):
    result = evaluate(WithRelations(random_table(values=3)), graph, filtered=filtered)
    facts = set(map(tuple, graph.split("all").tolist()))
    reciprocal_ranks = []
    for h, r, t in graph.test.tolist():
        scores = random_table(values=3)[h, :, t]
        others = [o for o in range(RELATIONS) if o != r and not (filtered and (h, o, t) in facts)]
        greater, equal = sum(scores[o] > scores[r] for o in others), sum(scores[o] == scores[r] for o in others)
        reciprocal_ranks.append(1 / (1 + greater + equal / 2))
    assert result.metrics["relation"]["realistic"]["mrr"] == pytest.approx(np.mean(reciprocal_ranks))
    assert len(result.relations) == len(graph.test)
    assert "relations" not in result.to_json()


def test_relations_are_apart_from_heads_and_tails(graph):
    model = WithRelations(random_table())
    told = []
    ours = evaluate(model, graph, progress=lambda done, total: told.append((done, total)))
    of_entities = []
    plain = evaluate(model, graph, relations=False, progress=lambda done, total: of_entities.append((done, total)))
    assert of_entities[-1] == (2 * len(graph.test), 2 * len(graph.test))
    assert set(ours.metrics) == {"both", "head", "tail", "relation"}
    assert plain.metrics == {side: ours.metrics[side] for side in ("both", "head", "tail")}
    assert plain.relations is None
    assert told[-1] == (3 * len(graph.test), 3 * len(graph.test))
    assert told == sorted(told)


def test_a_model_that_scores_no_relations(graph):
    model = TableModel(random_table())
    assert "relation" not in evaluate(model, graph).metrics
    with pytest.raises(SettingsError, match="a TableModel scores no relations"):
        evaluate(model, graph, relations=True)


@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_memory_is_respected_and_changes_nothing(graph, rows):
    model = TableModel(random_table())
    expected = rank_split(TableModel(random_table()), graph.test, graph.known)
    ours = rank_split(model, graph.test, graph.known, memory=rows * ENTITIES * BYTES_PER_SCORE)
    assert model.largest <= rows
    for side, expected_side in zip(ours, expected, strict=True):
        np.testing.assert_array_equal(side.greater, expected_side.greater)
        np.testing.assert_array_equal(side.equal, expected_side.equal)


def test_a_gpu_gives_a_quarter_of_what_is_free_up_to_a_limit(monkeypatch):
    for free, given in ((4000, 1000), (2**50, ranking.MOST_GPU_MEMORY)):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device, free=free: (free, 2**60))
        assert ranking._memory_for_scores(torch.device("cuda")) == given


def test_too_little_memory(graph):
    with pytest.raises(SettingsError, match="allow 360 or more"):
        rank_split(TableModel(random_table()), graph.test, None, memory=359)


def test_repeated_triples_get_a_rank_each(graph):
    model = TableModel(random_table())
    once = rank_split(model, graph.test, graph.known)
    twice = rank_split(model, np.concatenate([graph.test, graph.test]), graph.known)
    for single, double in zip(once, twice, strict=True):
        np.testing.assert_array_equal(np.concatenate([single.greater, single.greater]), double.greater)


def test_each_bucket_of_frequencies_begins_where_its_name_says():
    begins = [int(name.lstrip(">").split("-")[0]) + name.startswith(">") for name in FREQUENCY_BUCKETS]
    assert begins == [0, *FREQUENCY_EDGES]


def test_progress_ends_at_all_ranks(graph):
    seen = []
    rank_split(
        TableModel(random_table()),
        graph.test,
        None,
        memory=3600,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert [done for done, _ in seen] == sorted({done for done, _ in seen})
    assert seen[-1] == (2 * len(graph.test), 2 * len(graph.test))


def test_dropout_is_off_while_ranking_and_the_modes_come_back(graph):
    class Noisy(nn.Module):
        device = torch.device("cpu")

        def __init__(self):
            super().__init__()
            self.dropout, self.frozen = nn.Dropout(0.5), nn.Dropout(0.5).eval()
            self.table = nn.Parameter(torch.as_tensor(random_table(), dtype=torch.float32))

        def score_tails(self, heads, relations):
            return self.dropout(self.table)[heads, relations]

        def score_heads(self, relations, tails):
            return self.dropout(self.table)[:, relations, tails].T

    model = Noisy()
    heads, tails = rank_split(model, graph.test, graph.known)
    expected_heads, expected_tails = rank_split(TableModel(random_table()), graph.test, graph.known)
    np.testing.assert_array_equal(heads.greater, expected_heads.greater)
    np.testing.assert_array_equal(tails.greater, expected_tails.greater)
    assert [module.training for module in model.modules()] == [True, True, False]


def test_the_result_and_its_json(graph):
    result = evaluate(TableModel(random_table()), graph)
    content = json.loads(json.dumps(result.to_json(), allow_nan=False))
    assert {name: content[name] for name in ("dataset", "split", "triples", "unseen_triples", "filtered")} == {
        "dataset": "planted",
        "split": "test",
        "triples": 43,
        "unseen_triples": 3,
        "filtered": True,
    }
    assert content["seconds"] > 0
    assert list(content["metrics"]) == ["both", "head", "tail"]
    sides = {"both": Ranks.concatenate([result.heads, result.tails]), "head": result.heads, "tail": result.tails}
    for side, ranks in sides.items():
        assert list(content["metrics"][side]) == list(POLICIES)
        for policy, metrics in summarize(ranks).items():
            assert content["metrics"][side][policy] == pytest.approx(metrics, rel=1e-12)
    for policy in POLICIES:
        for metric in METRICS:
            low, high = content["intervals"]["both"][policy][metric]
            assert low <= content["metrics"]["both"][policy][metric] <= high


def test_breakdowns_add_up(graph):
    result = evaluate(TableModel(random_table()), graph)
    whole = result.metrics["both"]["realistic"]["mrr"]
    for kind, unit, total in (("relation", "triples", 43), ("category", "triples", 43), ("frequency", "queries", 86)):
        groups = result.breakdowns[kind].values()
        assert sum(group[unit] for group in groups) == total
        assert sum(group["share"] for group in groups) == pytest.approx(1)
        assert sum(group["share"] * group["both"]["realistic"]["mrr"] for group in groups) == pytest.approx(whole)
    assert set(result.breakdowns["relation"]) <= {"r0", "r1", "r2", "r3"}
    assert result.breakdowns["frequency"]["0"]["queries"] == 4
    r0 = graph.test[:, 1] == 0
    of_r0 = summarize(result.tails[r0])
    assert result.breakdowns["relation"]["r0"]["tail"]["realistic"] == pytest.approx(of_r0["realistic"])


def test_the_frequency_of_a_query_is_that_of_its_answer():
    """The tails are rare and found, the heads frequent and missed."""
    train = [("often", "r", f"x{i}") for i in range(8)] + [("rare", "r", "x0")]
    graph = Graph.from_triples(train, [], [("often", "r", "rare")])
    table = np.zeros((len(graph.entities), 1, len(graph.entities)))
    often, rare = graph.entities.id("often"), graph.entities.id("rare")
    table[:, 0, rare] = 1
    table[often, 0, rare] = 0.5
    found = evaluate(TableModel(table), graph).breakdowns["frequency"]
    assert {name: (group["queries"], group["both"]["realistic"]["hits@1"]) for name, group in found.items()} == {
        "1-3": (1, 1.0),
        "4-10": (1, 0.0),
    }


def test_only_what_is_asked_for(graph):
    content = evaluate(TableModel(random_table()), graph, intervals=False, breakdowns=False).to_json()
    assert set(content) == {
        *("dataset", "split", "triples", "unseen_triples", "seconds"),
        *("filtered", "exact", "metrics", "warnings"),
    }


def test_raw_ranks_are_never_better(graph):
    model = TableModel(random_table())
    filtered, raw = evaluate(model, graph), evaluate(model, graph, filtered=False)
    assert (raw.tails.optimistic >= filtered.tails.optimistic).all()
    assert raw.metrics["both"]["realistic"]["mr"] > filtered.metrics["both"]["realistic"]["mr"]
    assert raw.to_json()["filtered"] is False


def test_a_constant_scorer_is_perfect_only_optimistically(graph):
    result = evaluate(TableModel(np.zeros((ENTITIES, RELATIONS, ENTITIES))), graph, filtered=False)
    both = result.metrics["both"]
    assert both["optimistic"]["mrr"] == 1.0
    assert both["realistic"]["mrr"] == pytest.approx(2 / (ENTITIES + 1))
    assert both["pessimistic"]["mrr"] == pytest.approx(1 / ENTITIES)
    (warning,) = result.warnings
    assert "optimistic figure is not to be trusted" in warning


def test_no_ties_no_warning(graph):
    size = ENTITIES * RELATIONS * ENTITIES
    distinct = np.random.default_rng(0).permutation(size).reshape(ENTITIES, RELATIONS, ENTITIES)
    assert evaluate(TableModel(distinct), graph).warnings == []


def test_a_planted_answer_is_found(graph):
    table = np.zeros((ENTITIES, RELATIONS, ENTITIES))
    table[tuple(graph.split("all").T)] = 1
    assert evaluate(TableModel(table), graph).metrics["both"]["pessimistic"]["mrr"] == 1.0


def test_a_score_that_is_no_number_is_named(graph):
    table = random_table().astype(float)
    head, relation, _ = graph.test[5]
    table[head, relation, 7] = np.nan
    with pytest.raises(NonFiniteScoreError, match=rf"\(e{head:02}, r{relation}, e07\) as nan"):
        evaluate(TableModel(table), graph)
    with pytest.raises(NonFiniteScoreError, match=f"head {head}, relation {relation}, tail 7"):
        rank_split(TableModel(table), graph.test, None)


def test_splits(graph):
    assert evaluate(TableModel(random_table()), graph, "valid").triples == 20
    with pytest.raises(UnknownNameError, match="test"):
        evaluate(TableModel(random_table()), graph, "tests")
    with pytest.raises(DataError, match="no test triples"):
        evaluate(TableModel(random_table()), Graph.from_triples([("a", "r", "b")]))


@pytest.mark.filterwarnings("ignore")
def test_pykeen_gives_the_same_metrics(graph):
    """Its own model and evaluation loop; whole-number embeddings make DistMult's scores exact, with many ties."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("pykeen")
        from pykeen.evaluation import RankBasedEvaluator
        from pykeen.models import DistMult
        from pykeen.triples import CoreTriplesFactory

    train, valid, test = (torch.from_numpy(graph.split(split).astype(np.int64)) for split in ("train", "valid", "test"))
    factory = CoreTriplesFactory(train, num_entities=ENTITIES, num_relations=RELATIONS)
    theirs = DistMult(triples_factory=factory, embedding_dim=3)
    generator = torch.Generator().manual_seed(0)
    entities = torch.randint(-2, 3, (ENTITIES, 3), generator=generator).float()
    relations = torch.randint(-2, 3, (RELATIONS, 3), generator=generator).float()
    theirs.entity_representations[0].load_state_dict({"_embeddings.weight": entities}, strict=False)
    theirs.relation_representations[0].load_state_dict({"_embeddings.weight": relations}, strict=False)
    results = RankBasedEvaluator(filtered=True).evaluate(
        theirs, test, batch_size=16, additional_filter_triples=[train, valid], use_tqdm=False
    )

    ours = evaluate(TableModel(torch.einsum("hd,rd,td->hrt", entities, relations, entities)), graph)
    names = ("arithmetic_mean_rank", "inverse_harmonic_mean_rank", "hits_at_1", "hits_at_3", "hits_at_10")
    for side, policies in ours.metrics.items():
        for policy in ("optimistic", "realistic", "pessimistic"):
            for value, name in zip(policies[policy].values(), names, strict=True):
                assert value == pytest.approx(results.get_metric(f"{side}.{policy}.{name}"), rel=1e-6)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_the_gpu_ranks_like_the_cpu(graph):
    model = TableModel(random_table())
    expected = rank_split(model, graph.test, graph.known)
    model.table, model.device = model.table.cuda(), torch.device("cuda")
    for side, expected_side in zip(rank_split(model, graph.test, graph.known), expected, strict=True):
        np.testing.assert_array_equal(side.greater, expected_side.greater)
        np.testing.assert_array_equal(side.equal, expected_side.equal)


def test_filtered_by_train_alone_the_other_test_answers_compete(graph):
    model = TableModel(random_table())
    train_only = TripleIndex(graph.train, ENTITIES, RELATIONS)
    assert (
        rank_split(model, graph.test, train_only)[1].candidates
        >= rank_split(model, graph.test, graph.known)[1].candidates
    ).all()
