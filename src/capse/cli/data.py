"""capse data: list, inspect, fetch and import graphs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from capse.cli.options import AsJson, Split
from capse.cli.output import echo, echo_json
from capse.graph.readers import suffixes

if TYPE_CHECKING:
    from capse.graph.dataset import Graph
    from capse.graph.patterns import RelationPattern
    from capse.graph.statistics import Statistics

app = typer.Typer(
    help="List, inspect, fetch and import graphs.", no_args_is_help=True, add_completion=False, rich_markup_mode=None
)


@app.command("list")
def list_datasets(as_json: AsJson = False) -> None:
    """The datasets that have a name, where they are, how large they are, and whose word there is for their bytes.

    A checksum is 'known' where the bytes were seen when capse was made. Else the first download is trusted, and said
    to be: what is downloaded later has to have the same bytes.
    """
    from capse.graph.benchmarks import BENCHMARKS, dataset_names, find_dataset, first_use

    rows: list[dict[str, Any]] = [_embedded()]
    for name in dataset_names()[1:]:
        found, record, remembered = find_dataset(name), BENCHMARKS[name], first_use(name).remembered
        checksum = "known" if record.tried else f"first use, {remembered['since'][:10]}" if remembered else "untried"
        where = str(found) if found else None
        rows.append(
            {"name": name, "where": where, **record.sizes}
            | {"checksum": checksum, "licence": record.licence, "url": record.url}
        )
    if as_json:
        echo_json(rows, indent=2)
        return
    names = ("entities", "relations", "train", "valid", "test")
    echo(f"{'name':<23}{''.join(f'{name:>12}' for name in names)}  {'checksum':<21}{'licence':<22}where")
    for row in rows:
        where = row["where"] or f"not here yet: capse data get {row['name']}"
        sizes = "".join(f"{'' if row[name] is None else format(row[name], ','):>12}" for name in names)
        echo(f"{row['name']:<23}{sizes}  {row['checksum']:<21}{row['licence']:<22}{where}")


def _embedded() -> dict[str, Any]:
    """The row of the graph that comes with the package."""
    from capse.graph.benchmarks import EMBEDDED, find_dataset
    from capse.graph.dataset import SPLITS, load_graph

    graph = load_graph(EMBEDDED)
    sizes = {"entities": len(graph.entities), "relations": len(graph.relations)}
    sizes |= {split: len(graph.split(split)) for split in SPLITS}
    row = {"name": EMBEDDED, "where": str(find_dataset(EMBEDDED)), **sizes}
    return row | {"checksum": "embedded", "licence": "see its LICENSE.md", "url": None}


@app.command()
def info(
    source: Annotated[str, typer.Argument(metavar="X", help="A dataset's name, or a folder with train.*")],
    as_json: AsJson = False,
) -> None:
    """Sizes, relation categories, relation patterns, leakage and unseen entities of a graph.

    Patterns are relations that say what another says: symmetric, inverse, near-duplicate and composed ones. The last
    line says how much of the test set follows from training facts by them. Of a dataset that has a name, the sizes are
    compared with the published ones.
    """
    from dataclasses import asdict

    from capse.graph.dataset import load_graph
    from capse.graph.statistics import describe

    statistics = describe(load_graph(source))
    published = _against_published(statistics)
    if as_json:
        echo_json(asdict(statistics) | ({"published": published} if published else {}), indent=2)
    else:
        echo(_as_text(statistics))
        if published:
            echo(_agreement(published))


@app.command()
def get(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A dataset's name, as `capse data list` shows it.")],
    out: Annotated[Path | None, typer.Option(help="Copy the dataset into this new folder.")] = None,
) -> None:
    """Fetch a dataset once, and print its folder."""
    from capse.graph.benchmarks import BENCHMARKS, find_dataset, first_use, get_dataset
    from capse.graph.writing import copy_folder

    was_here = find_dataset(name) is not None
    folder = get_dataset(name)
    if not was_here and not BENCHMARKS[name].tried:
        trust = first_use(name)
        echo(f"no checksum of {name} is known: what came is trusted from now on, as {trust.file} remembers", err=True)
    if out is not None:
        copy_folder(folder, out)
    echo(out or folder)


@app.command("import")
def import_files(
    files: Annotated[list[Path], typer.Argument(metavar="FILES...", help=f"Triples: {suffixes()}.")],
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
    values: Annotated[
        list[Path] | None,
        typer.Option(help="Numbers and dates of entities: 'entity<TAB>property<TAB>value', with that header."),
    ] = None,
    delimiter: Annotated[str | None, typer.Option(help="What separates the fields of a line, e.g. ';' or tab.")] = None,
    columns: Annotated[
        str | None, typer.Option(metavar="H,R,T", help="The columns of head, relation, tail: numbers, or header names.")
    ] = None,
    weight: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The column of weights, by name or number; 'none' if none is."),
    ] = None,
    encoding: Annotated[str | None, typer.Option(help="Of the text, e.g. windows-1252; UTF-8 if not given.")] = None,
    trim: Annotated[bool, typer.Option("--trim", help="Leave out spaces around fields.")] = False,
    comment: Annotated[str | None, typer.Option(metavar="MARK", help="Leave out lines that begin so, e.g. #.")] = None,
    local_names: Annotated[
        bool, typer.Option("--local-names", help="Label IRIs by their last part, where no two have the same.")
    ] = False,
    on_disk: Annotated[
        bool, typer.Option("--on-disk", help="By DuckDB, which needs disk where memory does not suffice.")
    ] = False,
    memory_gib: Annotated[float, typer.Option(help="What DuckDB may use before it goes to disk.")] = 2.0,
    keep: Annotated[
        str | None,
        typer.Option(metavar="WHAT", help="Of N-Triples read on disk: literals, literals:en,de, blank-nodes; with +."),
    ] = None,
) -> None:
    """Turn files of triples into one folder that every command reads.

    A column 'weight' or 'confidence' says how much each triple counts in training: a number from 0 up.

    Several files whose names end in train, valid (or val, dev, validation) and test keep their splits. All other files
    are put together, freed of duplicates and split at random, so that no valid or test triple has an entity or relation
    that training lacks. A first line such as 'head,relation,tail' or 'Source,Edge,Target' names the columns; one whose
    words stand nowhere else is asked about.

    --on-disk imports more than fits into memory, from .nt, .tsv, .txt and .parquet: the same vocabulary and splits, in
    a folder that is opened without being read. Lines that are no triples are counted and kept apart, with a reason.
    """
    from capse.errors import DataError, SettingsError
    from capse.graph.dataset import read_graph
    from capse.graph.iris import with_local_labels
    from capse.graph.splits import split_graph
    from capse.graph.values import spread
    from capse.graph.writing import save_graph
    from capse.runs.atomic import check_free

    check_free(out)
    layout = _layout(delimiter, columns, weight=weight, encoding=encoding, trim=trim or None, comment=comment)
    if on_disk:
        if layout or names or values or local_names:
            raise SettingsError(
                "--on-disk reads files as their suffixes say", "leave out options for other layouts, names and values"
            )
        shares = {"valid": valid, "test": test, "seed": seed, "allow_unseen": allow_unseen}
        _import_on_disk(files, out, shares, keep, memory_gib)
        return
    if keep is not None:
        raise SettingsError("--keep without --on-disk", "give both")
    echo(f"reading {', '.join(map(str, files))}", err=True)
    splits, as_given = _splits(files, divided=valid is not None or test is not None)
    graph = read_graph(out.name, splits, names or [], layout=layout, values_files=values or [])
    if graph.doubtful:
        raise DataError(
            f"{graph.doubtful[0]}: are these names of columns? No other line has any of them",
            "name them by --columns if they are, or give --columns 1,2,3 if this is a triple",
        )
    graph, iris_stay = with_local_labels(graph) if local_names else (graph, 0)
    if not as_given:
        graph = split_graph(graph, 0.1 if valid is None else valid, 0.1 if test is None else test, seed, allow_unseen)
    for note in _read_notes(graph):
        echo(note, err=True)
    echo(f"writing {out}", err=True)
    save_graph(graph, out)
    sizes = " / ".join(f"{len(graph.split(split)):,}" for split in ("train", "valid", "test"))
    echo(f"{out}: {len(graph.entities):,} entities, {len(graph.relations):,} relations")
    echo(f"train / valid / test: {sizes} ({'as given' if as_given else f'drawn with seed {seed}'})")
    echo(f"repeated triples left out: {sum(graph.repeated.values()):,}")
    if graph.values is not None:
        echo(f"numbers and dates of entities: {len(graph.values):,}, of {len(spread(graph.values)):,} properties")
    counts = {
        "statements with a literal or a blank node left out": graph.skipped,
        "numbers and dates of what is in no triple left out": graph.values_left_out,
        "statements whose graph's name was left out": graph.in_named_graphs,
        "IRIs that stay labels, as others have the same local name": iris_stay,
    }
    for what, count in counts.items():
        if count:
            echo(f"{what}: {count:,}")


def _layout(delimiter: str | None, columns: str | None, **options: Any) -> dict[str, Any]:
    """How a text file is laid out, as far as that is said."""
    layout = {
        "delimiter": {"tab": "\t", "\\t": "\t"}.get(delimiter or "", delimiter),
        "columns": tuple(name.strip() for name in columns.split(",")) if columns else None,
        **options,
    }
    return {option: value for option, value in layout.items() if value is not None}


def _splits(files: list[Path], *, divided: bool) -> tuple[dict[str, list[Path]], bool]:
    """The files of each split, and whether their names say them, which goes with no other division; else all train."""
    from capse.errors import SettingsError
    from capse.graph.dataset import split_files

    given = split_files(files) if len(files) > 1 else {}
    if "train" not in given:
        return {"train": files}, False
    if divided:
        raise SettingsError("the files' names say their splits already", "leave out --valid and --test")
    return {split: [path] for split, path in given.items()}, True


def _import_on_disk(files: list[Path], out: Path, shares: dict[str, Any], keep: str | None, memory_gib: float) -> None:
    from capse.graph.out_of_core import Shares, import_out_of_core
    from capse.graph.triples_in_sql import Keep

    asked = {name: value for name, value in shares.items() if value is not None}
    splits, as_given = _splits(files, divided=bool({"valid", "test"} & set(asked)))
    found = import_out_of_core(
        splits,
        out,
        None if as_given else Shares(**asked),
        Keep.parsed(keep or ""),
        memory_gib=memory_gib,
        progress=lambda what: echo(what, err=True),
    )
    sizes = " / ".join(f"{count:,}" for count in found.triples.values())
    echo(f"{out}: {found.entities:,} entities, {found.relations:,} relations")
    drawn = "as given" if as_given else f"drawn with seed {shares['seed']}"
    echo(f"train / valid / test: {sizes} ({drawn})")
    echo(f"repeated triples left out: {found.repeated:,}")
    if found.skipped:
        echo(f"statements with a literal or a blank node left out: {found.skipped:,}")
    for reason, count in found.quarantined.items():
        echo(f"quarantined, {reason}: {count:,}")


@app.command()
def negatives(
    source: Annotated[str, typer.Argument(metavar="X", help="A dataset's name, or a folder with train.*")],
    out: Annotated[Path, typer.Option(help="The tab-separated file to write.")],
    split: Split = "test",
    seed: Annotated[int, typer.Option(min=0, help="Which of the many there are.")] = 0,
) -> None:
    """Make a hard negative of each triple of a split: another answer of the same relation that makes no known triple.

    Its head or tail is replaced by an entity that training triples of the relation have there. A triple without such
    an entity is left out, and counted.
    """
    from capse.errors import SettingsError
    from capse.graph.dataset import load_graph
    from capse.graph.link_prediction.hard_negatives import hard_negatives
    from capse.runs.atomic import write_text

    graph = load_graph(source)
    triples = graph.split(split)
    false, found = hard_negatives(graph, triples, graph.known, seed)
    if not found.any():
        raise SettingsError(f"no {split} triple of {graph.name} has a hard negative", "choose another split")
    entities, relations = graph.entities.labels, graph.relations.labels
    rows = [f"{entities[h]}\t{relations[r]}\t{entities[t]}\n" for h, r, t in false[found].tolist()]
    write_text(out, "".join(rows))
    echo(f"{out}: {len(rows):,} false triples, for {len(triples):,} of {split}")


def _read_notes(graph: Graph) -> list[str]:
    """What reading files took their columns to be."""
    from capse.graph.statistics import weight_spread

    headers = [f"the first line names the columns: {header}" for header in graph.headers]
    weights = [f"weights of {split} triples: {_spread(found)}" for split, found in weight_spread(graph).items()]
    return headers + weights


def _spread(found: dict[str, float]) -> str:
    return f"from {found['least']:g} to {found['most']:g}, {found['mean']:.3g} on average"


def _against_published(s: Statistics) -> dict[str, Any]:
    """Where the sizes of a dataset that has a name differ from those published; nothing for other graphs."""
    from capse.graph.benchmarks import BENCHMARKS

    if s.name not in BENCHMARKS:
        return {}
    record = BENCHMARKS[s.name]
    found = {"entities": s.entities, "relations": s.relations, **s.triples}
    differing = {key: size for key, size in record.sizes.items() if size is not None and size != found[key]}
    return {"sizes": record.sizes, "differing": differing, "licence": record.licence, "url": record.url}


def _agreement(published: dict[str, Any]) -> str:
    differing = ", ".join(f"{size:,} {key}" for key, size in published["differing"].items())
    return f"published: {differing or 'the same sizes'}; licence: {published['licence']}"


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
    lines += [f"weights of {split} triples: {_spread(found)}" for split, found in s.weights.items()]
    lines += [f"values of {name}: {v['count']:,}, from {v['least']:g} to {v['most']:g}" for name, v in s.values.items()]
    symmetric = [first for first, second in s.mirrored_relations if first == second]
    inverse = [f"{first} and {second}" for first, second in s.mirrored_relations if first != second]
    for heading, found in (("nearly symmetric relations", symmetric), ("nearly inverse relations", inverse)):
        lines += [f"{heading}: {len(found)}", *(f"  {text}" for text in found)]
    for heading, kind in (("near-duplicate relations", "duplicate"), ("composed relations", "composed")):
        named = [pattern for pattern in s.patterns.found if pattern.kind == kind]
        lines += [f"{heading}: {len(named)}", *(f"  {_in_words(pattern)}" for pattern in named)]
    lines += ["", s.patterns.meaning]
    if s.skipped:
        lines.append(f"statements with a literal or a blank node left out: {s.skipped:,}")
    return "\n".join(lines)


def _in_words(pattern: RelationPattern) -> str:
    return (
        f"{pattern.relation}: {', then '.join(pattern.body)} ({pattern.confidence:.0%} of what that joins, "
        f"{pattern.coverage:.0%} of the relation)"
    )
