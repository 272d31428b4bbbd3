"""What capsules that begin as ComplEx consist of: each part taken away, on both data sets, at one rank.

The list and its order were fixed before the first run. A row is compared with ``against`` on the same test triples, by
seed: the capsules with the start that they began as, all others with the capsules. What starts from a run of the next
seed as well is the start twice over: is a sum of two models all there is to it?
"""

from __future__ import annotations

from capse_paper.plans.experiment import FB15K237, WN18RR, Experiment

RANK, DISTANCE = 256, 100


def _rows(data: str) -> list[Experiment]:
    complex_, distmult, distance = f"complex-{RANK}-{data}", f"distmult-{RANK}-{data}", f"transe-own-{data}"
    capsules, filters = f"capsules-{RANK}-{data}", f"filters-{RANK}-{data}"
    rank, both = f"model.dim={RANK}", f"model.dim={RANK + DISTANCE}"

    def over(name: str, what: str, *changes: str, against: str = capsules) -> Experiment:
        """A form of the capsules, from the same two runs."""
        return Experiment(
            name, what, data, "own", f"complex-capse-{data}", (rank, *changes),
            start=complex_, beside=distance, against=against,
        )  # fmt: skip

    def drawn(name: str, what: str, *changes: str, against: str = filters) -> Experiment:
        """The same of ReLU filters, from DistMult and TransE."""
        return Experiment(
            name, what, data, "own", f"capse-own-{data}", (both, *changes),
            start=distmult, beside=distance, against=against,
        )  # fmt: skip

    return [
        Experiment(distance, "TransE", data, "own", f"transe-own-{data}"),
        Experiment(complex_, "ComplEx, the start", data, "own", f"complex-{data}", (rank,)),
        over(capsules, "Capsules from ComplEx", against=complex_),
        over(f"capsules-{RANK}-untrained-{data}", "untrained", "training.epochs=0"),
        over(f"capsules-{RANK}-without-{data}", "without squash", "model.threshold=0"),
        over(f"capsules-{RANK}-sum-{data}", "without squash, untrained", "model.threshold=0", "training.epochs=0"),
        Experiment(
            f"complex-{RANK}-twice-{data}", "ComplEx of two seeds added up", data, "own", f"complex-{data}",
            (f"model.dim={2 * RANK}", "training.epochs=0"),
            start=complex_, beside=complex_, beside_next=True, against=capsules,
        ),
        Experiment(distmult, "DistMult, the start of filters", data, "own", f"distmult-{data}", (rank,)),
        drawn(filters, "CapsE of ReLU filters", against=distmult),
        drawn(f"filters-{RANK}-untrained-{data}", "filters, untrained", "training.epochs=0"),
        drawn(f"filters-{RANK}-without-{data}", "filters, capsules of one number", "model.capsule_dim=1"),
        drawn(f"filters-{RANK}-m3-{data}", "filters, m = 3", "model.routing=3"),
    ]  # fmt: skip


LARGEST = (
    Experiment("transe-own-fb15k-237", "TransE", FB15K237, "own", "transe-own-fb15k-237"),
    Experiment("complex-1000-fb15k-237", "ComplEx, rank 1000", FB15K237, "own", "complex-fb15k-237"),
    Experiment(
        "capsules-1000-fb15k-237", "Capsules from it", FB15K237, "own", "complex-capse-fb15k-237",
        start="complex-1000-fb15k-237", beside="transe-own-fb15k-237", against="complex-1000-fb15k-237",
    ),
)  # fmt: skip

ABLATION: tuple[Experiment, ...] = tuple(
    {row.name: row for row in (*LARGEST, *_rows(WN18RR), *_rows(FB15K237))}.values()
)
