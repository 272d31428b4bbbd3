"""The embedded graph `countries`, read as plain files: what it holds, and that its test set is honest."""

from __future__ import annotations

from collections import Counter
from importlib.resources import files

import pytest

Triple = tuple[str, ...]

FOLDER = files("capse.graph") / "embedded"
SPLITS = {
    name: [tuple(line.split("\t")) for line in (FOLDER / f"{name}.tsv").read_text(encoding="utf-8").splitlines()]
    for name in ("train", "valid", "test")
}
ALL = [triple for triples in SPLITS.values() for triple in triples]
RELATIONS = {
    "borders",
    "branch of",
    "calendar",
    "clock",
    "currency",
    "currency unit",
    "language",
    "language family",
    "located in",
    "member of",
    "time zone",
    "week starts on",
    "written in",
}


def entities(triples: list[Triple]) -> set[str]:
    return {entity for head, _, tail in triples for entity in (head, tail)}


def pairs(triples: list[Triple]) -> set[frozenset[str]]:
    return {frozenset((head, tail)) for head, _, tail in triples}


def test_size() -> None:
    assert {name: len(triples) for name, triples in SPLITS.items()} == {"train": 2479, "valid": 310, "test": 311}
    assert len(entities(ALL)) == 804
    assert {relation for _, relation, _ in ALL} == RELATIONS
    assert sum(len((FOLDER / f"{name}.tsv").read_bytes()) for name in SPLITS) < 300_000


@pytest.mark.parametrize("name", SPLITS)
def test_a_file_is_three_clean_columns_sorted(name: str) -> None:
    assert all(len(triple) == 3 for triple in SPLITS[name])
    assert all(column and column == column.strip() for triple in SPLITS[name] for column in triple)
    assert SPLITS[name] == sorted(SPLITS[name])
    content = (FOLDER / f"{name}.tsv").read_bytes()
    assert content.endswith(b"\n")
    assert b"\r" not in content


def test_no_fact_twice_and_nothing_related_to_itself() -> None:
    assert [triple for triple, n in Counter(ALL).items() if n > 1] == []
    assert [triple for triple in ALL if triple[0] == triple[2]] == []


def test_no_two_entities_meet_in_two_splits() -> None:
    """So a fact is never held out while its mirror, or a second relation between the same two, is in train."""
    train, valid, test = (pairs(SPLITS[name]) for name in ("train", "valid", "test"))
    assert not train & valid
    assert not train & test
    assert not valid & test


def test_borders_go_both_ways_within_one_split() -> None:
    for triples in SPLITS.values():
        borders = {(head, tail) for head, relation, tail in triples if relation == "borders"}
        assert borders == {(tail, head) for head, tail in borders}


def test_no_relation_but_borders_is_its_own_mirror_or_that_of_another() -> None:
    known = {(head, tail) for head, relation, tail in ALL if relation != "borders"}
    assert not known & {(tail, head) for head, tail in known}


@pytest.mark.parametrize("name", ["valid", "test"])
def test_held_out_facts_are_about_what_train_knows(name: str) -> None:
    assert len(SPLITS[name]) >= 200
    assert {relation for _, relation, _ in SPLITS[name]} <= {relation for _, relation, _ in SPLITS["train"]}
    seen = Counter(entity for head, _, tail in SPLITS["train"] for entity in (head, tail))
    assert [entity for entity in entities(SPLITS[name]) if seen[entity] < 2] == []


@pytest.mark.parametrize(
    "fact",
    [
        ("France", "borders", "Germany"),
        ("Brazil", "language", "Portuguese"),
        ("Japan", "currency", "Japanese Yen"),
        ("Croatia", "currency", "Euro"),
        ("Senegal", "currency", "West African CFA Franc"),
        ("Tunisian Dinar", "currency unit", "Dinar"),
        ("Kenya", "located in", "Eastern Africa"),
        ("Eastern Africa", "located in", "Africa"),
        ("Ireland", "member of", "European Union"),
        ("Spanish", "language family", "Romance languages"),
        ("Germanic languages", "branch of", "Indo-European languages"),
        ("Bulgarian", "written in", "Cyrillic script"),
        ("Peru", "time zone", "UTC-05:00"),
        ("United States", "week starts on", "Sunday"),
        ("Germany", "clock", "24-hour clock"),
        ("Jordan", "calendar", "Hijri Calendar"),
    ],
)
def test_it_knows(fact: Triple) -> None:
    assert fact in ALL


@pytest.mark.parametrize(
    "absent",
    ["Netherlands Antilles", "Serbia and Montenegro", "Antarctica", "German Mark", "Croatian Kuna", "French Franc"],
)
def test_it_has_forgotten(absent: str) -> None:
    assert absent not in entities(ALL)


def test_one_name_is_one_thing() -> None:
    """Countries and languages, say, never share a label: each entity is of one kind."""
    kinds = {
        "borders": ("country", "country"),
        "branch of": ("family", "family"),
        "calendar": ("country", "calendar"),
        "clock": ("country", "clock"),
        "currency": ("country", "currency"),
        "currency unit": ("currency", "unit"),
        "language": ("country", "language"),
        "language family": ("language", "family"),
        "member of": ("country", "union"),
        "time zone": ("country", "time zone"),
        "week starts on": ("country", "day"),
        "written in": ("language", "script"),
    }
    regions = {tail for _, relation, tail in ALL if relation == "located in"}
    found: dict[str, set[str]] = {}
    for head, relation, tail in ALL:
        of_head, of_tail = kinds.get(relation, ("region" if head in regions else "country", "region"))
        found.setdefault(head, set()).add(of_head)
        found.setdefault(tail, set()).add(of_tail)
    assert {entity: of for entity, of in found.items() if len(of) > 1} == {}
    assert Counter(kind for of in found.values() for kind in of)["country"] == 243


def test_the_licence_is_beside_the_data() -> None:
    text = (FOLDER / "LICENSE.md").read_text(encoding="utf-8")
    for notice in ("GeoNames", "CC BY 4.0", "UNICODE LICENSE V3", "CC0 1.0", "public domain", "Ramiro Gómez"):
        assert notice in text
