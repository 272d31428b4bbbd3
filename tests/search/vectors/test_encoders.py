"""Encoders: what is built in, what is your own, what a library has; rows of length 1 from each."""

from __future__ import annotations

import sys
import types
from typing import Any

import numpy as np
import pytest

from capse.errors import MissingExtraError, RunError, SettingsError
from capse.search.vectors.encoders import CallableEncoder, Lsa, fit_lsa, load_encoder, runs_own_code, unit
from capse.search.vectors.vocabulary import TextSettings

TEXTS = [
    "the cat sat with the other cat",
    "a cat and a kitten purr",
    "the kitten purrs at the cat",
    "stocks and bonds fell",
    "bonds rose as stocks fell",
    "the market for stocks and bonds",
]


@pytest.fixture(scope="module")
def lsa():
    return fit_lsa(TEXTS, 3, TextSettings(max_share=0.9))


class TestLsa:
    def test_is_the_formula(self, lsa):
        """(1 + ln count) × rarity, rows of length 1, projected on right singular vectors; NumPy's own."""
        from capse.search.logs.documents import words

        counts = np.array([[words(text).count(word) for word in lsa.words] for text in TEXTS], float)
        found = (counts > 0).sum(axis=0)
        rarity = np.log(1 + (len(TEXTS) - found + 0.5) / (found + 0.5))
        weighted = np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0) * rarity
        weighted /= np.linalg.norm(weighted, axis=1, keepdims=True)
        _, _, right = np.linalg.svd(weighted)
        expected = unit(weighted @ right[:3].T)
        encoded = lsa.encode(TEXTS)
        # Directions may point either way; angles between texts do not care.
        assert lsa.rarity == pytest.approx(rarity)
        assert encoded @ encoded.T == pytest.approx(expected @ expected.T, abs=1e-4)

    def test_texts_about_one_thing_lie_together(self, lsa):
        cats, money, query = lsa.encode(["cat cat", "bonds market", "kitten purr"])
        assert query @ cats > 0.5
        assert query @ cats > query @ money + 0.5

    def test_rows_have_length_one_and_nothing_is_nothing(self, lsa):
        rows = lsa.encode([*TEXTS, "", "unheard-of"])
        assert np.linalg.norm(rows, axis=1) == pytest.approx([1] * 6 + [0, 0], abs=1e-5)

    def test_the_same_seed_gives_the_same_encoder(self, lsa):
        assert np.array_equal(fit_lsa(TEXTS, 3, TextSettings(max_share=0.9)).directions, lsa.directions)

    def test_more_dimensions_than_texts_are_zero(self):
        rows = fit_lsa(TEXTS, 40, TextSettings(max_share=0.9)).encode(TEXTS)
        assert rows.shape == (6, 40)
        assert not rows[:, 6:].any()

    def test_save_and_load(self, lsa, tmp_path):
        lsa.save(tmp_path / "lsa.safetensors")
        assert np.array_equal(Lsa.load(tmp_path / "lsa.safetensors").encode(TEXTS), lsa.encode(TEXTS))
        (tmp_path / "lsa.safetensors").write_bytes(b"nothing of the kind")
        with pytest.raises(RunError):
            Lsa.load(tmp_path / "lsa.safetensors")


@pytest.fixture
def module(monkeypatch):
    """A module of the user's own."""
    own: Any = types.ModuleType("my_encoders")
    own.lengths = lambda texts: [[len(text), 1.0] for text in texts]
    own.flat = lambda texts: np.zeros(len(texts))
    own.short = lambda texts: np.zeros((1, 3))
    own.broken = lambda texts: np.full((len(texts), 2), np.nan)
    own.number = 7
    monkeypatch.setitem(sys.modules, "my_encoders", own)


class TestByName:
    def test_a_function_of_ones_own(self, module):
        rows = load_encoder("my_encoders:lengths").encode(["abc", ""])
        assert rows == pytest.approx(np.array([[3, 1], [0, 10**0.5]]) / 10**0.5)
        assert rows.dtype == np.float32
        assert runs_own_code("my_encoders:lengths")
        assert not runs_own_code("lsa")
        assert not runs_own_code("sentence-transformers:small")

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("my_encoders:flat", r"gave numbers of shape \(2,\) for 2 texts: it must give one row"),
            ("my_encoders:short", r"gave numbers of shape \(1, 3\) for 2 texts"),
            ("my_encoders:broken", "gave NaN or infinity"),
        ],
    )
    def test_what_it_gives_is_checked(self, module, name, message):
        encoder = load_encoder(name)
        with pytest.raises(SettingsError, match=message):
            encoder.encode(["a", "b"])

    @pytest.mark.parametrize(
        ("name", "message"),
        [
            ("word2vec", "vectors.encoder is 'word2vec': write lsa, sentence-transformers:NAME or module:function"),
            (":encode", "write lsa"),
            ("no_such_module:encode", "there is no module 'no_such_module'"),
            ("my_encoders:nothing", "has no function 'nothing'"),
            ("my_encoders:number", "has no function 'number'"),
        ],
    )
    def test_a_name_that_leads_nowhere_is_an_error(self, module, name, message):
        with pytest.raises(SettingsError, match=message):
            load_encoder(name)

    def test_a_model_of_sentence_transformers(self, monkeypatch):
        """The library is large and its models are fetched, so here is one that behaves like it."""

        class SentenceTransformer:
            def __init__(self, name):
                if name != "small":
                    raise OSError(f"{name} is not a local folder and is not a valid model identifier\nmore lines")

            def encode(self, texts, show_progress_bar):
                assert not show_progress_bar
                return np.array([[len(text), 0.0] for text in texts])

        library: Any = types.ModuleType("sentence_transformers")
        library.SentenceTransformer = SentenceTransformer
        monkeypatch.setitem(sys.modules, "sentence_transformers", library)
        assert load_encoder("sentence-transformers:small").encode(["ab"]).tolist() == [[1.0, 0.0]]
        with pytest.raises(
            SettingsError, match="the model 'large' of sentence-transformers cannot be loaded"
        ) as caught:
            load_encoder("sentence-transformers:large")
        assert "\n" not in str(caught.value)

    def test_a_library_that_is_not_there_names_its_extra(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "sentence_transformers", None)
        with pytest.raises(MissingExtraError, match=r"pip install 'capse\[encoders\]'"):
            load_encoder("sentence-transformers:small")


def test_a_row_of_zeros_stays_one():
    encoder = CallableEncoder(lambda texts: [[0.0, 0.0] for _ in texts], "nothing")
    assert encoder.encode(["a"]).tolist() == [[0.0, 0.0]]
