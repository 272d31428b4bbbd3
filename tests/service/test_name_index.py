"""GET /v1/entities and /v1/relations: beginnings, words and likenesses, against a plain search."""

from __future__ import annotations

import random
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capse.errors import UnknownNameError
from capse.graph.vocabulary import Vocabulary
from capse.service.name_index import NameIndex, _as_written, distance, misspellings


def trigrams(text):
    padded = f" {text.casefold()} "
    return {padded[i : i + 3] for i in range(len(padded) - 2)}


def edits(typed, text):
    """By recursion, from the definition: all of ``typed``, and as much of ``text`` as suits it best."""

    @cache
    def to(i, j):
        if i == 0 or j == 0:
            return i + j
        best = min(to(i - 1, j) + 1, to(i, j - 1) + 1, to(i - 1, j - 1) + (typed[i - 1] != text[j - 1]))
        if i > 1 and j > 1 and (typed[i - 1], typed[i - 2]) == (text[j - 2], text[j - 1]):
            best = min(best, to(i - 2, j - 2) + 1)
        return best

    return min(to(len(typed), j) for j in range(len(text) + 1))


texts = st.text(st.sampled_from("abAB é/_"), min_size=1, max_size=8)


@given(labels=st.sets(texts, min_size=1, max_size=12), asked=texts)
def test_everything_is_found_that_a_plain_search_finds(labels, asked):
    vocabulary = Vocabulary.of(labels, kind="entity")
    found = {vocabulary.labels[match.id]: match.kind for match in NameIndex(vocabulary).find(asked, limit=100)}
    wanted = asked.casefold()
    allowed = misspellings(wanted)
    for label in labels:
        kinds = set()
        for folded in {label.casefold(), _as_written(label.casefold())}:
            starts = [i for i in range(1, len(folded)) if folded[i].isalnum() and not folded[i - 1].isalnum()]
            near = allowed and min(edits(wanted, folded[i:]) for i in [0, *starts]) <= allowed
            if folded == wanted:
                kinds.add("exact")
            elif folded.startswith(wanted):
                kinds.add("prefix")
            elif any(folded[i:].startswith(wanted) for i in starts):
                kinds.add("word")
            elif near and trigrams(folded) & trigrams(wanted):
                kinds.add("similar")
        expected = next((kind for kind in ("exact", "prefix", "word", "similar") if kind in kinds), None)
        assert found.get(label) == expected


@given(typed=texts, text=texts, most=st.integers(1, 3))
def test_distances_are_those_of_the_definition_up_to_the_most(typed, text, most):
    typed, text = typed.casefold(), text.casefold()
    starts = [0, *(i for i in range(1, len(text)) if text[i].isalnum() and not text[i - 1].isalnum())]
    assert min(distance(typed, text, most), most + 1) == min(min(edits(typed, text[i:]) for i in starts), most + 1)


DOGS = ["dog's_breakfast.n", "dog.n", "dogma.n", "dog_collar.n", "hot_dog.n", "dog.v", "doggo.n", "elephant.n", "pig.n"]


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("dog", ["dog.n", "dog.v", "doggo.n", "dogma.n"]),
        ("Dog", ["dog.n", "dog.v"]),
        ("hot dog", ["hot_dog.n"]),
        ("dog c", ["dog_collar.n"]),
        ("dog.v", ["dog.v"]),
        ("elefant", ["elephant.n"]),
        ("elehpant", ["elephant.n"]),
        ("breakfst", ["dog's_breakfast.n"]),
        ("colar", ["dog_collar.n"]),
    ],
)
def test_an_exact_name_comes_first_and_a_misspelt_one_is_found(typed, first):
    index = NameIndex(Vocabulary.of(DOGS, kind="entity"))
    found = [index.vocabulary.labels[match.id] for match in index.find(typed, 4)]
    assert found[: len(first)] == first


def test_the_nearest_of_very_many_come_first():
    letters = random.Random(0)
    labels = {"".join(letters.choices("abcdef", k=9)) for _ in range(3000)}
    index = NameIndex(Vocabulary.of(labels, kind="entity"))
    meant = sorted(labels)[100]
    for typed in (meant[:4] + "z" + meant[5:], meant[:4] + meant[5:], meant[:3] + meant[4] + meant[3] + meant[5:]):
        assert meant in [index.vocabulary.labels[match.id] for match in index.find(typed, 3)]


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
    pages = [client.get(f"/v1/entities/e00?limit=3&offset={offset}").json()["facts"] for offset in range(0, 12, 3)]
    assert [fact for page in pages for fact in page] == whole["facts"]
    few = client.get("/v1/entities/Person 0?limit=4").json()["facts"]
    sides = [(fact["relation"], fact["head"] == "e00") for fact in few]
    assert len(set(sides)) == 4
    loop = next(fact for fact in whole["facts"] if fact["head"] == fact["tail"])
    assert loop["head_name"] == "Person 0"
