"""M3GM's rows: what it refines, and the form of it that does."""

from __future__ import annotations

from capse_paper.plans.experiment import FB15K237, WN18RR, WORDS, Experiment


def _refining(name: str, model: str, dataset: str, base: str) -> Experiment:
    """M3GM in our own form over another experiment's runs, and compared with them."""
    return Experiment(name, model, dataset, "own", "m3gm-own", refines=base, against=base)


def _over(model: str, base: str) -> list[Experiment]:
    """The same over the best runs of a model on both data sets; ``{}`` is the data set."""
    return [
        _refining(f"m3gm-{base.format(data)}", f"M3GM over {model}", data, base.format(data))
        for data in (WN18RR, FB15K237)
    ]


_SMALL = "ComplEx, rank 64"  # trains in minutes on one core
_SMALL_SETTINGS = (
    "model.dim=64", "training.batch_size=2048", "training.learning_rate=0.3",
    "negatives.sampler=shared", "negatives.count=512", "regularizer.n3=0",
)  # fmt: skip
_EPOCHS = {WN18RR: 8, FB15K237: 3}


def _small(data: str) -> Experiment:
    """ComplEx of a size that needs no GPU, to be refined; the last epoch is kept."""
    epochs = (f"training.epochs={_EPOCHS[data]}", f"validation.every={_EPOCHS[data]}")
    return Experiment(f"complex-64-{data}", _SMALL, data, "own", "complex", (*_SMALL_SETTINGS, *epochs))


_ASSOCIATION = "M3GM's association"

REFINEMENTS: tuple[Experiment, ...] = (
    Experiment("m3gm-association-wn18rr", _ASSOCIATION, WN18RR, "paper", "m3gm-association-wn18rr", files=WORDS),
    Experiment(
        "m3gm-wn18rr", "M3GM", WN18RR, "paper", "m3gm-paper",
        refines="m3gm-association-wn18rr", against="m3gm-association-wn18rr",
    ),
    Experiment("m3gm-association-own-wn18rr", _ASSOCIATION, WN18RR, "own", "m3gm-association-own-wn18rr", files=WORDS),
    _refining("m3gm-own-wn18rr", "M3GM", WN18RR, "m3gm-association-own-wn18rr"),
    Experiment("m3gm-association-own-fb15k-237", _ASSOCIATION, FB15K237, "own", "m3gm-association-own-fb15k-237"),
    _refining("m3gm-own-fb15k-237", "M3GM", FB15K237, "m3gm-association-own-fb15k-237"),
    *(_small(data) for data in _EPOCHS),
    *_over(_SMALL, "complex-64-{}"),
    *_over("ComplEx", "complex-{}"),
    *_over("CapsE", "capse-own-{}"),
)  # fmt: skip
