"""Names of ours and of other packages, in one mapping."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial

import pytest

from capse.errors import ExtensionError, UnknownNameError
from capse.registry import Registry

Install = Callable[[str, str], None]


@pytest.fixture
def install(install_package: Callable[[str, str, str], None]) -> Install:
    return partial(install_package, "capse.tests")


def registry() -> Registry[object]:
    return Registry("number", "capse.tests", {"pi": "math:pi", "tau": "math:tau"})


def test_ours_come_first_and_others_after_them(install: Install) -> None:
    install("answer = registered_answer:VALUE", "VALUE = 42\n")
    numbers = registry()
    assert list(numbers) == ["pi", "tau", "answer"]
    assert len(numbers) == 3
    assert "answer" in numbers
    assert numbers["answer"] == 42


def test_nothing_is_imported_before_it_is_asked_for(install: Install) -> None:
    install("slow = registered_slow:VALUE", "VALUE = 1\n")
    numbers = registry()
    assert "slow" in numbers
    assert "registered_slow" not in sys.modules
    assert numbers["slow"] == 1
    assert "registered_slow" in sys.modules


def test_an_unknown_name_is_an_error_that_names_the_nearest_or_all() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown number 'tao': did you mean 'tau'\?"):
        registry()["tao"]
    with pytest.raises(UnknownNameError, match="choose one of pi, tau"):
        registry()["x"]


def test_a_name_that_is_taken_is_refused(install: Install) -> None:
    install("pi = registered_pi:VALUE", "VALUE = 3\n")
    with pytest.raises(ExtensionError, match=r"'pi' is registered twice: math:pi and registered_pi:VALUE"):
        list(registry())


@pytest.mark.parametrize("code", ["VALUE = 1 / 0\n", "OTHER = 1\n", "import no_such_module\n"])
def test_what_cannot_be_loaded_is_said_in_a_line_and_does_not_hide_the_rest(install: Install, code: str) -> None:
    install("broken = registered_broken:VALUE", code)
    numbers = registry()
    assert numbers["pi"] == math.pi
    with pytest.raises(ExtensionError, match=r"'broken' of registered_broken:VALUE cannot be loaded") as error:
        numbers["broken"]
    assert "\n" not in str(error.value)


def test_get_has_a_default() -> None:
    assert registry().get("x") is None
    assert registry().get("pi") == registry()["pi"]
