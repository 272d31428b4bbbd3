"""LambdaMART finds what was planted, twice the same, and comes back from its folder."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from capse.errors import DataError, RunError, SettingsError
from capse.search.evaluation.list_metrics import list_metrics
from capse.search.features.feature_table import FeatureTable
from capse.search.rankers.lambdamart import LabelledLists, LambdaMART, LambdaMARTSettings

LENGTH = 8
QUICK = LambdaMARTSettings(trees=40, leaves=7, learning_rate=0.2, least_documents=10, feature_share=1.0, patience=10)


def planted(lists, seed):
    """The document with the highest product of two features is relevant; a third feature says nothing."""
    draw = np.random.default_rng(seed)
    values = draw.normal(size=(lists, LENGTH, 3))
    relevant = np.argmax(values[..., 0] * values[..., 1], axis=1)[:, None] == np.arange(LENGTH)
    names = ("left", "right", "noise")
    table = FeatureTable(names, values.reshape(-1, 3).astype(np.float32))
    return LabelledLists(table, relevant.ravel(), np.full(lists, LENGTH))


TRAIN, VALID, TEST = planted(600, 0), planted(100, 1), planted(300, 2)


def mrr(model, lists):
    return float(list_metrics(model.predict(lists.features), lists.relevant, lists.lengths).mrr.mean())


@pytest.fixture(scope="module")
def model():
    return LambdaMART.fit(TRAIN, VALID, QUICK)


def test_finds_the_planted_product(model):
    assert mrr(model, TEST) > 0.8  # chance is .34, the better of the two features alone less than .6
    gains = model.gains()
    assert set(list(gains)[:2]) == {"left", "right"}
    assert gains["noise"] < 0.2 * gains["left"]


def test_the_validation_lists_say_when_to_stop(model):
    """On labels that mean nothing, no tree after the first few is any better."""
    draw = np.random.default_rng(3)
    nothing = replace(TRAIN, relevant=draw.permuted(TRAIN.relevant.reshape(-1, LENGTH), axis=1).ravel())
    stopped = LambdaMART.fit(nothing, VALID, replace(QUICK, patience=3))
    assert stopped.settings.trees < QUICK.trees
    assert LambdaMART.fit(TRAIN, VALID, replace(QUICK, patience=0)).settings.trees == QUICK.trees
    assert model.validation_mrr == pytest.approx(mrr(LambdaMART.fit(TRAIN, VALID, replace(QUICK, refit=False)), VALID))


def test_refitting_learns_from_the_validation_lists_too(model):
    apart = LambdaMART.fit(TRAIN, VALID, replace(QUICK, refit=False))
    assert apart.settings.trees == model.settings.trees
    assert apart.text != model.text
    assert mrr(model, VALID) > mrr(apart, VALID)


def test_the_same_seed_gives_the_same_model(model):
    assert LambdaMART.fit(TRAIN, VALID, QUICK).text == model.text
    drawn = replace(QUICK, feature_share=0.5)
    assert LambdaMART.fit(TRAIN, VALID, drawn).text != LambdaMART.fit(TRAIN, VALID, replace(drawn, seed=1)).text


def test_comes_back_from_its_folder(model, tmp_path):
    model.save(tmp_path)
    loaded = LambdaMART.load(tmp_path)
    assert (loaded.names, loaded.settings, loaded.validation_mrr) == (
        model.names,
        model.settings,
        model.validation_mrr,
    )
    np.testing.assert_array_equal(loaded.predict(TEST.features), model.predict(TEST.features))


def test_a_damaged_model_is_named(model, tmp_path):
    with pytest.raises(RunError, match=r"lambdamart\.json is not a saved"):
        LambdaMART.load(tmp_path)
    model.save(tmp_path)
    (tmp_path / "lambdamart.txt").write_text("tree\n")
    with pytest.raises(RunError, match="damaged"):
        LambdaMART.load(tmp_path)
    model.save(tmp_path)
    content = json.loads((tmp_path / "lambdamart.json").read_text())
    content["names"] = content["names"][:2]
    (tmp_path / "lambdamart.json").write_text(json.dumps(content))
    with pytest.raises(RunError, match="names 2 features"):
        LambdaMART.load(tmp_path)


def test_other_features_than_those_it_learned_from_are_refused(model):
    with pytest.raises(RunError, match="noise"):
        model.predict(TEST.features.select(lambda name: name != "noise"))


def test_nothing_to_learn_from_is_said():
    with pytest.raises(DataError, match="satisfied click"):
        LambdaMART.fit(replace(TRAIN, lengths=np.array([], np.int64)), VALID, QUICK)
    with pytest.raises(SettingsError, match="no feature"):
        LambdaMART.fit(replace(TRAIN, features=TRAIN.features.select(lambda name: False)), VALID, QUICK)
