"""The option that says who may answer, which several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from capse.graph.dataset import Graph
    from capse.graph.link_prediction.candidates import Candidates

Among = Annotated[
    str | None,
    typer.Option(
        metavar="WHOM",
        help="Who may answer: a file of labels or names, one a line; RELATION=TYPE for entities with such a training "
        "fact, as 'instance of=country'; or seen, for those that training has in that place of the relation.",
    ),
]
SkipUnknown = Annotated[
    bool, typer.Option("--skip-unknown", help="Leave out and count names of such a file that the graph lacks.")
]


def candidates(graph: Graph, among: str | None, skip_unknown: bool = False) -> Candidates | None:
    """The candidates that the option names; None where it is not given."""
    from capse.cli.display import say
    from capse.errors import SettingsError
    from capse.graph.link_prediction.candidates import Listed, Sampled, Seen

    if among is None:
        return None
    if Path(among).is_file():
        listed = Listed.of_file(graph, among, skip_unknown=skip_unknown)
        if listed.skipped:
            say(f"names that the graph lacks, left out: {listed.skipped:,}")
        return listed
    if among == "seen":
        return Seen(graph)
    kind, colon, count = among.partition(":")
    if colon and kind == "sampled" and count.isdecimal():
        return Sampled(graph, int(count))
    relation, equals, kind = among.partition("=")
    if relation and equals and kind:
        return Listed.of_type(graph, relation, kind)
    raise SettingsError(f"--among is {among!r}, which is no file", "give a file of names, RELATION=TYPE, or seen")
