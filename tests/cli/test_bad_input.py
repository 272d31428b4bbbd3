"""Bad input: one line that names the place and the remedy, exit status 2, no traceback, nothing half-written."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from capse.experiments.engine import Listener
from capse.experiments.fit import fit
from capse.experiments.recipe import Recipe
from capse.runs.manifest import write_manifest
from capse.runs.tensors import FORMAT, save_tensors

GOOD = "".join(f"a{i}\tlikes\tb{i % 3}\n" for i in range(20))
SMALL = ["model.dim=4", "training.epochs=2", "training.device=cpu", "training.batch_size=8"]


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """A good dataset, a finished run on it, and one that was stopped in the middle."""
    folder = tmp_path_factory.mktemp("originals")
    (folder / "data").mkdir()
    (folder / "data" / "train.tsv").write_text(GOOD)
    (folder / "data" / "test.tsv").write_text("a0\tlikes\tb1\n")
    fit(folder / "data", Recipe.resolve(model="transe", overrides=SMALL), out=folder / "run")

    class Stop(Listener):
        def step(self, report):
            if report.epoch == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit(folder / "data", Recipe.resolve(model="transe", overrides=SMALL), out=folder / "stopped", listener=Stop())
    return folder


@pytest.fixture
def work(originals, tmp_path, monkeypatch):
    """A fresh copy of them to spoil, as the current folder."""
    shutil.copytree(originals, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def train_on(content):
    """A case: train on a training file with this content."""

    def spoil():
        Path("data/train.tsv").write_bytes(content if isinstance(content, bytes) else content.encode())

    return spoil, ["train", "--data", "data", "--model", "transe", "--out", "out"]


def train_with(*arguments, file=None, content=""):
    """A case: train on good data with these arguments, perhaps with a file to point at."""

    def spoil():
        if file:
            Path(file).write_text(content)

    return spoil, ["train", "--data", "data", "--out", "out", *arguments]


def with_words(line):
    """A case: start from word vectors, the third line of which is spoilt."""
    content = f"a0 1 0 0 0\nb1 0 1 0 0\n{line}\n"
    options = ["--model", "transe", "--set", "model.dim=4", "--set", "start.words=words.txt"]
    return train_with(*options, file="words.txt", content=content)


def with_run(spoil, *arguments, run="run"):
    """A case: spoil a run and then use it."""
    return lambda: spoil(Path(run)), [
        arguments[0],
        *(["--out"] if arguments[0] == "train" else []),
        run,
        *arguments[1:],
    ]


def cut(name, size=-7):
    return lambda run: (run / name).write_bytes((run / name).read_bytes()[:size])


def replace_model(tensors=None, metadata=None):
    def spoil(run):
        model = run / "model.safetensors"
        if metadata is None:
            save_tensors(model, tensors(load_file(model)), {})
        else:
            save_file(load_file(model), model, {"capse": json.dumps(metadata)})
        write_manifest(run)

    return spoil


def flip(run):
    content = bytearray((run / "model.safetensors").read_bytes())
    content[-3] ^= 1
    (run / "model.safetensors").write_bytes(content)


ASK = ("predict", "--relation", "likes", "--head", "a0")

CASES = {
    "an empty file": (train_on(""), "data/train.tsv: no triples in it: write head, relation and tail"),
    "two columns": (train_on(GOOD + "a\tr\n"), "data/train.tsv, line 21: 2 columns instead of 3: write head"),
    "four columns": (train_on("a\tr\tb\tc\n"), "data/train.tsv, line 1: 4 columns instead of 3"),
    "a blank line": (train_on("a\tr\tb\n\nb\tr\tc\n"), "data/train.tsv, line 2: a blank line: remove it"),
    "an empty field": (train_on("a\t\tb\n"), "data/train.tsv, line 1: an empty field"),
    "an over-long line": (train_on(f"a\tr\tb\nx\tr\t{'y' * 2**21}\n"), "data/train.tsv, line 2: longer than"),
    "bad UTF-8": (train_on(b"a\tr\tb\na\tr\t\xff\xfe\n"), "data/train.tsv, line 2: not UTF-8 text: convert"),
    "no train file": ((lambda: Path("data/train.tsv").unlink(), train_on("")[1]), "data: no train file: put a file"),
    "an unknown dataset": (train_with("--data", "contries", "--model", "transe"), "did you mean 'countries'?"),
    "no data": ((lambda: None, ["train", "--model", "transe", "--out", "out"]), "no data is named: give --data"),
    "an unknown model": (train_with("--model", "transse"), "unknown model 'transse': did you mean 'transe'"),
    "an unknown recipe": (train_with("transse"), "unknown recipe 'transse': did you mean 'transe'"),
    "a model that is not the recipe's": (train_with("transe", "--model", "capse"), "are for 'transe' but"),
    "an unknown recipe key": (
        train_with("my.yaml", file="my.yaml", content="training: {epoch: 3}"),
        "unknown setting 'training.epoch': did you mean 'training.epochs'?",
    ),
    "an unknown section": (
        train_with("my.yaml", file="my.yaml", content="trainings: {}"),
        "unknown setting 'trainings': did you mean 'training'?",
    ),
    "a recipe that is no YAML": (
        train_with("my.yaml", file="my.yaml", content="model: {name: transe\n"),
        "my.yaml, line 2 is not valid YAML: check indentation",
    ),
    "an unknown option": (train_with("--set", "training.epoch=3"), "did you mean 'training.epochs'?"),
    "an option without a value": (train_with("--set", "training.epochs"), "write --set section.key=value"),
    "negative epochs": (train_with("--set", "training.epochs=-3"), "training.epochs is -3: choose 0"),
    "half an epoch": (train_with("--set", "training.epochs=0.5"), "training.epochs is 0.5: write a whole number"),
    "a learning rate that is no number": (
        train_with("--set", "training.learning_rate=nan"),
        "training.learning_rate is 'nan': write a number",
    ),
    "a model larger than the memory": (
        train_with("--model", "transe", "--set", "model.dim=1000000000"),
        "of memory, and",
    ),
    "more filters than the memory holds": (
        train_with("--model", "capse", "--set", "model.filters=1000000000"),
        "lower model.dim, or what else makes it so large",
    ),
    "a size that no number holds": (
        train_with("--model", "capse", "--set", "model.dim=100000000000000000"),
        "of memory, and",
    ),
    "more negatives than the memory holds": (
        train_with("--model", "transe", "--set", "negatives.count=1000000000000"),
        "a step with 1,000,000,000,000 negatives of each triple takes at least",
    ),
    "an enormous seed": (train_with("--set", f"training.seed={10**30}"), "training.seed is 1000000000000"),
    "an unknown metric": (
        train_with("--model", "transe", "--set", "validation.metric=mmr"),
        "validation.metric is 'mmr': name one of",
    ),
    "a device that is not there": (
        train_with("--model", "transe", "--set", "training.device=tpu"),
        "there is no device 'tpu' here: choose cpu",
    ),
    "a run to start from that is not there": (
        train_with("--model", "transe", "--set", "start.run=nowhere"),
        "there is no run in nowhere: train one",
    ),
    "two places to start from": (
        train_with("--set", "start.run=run", "--set", "start.words=words.txt"),
        "start.run and start.words are both given",
    ),
    "a start of another size": (
        train_with("--model", "transe", "--set", "start.run=run", "--set", "model.dim=9"),
        "model.dim is 9, and 4 in run: give both the same model.dim",
    ),
    "NaN in a word vector": (with_words("x 1 nan 3 4"), "words.txt, line 3: the vector of 'x' has NaN or infinity"),
    "infinity in a word vector": (with_words("x 1 inf 3 4"), "words.txt, line 3: the vector of 'x' has NaN"),
    "a short word vector": (with_words("x 1 2"), "words.txt, line 3: 2 numbers instead of 4: give a text file"),
    "a word without numbers": (with_words("x"), "words.txt, line 3: 'x' is not followed by numbers"),
    "an existing run": (
        (lambda: None, ["train", "--data", "data", "--model", "transe", "--out", "run"]),
        "there is a run in run already: continue it with --resume, or choose another --out",
    ),
    "somebody's folder": (
        (lambda: None, ["train", "--data", "data", "--model", "transe", "--out", "data"]),
        "data is not empty and not a run: choose another --out",
    ),
    "a file in place of a folder": (
        (lambda: None, ["train", "--data", "data", "--model", "transe", "--out", "data/train.tsv"]),
        "data/train.tsv is a file: choose another --out",
    ),
    "a folder below a file": (
        (lambda: None, ["train", "--data", "data", "--model", "transe", "--out", "data/train.tsv/out"]),
        "cannot write data/train.tsv/out",
    ),
    "a cut checkpoint": (
        with_run(cut("checkpoints/last.safetensors"), "train", "--resume", run="stopped"),
        "stopped/checkpoints/last.safetensors is damaged or not a capse file",
    ),
    "an empty checkpoint": (
        with_run(cut("checkpoints/last.safetensors", 0), "train", "--resume", run="stopped"),
        "delete the checkpoints folder; --resume then begins anew",
    ),
    "resuming with another seed": (
        with_run(lambda run: None, "train", "--resume", "--set", "training.seed=9", run="stopped"),
        "the run in stopped was begun with other settings in 'training': resume it with",
    ),
    "an unfinished run": (with_run(lambda run: None, "evaluate", run="stopped"), "is not finished: continue it with"),
    "no run": (with_run(lambda run: None, "evaluate", run="nowhere"), "there is no run in nowhere: train one"),
    "not a run": (with_run(lambda run: None, "evaluate", run="data"), "data is not a run: it has no recipe.yaml"),
    "a cut model": (with_run(cut("model.safetensors"), "evaluate"), "run/model.safetensors is damaged"),
    "a flipped bit": (with_run(flip, *ASK), "run/model.safetensors is damaged: it is not what was written"),
    "a model of another version": (
        with_run(replace_model(metadata={"format": FORMAT + 1}), "evaluate"),
        f"run/model.safetensors has format {FORMAT + 1}, this capse reads format {FORMAT}: train it again, or use",
    ),
    "a model of another program": (
        with_run(replace_model(metadata=[]), "evaluate"),
        "run/model.safetensors has format None",
    ),
    "a pickle": (
        with_run(lambda run: torch.save({"x": torch.ones(1)}, run / "model.safetensors"), *ASK),
        "run/model.safetensors is damaged: it is not what was written",
    ),
    "NaN in a model": (
        with_run(replace_model(lambda t: t | {"entities": t["entities"] * float("nan")}), *ASK),
        "run/model.safetensors holds NaN or infinity in 'entities': train the model again",
    ),
    "a model of another size": (
        with_run(replace_model(lambda t: t | {"entities": t["entities"][1:]}), *ASK),
        "run/model.safetensors does not fit its recipe and vocabulary",
    ),
    "a damaged vocabulary": (
        with_run(cut("vocabulary/entities.parquet"), *ASK),
        "run/vocabulary/entities.parquet is damaged: it is not what was written: restore",
    ),
    "a damaged recipe": (with_run(cut("recipe.yaml", 9), *ASK), "run/recipe.yaml"),
    "an unknown relation": (
        with_run(lambda run: None, "predict", "--relation", "like", "--head", "a0"),
        "unknown relation 'like': did you mean 'likes'?",
    ),
    "an unknown entity": (
        with_run(lambda run: None, "predict", "--relation", "likes", "--head", "a99"),
        "unknown entity 'a99': did you mean",
    ),
}


def listing(folder):
    return {path: path.stat().st_mtime_ns for path in Path(folder).rglob("*")}


@pytest.mark.parametrize("case", CASES)
def test_one_line_and_nothing_written(work, run_command, case):
    (spoil, arguments), message = CASES[case]
    spoil()
    before = listing(work)
    status, output, errors = run_command(*arguments)
    assert status == 2, errors
    (line,) = errors.splitlines()
    assert line.startswith("error: ")
    assert message in line
    assert output == ""
    assert listing(work) == before, "something was written"


def command(*arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "capse", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        **options,
    )


def test_the_same_from_a_shell(work):
    (spoil, arguments), message = CASES["two columns"]
    spoil()
    result = command(*arguments, cwd=work)
    assert (result.returncode, result.stdout) == (2, "")
    assert message in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.slow
def test_the_same_from_many_shells_at_once(work):
    """Threads that read ahead must not hold up the end of a process: on a busy machine one in five was aborted."""
    (spoil, arguments), _ = CASES["two columns"]
    spoil()
    with ThreadPoolExecutor(4) as pool:
        ended = pool.map(lambda _: command(*arguments, cwd=work).returncode, range(40))
        assert list(ended) == [2] * 40


def test_a_full_disk(work):
    """No file may grow beyond 2,000 bytes: the vocabulary fits, the graph and the checkpoints do not."""
    before = listing(work)
    result = command(
        *["train", "--data", "countries", "--model", "transe", "--out", "out"],
        cwd=work,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000)),
    )
    assert (result.returncode, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: cannot write ")
    assert "File too large" in line
    assert "free space there or choose another folder with --out" in line
    assert listing(work) == before
