"""New entities from their texts: they find their place among entities with like texts, and nothing else moves."""

from __future__ import annotations

import numpy as np
import pytest

import capse
from capse.errors import DataError, RunError, SettingsError
from capse.experiments.new_texts import ridge

KINDS = ("river", "town", "king")
FACTS = [(f"{kind} {n}", "is a", f"kind of {kind}") for kind in KINDS for n in range(12)]
FACTS += [(f"king {n}", "rules", f"town {n}") for n in range(12)]


def shapes(texts):
    """An encoder of one's own: what kind of thing a text names, and a little noise."""
    rng = np.random.default_rng(len(texts))
    known = np.array([[kind in text for kind in KINDS] for text in texts], float)
    return np.concatenate([known + rng.normal(0, 0.05, known.shape), np.ones((len(texts), 1))], axis=1)


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    path = tmp_path_factory.mktemp("words") / "words.txt"
    path.write_text("river 1 0 0 0\ntown 0 1 0 0\nking 0 0 1 0\nkind .3 .3 .3 0\n")
    return path


def train(out, **start):
    training = capse.Training(epochs=60, batch_size=16, learning_rate=0.1)
    capse.fit(FACTS, capse.DistMult(dim=4), training=training, start=capse.Start(**start), out=out,
              validation=capse.Validation(every=0))  # fmt: skip
    return capse.LinkPredictor.load(out)


@pytest.fixture(scope="module")
def run(words, tmp_path_factory):
    return train(tmp_path_factory.mktemp("texts") / "run", words=str(words))


def kind_of(run, label):
    kinds = capse.Listed.of_names(run.graph, [f"kind of {kind}" for kind in KINDS])
    return run.predict(head=label, relation="is a", top=1, among=kinds)[0].entity


def test_a_text_gives_a_place_and_nothing_else_moves(run):
    larger = capse.fold_in_texts(run, {"Danube": "the river Danube", "Olaf": "a king called Olaf"})
    assert [kind_of(larger, label) for label in ("Danube", "Olaf")] == ["kind of river", "kind of king"]
    assert larger.graph.entities.name(larger.graph.entities.id("Olaf")) == "a king called Olaf"
    assert larger.score(FACTS) == run.score(FACTS)
    assert len(larger.graph.train) == len(run.graph.train)
    assert "Olaf" not in run.graph.entities


def test_facts_go_on_from_there(run):
    text = {"Olaf": "a king called Olaf"}
    alone = capse.fold_in_texts(run, text)
    both = capse.fold_in_texts(run, text, [("Olaf", "rules", "Oslo"), ("Oslo", "is a", "kind of town")])
    assert kind_of(both, "Olaf") == "kind of king"
    assert kind_of(both, "Oslo") == "kind of town"
    assert alone.similar("Olaf", top=1)[0].similarity > 0.5
    assert alone.score([("Olaf", "is a", "kind of king")]) != both.score([("Olaf", "is a", "kind of king")])


def test_an_encoder_of_ones_own_is_called_where_it_is_named(tmp_path):
    name = f"{__name__}:shapes"
    run = train(tmp_path / "run", encoder=name)
    with pytest.raises(SettingsError, match="code of somebody's own"):
        capse.fold_in_texts(run, {"Danube": "the river Danube"})
    assert kind_of(capse.fold_in_texts(run, {"Danube": "the river Danube"}, encoder=name), "Danube") == "kind of river"


def test_an_encoder_gives_the_first_vectors():
    start = capse.Start(encoder=f"{__name__}:shapes")
    run = capse.fit(FACTS, capse.DistMult(dim=4), training=capse.Training(epochs=0), start=start)
    rows = shapes([run.graph.entities.name(i) for i in range(len(run.graph.entities))])
    expected = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    assert run.model.entities.detach().numpy() == pytest.approx(expected, abs=1e-5)


def test_the_penalty_is_the_best_when_each_is_left_out():
    rng = np.random.default_rng(3)
    x, new = rng.normal(size=(30, 4)), rng.normal(size=(5, 4))
    y = x @ rng.normal(size=(4, 3)) + rng.normal(size=(30, 3))

    def fitted(x, y, penalty):
        middle, mean = x.mean(axis=0), y.mean(axis=0)
        weights = np.linalg.solve((x - middle).T @ (x - middle) + penalty * np.eye(4), (x - middle).T @ (y - mean))
        return lambda rows: (rows - middle) @ weights + mean

    def error(penalty):
        rest = [np.delete(np.arange(30), i) for i in range(30)]
        return sum(np.square(fitted(x[k], y[k], penalty)(x[[i]]) - y[i]).sum() for i, k in enumerate(rest))

    best = min((0.01, 0.1, 1.0, 10.0, 100.0), key=error)
    assert ridge(x, y)(new) == pytest.approx(fitted(x, y, best)(new))


@pytest.mark.parametrize(
    ("texts", "error", "message"),
    [
        ({"king 3": "a king"}, DataError, "'king 3' is a known entity"),
        ({"Thing": "nothing known"}, DataError, "the text of 'Thing' has no word with a vector"),
    ],
)
def test_texts_that_cannot_be(run, texts, error, message):
    with pytest.raises(error, match=message):
        capse.fold_in_texts(run, texts)


def test_a_run_without_texts_and_settings_that_cannot_be():
    plain = capse.fit(FACTS, capse.DistMult(dim=4), training=capse.Training(epochs=0))
    with pytest.raises(RunError, match="did not start from texts"):
        capse.fold_in_texts(plain, {"Danube": "the river"})
    with pytest.raises(SettingsError, match=r"start\.words and start\.encoder are both given"):
        capse.Start(words="words.txt", encoder="a:b")
    with pytest.raises(SettingsError, match=r"start\.encoder is 'lsa'"):
        capse.Start(encoder="lsa")


class TestCommand:
    def test_texts_alone_and_with_facts(self, run, run_command, tmp_path):
        (tmp_path / "names.tsv").write_text("entity\tname\nDanube\tthe river Danube\n")
        (tmp_path / "facts.tsv").write_text("Oslo\tis a\tkind of town\n")
        once, twice = tmp_path / "once", tmp_path / "twice"
        status, output, _ = run_command("update", run.folder.path, "--names", tmp_path / "names.tsv", "--out", once)
        assert (status, output) == (0, f"{once}: 0 facts and 1 entities added\n")
        assert kind_of(capse.LinkPredictor.load(once), "Danube") == "kind of river"
        status, output, _ = run_command(
            "update", run.folder.path, tmp_path / "facts.tsv", "--names", tmp_path / "names.tsv", "--out", twice
        )
        assert (status, output) == (0, f"{twice}: 1 facts and 2 entities added\n")

    @pytest.mark.parametrize(
        ("names", "message"),
        [("relation\tname\nis a\tis\n", "names relations"), ("entity\tname\nking 3\tking\n", "a known entity")],
    )
    def test_mistakes_leave_the_run_as_it_was(self, run, run_command, tmp_path, names, message):
        (tmp_path / "names.tsv").write_text(names)
        before = {path: path.read_bytes() for path in run.folder.path.rglob("*") if path.is_file()}
        status, _, errors = run_command("update", run.folder.path, "--names", tmp_path / "names.tsv")
        assert status == 2
        assert message in errors
        assert {path: path.read_bytes() for path in run.folder.path.rglob("*") if path.is_file()} == before
        status, _, errors = run_command("update", run.folder.path)
        assert status == 2
        assert "nothing to add" in errors

    def test_word_vectors_that_have_moved_are_named(self, run, words, tmp_path):
        moved = tmp_path / "elsewhere.txt"
        moved.write_bytes(words.read_bytes())
        larger = capse.fold_in_texts(run, {"Danube": "river"}, words=moved)
        assert kind_of(larger, "Danube") == "kind of river"
