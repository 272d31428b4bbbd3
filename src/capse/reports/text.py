"""What a report says in sentences and table cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from capse.evaluation.metrics import METRICS
from capse.evaluation.paired import PairedComparison

METRICS_HEADER = ("MR", "MRR", "Hits@1 %", "Hits@3 %", "Hits@10 %")


def metric_cells(values: Mapping[str, float]) -> tuple[str, ...]:
    """The cells below METRICS_HEADER.

    >>> metric_cells({"mr": 1234.56, "mrr": 0.41239, "hits@1": 0.25, "hits@3": 0.5, "hits@10": 1})
    ('1,234.6', '0.4124', '25.0', '50.0', '100.0')
    """
    mean_rank, reciprocal, *hits = (values[metric] for metric in METRICS)
    return f"{mean_rank:,.1f}", f"{reciprocal:.4f}", *(f"{100 * value:.1f}" for value in hits)


def ties_sentence(model: str, share: float) -> str:
    """How common ties are.

    >>> ties_sentence("CapsE", 0.125)
    "CapsE: in 12.5 % of the questions some wrong candidate has exactly the true answer's score."
    """
    if not share:
        return f"{model}: no wrong candidate has exactly a true answer's score, so all ways to count ties agree."
    return f"{model}: in {100 * share:.1f} % of the questions some wrong candidate has exactly the true answer's score."


def difference_sentence(model: str, other: str, found: PairedComparison) -> str:
    """Is one model better than another on the same triples?

    >>> difference_sentence("CapsE", "TransE", PairedComparison(0.012, -0.004, 0.028, 0.14))
    'CapsE against TransE on the same triples: realistic MRR +0.0120, 95 % interval -0.0040 to +0.0280 (p = 0.14, \
paired t-test), which may be luck.'
    """
    p = "p < 0.001" if found.p_value < 0.001 else f"p = {found.p_value:.2g}"
    verdict = "which may be luck" if found.low <= 0 <= found.high else "more than luck with the test triples explains"
    return (
        f"{model} against {other} on the same triples: realistic MRR {found.difference:+.4f}, 95 % interval "
        f"{found.low:+.4f} to {found.high:+.4f} ({p}, paired t-test), {verdict}."
    )


def machine_name(results: Mapping[str, Any]) -> str:
    """What a run was trained on.

    >>> machine_name({"machine": {"processor": "AMD EPYC", "cores": 2, "threads": 1}})
    'AMD EPYC, 1 threads'
    """
    machine = results["machine"]
    return str(machine.get("gpu") or f"{machine['processor']}, {machine['threads']} threads")


def choice_sentence(results: Mapping[str, Any], validation: Mapping[str, Any]) -> str:
    """How the weights that are reported were chosen; ``validation`` is that section of the recipe.

    >>> results = {"epochs": 50, "best_epoch": 40, "best_validation": {"mrr": 0.3}, "training_seconds": 12.34}
    >>> choice_sentence(results, {"every": 10, "metric": "mrr"})
    'epoch 40 of 50 was kept, the one with the best validation mrr (0.3000), validated every 10 epochs; the test set \
had no part in it. 12.3 s of training.'
    """
    epochs, best = results["epochs"], results["best_epoch"]
    if not epochs:
        return "not trained at all."
    value = results["best_validation"][validation["metric"]]
    if value is None:
        choice = f"the last epoch, {epochs}, was kept"
    else:
        choice = (
            f"epoch {best} of {epochs} was kept, the one with the best validation {validation['metric']} "
            f"({abs(value):.4f}), validated every {validation['every']} epochs"
        )
    return f"{choice}; the test set had no part in it. {results['training_seconds']:,.1f} s of training."
