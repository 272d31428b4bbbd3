"""It trains means: it recovers the facts that were planted. Every registered model, chosen on validation only."""

from __future__ import annotations

import pytest

from capse.experiments.fit import fit
from capse.experiments.recipe import Recipe
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.models import MODELS

VALIDATION = ["validation.every=20", "validation.metric=mrr", "validation.patience=0", "training.device=cpu"]
TRANSLATION = [
    "model.dim=16", "training.epochs=200", "training.batch_size=64", "training.learning_rate=0.01",
    "negatives.count=4", "loss.margin=2",
]  # fmt: skip
BILINEAR = ["model.dim=16", "training.epochs=40", "training.batch_size=64"]
CONVOLUTION = ["model.dim=16", "training.epochs=200", "training.batch_size=32"]
NO_DROPOUT = [f"model.{part}_dropout=0" for part in ("input", "feature", "hidden")]

# A model that is not named below is trained as the recipe says that it comes with, or the default one.
OTHERS = ["model.dim=16", "training.epochs=60", "training.batch_size=32", "training.learning_rate=0.01"]

# model, its settings, and whether it starts from TransE's vectors as its paper has it
CASES = {
    "transe": ("transe", TRANSLATION, False),
    "transh": ("transh", TRANSLATION, False),
    "transr": ("transr", [*TRANSLATION, "training.epochs=40", "training.learning_rate=0.001"], True),
    "transd": ("transd", [*TRANSLATION, "optimizer.name=adamw", "optimizer.embedding_decay=0.3"], True),
    "stranse": ("stranse", [*TRANSLATION, "training.epochs=40", "training.learning_rate=0.001"], True),
    "distmult": ("distmult", BILINEAR, False),
    "complex": ("complex", BILINEAR, False),
    "conve": (
        "conve",
        [
            "model.dim=32", "model.height=4", "model.filters=8", "training.epochs=60", "training.batch_size=32",
            "training.learning_rate=0.005", *NO_DROPOUT,
        ],
        False,
    ),
    "convkb": ("convkb", [*CONVOLUTION, "model.filters=16", "training.learning_rate=0.005"], True),
    "capse": ("capse", [*CONVOLUTION, "model.filters=32", "training.learning_rate=0.002"], True),
    "scaled-capse": ("scaled-capse", [*OTHERS, "model.filters=16", "training.epochs=20"], False),
    "capse-released": (
        "capse",
        [
            *CONVOLUTION, "model.filters=16", "training.learning_rate=0.001", "training.epochs=100",
            "negatives.count=4", "model.variant=released", "loss.name=squared_softplus", "loss.reduction=mean",
        ],
        True,
    ),
}  # fmt: skip
CASES |= {name: (name, OTHERS, False) for name in MODELS if name not in CASES}


@pytest.fixture(scope="module")
def transe(planted, tmp_path_factory):
    path = tmp_path_factory.mktemp("planted") / "transe"
    fit(planted, Recipe.resolve(model="transe", overrides=VALIDATION + TRANSLATION), out=path)
    return path


@pytest.mark.parametrize("case", CASES)
def test_every_model_recovers_the_planted_facts(planted, transe, tmp_path, case):
    model, settings, from_transe = CASES[case]
    path = transe
    if case != "transe":
        path = tmp_path / case
        start = [f"start.run={transe}"] if from_transe else []
        fit(planted, Recipe.resolve(model=model, overrides=VALIDATION + settings + start), out=path)
    found = LinkPredictor.load(path, "cpu").evaluate("test", breakdowns=False, intervals=False).metrics["both"]
    assert found["realistic"]["mrr"] > 0.9
    assert found["optimistic"]["mrr"] - found["pessimistic"]["mrr"] < 0.01


def test_an_untrained_model_does_not_know_them(planted, tmp_path):
    """Else the figures above would say nothing."""
    predictor = fit(
        planted, Recipe.resolve(model="transe", overrides=["training.epochs=0", "model.dim=16"]), out=tmp_path / "run"
    )
    assert predictor.evaluate("test").metrics["both"]["realistic"]["mrr"] < 0.3
