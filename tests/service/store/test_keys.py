"""API keys: found by the key itself, stored as a hash, invalid once revoked."""

from __future__ import annotations

import re

import pytest

from capse.errors import CapseError, SettingsError, UnknownNameError
from capse.service.store import SCOPES, Key


def test_a_key_is_found_by_itself(store):
    plaintext = store.add_key("web", ["rerank", "predict"], user="ada", per_minute=60)
    key = store.find_key(plaintext)
    assert key == Key(key.number, "web", ("predict", "rerank"), "ada", 60, key.created, None)
    assert re.fullmatch(r"capse_[\w-]{43}", plaintext), "256 bits"
    for other in ("", "capse_", plaintext[:-1], plaintext + "x", plaintext.upper(), "\ud800", "\0"):
        assert store.find_key(other) is None


def test_keys_differ(store):
    assert len({store.add_key(f"k{n}", SCOPES) for n in range(20)}) == 20


def test_the_key_itself_is_not_stored(path, lite):
    plaintext = lite.add_key("web", ["admin"])
    for file in path.parent.iterdir():
        assert plaintext.removeprefix("capse_").encode() not in file.read_bytes()


def test_a_revoked_key_is_invalid_and_its_name_free(store):
    first = store.add_key("web", ["predict"])
    store.revoke_key("web")
    assert store.find_key(first) is None
    second = store.add_key("web", ["rerank"])
    assert store.find_key(second).scopes == ("rerank",)
    assert store.find_key(first) is None
    old, new = store.list_keys()
    assert (old.name, new.name) == ("web", "web")
    assert old.revoked >= old.created
    assert new.revoked is None


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("", ["predict"]), SettingsError, "a key's name cannot be '': give 1 to 200 printable characters"),
        (("a\nb", ["predict"]), SettingsError, r"a key's name cannot be 'a\\nb'"),
        (("web", []), SettingsError, "the key 'web' may do nothing: give it a scope: predict, rerank"),
        (("web", ["predicts"]), UnknownNameError, "unknown scope 'predicts': did you mean 'predict'"),
        (("web", ["predict"], "\0"), SettingsError, "a key's user cannot be"),
        (("web", ["predict"], None, 0), SettingsError, "0 requests per minute: give 1 or more"),
        (("taken", ["predict"]), SettingsError, "there is a key named 'taken' already: revoke it first"),
    ],
)
def test_what_makes_no_sense_is_refused(store, arguments, error, message):
    store.add_key("taken", ["predict"])
    with pytest.raises(error, match=message):
        store.add_key(*arguments)
    assert len(store.list_keys()) == 1


def test_only_a_valid_key_can_be_revoked(store):
    store.add_key("web", ["predict"])
    with pytest.raises(CapseError, match="unknown key 'wep': did you mean 'web'"):
        store.revoke_key("wep")
    store.revoke_key("web")
    with pytest.raises(CapseError, match="unknown key 'web': `capse key list` shows those that are valid"):
        store.revoke_key("web")
