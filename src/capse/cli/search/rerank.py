"""capse search rerank: an engine's results in the order for a user."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from capse.cli.options import command_app
from capse.cli.output import echo

app = command_app("Re-rank an engine's results for a user.")


@app.command()
def rerank(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder of 'capse search train'.")],
    input: Annotated[
        str | None, typer.Option(metavar="FILE", help="Requests, one JSON object a line; - is standard input.")
    ] = None,
    query: Annotated[str | None, typer.Option(help="The text of a single query.")] = None,
    documents: Annotated[
        str | None, typer.Option(metavar="IDS", help="The engine's results for it, in its order, between commas.")
    ] = None,
    user: Annotated[str, typer.Option(help="The user who asks, if training knows one.")] = "",
    clicked: Annotated[
        str, typer.Option(metavar="IDS", help="What the user found satisfying before, the latest last.")
    ] = "",
    encoder: Annotated[
        str | None, typer.Option(metavar="MODULE:FUNCTION", help="Your own encoder, if the run was trained with one.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say which topics and which past documents.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON; always so with --input.")] = False,
) -> None:
    """Re-rank the results of one query, or of all requests in a file.

    A line of --input is {"query", "documents"}, with "user", "session", "time" (seconds since 1970, or ISO 8601),
    "clicked", all optional. A document is its id, or {"id", "title", "text"}; "clicked" is a list of documents. Clicks
    are remembered from one line to the next by their user. Where nothing is known of the user or of a document, the
    engine's order is kept.
    """
    from capse.errors import SettingsError
    from capse.search.serving.requests import Requests
    from capse.search.serving.reranker import Reranker

    if (input is None) == (query is None):
        raise SettingsError("neither or both of --query and --input are given", "give one of them")
    if input is None and not documents:
        raise SettingsError("no documents are named", "give --documents with ids between commas")
    requests = Requests(Reranker.load(run, encoder), explain=explain)
    if input is not None:
        for place, line in _lines(input):
            echo(json.dumps(requests.answer_line(line, place), ensure_ascii=False))
        return
    request = {"query": query, "user": user, "documents": _ids(documents or ""), "clicked": _ids(clicked)}
    answer = requests.answer(request, "the command line")
    echo(json.dumps(answer, ensure_ascii=False) if as_json else _as_text(answer))


def _lines(path: str) -> Iterator[tuple[str, str]]:
    """The lines that are not blank, and where each stands."""
    from capse.errors import DataError

    if path == "-":
        name, lines = "standard input", iter(sys.stdin)
    else:
        try:
            name, lines = path, iter(Path(path).read_text(encoding="utf-8").splitlines())
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"{path} cannot be read ({error})", "give a file of JSON lines, or -") from error
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield f"{name}, line {number}", line


def _ids(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _as_text(answer: dict[str, Any]) -> str:
    rows = []
    for row in answer["documents"]:
        score = "" if row["score"] is None else f"{row['score']:.4f}"
        rows.append(f"{row['rank']:>3}  was {row['position']:>3}  {score:>9}  {row['document']}")
        for topic in row.get("reasons", {}).get("topics", []):
            rows.append(f"{'':24}about {', '.join(topic['words'])}")
        for past in row.get("reasons", {}).get("past", []):
            rows.append(f"{'':24}like {past['id']} ({past['likeness']:.2f})")
    return "\n".join(rows)
