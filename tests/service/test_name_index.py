"""GET /v1/entities and /v1/relations: beginnings, words and likenesses, against a plain search."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capse.errors import UnknownNameError
from capse.graph.vocabulary import Vocabulary
from capse.service.name_index import LEAST_SIMILARITY, NameIndex


def trigrams(text):
    padded = f" {text.casefold()} "
    return {padded[i : i + 3] for i in range(len(padded) - 2)}


def similarity(first, second):
    a, b = trigrams(first), trigrams(second)
    return len(a & b) / len(a | b) if a | b else 0.0


texts = st.text(st.sampled_from("abAB é/_"), min_size=1, max_size=8)


@given(labels=st.sets(texts, min_size=1, max_size=12), asked=texts)
def test_everything_is_found_that_a_plain_search_finds(labels, asked):
    vocabulary = Vocabulary.of(labels, kind="entity")
    found = {vocabulary.labels[match.id]: match.kind for match in NameIndex(vocabulary).find(asked, limit=100)}
    for label in labels:
        folded, wanted = label.casefold(), asked.casefold()
        starts = [i for i in range(1, len(folded)) if folded[i].isalnum() and not folded[i - 1].isalnum()]
        if folded == wanted:
            expected = "exact"
        elif folded.startswith(wanted):
            expected = "prefix"
        elif any(folded[i:].startswith(wanted) for i in starts):
            expected = "word"
        elif similarity(label, asked) >= LEAST_SIMILARITY:
            expected = "similar"
        else:
            expected = None
        assert found.get(label) == expected


def test_the_likest_come_first():
    words = random.Random(0)
    labels = {"".join(words.choices("abc", k=9)) for _ in range(500)}
    index = NameIndex(Vocabulary.of(labels, kind="entity"))
    found = [index.vocabulary.labels[match.id] for match in index.find("abcbacbca", 10) if match.kind == "similar"]
    best = sorted(labels, key=lambda label: -similarity(label, "abcbacbca"))[: len(found)]
    assert [similarity(label, "abcbacbca") for label in found] == [similarity(label, "abcbacbca") for label in best]
    assert len(found) > 3


def test_labels_and_names_are_both_found_once():
    index = NameIndex(Vocabulary.of(["de", "dj"], {"de": "Germany", "dj": "Djibouti"}, kind="entity"))
    assert [(match.id, match.kind) for match in index.find("D")] == [(0, "prefix"), (1, "prefix")]
    assert [(match.id, match.kind) for match in index.find("dj")] == [(1, "exact")]
    assert index.id("Germany") == 0
    with pytest.raises(UnknownNameError, match="unknown entity 'Germny': did you mean 'Germany'"):
        index.id("Germny")


def test_entities_and_relations_are_looked_up(client):
    found = client.get("/v1/entities", params={"q": "person 1", "limit": 3}).json()
    assert found["entities"][0] == {"entity": "e01", "name": "Person 1", "match": "exact"}
    assert [one["name"] for one in found["entities"][1:]] == ["Person 10", "Person 11"]
    assert found["total"] == 30
    assert [one["entity"] for one in client.get("/v1/entities?q=öz").json()["entities"]] == ["e28", "e29"]
    assert len(client.get("/v1/entities").json()["entities"]) == 10
    assert client.get("/v1/relations?q=loves").json() == {
        "relations": [{"relation": "hates/loves", "name": "hates/loves", "match": "word"}],
        "total": 2,
    }
    assert client.get("/v1/entities?q=%00%ff").json()["entities"] == []


def test_an_entity_has_its_facts_some_of_each_relation(client):
    whole = client.get("/v1/entities/e00?limit=500").json()
    assert (whole["entity"], whole["name"]) == ("e00", "Person 0")
    facts = {(fact["head"], fact["relation"], fact["tail"]) for fact in whole["facts"]}
    knows = {(f"e{i:02}", "knows", f"e{j:02}") for i in range(12) for j in range(12) if (i + j) % 3 == 0}
    others = {("e00", "hates/loves", "e01"), ("e29", "hates/loves", "e00")}
    assert facts == {fact for fact in knows if "e00" in fact} | others
    assert whole["total"] == len(whole["facts"]) == len(facts)
    few = client.get("/v1/entities/Person 0?limit=4").json()["facts"]
    sides = [(fact["relation"], fact["head"] == "e00") for fact in few]
    assert len(set(sides)) == 4
    loop = next(fact for fact in whole["facts"] if fact["head"] == fact["tail"])
    assert loop["head_name"] == "Person 0"
