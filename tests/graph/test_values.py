"""Numbers and dates of entities: read, kept, told and begun with."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import capse
from capse.errors import DataError, SettingsError
from capse.experiments.start import start_embeddings
from capse.graph.dataset import load_graph, read_graph
from capse.graph.values import features, placed
from capse.graph.writing import save_graph
from capse.models import build_model

TRIPLES = "ghent\tin\tbelgium\ntallinn\tin\testonia\nghent\ttwinned\ttallinn\n"
VALUES = (
    "entity\tproperty\tvalue\nghent\tpeople\t265000\ntallinn\tpeople\t461000\nghent\tfounded\t0879-01-01\n"
    "tallinn\tfounded\t1219-06-15\natlantis\tpeople\t0\nghent\theight\t8\nghent\tpeople\t265000\n"
)


def seconds(day):
    return float(np.datetime64(day, "s").astype(np.int64))


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "towns"
    folder.mkdir()
    (folder / "train.tsv").write_text(TRIPLES)
    (folder / "values.tsv").write_text(VALUES)
    return folder


def test_a_folder_may_have_values_and_a_copy_has_them_too(folder, tmp_path):
    graph = load_graph(folder)
    assert capse.describe(graph).values == {
        "founded": {"count": 2, "least": seconds("0879-01-01"), "most": seconds("1219-06-15")},
        "height": {"count": 1, "least": 8, "most": 8},
        "people": {"count": 2, "least": 265000, "most": 461000},
    }
    assert graph.values_left_out == 1
    save_graph(graph, tmp_path / "copy")
    assert load_graph(tmp_path / "copy").values.equals(graph.values)


def test_literals_of_rdf_are_values_under_their_properties(tmp_path, run_command):
    path = tmp_path / "towns.ttl"
    path.write_text(
        "@prefix : <http://x/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n"
        ':ghent :in :belgium ; :people 265000 ; :area 156.2 ; :founded "0879"^^xsd:gYear ; :open true .\n'
        ':ghent :motto "Fides" .\n'
        ':belgium :born "1830-10-04"^^xsd:date ; :mean "NaN"^^xsd:double ; :old "-0044-03-15"^^xsd:date .\n'
    )
    found = [(row["property"], row["value"]) for row in read_graph("t", {"train": [path]}).values.to_pylist()]
    assert found == [
        ("http://x/born", seconds("1830-10-04")),
        ("http://x/area", 156.2),
        ("http://x/founded", seconds("0879-01-01")),
        ("http://x/people", 265000.0),
    ]
    out = tmp_path / "out"
    status, output, _ = run_command("data", "import", path, "--out", out, "--local-names", "--valid", 0, "--test", 0)
    assert status == 0
    assert "numbers and dates of entities: 4, of 4 properties" in output
    assert "left out: 4" in output
    assert set(load_graph(out).values["entity"].to_pylist()) == {"ghent", "belgium"}


def test_values_go_with_runs_and_updates(folder, tmp_path):
    run = capse.fit(load_graph(folder), capse.DistMult(dim=4), training=capse.Training(epochs=1), out=tmp_path / "run")
    loaded = capse.LinkPredictor.load(tmp_path / "run")
    assert loaded.graph.values.equals(run.graph.values)
    assert loaded.updated([("riga", "twinned", "ghent")]).graph.values.equals(run.graph.values)


def test_another_value_is_another_graph(folder, tmp_path):
    model, training = capse.DistMult(dim=4), capse.Training(epochs=1)
    capse.fit(load_graph(folder), model, training=training, out=tmp_path / "run")
    (folder / "values.tsv").write_text(VALUES.replace("461000", "461001"))
    with pytest.raises(capse.CapseError, match="begun with other data"):
        capse.fit(load_graph(folder), model, training=training, out=tmp_path / "run", resume=True)


class TestStart:
    @pytest.mark.parametrize("kind", [capse.TransE, capse.ComplEx])
    def test_the_last_dimensions_are_values(self, folder, kind):
        graph = load_graph(folder)
        model = build_model(kind(dim=6), len(graph.entities), len(graph.relations))
        before = model.entities.detach().clone()
        with torch.no_grad():
            said = start_embeddings(model, graph, capse.Start(values=True), 6)
        assert said == "2 of 4 entities start with values of founded, people"
        table, size = model.entities.detach(), float(before[:, 4:6].square().mean().sqrt())
        if kind is capse.ComplEx:  # TransE scales each to length 1
            expected = np.zeros((4, 2))
            expected[graph.entities.id("ghent")], expected[graph.entities.id("tallinn")] = -1, 1
            assert table[:, 4:6].numpy() == pytest.approx(expected * size)
            assert torch.equal(table[:, :4], before[:, :4])
            assert torch.equal(table[:, 6:], before[:, 6:])
        assert (table[graph.entities.id("ghent"), 4:6] < 0).all()

    def test_words_come_first(self, folder, tmp_path):
        words = tmp_path / "words.txt"
        words.write_text("ghent 1 0 0 0\nbelgium 0 1 0 0\n")
        start = capse.Start(words=str(words), values=True)
        run = capse.fit(load_graph(folder), capse.DistMult(dim=6), training=capse.Training(epochs=0), start=start)
        row = run.model.entities.detach()[run.graph.entities.id("ghent")]
        assert row[:4].tolist() == [1, 0, 0, 0]
        assert (row[4:] < 0).all()
        with pytest.raises(SettingsError, match=r"4 numbers, the model's have 5: set model\.dim=6"):
            capse.fit(load_graph(folder), capse.DistMult(dim=7), training=capse.Training(epochs=0), start=start)

    def test_features_are_deviations_and_never_far(self):
        graph = capse.Graph.from_triples([(f"e{i}", "r", "e0") for i in range(30)])
        table, _ = placed([(f"e{i}", "size", float(i == 7)) for i in range(30)], graph.entities)
        names, numbers = features(table, graph.entities)
        assert names == ["size"]
        assert sorted(set(numbers[:, 0].round(3))) == [pytest.approx(-1 / np.sqrt(29), abs=1e-3), 3.0]

    def test_what_cannot_be(self, folder):
        graph, once = load_graph(folder), capse.Training(epochs=0)
        with pytest.raises(
            SettingsError, match=r"2 properties with values, and model\.dim is 2: set model\.dim above 2"
        ):
            capse.fit(graph, capse.DistMult(dim=2), training=once, start=capse.Start(values=True))
        with pytest.raises(SettingsError, match="no property of graph has two values"):
            capse.fit([("a", "r", "b")], capse.DistMult(dim=2), training=once, start=capse.Start(values=True))
        with pytest.raises(SettingsError, match=r"start\.run and start\.values are both given"):
            capse.Start(run="runs/x", values=True)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "empty"),
        ("head\tproperty\tvalue\n", "line 1: not the header"),
        ("entity\tproperty\tvalue\na\tage\n", "line 2: not an entity, a property and a value"),
        ("entity\tproperty\tvalue\na\tage\ttall\n", "line 2: 'tall' is neither a number nor a date"),
        ("entity\tproperty\tvalue\na\tage\tinf\n", "line 2: 'inf' is neither"),
    ],
)
def test_bad_files_of_values_leave_nothing_behind(tmp_path, run_command, content, message):
    (tmp_path / "triples.tsv").write_text(TRIPLES)
    (tmp_path / "v.tsv").write_text(content)
    status, _, errors = run_command(
        "data", "import", tmp_path / "triples.tsv", "--values", tmp_path / "v.tsv", "--out", tmp_path / "out"
    )
    assert status == 2
    assert message in errors
    assert not (tmp_path / "out").exists()


def test_a_parquet_file_that_is_none_is_refused(folder):
    (folder / "values.tsv").rename(folder / "values.parquet")
    with pytest.raises(DataError, match="not a readable table of values"):
        load_graph(folder)
