import time
from dataclasses import replace

import pytest

from capse.errors import CapseError, DataError, UnknownNameError
from capse.graph.vocabulary import Vocabulary

CITIES = Vocabulary.of(
    ["q3", "q1", "q2", "q4"], {"q1": "Springfield", "q2": "Springfield", "q3": "Portland"}, kind="entity"
)


def test_ids_are_places_among_the_sorted_labels():
    assert CITIES.labels == ["q1", "q2", "q3", "q4"]
    assert [CITIES.id(label) for label in CITIES.labels] == [0, 1, 2, 3]
    assert len(CITIES) == 4
    assert "q4" in CITIES
    assert "Portland" not in CITIES
    assert 3 not in CITIES


def test_a_name_that_is_unique_finds_its_label():
    assert CITIES.id("Portland") == 2
    assert CITIES.name(2) == "Portland"
    assert CITIES.name(3) == "q4"  # no name


def test_an_ambiguous_name_lists_its_labels():
    with pytest.raises(CapseError, match="2 labels have the name 'Springfield': give one of them: 'q1', 'q2'"):
        CITIES.id("Springfield")


def test_a_label_goes_before_a_name():
    odd = Vocabulary.of(["a", "b"], {"a": "b", "b": "a"})
    assert (odd.id("a"), odd.id("b")) == (0, 1)


def test_an_unknown_name_says_what_is_near():
    with pytest.raises(UnknownNameError, match="unknown entity 'portlant': did you mean 'Portland'"):
        CITIES.id("portlant")
    with pytest.raises(UnknownNameError, match="unknown entity '': give a label"):
        CITIES.id("")


def test_nearest_names_among_a_million_come_within_a_second():
    many = Vocabulary.of((f"/m/{number:06x}" for number in range(1_000_000)), {"/m/0f0f0f": "Ouagadougou"})
    # Three tries, for machines that do other things too.
    assert any(seconds_to_suggest(replace(many), "Ouagadugu", "Ouagadougou") < 1.0 for _ in range(3))


def seconds_to_suggest(vocabulary, misspelt, nearest):
    start = time.process_time()
    with pytest.raises(UnknownNameError, match=f"'{nearest}'"):
        vocabulary.id(misspelt)
    return time.process_time() - start


@pytest.mark.parametrize("vocabulary", [CITIES, Vocabulary(["a", "é"]), Vocabulary([], kind="relation")])
def test_save_and_load(tmp_path, vocabulary):
    vocabulary.save(tmp_path / "v.parquet")
    assert Vocabulary.load(tmp_path / "v.parquet") == vocabulary


@pytest.mark.parametrize("content", [b"", b"PAR1 and then something else"])
def test_a_damaged_vocabulary(tmp_path, content):
    (tmp_path / "v.parquet").write_bytes(content)
    with pytest.raises(DataError, match=r"v\.parquet: not a readable vocabulary"):
        Vocabulary.load(tmp_path / "v.parquet")


def test_a_missing_vocabulary(tmp_path):
    with pytest.raises(DataError, match=r"v\.parquet"):
        Vocabulary.load(tmp_path / "v.parquet")


def test_unsorted_labels_and_missing_names_are_refused():
    with pytest.raises(ValueError, match="sorted"):
        Vocabulary(["b", "a"])
    with pytest.raises(ValueError, match="one name"):
        Vocabulary(["a", "b"], ["A"])
