"""Propensities and the figures that are made with them, as people see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from capse.cli.display import show_table
from capse.cli.output import echo

if TYPE_CHECKING:
    from capse.search.evaluation.evaluate import SearchEvaluation


def show_unbiased(results: Sequence[SearchEvaluation]) -> None:
    """IPS and SNIPS of the rankers and of the engine, each with its interval over users."""
    first = results[0].unbiased
    assert first is not None
    rows = {result.method: result.unbiased for result in results} | {"engine": first["engine"]}
    columns = {"": "left"} | dict.fromkeys(
        ("IPS MRR", "95 % over users", "SNIPS MRR", "95 % over users ", "SNIPS NDCG@10"), "right"
    )
    bias = first["bias"]
    title = f"as if every result had been looked at ({bias['model']}, weights up to {bias['clip']:g})"
    show_table(title, columns, (_row(name, figures) for name, figures in rows.items() if figures))
    gain = first["gain_over_engine"]
    echo(
        f"SNIPS MRR over the engine's: {gain['difference']:+.4f}, 95 % interval over users {gain['low']:+.4f} to "
        f"{gain['high']:+.4f}, p = {gain['p_value']:.2g}; "
        f"{100 * first['clipped']:.1f} % of the clicks have the largest weight"
    )


def _row(name: str, figures: dict[str, Any]) -> list[str]:
    ips, snips = figures["ips"], figures["snips"]
    intervals = ["{:.4f} to {:.4f}".format(*part["intervals_over_users"]["mrr"]) for part in (ips, snips)]
    return [name, f"{ips['mrr']:.4f}", intervals[0], f"{snips['mrr']:.4f}", intervals[1], f"{snips['ndcg@10']:.4f}"]
