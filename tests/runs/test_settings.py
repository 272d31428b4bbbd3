"""Strict settings: nothing unknown, nothing of the wrong kind, and errors that say what to write instead."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from capse.errors import SettingsError
from capse.runs.settings import check_choices, fill, load_yaml, override, parse_override, to_mapping


@dataclass(frozen=True)
class Inner:
    rate: float = 0.5
    steps: int = 3


@dataclass(frozen=True)
class Outer:
    epochs: int = 50
    learning_rate: float = 1e-4
    shuffle: bool = True
    kind: Literal["adam", "sgd"] = "adam"
    norm: Literal[1, 2] = 1
    folder: str | None = None
    inner: Inner = field(default_factory=Inner)


def test_values_go_over_defaults():
    assert fill(Outer, None) == fill(Outer, {}) == Outer()
    filled = fill(Outer, {"epochs": 3, "kind": "sgd", "norm": 2, "inner": {"rate": 1}})
    assert filled == Outer(epochs=3, kind="sgd", norm=2, inner=Inner(rate=1.0))
    assert fill(Outer, to_mapping(filled)) == filled


@pytest.mark.parametrize("text", ["1e-4", "1.0e-4", "0.0001", "1E-4"])
def test_yaml_11_reads_exponents_as_text_and_we_do_not(text):
    assert fill(Outer, load_yaml(f"learning_rate: {text}", "x")).learning_rate == 1e-4
    assert parse_override(f"training.learning_rate={text}") == (["training", "learning_rate"], 1e-4)


def test_numbers_take_the_type_of_their_setting():
    filled = fill(Outer, {"epochs": 3.0, "learning_rate": 1})
    assert (filled.epochs, type(filled.epochs)) == (3, int)
    assert (filled.learning_rate, type(filled.learning_rate)) == (1.0, float)
    assert fill(Outer, {"folder": 2024}).folder == "2024"
    assert isinstance(fill(Outer, {"norm": 2.0}).norm, int)


@pytest.mark.parametrize("text", ["2024-05-01", "runs/transe", "C3PO"])
def test_text_that_yaml_takes_for_something_else(text):
    assert fill(Outer, override({}, [f"start.folder={text}"])["start"]).folder == text
    assert fill(Outer, load_yaml(f"folder: {text}", "x")).folder == text


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"epoch": 3}, "unknown setting 'training.epoch': did you mean 'training.epochs'?"),
        ({"zzz": 3}, "unknown setting 'training.zzz': choose from epochs, learning_rate, shuffle"),
        ({"inner": {"rat": 1}}, "unknown setting 'training.inner.rat': did you mean 'training.inner.rate'?"),
        ({7: 3}, "unknown setting 'training.7'"),
        ({"epochs": True}, "training.epochs is True: write a whole number"),
        ({"epochs": 2.5}, "training.epochs is 2.5: write a whole number"),
        ({"epochs": float("inf")}, "training.epochs is inf: write a whole number"),
        ({"epochs": "many"}, "training.epochs is 'many': write a whole number"),
        ({"epochs": None}, "training.epochs is None: write a whole number"),
        ({"epochs": [3]}, "training.epochs is [3]: write a whole number"),
        ({"learning_rate": True}, "training.learning_rate is True: write a number"),
        ({"learning_rate": float("nan")}, "training.learning_rate is nan: write a number"),
        ({"learning_rate": "inf"}, "training.learning_rate is 'inf': write a number"),
        ({"learning_rate": {}}, "training.learning_rate is {}: write a number"),
        ({"learning_rate": 10**400}, "write a number"),
        ({"shuffle": 1}, "training.shuffle is 1: write true or false"),
        ({"shuffle": "yes"}, "training.shuffle is 'yes': write true or false"),
        ({"kind": "adm"}, "training.kind is 'adm': choose from adam, sgd"),
        ({"kind": ["adam"]}, "training.kind is ['adam']: choose from adam, sgd"),
        ({"norm": True}, "training.norm is True: choose from 1, 2"),
        ({"norm": 3}, "training.norm is 3: choose from 1, 2"),
        ({"folder": True}, "training.folder is True: write text"),
        ({"folder": ["a"]}, "training.folder is ['a']: write text"),
        ({"inner": 5}, "section 'training.inner' is 5: write it as 'key: value' lines"),
        ([("epochs", 3)], "section 'training' is"),
    ],
)
def test_wrong_values_are_refused_with_what_to_write(values, message):
    with pytest.raises(SettingsError) as error:
        fill(Outer, values, "training")
    assert message in str(error.value)


def test_choices_are_checked_however_the_settings_were_made():
    check_choices(Outer(), "training")
    with pytest.raises(SettingsError, match=r"training\.kind is 'rmsprop': choose from adam, sgd"):
        check_choices(Outer(kind="rmsprop"), "training")  # type: ignore[arg-type]


_TEXT = st.text("ae1-.: ", max_size=5)
_PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | _TEXT | st.dates() | st.just(10**400)
_ANY = _PLAIN | st.lists(_PLAIN, max_size=2) | st.dictionaries(_TEXT | st.just("rate"), _PLAIN, max_size=2)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from([*Outer.__dataclass_fields__, "epoc"]), _ANY))
def test_anything_is_filled_exactly_or_refused_politely(values):
    try:
        filled = fill(Outer, values, "training")
    except SettingsError:
        return
    kinds = {"epochs": int, "learning_rate": float, "shuffle": bool, "kind": str, "norm": int}
    assert all(type(getattr(filled, key)) is kind for key, kind in kinds.items())
    assert fill(Outer, to_mapping(filled)) == filled


def test_overrides_win_and_leave_the_rest_and_the_original_alone():
    values = {"training": {"epochs": 3, "seed": 1}, "data": "x"}
    merged = override(values, ["training.epochs=5", "training.epochs=7", "loss.name=margin", "start.run=null"])
    assert merged == {
        "training": {"epochs": 7, "seed": 1},
        "data": "x",
        "loss": {"name": "margin"},
        "start": {"run": None},
    }
    assert values == {"training": {"epochs": 3, "seed": 1}, "data": "x"}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("a.b=3", 3),
        ("a.b=3.5", 3.5),
        ("a.b=true", True),
        ("a.b=", None),
        ("a.b=x=y", "x=y"),
        ("a.b=a b", "a b"),
        (" a.b=1", 1),
    ],
)
def test_override_values(option, value):
    assert parse_override(option) == (["a", "b"], value)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("training.epochs", "write --set section.key=value"),
        ("epochs=3", "write --set section.key=value"),
        (".epochs=3", "write --set section.key=value"),
        ("training.=3", "write --set section.key=value"),
        ("=3", "write --set section.key=value"),
        ("a.b.c=3", "settings have two parts"),
        ("data.x=3", "'data' is not a section"),
        ("a.b=[1", "cannot read the value"),
    ],
)
def test_overrides_that_cannot_be_read(option, message):
    with pytest.raises(SettingsError, match=r"cannot read|not a section") as error:
        override({"data": "x"}, [option])
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model: {name: transe\ntraining: {", "r.yaml, line 2 is not valid YAML"),
        ("a: 1\n\tb: 2", "r.yaml, line 2 is not valid YAML"),
        ("a: 1\nb: 'x\n", "r.yaml, line 3 is not valid YAML"),
        ("a: !!python/object/apply:os.system ['touch /tmp/owned']", "r.yaml, line 1 is not valid YAML"),
        ("a: \x00", "r.yaml is not valid YAML"),
        ("- 1\n- 2", "r.yaml does not hold settings"),
        ("text", "r.yaml does not hold settings"),
    ],
)
def test_yaml_errors_name_the_line(text, message):
    with pytest.raises(SettingsError) as error:
        load_yaml(text, "r.yaml")
    assert str(error.value).startswith(message)
    assert error.value.remedy


def test_an_empty_file_holds_no_settings():
    assert load_yaml("", "r.yaml") == load_yaml("# nothing\n", "r.yaml") == {}
