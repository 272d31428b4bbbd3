"""Graph formats as the help names them."""

from __future__ import annotations

from capse.graph.readers import READERS


def formats() -> str:
    """The suffixes of all graph formats, those of other packages among them."""
    return " ".join(suffix.removeprefix(".") for suffix in READERS)
