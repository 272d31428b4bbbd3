"""Where embeddings start: another run label by label, word vectors, or at random."""

from __future__ import annotations

import shutil

import numpy as np
import pytest
import torch

from capse.errors import DataError, RunError, SettingsError
from capse.experiments.fit import fit
from capse.experiments.recipe import Recipe, Start
from capse.experiments.start import start_embeddings
from capse.graph.dataset import Graph
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.graph.vocabulary import Vocabulary
from capse.graph.word_vectors import average_word_vectors, read_word_vectors
from capse.models import build_model, model_settings
from capse.runs.manifest import write_manifest

QUICK = ["training.epochs=1", "model.dim=6", "validation.every=0", "training.device=cpu"]


@pytest.fixture(scope="module")
def source(small, tmp_path_factory):
    """A TransE run on the small graph."""
    path = tmp_path_factory.mktemp("source") / "run"
    fit(small, Recipe.resolve(model="transe", overrides=QUICK), out=path)
    return path


@pytest.fixture
def other():
    """A graph that shares some labels with the small one, at other places, and has some of its own."""
    return Graph.from_triples([("a", "new", "e07"), ("e03", "opposite", "z"), ("e19", "next", "e00")], name="other")


def model_for(graph, name="transe", dim=6, **settings):
    filled = model_settings({"name": name, "dim": dim, "reciprocal": False, **settings})
    return build_model(filled, len(graph.entities), len(graph.relations))


def start(model, graph, dim=6, **settings):
    with torch.no_grad():
        return start_embeddings(model, graph, Start(**settings), dim)


def test_at_random(other):
    model = model_for(other)
    before = model.entities.detach().clone()
    assert start(model, other) == "embeddings start at random"
    assert torch.equal(model.entities, before)


@pytest.mark.parametrize("name", ["transe", "capse", "convkb", "transh", "transr", "stranse", "transd", "conve"])
def test_vectors_are_taken_over_label_by_label(source, other, name):
    settings = {"height": 2} if name == "conve" else {}
    model, fresh = model_for(other, name, **settings), model_for(other, name, **settings)
    message = start(model, other, run=str(source))
    assert message == f"4 of 6 entities and 2 of 3 relations start from {source}"
    trained = LinkPredictor.load(source, "cpu")
    for i, label in enumerate(other.entities.labels):
        if label in trained.graph.entities:
            expected = trained.model.entities[trained.graph.entities.labels.index(label)]
            assert torch.equal(model.entities[i, :6], expected)
            assert torch.equal(model.entities[i, 6:], fresh.entities[i, 6:])
        else:
            assert torch.equal(model.entities[i], fresh.entities[i])
    for i, label in enumerate(other.relations.labels):
        if label in trained.graph.relations:
            expected = trained.model.relations[trained.graph.relations.labels.index(label)]
            assert torch.equal(model.relations[i, :6], expected)
            assert torch.equal(model.relations[i, 6:], fresh.relations[i, 6:])
        else:
            assert torch.equal(model.relations[i], fresh.relations[i])


def test_fit_starts_there(source, small, tmp_path, weights_of):
    fit(
        small,
        Recipe.resolve(model="capse", overrides=[*QUICK, "training.epochs=0", f"start.run={source}"]),
        out=tmp_path / "run",
    )
    assert torch.equal(weights_of(tmp_path / "run")["entities"], weights_of(source)["entities"])


def test_inverse_relations_go_to_inverse_relations(small, tmp_path, weights_of):
    options = [*QUICK, "model.reciprocal=true"]
    fit(small, Recipe.resolve(model="distmult", overrides=options), out=tmp_path / "a")
    extra = ["training.epochs=0", f"start.run={tmp_path / 'a'}"]
    fit(small, Recipe.resolve(model="distmult", overrides=[*options, *extra]), out=tmp_path / "b")
    fit(
        small,
        Recipe.resolve(model="distmult", overrides=[*options, *extra, "model.reciprocal=false"]),
        out=tmp_path / "c",
    )
    a, b, c = (weights_of(tmp_path / run)["relations"] for run in "abc")
    assert torch.equal(a, b)
    assert torch.equal(a[:3], c)


@pytest.mark.parametrize("dim", [3, 8, 12])
def test_another_size_is_refused(source, other, dim):
    with pytest.raises(SettingsError, match=rf"model\.dim is {dim}, and 6 in .*: give both the same model\.dim"):
        start(model_for(other, dim=dim), other, dim=dim, run=str(source))


def test_a_model_with_longer_vectors_is_refused(small, tmp_path):
    fit(small, Recipe.resolve(model="complex", overrides=QUICK), out=tmp_path / "run")
    with pytest.raises(SettingsError, match="have 12 numbers, and there is room for 6: start from a simpler"):
        start(model_for(small), small, run=str(tmp_path / "run"))


def test_a_run_that_does_not_say_which_model_it_is(source, other, tmp_path):
    shutil.copytree(source, tmp_path / "run")
    (tmp_path / "run" / "recipe.yaml").write_text("data: small\n")
    write_manifest(tmp_path / "run")
    with pytest.raises(RunError, match=r"recipe\.yaml does not say which model this is"):
        start(model_for(other), other, run=str(tmp_path / "run"))


def test_a_run_that_is_not_there(other, tmp_path):
    with pytest.raises(RunError, match="there is no run in"):
        start(model_for(other), other, run=str(tmp_path / "no"))


@pytest.fixture
def glove(tmp_path):
    """Four words of four numbers, in GloVe's form."""
    path = tmp_path / "glove.txt"
    path.write_text("new 1 0 0 0\nyork 0 3 0 0\n, 9 9 9 9\nberlin -1 -2 -3.5 4e-1\n", encoding="utf-8")
    return path


@pytest.fixture
def cities():
    labels = ["q1", "q2", "q3", "q4"]
    graph = Graph.from_triples([("q1", "r", "q2"), ("q3", "r", "q4")], name="cities")
    names = ["New_York", "Berlin, Xyzzy", "nothing known", "berlin"]
    return Graph("cities", Vocabulary(labels, names, "entity"), graph.relations, graph.train, graph.valid, graph.test)


def test_words_are_averaged(glove):
    means, covered = average_word_vectors(["New_York", "new new york", "Berlin!", "nothing"], glove)
    np.testing.assert_allclose(means[:3], [[0.5, 1.5, 0, 0], [2 / 3, 1, 0, 0], [-1, -2, -3.5, 0.4]], rtol=1e-6)
    assert covered.tolist() == [True, True, True, False]


def test_entities_start_from_the_words_of_their_names(glove, cities):
    model = model_for(cities, dim=4)
    fresh = model.entities.detach().clone()
    assert start(model, cities, dim=4, words=str(glove)) == f"3 of 4 entities start from the words in {glove}"
    found = model.entities.detach().numpy()
    np.testing.assert_allclose(found[0], np.array([1, 3, 0, 0]) / np.sqrt(10), rtol=1e-6)
    berlin = np.array([-1, -2, -3.5, 0.4])
    np.testing.assert_allclose(found[1], berlin / np.linalg.norm(berlin), rtol=1e-6)
    np.testing.assert_array_equal(found[1], found[3])
    np.testing.assert_array_equal(found[2], fresh[2])


def test_unnormalised_words_and_models_without_a_unit_ball(glove, cities):
    model = model_for(cities, "distmult", dim=4)
    start(model, cities, dim=4, words=str(glove), normalise=False)
    np.testing.assert_allclose(model.entities.detach()[0], [0.5, 1.5, 0, 0])
    model = model_for(cities, "transe", dim=4)  # keeps its vectors in the unit ball
    start(model, cities, dim=4, words=str(glove), normalise=False)
    assert float(model.entities.detach().norm(dim=1).max()) <= 1 + 1e-6


def test_names_from_a_file_of_ones_own(glove, cities, tmp_path):
    names = tmp_path / "names.tsv"
    names.write_text("entity\tname\ttitle\nq2\tx\tyork\nq4\tx\tnew york\nq9\tx\tberlin\n")
    model = model_for(cities, "distmult", dim=4)
    message = start(model, cities, dim=4, words=str(glove), names=str(names), column="title", normalise=False)
    assert message.startswith("2 of 4")
    np.testing.assert_allclose(model.entities.detach()[[1, 3]], [[0.0, 3.0, 0.0, 0.0], [0.5, 1.5, 0.0, 0.0]])
    with pytest.raises(DataError, match=r"names\.tsv, line 1: there is no column 'label': set start\.column to one of"):
        start(model, cities, dim=4, words=str(glove), names=str(names), column="label")
    names.write_text("entity\tname\ttitle\nq2\tx\n")
    with pytest.raises(DataError, match=r"names\.tsv, line 2: 2 columns: give 3 or more"):
        start(model, cities, dim=4, words=str(glove), names=str(names), column="title")


@pytest.mark.parametrize("dim", [3, 5])
def test_words_of_another_size_are_refused(glove, cities, dim):
    with pytest.raises(SettingsError, match=rf"vectors of 4 numbers, the model's have {dim}: set model\.dim=4"):
        start(model_for(cities, dim=dim), cities, dim=dim, words=str(glove))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("word 1 2 nan 4", "line 5: the vector of 'word' has NaN or infinity: remove the line"),
        ("word 1 2 -inf 4", "line 5: the vector of 'word' has NaN or infinity"),
        ("word 1 2 1e999 4", "line 5: the vector of 'word' has NaN or infinity"),
        ("word 1 2 3", "line 5: 3 numbers instead of 4"),
        ("word 1 2 3 4 5", "line 5: 5 numbers instead of 4"),
        ("word 1 2 x 4", "line 5: 'word' is not followed by numbers"),
        ("word", "line 5: 'word' is not followed by numbers"),
        ("", "line 5: '' is not followed by numbers"),
    ],
)
def test_bad_lines_are_named_whether_their_word_is_wanted_or_not(glove, line, message):
    with glove.open("a") as file:
        file.write(f"{line}\n")
    for wanted in ({"word"}, {"berlin"}):
        with pytest.raises(DataError) as error:
            read_word_vectors(glove, wanted)
        assert f"{glove}, {message}" in str(error.value)
        assert error.value.remedy


def test_word_files_that_are_of_no_use(glove, cities, tmp_path):
    empty = tmp_path / "empty.txt"
    empty.write_text("")
    with pytest.raises(DataError, match=r"empty\.txt: empty"):
        read_word_vectors(empty, set())
    with pytest.raises(DataError, match="no word of any name is in it"):
        average_word_vectors(["xyzzy"], glove)
    with pytest.raises(DataError, match="no such file"):
        start(model_for(cities, dim=4), cities, dim=4, words=str(tmp_path / "none.txt"))
    glove.write_bytes(b"word 1 2 3\nw\xff 1 2 3\n")
    with pytest.raises(DataError, match=r"glove\.txt, line 2: not UTF-8"):
        read_word_vectors(glove, set())


@pytest.fixture(scope="module")
def product(small, tmp_path_factory):
    """A DistMult run on the small graph, with reciprocal relations."""
    path = tmp_path_factory.mktemp("product") / "run"
    fit(small, Recipe.resolve(model="distmult", overrides=[*QUICK, "model.dim=8", "model.reciprocal=true"]), out=path)
    return path


class TestTwoRuns:
    """start.beside: a second run's vectors after the first's."""

    def test_each_fills_its_dimensions(self, source, product, small):
        model = model_for(small, "capse", dim=14, reciprocal=True)
        message = start(model, small, dim=14, run=str(product), beside=str(source))
        assert f"start from {product}; " in message
        assert message.endswith(f"start from {source}")
        first, second = LinkPredictor.load(product, "cpu").model, LinkPredictor.load(source, "cpu").model
        count = len(small.relations)
        assert torch.equal(model.entities, torch.cat([first.entities, second.entities], 1))
        assert torch.equal(model.relations[:, :8], first.relations)
        assert torch.equal(model.relations[:count, 8:], second.relations)
        assert torch.equal(model.relations[count:, 8:], -second.relations), "TransE's inverse is the way back"

    def test_an_untrained_capse_ranks_as_both_together(self, source, product, small, tmp_path):
        overrides = [
            *QUICK, "training.epochs=0", "model.dim=14", "model.reciprocal=true",
            "model.filters=83", "model.filter_start=product", "model.distance_dims=6", "model.distance_weight=0.7",
            f"start.run={product}", f"start.beside={source}",
        ]  # fmt: skip
        run = fit(small, Recipe.resolve(model="scaled-capse", overrides=overrides), out=tmp_path / "run")
        first, second = LinkPredictor.load(product, "cpu").model, LinkPredictor.load(source, "cpu").model
        heads, relations = torch.arange(20).repeat(2), torch.arange(2).repeat_interleave(20)
        with torch.no_grad():
            wanted = first.score_tails(heads, relations) + 0.7 * second.score_tails(heads, relations)
            scores = run.model.score_tails(heads, relations)
        assert torch.corrcoef(torch.stack([scores.flatten(), wanted.flatten()]))[0, 1] > 0.99

    def test_sizes_must_add_up(self, source, product, small):
        with pytest.raises(SettingsError, match=r"model.dim is 6, and 8 in .* and 6 in .*: set model.dim=14"):
            start(model_for(small, "capse"), small, run=str(product), beside=str(source))

    def test_neither_may_reach_into_the_others_dimensions(self, source, small, tmp_path):
        """ComplEx has two numbers for each dimension: both runs' 12 would fill CapsE's 12, one over the other."""
        fit(small, Recipe.resolve(model="complex", overrides=QUICK), out=tmp_path / "run")
        model = model_for(small, "capse", dim=12)
        with pytest.raises(SettingsError, match="have 12 numbers, and there is room for 6: start from a simpler"):
            start(model, small, dim=12, run=str(tmp_path / "run"), beside=str(source))

    def test_the_second_needs_a_first(self, source):
        with pytest.raises(SettingsError, match=r"start.beside is given without start.run"):
            Start(beside=str(source))
