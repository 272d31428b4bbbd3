"""What a user's state shows of the clicks that counted: the events of these tests have their id as the query."""

from __future__ import annotations


def seen(state):
    """The ids of the clicks that are remembered, in their order."""
    return [] if state is None else [click.query for click in state.clicks]
