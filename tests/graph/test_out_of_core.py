"""Import on disk: the vocabularies and splits of the import in memory, and a place for every line that is no triple."""

from __future__ import annotations

import gzip
import random
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from capse.cli import main
from capse.errors import DataError, SettingsError, StorageError
from capse.experiments.fit import fit
from capse.experiments.identity import identity
from capse.graph import out_of_core
from capse.graph.dataset import Graph, load_graph, read_graph
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.graph.mapped_labels import MappedLabels
from capse.graph.out_of_core import Imported, Shares, import_out_of_core
from capse.graph.splits import split_graph
from capse.graph.triples_in_sql import Keep
from capse.models.complex import ComplEx
from capse.training.settings import Training

X = "http://example.org/"
STATEMENTS = rf"""# a dump
<{X}a> <{X}r> <{X}b> .
<{X}b> <{X}r> <{X}c> . # said once
<{X}b>	<{X}s><{X}S%C3%A3o_Paulo>.
<{X}\u00e9t\U000000e9> <{X}r> <{X}a> .
<{X}a> <http://www.w3.org/2000/01/rdf-schema#label> "Ah"@en .
<{X}a> <http://www.w3.org/2000/01/rdf-schema#label> "Ach"@de .
<{X}b> <http://www.w3.org/2000/01/rdf-schema#label> "B\u00e9  \"é\""@fr .
<{X}a> <{X}founded> "879"^^<http://www.w3.org/2001/XMLSchema#integer> .
<{X}a> <{X}motto> "hin und \"her\""@de .
<{X}a> <{X}motto> "to"@en-GB .
<{X}a> <{X}r> _:b1 .
_:b1 <{X}r> <{X}c> .

"""


pytest.importorskip("duckdb", "2")

YEAR, MOTTO = '"879"^^<http://www.w3.org/2001/XMLSchema#integer>', r'"hin und \"her\""@de'


def rows_of(size: int, seed: int = 0) -> list[tuple[str, str, str]]:
    chance = random.Random(seed)
    labels = [f"{chance.choice(['Ä', 'b', 'zé', '漢', '😀', 'A '])}{number}" for number in range(size // 4)]
    return [(chance.choice(labels), f"r{chance.randrange(3)}", chance.choice(labels)) for _ in range(size)]


def written(path: Path, rows: Sequence[tuple[str, ...]], header: str = "") -> Path:
    text = header + "".join("\t".join(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


def assert_same(found: Graph, expected: Graph) -> None:
    for kind in ("entities", "relations"):
        one, other = getattr(found, kind), getattr(expected, kind)
        assert list(one.labels) == other.labels
        assert one.names is None if other.names is None else list(one.names) == list(other.names)
    for split in ("train", "valid", "test"):
        np.testing.assert_array_equal(found.split(split), expected.split(split))
    assert found.repeated == expected.repeated
    numbers = 0 if expected.values is None else len(expected.values)  # which are not kept on disk
    assert found.skipped == expected.skipped + numbers


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Every kind that can be read, with rows in common."""
    rows = rows_of(400)
    table = pa.table(
        {"since": [1] * 100, "tail": [t for *_, t in rows[150:250]], "head": [h for h, *_ in rows[150:250]]}
    )
    pq.write_table(table.append_column("relation", pa.array([r for _, r, _ in rows[150:250]])), tmp_path / "c.parquet")
    (tmp_path / "d.nt").write_text(STATEMENTS)
    return [
        written(tmp_path / "a.tsv", rows[:200]),
        written(tmp_path / "b.txt.gz", [(t, "1", h, r) for h, r, t in rows[180:]], "Target\tsince\tSource\tEdge\n"),
        *(tmp_path / "c.parquet", tmp_path / "d.nt"),
    ]


@pytest.mark.parametrize("at_once", [1 << 24, 100])
def test_it_is_the_graph_that_is_imported_in_memory(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(out_of_core, "_ROWS_AT_ONCE", at_once)
    shares = Shares(0.1, 0.2, seed=3)
    found = import_out_of_core({"train": files}, tmp_path / "out", shares)
    expected = split_graph(read_graph("out", {"train": files}), 0.1, 0.2, 3)
    graph = load_graph(tmp_path / "out")
    assert_same(graph, expected)
    assert isinstance(graph.entities.labels, MappedLabels)
    assert found == Imported(
        len(expected.entities),
        len(expected.relations),
        {split: len(expected.split(split)) for split in ("train", "valid", "test")},
        sum(expected.repeated.values()),
        5,
    )
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_splits_of_files_are_kept(tmp_path: Path) -> None:
    rows = rows_of(300, 1)
    parts = {"train": rows[:200], "valid": rows[200:250], "test": rows[240:]}
    given = {split: [written(tmp_path / f"{split}.tsv", part)] for split, part in parts.items()}
    import_out_of_core(given, tmp_path / "out")
    assert_same(load_graph(tmp_path / "out"), read_graph("out", given))


def test_the_order_of_files_does_not_matter(files: list[Path], tmp_path: Path) -> None:
    for name, order in (("one", files), ("other", files[::-1])):
        import_out_of_core({"train": order}, tmp_path / name, Shares(), memory_gib=1)
    one, other = (load_graph(tmp_path / name) for name in ("one", "other"))
    assert list(identity(one)) == list(identity(other))


def test_parquet_alone_is_read(tmp_path: Path) -> None:
    table = pa.table({"tail": ["b", "c"], "relation": ["r", "r"], "head": ["a", "b"]})
    pq.write_table(table, tmp_path / "a.parquet")
    import_out_of_core({"train": [tmp_path / "a.parquet"]}, tmp_path / "out", Shares(0, 0))
    assert_same(load_graph(tmp_path / "out"), Graph.from_triples([("a", "r", "b"), ("b", "r", "c")]))


def test_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table([["a"], ["r"], ["b"]], names=["x", "X", "y"]), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="several columns are called 'x'"):
        import_out_of_core({"train": [tmp_path / "a.parquet"]}, tmp_path / "out", Shares(0, 0))


@pytest.mark.parametrize("part", range(2, 9))
def test_a_damaged_gzip_is_refused_though_duckdb_reads_on(part: int, tmp_path: Path) -> None:
    written(tmp_path / "a.tsv.gz", rows_of(400))
    content = bytearray((tmp_path / "a.tsv.gz").read_bytes())
    content[len(content) * part // 9] ^= 1
    (tmp_path / "a.tsv.gz").write_bytes(content)
    with pytest.raises(DataError, match=r"a\.tsv\.gz.*: damaged or cut short"):
        import_out_of_core({"train": [tmp_path / "a.tsv.gz"]}, tmp_path / "out", Shares())
    assert [path.name for path in tmp_path.iterdir()] == ["a.tsv.gz"]


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty"])
def test_a_damaged_folder_is_refused_by_name(damage: str, files: list[Path], tmp_path: Path) -> None:
    import_out_of_core({"train": files}, tmp_path / "out", Shares())
    for file in (tmp_path / "out").iterdir():
        content = file.read_bytes()
        middle = len(content) // 2
        damaged = {"flipped": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]}
        damaged |= {"cut": content[:middle], "empty": b""}
        file.write_bytes(damaged[damage])
        with pytest.raises(DataError, match=f"{file.name} is damaged|not a readable graph of columns"):
            load_graph(tmp_path / "out")
        file.write_bytes(content)
    load_graph(tmp_path / "out")


def test_lines_that_are_no_triples_are_quarantined_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(b"a\tr\tb\nb\tr\n\nc\t\td\na\tr\t\xff\xfe\na\tr\tb\tc\nb\tr\ta\n")
    (tmp_path / "b.nt").write_text(f"<{X}a> <{X}r> .\n<a> <{X}r> <{X}b> .\n<{X}a> <{X}r> <{X}b> .\n")
    files = [tmp_path / "a.tsv", tmp_path / "b.nt"]
    found = import_out_of_core({"train": files}, tmp_path / "out", Shares(0, 0))
    assert found.triples == {"train": 3, "valid": 0, "test": 0}
    assert found.quarantined == {
        "a blank line": 1,
        "a relative IRI": 1,
        "an empty field": 1,
        "not 3 columns": 2,
        "not UTF-8 text, or too long a line": 1,
        "not a statement of N-Triples": 1,
    }
    stored = pq.read_table(tmp_path / "out" / "quarantine.parquet").to_pylist()
    assert len(stored) == sum(found.quarantined.values())
    assert {"reason": "not 3 columns", "line": "b\tr"} in stored
    assert load_graph(tmp_path / "out").entities.find("a") is not None


@pytest.mark.parametrize(
    ("keep", "more", "skipped"),
    [
        (Keep(), set(), 5),
        (
            Keep(literals=True),
            {'"879"^^<http://www.w3.org/2001/XMLSchema#integer>', r'"hin und \"her\""@de', '"to"@en-GB'},
            2,
        ),
        (
            Keep(literals=True, languages=("de",)),
            {'"879"^^<http://www.w3.org/2001/XMLSchema#integer>', r'"hin und \"her\""@de'},
            3,
        ),
        (Keep(blank_nodes=True), {"_:0.b1"}, 3),
    ],
)
def test_what_is_kept_of_a_dump_is_chosen(tmp_path: Path, keep: Keep, more: set[str], skipped: int) -> None:
    (tmp_path / "d.nt").write_text(STATEMENTS)
    found = import_out_of_core({"train": [tmp_path / "d.nt"]}, tmp_path / "out", Shares(0, 0), keep)
    graph = load_graph(tmp_path / "out")
    usual = {f"{X}{name}" for name in ("a", "b", "c", "S%C3%A3o_Paulo", "été")}
    assert set(graph.entities.labels) == usual | more
    assert found.skipped == graph.skipped == skipped
    named = {graph.entities.labels[i]: graph.entities.name(i) for i in range(len(graph.entities))}
    assert (named[f"{X}a"], named[f"{X}b"]) == ("Ah", 'Bé "é"')
    assert named[f"{X}S%C3%A3o_Paulo"] == "São Paulo"
    assert graph.entities.id("Ah") == graph.entities.id(f"{X}a")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", "a,r,b\n", "not read out of core"),
        ("a.tsv", "\n", "no triples in these files"),
        ("a.parquet", "PAR1", "not a readable Parquet file"),
        ("a.tsv", "head\ttail\na\tb\n", "its header names head, tail"),
        ("a.tsv", "head\trelation\ttail\tweight\na\tr\tb\t2\n", "weights are not read out of core"),
    ],
)
def test_what_cannot_be_imported_is_said_and_nothing_left(tmp_path: Path, name: str, content: str, said: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=said):
        import_out_of_core({"train": [tmp_path / name]}, tmp_path / "out", Shares())
    assert [path.name for path in tmp_path.iterdir()] == [name]


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Files may not grow beyond so many bytes, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [0, 100_000, 1_500_000])
def test_a_disk_that_fills_leaves_nothing(tmp_path: Path, size: int) -> None:
    """It fills when DuckDB begins, when it commits what was read, and while it works on."""
    path = written(tmp_path / "facts.tsv", [(f"e{i}", "r", f"e{i + 1}") for i in range(20_000)])
    with pytest.raises(StorageError, match=r"free space|--out"), files_of_at_most(size):
        import_out_of_core({"train": [path]}, tmp_path / "graph", Shares())
    assert list(tmp_path.iterdir()) == [path]


def test_an_import_that_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "facts.tsv", rows_of(40))

    def interrupt(what: str) -> None:
        if what == "drawing the splits":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_out_of_core({"train": [path]}, tmp_path / "graph", Shares(), progress=interrupt)
    assert list(tmp_path.iterdir()) == [path]


def test_languages_without_literals_are_refused() -> None:
    with pytest.raises(SettingsError, match="literals are not kept"):
        Keep(languages=("de",))
    with pytest.raises(SettingsError, match="no language tag"):
        Keep(literals=True, languages=("de)",))


def test_a_run_on_mapped_columns_is_moved_and_asked_without_the_folder(tmp_path: Path) -> None:
    file = written(tmp_path / "a.tsv", rows_of(300))
    import_out_of_core({"train": [file]}, tmp_path / "out", Shares())
    graph = load_graph(tmp_path / "out")
    plain = split_graph(read_graph("out", {"train": [file]}), 0.1, 0.1)
    training = Training(epochs=1, device="cpu")
    sources = {"mapped": graph, "plain": plain}
    runs = [fit(data, ComplEx(dim=4), out=tmp_path / name, training=training) for name, data in sources.items()]
    assert all((one == other).all() for one, other in zip(*(run.model.parameters() for run in runs), strict=True))
    for path in (tmp_path / "out").iterdir():
        path.unlink()
    moved = (tmp_path / "mapped").rename(tmp_path / "elsewhere")
    run = LinkPredictor.load(moved)
    assert run.evaluate().to_json()["metrics"] == runs[1].evaluate().to_json()["metrics"]
    label = run.graph.entities.labels[0]
    assert run.predict(head=label, relation="r1") == runs[1].predict(head=label, relation="r1")


def test_other_data_may_be_columns_of_other_ids(tmp_path: Path) -> None:
    rows = rows_of(300)
    given = {"train": [written(tmp_path / "a.tsv", rows)]}
    import_out_of_core(
        {"test": [written(tmp_path / "b.tsv", rows[:5])], "train": [tmp_path / "b.tsv"]}, tmp_path / "out"
    )
    graph = read_graph("a", given)
    other = load_graph(tmp_path / "out", (graph.entities, graph.relations))
    labels = graph.entities.labels
    assert sorted((labels[h], labels[t]) for h, _, t in other.test) == sorted({(h, t) for h, _, t in rows[:5]})


def test_mapped_labels_are_a_sequence_of_texts(tmp_path: Path) -> None:
    file = written(tmp_path / "a.tsv", rows_of(100))
    import_out_of_core({"train": [file]}, tmp_path / "out", Shares(0, 0))
    labels = load_graph(tmp_path / "out").entities.labels
    plain = read_graph("a", {"train": [file]}).entities.labels
    assert labels == plain
    assert labels != plain[1:]
    assert labels[-1] == plain[-1]
    assert labels[2:5] == plain[2:5]


def said_by(capsys, *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main(list(map(str, arguments)))
    return int(stop.value.code or 0), *capsys.readouterr()


def test_the_command_says_what_became_of_every_line(tmp_path: Path, capsys) -> None:
    (tmp_path / "d.nt").write_text(STATEMENTS + "nonsense\n")
    status, said, _ = said_by(
        *(capsys, "data", "import", tmp_path / "d.nt", "--on-disk", "--keep", "literals:en,en-GB"),
        *("--valid", 0, "--test", 0, "--out", tmp_path / "out"),
    )
    assert status == 0
    assert said.splitlines() == [
        f"{tmp_path / 'out'}: 7 entities, 4 relations",
        "train / valid / test: 6 / 0 / 0 (drawn with seed 0)",
        "repeated triples left out: 0",
        "statements with a literal or a blank node left out: 3",
        "quarantined, not a statement of N-Triples: 1",
    ]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--on-disk", "--trim"], "leave out options for other layouts"),
        (["--on-disk", "--keep", "everything"], "choose literals, literals:en,de or blank-nodes"),
        (["--keep", "literals"], "--keep without --on-disk"),
        (["--on-disk", "--memory-gib", "0"], "allow 1 or more"),
    ],
)
def test_what_makes_no_sense_together_is_refused(tmp_path: Path, capsys, options: list[str], said: str) -> None:
    file = written(tmp_path / "a.tsv", [("a", "r", "b")])
    status, _, error = said_by(capsys, "data", "import", file, "--out", tmp_path / "out", *options)
    assert status == 2
    assert said in error
    assert not (tmp_path / "out").exists()
