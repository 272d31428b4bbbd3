import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from capse.cli.data import app
from capse.errors import CapseError, SettingsError
from capse.graph.dataset import load_graph

ROWS = [(f"e{i}", f"r{i % 2}", f"e{(i * 3 + 1) % 10}") for i in range(10)] + [
    (f"e{i}", "r0", f"e{(i + 2) % 10}") for i in range(10)
]


def run(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if isinstance(result.exception, CapseError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.fixture
def triples(tmp_path):
    path = tmp_path / "graph.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in [*ROWS, ROWS[0]]))
    return path


def test_list():
    rows = {row["name"]: row for row in json.loads(run("list", "--json"))}
    assert list(rows)[:3] == ["countries", "wn18rr", "fb15k-237"]
    assert (rows["codex-s"]["checksum"], rows["codex-s"]["licence"], rows["codex-s"]["test"]) == (
        "untried",
        "MIT",
        1_828,
    )
    assert rows["wn18rr"]["train"] == 86_835
    assert rows["countries"]["train"] == len(load_graph("countries").train)
    text = run("list")
    assert all(name in text for name in rows)


def test_list_says_what_is_not_here(monkeypatch, tmp_path):
    monkeypatch.setenv("CAPSE_CACHE", str(tmp_path))
    monkeypatch.delenv("CAPSE_DATA", raising=False)
    assert "not here yet: capse data get wn18rr" in run("list")
    assert json.loads(run("list", "--json"))[1]["where"] is None


def test_import_draws_a_split(triples, tmp_path):
    out = tmp_path / "out"
    text = run("import", triples, "--out", out)
    assert text.splitlines() == [
        f"{out}: 10 entities, 2 relations",
        "train / valid / test: 16 / 2 / 2 (drawn with seed 0)",
        "repeated triples left out: 1",
    ]
    graph = load_graph(out)
    assert len(graph.known) == 20
    run("import", triples, "--out", tmp_path / "other", "--valid", 0.2, "--test", 0.05, "--seed", 3)
    other = load_graph(tmp_path / "other")
    assert (len(other.train), len(other.valid), len(other.test)) == (15, 4, 1)


def test_import_puts_files_together(triples, tmp_path):
    more = tmp_path / "more.csv"
    more.write_text("head,relation,tail\ne1,r9,e2\ne2,r9,e3\n")
    run("import", triples, more, "--out", tmp_path / "out", "--valid", 0, "--test", 0)
    assert len(load_graph(tmp_path / "out").train) == 22


def test_import_keeps_given_splits(triples, tmp_path):
    given = tmp_path / "given"
    given.mkdir()
    for name in ("train.tsv", "dev.tsv", "test.tsv"):
        (given / name).write_bytes(triples.read_bytes())
    files = sorted(given.iterdir())
    assert "20 / 20 / 20 (as given)" in run("import", *files, "--out", tmp_path / "out")
    with pytest.raises(SettingsError, match="the files' names say their splits already"):
        run("import", *files, "--out", tmp_path / "again", "--valid", 0.1)


def test_import_with_names(triples, tmp_path):
    names = tmp_path / "names.tsv"
    names.write_text("entity\tname\ne3\tThree\n")
    relation_names = tmp_path / "relation_names.tsv"
    relation_names.write_text("relation\tname\nr0\tzero\n")
    run("import", triples, "--out", tmp_path / "out", "--names", names, "--names", relation_names)
    graph = load_graph(tmp_path / "out")
    assert graph.entities.name(3) == "Three"
    assert graph.relations.names == ["zero", "r1"]


def test_import_of_a_graph_in_which_every_triple_is_needed(tmp_path):
    star = tmp_path / "star.tsv"
    star.write_text("".join(f"centre\tto\t{i}\n" for i in range(10)))
    with pytest.raises(SettingsError, match="--allow-unseen"):
        run("import", star, "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    run("import", star, "--out", tmp_path / "out", "--allow-unseen")
    assert len(load_graph(tmp_path / "out").test) == 1


def test_import_counts_what_is_no_triple(tmp_path):
    rdf = tmp_path / "graph.nt"
    rdf.write_text('<http://a> <http://r> <http://b> .\n<http://a> <http://age> "7" .\n')
    text = run("import", rdf, "--out", tmp_path / "out", "--valid", 0, "--test", 0)
    assert "statements with a literal or a blank node left out: 1" in text


def test_import_refuses_a_folder_in_use_before_it_reads(tmp_path):
    with pytest.raises(SettingsError, match="not an empty folder"):
        run("import", tmp_path / "gone.tsv", "--out", Path(__file__).parent)


def test_info(triples, tmp_path):
    run("import", triples, "--out", tmp_path / "out")
    found = json.loads(run("info", tmp_path / "out", "--json"))
    assert found["triples"] == {"train": 16, "valid": 2, "test": 2}
    assert found["unseen"] == {"valid": 0, "test": 0}
    text = run("info", tmp_path / "out")
    assert "out: 10 entities, 2 relations" in text
    assert "nearly inverse relations: 0" in text


@pytest.mark.usefixtures("real_data")
def test_info_on_a_benchmark():
    text = run("info", "fb15k-237")
    assert "fb15k-237: 14,541 entities, 237 relations" in text
    assert "M-M              113        72.3" in text


def test_get(tmp_path):
    folder = Path(run("get", "countries").strip())
    assert (folder / "train.tsv").exists()
    assert run("get", "countries", "--out", tmp_path / "copy").strip() == str(tmp_path / "copy")
    assert (tmp_path / "copy" / "train.tsv").read_bytes() == (folder / "train.tsv").read_bytes()


def test_import_keeps_splits_that_the_ends_of_names_say(tmp_path):
    for split, rows in (("train", ROWS[:10]), ("test", ROWS[10:])):
        (tmp_path / f"umls_{split}.txt").write_text("".join("\t".join(row) + "\n" for row in rows))
    text = run("import", tmp_path / "umls_train.txt", tmp_path / "umls_test.txt", "--out", tmp_path / "out")
    assert "train / valid / test: 10 / 0 / 10 (as given)" in text


def test_import_reads_the_layout_that_is_named(tmp_path, run_command):
    rows = "".join(f"{tail} | {head} | {relation}\n" for head, relation, tail in ROWS)
    path = tmp_path / "facts.dat"
    path.write_text("% notes\nWen | Wer | Wie\n" + rows, encoding="utf-16")
    status, output, errors = run_command(
        *("data", "import", path, "--out", tmp_path / "out", "--delimiter", "|", "--columns", "Wer,Wie,Wen"),
        *("--trim", "--comment", "%", "--encoding", "utf-16"),
    )
    assert status == 0, errors
    assert "10 entities, 2 relations" in output
    assert f"the first line names the columns: {path}: Wen, Wer, Wie" in errors


def test_import_says_which_first_line_is_a_header(tmp_path, run_command):
    path = tmp_path / "facts.csv"
    path.write_text("Source;Edge;Target\n" + "".join(";".join(row) + "\n" for row in ROWS))
    status, output, errors = run_command("data", "import", path, "--out", tmp_path / "out")
    assert status == 0
    assert "10 entities, 2 relations" in output
    assert f"the first line names the columns: {path}: Source, Edge, Target" in errors


@pytest.mark.parametrize("splits", [["facts.csv"], ["facts-train.csv", "facts-test.csv"]])
def test_import_asks_whether_words_that_no_other_line_has_name_the_columns(splits, tmp_path, run_command):
    paths = [tmp_path / name for name in splits]
    for path, rows in zip(paths, (ROWS, ROWS[:2]), strict=False):
        path.write_text("Quelle,Kante,Ziel\n" + "".join(",".join(row) + "\n" for row in rows))
    command = ("data", "import", *paths, "--out")
    status, output, errors = run_command(*command, tmp_path / "out")
    assert (status, output) == (2, "")
    assert f"error: {paths[0]}: Quelle, Kante, Ziel: are these names of columns?" in errors
    assert not (tmp_path / "out").exists()
    assert "10 entities, 2 relations" in run_command(*command, tmp_path / "named", "--columns", "Quelle,Kante,Ziel")[1]
    assert "12 entities, 3 relations" in run_command(*command, tmp_path / "triple", "--columns", "1,2,3")[1]


@pytest.mark.parametrize("first", ["e0,Kante,Ziel", "Quelle,r0,Ziel", "Quelle,Kante,e0"])
def test_import_does_not_ask_about_a_triple_that_shares_a_label(first, tmp_path, run_command):
    path = tmp_path / "facts.csv"
    labels = {label for row in ROWS for label in row}
    assert labels & set(first.split(","))
    path.write_text(f"{first}\n" + "".join(",".join(row) + "\n" for row in ROWS))
    assert run_command("data", "import", path, "--out", tmp_path / "out")[0] == 0


def test_import_says_that_graph_names_and_ambiguous_local_names_are_left_out(tmp_path):
    path = tmp_path / "facts.nq"
    path.write_text(
        "<http://x/Foo_Bar> <http://x/r> <http://x/b> <http://x/graph> .\n<http://x/b> <http://x/r> <http://y/b> .\n"
    )
    text = run("import", path, "--out", tmp_path / "out", "--valid", 0, "--test", 0, "--local-names")
    assert "statements whose graph's name was left out: 1\n" in text
    assert "IRIs that stay labels, as others have the same local name: 2\n" in text
    assert load_graph(tmp_path / "out").entities.labels == ["Foo Bar", "http://x/b", "http://y/b"]
