"""Two graphs without a common entity."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import capse
from capse.errors import SettingsError
from capse.graph.dataset import Graph, load_graph


def labelled(graph: Graph, split: str = "all") -> set[tuple[str, str, str]]:
    entities, relations = graph.entities.labels, graph.relations.labels
    return {(entities[h], relations[r], entities[t]) for h, r, t in graph.split(split).tolist()}


@pytest.fixture(scope="module")
def countries() -> Graph:
    return load_graph("countries")


@pytest.mark.parametrize("seed", [0, 1])
def test_they_share_no_entity_and_all_their_facts_are_the_graphs(countries: Graph, seed: int) -> None:
    seen, unseen = capse.inductive_split(countries, share=0.3, seed=seed)
    assert not set(seen.entities.labels) & set(unseen.entities.labels)
    assert labelled(seen) | labelled(unseen) <= labelled(countries)
    inside = set(unseen.entities.labels)
    apart = {fact for fact in labelled(countries) if not {fact[0], fact[2]} & inside}
    assert labelled(seen) >= {fact for fact in apart if {fact[0], fact[2]} <= set(seen.entities.labels)}


def test_the_second_has_no_relation_of_its_own_and_every_entity_keeps_a_fact(countries: Graph) -> None:
    seen, unseen = capse.inductive_split(countries, share=0.3, test=0.1)
    assert set(unseen.relations.labels) <= set(seen.relations.labels)
    assert set(np.unique(unseen.train[:, [0, 2]])) == set(range(len(unseen.entities)))
    assert len(unseen.test) == round(0.1 * len(unseen.split("all")))
    assert len(seen.test) == len(seen.valid) == len(unseen.valid) == 0


def test_the_same_seed_draws_the_same(countries: Graph) -> None:
    once, again, other = (labelled(capse.inductive_split(countries, seed=seed)[1], "test") for seed in (3, 3, 4))
    assert once == again != other


def test_about_as_many_entities_as_were_asked_for(countries: Graph) -> None:
    _, unseen = capse.inductive_split(countries, share=0.3)
    assert len(unseen.entities) == pytest.approx(0.3 * len(countries.entities), abs=20)


def test_shares_that_leave_no_graph(countries: Graph) -> None:
    for share in (0.0, 1.0):
        with pytest.raises(SettingsError, match="give the second graph a share between 0 and 1"):
            capse.inductive_split(countries, share=share)
    with pytest.raises(SettingsError, match="choose another share or seed"):
        capse.inductive_split(Graph.from_triples([("a", "r", "b"), ("b", "r", "c")]), share=0.5)


def test_entities_without_facts_are_of_neither(countries: Graph) -> None:
    few = replace(countries, train=countries.train[:50], valid=countries.valid[:0], test=countries.test[:0])
    with pytest.raises(SettingsError, match="choose another share or seed"):
        capse.inductive_split(few, share=0.5)
