"""capse data: list, inspect, fetch and import graphs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from capse.cli.formats import formats
from capse.cli.output import echo, echo_json

if TYPE_CHECKING:
    from capse.graph.statistics import Statistics

app = typer.Typer(
    help="List, inspect, fetch and import graphs.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


@app.command("list")
def list_datasets(as_json: AsJson = False) -> None:
    """The datasets that have a name, where they are, and how large they are."""
    from capse.graph.benchmarks import BENCHMARKS, dataset_names, find_dataset
    from capse.graph.dataset import load_graph

    rows = []
    for name in dataset_names():
        found = find_dataset(name)
        record = BENCHMARKS.get(name)
        if record is not None:
            sizes = [record.entities, record.relations, record.train, record.valid, record.test]
        else:
            graph = load_graph(name)
            sizes = [len(part) for part in (graph.entities, graph.relations, graph.train, graph.valid, graph.test)]
        counts = dict(zip(("entities", "relations", "train", "valid", "test"), sizes, strict=True))
        rows.append({"name": name, "where": str(found) if found else None, **counts})
    if as_json:
        echo_json(rows, indent=2)
        return
    echo(f"{'name':<12}{'entities':>10}{'relations':>11}{'train':>10}{'valid':>9}{'test':>9}  where")
    for row in rows:
        where = row["where"] or f"not here yet: capse data get {row['name']}"
        echo(
            f"{row['name']:<12}{row['entities']:>10,}{row['relations']:>11,}{row['train']:>10,}{row['valid']:>9,}"
            f"{row['test']:>9,}  {where}"
        )


@app.command()
def info(
    source: Annotated[str, typer.Argument(metavar="X", help="A dataset's name, or a folder with train.*")],
    as_json: AsJson = False,
) -> None:
    """Sizes, relation categories, duplicates, leakage and unseen entities of a graph."""
    from dataclasses import asdict

    from capse.graph.dataset import load_graph
    from capse.graph.statistics import describe

    statistics = describe(load_graph(source))
    if as_json:
        echo_json(asdict(statistics), indent=2)
    else:
        echo(_as_text(statistics))


@app.command()
def get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A dataset's name, as `capse data list` shows it.")],
    out: Annotated[Path | None, typer.Option(help="Copy the dataset into this new folder.")] = None,
) -> None:
    """Fetch a dataset once, and print its folder."""
    from capse.graph.benchmarks import get_dataset
    from capse.graph.writing import copy_folder

    folder = get_dataset(name)
    if out is not None:
        copy_folder(folder, out)
    echo(out or folder)


@app.command("import")
def import_files(
    files: Annotated[list[Path], typer.Argument(metavar="FILES...", help=f"Triples: {formats()}.")],
    out: Annotated[Path, typer.Option(help="The new folder to write.")],
    valid: Annotated[float | None, typer.Option(help="Fraction to hold out for validation, 0.1 if not given.")] = None,
    test: Annotated[float | None, typer.Option(help="Fraction to hold out for testing, 0.1 if not given.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the split.")] = 0,
    allow_unseen: Annotated[
        bool, typer.Option("--allow-unseen", help="Hold out triples even of entities that training then lacks.")
    ] = False,
    names: Annotated[
        list[Path] | None, typer.Option(help="Names: 'entity<TAB>name' or 'relation<TAB>name', with that header.")
    ] = None,
    delimiter: Annotated[str | None, typer.Option(help="What separates the fields of a line, e.g. ';' or tab.")] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="H,R,T", help="The columns of head, relation, tail: numbers, or header names.")
    ] = None,
    encoding: Annotated[str | None, typer.Option(help="Of the text, e.g. windows-1252; UTF-8 if not given.")] = None,
    trim: Annotated[bool, typer.Option("--trim", help="Leave out spaces around fields.")] = False,
    comment: Annotated[str | None, typer.Option(metavar="MARK", help="Leave out lines that begin so, e.g. #.")] = None,
    local_names: Annotated[
        bool, typer.Option("--local-names", help="Label IRIs by their last part, where no two have the same.")
    ] = False,
) -> None:
    """Turn files of triples into one folder that every command reads.

    Several files whose names end in train, valid (or val, dev, validation) and test keep their splits. All other files
    are put together, freed of duplicates and split at random, so that no valid or test triple has an entity or relation
    that training lacks. A first line such as 'head,relation,tail' or 'Source,Edge,Target' names the columns.
    """
    from capse.errors import SettingsError
    from capse.graph.dataset import read_graph, split_files
    from capse.graph.iris import with_local_labels
    from capse.graph.splits import split_graph
    from capse.graph.writing import save_graph
    from capse.runs.atomic import check_free

    check_free(out)
    layout = {
        "delimiter": {"tab": "\t", "\\t": "\t"}.get(delimiter or "", delimiter),
        "columns": tuple(name.strip() for name in columns.split(",")) if columns else None,
        "encoding": encoding,
        "trim": trim or None,
        "comment": comment,
    }
    layout = {option: value for option, value in layout.items() if value is not None}
    echo(f"reading {', '.join(map(str, files))}", err=True)
    given = split_files(files) if len(files) > 1 else {}
    if "train" in given and (valid is not None or test is not None):
        raise SettingsError("the files' names say their splits already", "leave out --valid and --test")
    splits = {split: [path] for split, path in given.items()} if "train" in given else {"train": files}
    graph = read_graph(out.name, splits, names or [], layout=layout)
    graph, iris_stay = with_local_labels(graph) if local_names else (graph, 0)
    if "train" not in given:
        graph = split_graph(graph, 0.1 if valid is None else valid, 0.1 if test is None else test, seed, allow_unseen)
    for header in graph.headers:
        echo(f"the first line names the columns: {header}", err=True)
    echo(f"writing {out}", err=True)
    save_graph(graph, out)
    sizes = " / ".join(f"{len(graph.split(split)):,}" for split in ("train", "valid", "test"))
    echo(f"{out}: {len(graph.entities):,} entities, {len(graph.relations):,} relations")
    echo(f"train / valid / test: {sizes} ({'as given' if 'train' in given else f'drawn with seed {seed}'})")
    echo(f"repeated triples left out: {sum(graph.repeated.values()):,}")
    if graph.skipped:
        echo(f"statements with a literal or a blank node left out: {graph.skipped:,}")
    if graph.in_named_graphs:
        echo(f"statements whose graph's name was left out: {graph.in_named_graphs:,}")
    if iris_stay:
        echo(f"IRIs that stay labels, as others have the same local name: {iris_stay:,}")


def _as_text(s: Statistics) -> str:
    lines = [
        f"{s.name}: {s.entities:,} entities, {s.relations:,} relations",
        "",
        f"{'split':<8}{'triples':>12}{'repeated':>12}{'unseen entity':>16}{'unseen relation':>18}",
        *(
            f"{split:<8}{count:>12,}{s.repeated.get(split, 0):>12,}"
            f"{s.unseen.get(split, 0):>16,}{s.unseen_relation.get(split, 0):>18,}"
            for split, count in s.triples.items()
        ),
        "",
        f"{'category':<10}{'relations':>10}{'% of test':>12}",
        *(
            f"{category:<10}{count:>10,}{100 * s.category_test_share[category]:>12.1f}"
            for category, count in s.category_relations.items()
        ),
        "",
        *(f"triples in both {pair.replace('-', ' and ')}: {count:,}" for pair, count in s.shared.items()),
        f"test triples whose entities a training triple joins the other way round: {s.test_reversed_in_train:,}",
    ]
    symmetric = [first for first, second in s.mirrored_relations if first == second]
    inverse = [f"{first} and {second}" for first, second in s.mirrored_relations if first != second]
    for heading, found in (("nearly symmetric relations", symmetric), ("nearly inverse relations", inverse)):
        lines += [f"{heading}: {len(found)}", *(f"  {text}" for text in found)]
    if s.skipped:
        lines.append(f"statements with a literal or a blank node left out: {s.skipped:,}")
    return "\n".join(lines)
