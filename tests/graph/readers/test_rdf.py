"""RDF in its five formats, and the local names of its IRIs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from capse.errors import DataError
from capse.graph.dataset import load_graph, read_graph
from capse.graph.iris import local_name, with_local_labels
from capse.graph.readers import read_triples

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
XML = f'<rdf:RDF xmlns:rdf="{RDF}" xmlns:x="http://x/">{{}}</rdf:RDF>'
ABOUT = '<rdf:Description rdf:about="http://x/a">{}</rdf:Description>'
NESTED_ENTITIES = '<!DOCTYPE r [<!ENTITY a "ha"><!ENTITY b "&a;&a;"><!ENTITY c "&b;&b;">]>' + XML


def read(path: Path, content: str) -> list[tuple[str, ...]]:
    path.write_text(content)
    return [tuple(row.values()) for row in read_triples(path).table.to_pylist()]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.nq", "<http://x/a> <http://x/r> <http://x/b> <http://x/g> .\n"),
        ("x.rdf", XML.format(ABOUT.format('<x:r rdf:resource="http://x/b"/><x:age>7</x:age>'))),
        ("x.owl", '<!DOCTYPE r [<!ENTITY x "http://x/">]>' + XML.format(ABOUT.format('<x:r rdf:resource="&x;b"/>'))),
        (
            "x.jsonld",
            '{"@context": {"@vocab": "http://x/"}, "@id": "http://x/a", "r": {"@id": "http://x/b"}, "age": 7}',
        ),
        ("y.jsonld", '{"@context": {"@base": "http://x/", "r": "http://x/r"}, "@id": "a", "r": {"@id": "b"}}'),
    ],
)
def test_formats_of_rdf(tmp_path: Path, name: str, content: str) -> None:
    assert read(tmp_path / name, content) == [("http://x/a", "http://x/r", "http://x/b")]
    source = read_triples(tmp_path / name)
    untyped = name == "x.rdf"  # a text as good as any, by RDF
    assert source.skipped == (1 if untyped else 0)
    assert [*source.values] == ([("http://x/a", "http://x/age", 7.0)] if "age" in content and not untyped else [])
    assert source.in_named_graphs == (name == "x.nq")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.nq", "<http://x/a> <http://x/r> .\n", r"x\.nq, line 1: "),
        ("x.rdf", "<a>", r"x\.rdf: XML namespaces are required"),
        (
            "x.rdf",
            XML.format(ABOUT.format('<x:r rdf:resource="b"/>')),
            "statement 1: 'b' is a relative IRI: write IRIs",
        ),
        ("x.rdf", NESTED_ENTITIES.format(""), "an XML entity that is long or refers to others"),
        ("x.rdf", f'<!DOCTYPE r [<!ENTITY a "{"ha" * 4000}">]>', "an XML entity that is long"),
        ("x.jsonld", "{bad", r"x\.jsonld, line 1: Unexpected char"),
        ("x.jsonld", '{"@id": "a", "http://x/r": {"@id": "b"}}', "statement 1: 'a' is a relative IRI"),
        ("x.jsonld", '{"@context": "https://schema.org/", "@id": "http://x/a"}', "its @context is elsewhere: write"),
        ("x.jsonld", '{"http://x/r":' * 201 + "1" + "}" * 201, "nested more than 200 levels deep"),
    ],
)
def test_errors_of_rdf(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        read(tmp_path / name, content)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.jsonld", '{"http://x/r":' * 5000 + "1" + "}" * 5000),
        ("x.jsonld", '["' + '\\\\"' * 100_000),
        ("x.rdf", " " * 3_000_000 + NESTED_ENTITIES.format("")),
    ],
)
def test_what_would_end_the_process_is_refused(tmp_path: Path, name: str, content: str) -> None:
    path = tmp_path / name
    path.write_text(content)
    command = [sys.executable, "-m", "capse", "data", "import", str(path), "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, "error: " in done.stderr) == (2, True), done.stderr


def test_levels_are_counted_and_not_brackets(tmp_path: Path) -> None:
    """200 of them are as deep as it may be, and a wide text is not deep."""
    with pytest.raises(DataError, match="Unexpected char"):  # damaged, but not too deep
        read(tmp_path / "deep.jsonld", '{"http://x/r":' * 200 + "x")
    wide = ", ".join(f'{{"@id": "http://x/{n}", "http://x/r": [{{"@id": "http://x/{n + 1}"}}]}}' for n in range(150))
    assert len(read(tmp_path / "wide.jsonld", f"[{wide}]")) == 150


def test_brackets_in_strings_are_no_levels(tmp_path: Path) -> None:
    text = '{"@id": "http://x/a", "http://x/r": {"@id": "http://x/b"}, "http://x/n": "' + '[{\\"' * 300 + '"}'
    assert len(read(tmp_path / "x.jsonld", text)) == 1


@pytest.mark.parametrize(
    ("iri", "name"),
    [
        ("http://x/y#Foo_Bar", "Foo Bar"),
        ("http://x/y/", "y"),
        ("http://x/a%20b%0Ac", "a b c"),
        ("http://x/a%FF", "a%FF"),
        ("http://x/%20", "http://x/%20"),
        ("urn:isbn:12", "12"),
        ("berlin", "berlin"),
        ("a: b", "a: b"),
    ],
)
def test_local_names(iri: str, name: str) -> None:
    assert local_name(iri) == name


def test_local_names_are_shown_and_a_label_of_any_file_goes_before(tmp_path: Path) -> None:
    stated = '<http://x/Foo_Bar> <http://www.w3.org/2000/01/rdf-schema#label> "Foo!" .\n'
    (tmp_path / "train.nt").write_text("<http://x/Foo_Bar> <http://x/is_in> <http://x/B> .\n" + stated)
    (tmp_path / "test.nt").write_text("<http://x/Foo_Bar> <http://x/is_in> <http://x/Foo_Bar> .\n")
    graph = load_graph(tmp_path)
    assert graph.entities.labels == ["http://x/B", "http://x/Foo_Bar"]
    assert (graph.entities.names, graph.relations.names) == (["B", "Foo!"], ["is in"])


def test_local_names_as_labels_where_they_are_unique(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text(
        "http://x/Rome\thttp://x/in\thttp://x/Italy\n"
        "http://y/Rome\thttp://x/in\thttp://x/Ohio\n"
        "Oslo\thttp://x/in\thttp://x/Norway\n"
        "http://x/Oslo\thttp://x/in\thttp://x/Norway\n"
    )
    before = read_graph("x", {"train": [path]})
    after, stay = with_local_labels(before)
    assert after.entities.labels == sorted(
        ["http://x/Rome", "http://y/Rome", "Oslo", "http://x/Oslo", "Italy", "Ohio", "Norway"]
    )
    assert (after.relations.labels, stay) == (["in"], 3)
    labels = after.entities.labels
    found = {(labels[head], labels[tail]) for head, _, tail in after.train}
    assert found == {
        ("http://x/Rome", "Italy"), ("http://y/Rome", "Ohio"), ("Oslo", "Norway"), ("http://x/Oslo", "Norway"),
    }  # fmt: skip
    assert after.train.tolist() == sorted(after.train.tolist())
