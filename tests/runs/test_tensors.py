"""Tensor files: what was written comes back bit by bit, anything else is refused, and nothing is executed."""

from __future__ import annotations

import errno
import json
import pickle
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save_file

from capse.arrays import array_on_disk
from capse.errors import RunError, StorageError
from capse.runs.tensors import FORMAT, load_tensors, save_tensors

REMEDY = "train it again"


def example():
    generator = torch.Generator().manual_seed(0)
    return {
        "weights": torch.randn(7, 3, generator=generator),
        "half": torch.randn(5, generator=generator).bfloat16(),
        "count": torch.tensor(41),
        "transposed": torch.randn(4, 2, generator=generator).T,
        "none": torch.empty(0, 3),
    }


@pytest.fixture
def path(tmp_path):
    save_tensors(tmp_path / "a.safetensors", example(), {"position": {"epoch": 3, "loss": 0.1}})
    return tmp_path / "a.safetensors"


def refused(path):
    with pytest.raises(RunError) as error:
        load_tensors(path, REMEDY)
    assert str(path) in str(error.value)
    assert error.value.remedy
    assert "\n" not in str(error.value)
    return str(error.value)


def test_tensors_and_metadata_come_back(path):
    tensors, metadata = load_tensors(path, REMEDY)
    assert metadata == {"position": {"epoch": 3, "loss": 0.1}}
    assert sorted(tensors) == sorted(example())
    for name, tensor in example().items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name], tensor)


def test_the_same_tensors_make_the_same_bytes(path, tmp_path):
    shuffled = dict(reversed(example().items()))
    save_tensors(tmp_path / "b", shuffled, {"position": {"loss": 0.1, "epoch": 3}})
    assert (tmp_path / "b").read_bytes() == path.read_bytes()


def test_a_missing_file(tmp_path):
    assert "is missing: train it again" in refused(tmp_path / "no")
    (tmp_path / "folder").mkdir()
    assert "is missing: train it again" in refused(tmp_path / "folder")


def test_every_cut_is_noticed(path):
    whole = path.read_bytes()
    for size in {0, 1, 7, 8, 9, 100, *range(0, len(whole), 37), len(whole) - 1}:
        path.write_bytes(whole[:size])
        assert "damaged or not a capse file" in refused(path)
    path.write_bytes(whole + b"x")
    refused(path)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("tensors") / "a.safetensors"
    save_tensors(path, example(), {"position": {"epoch": 3, "loss": 0.1}})
    return path, path.read_bytes()


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_every_flipped_bit_is_noticed(whole, data):
    """In the header, in the metadata and in the numbers; a flip that changes nothing (white space) may pass."""
    path, content = whole
    place = data.draw(st.integers(0, len(content) - 1))
    flipped = bytearray(content)
    flipped[place] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(flipped)
    try:
        tensors, metadata = load_tensors(path, REMEDY)
    except RunError:
        return
    assert metadata == {"position": {"epoch": 3, "loss": 0.1}}
    assert all(torch.equal(tensors[name], tensor) for name, tensor in example().items())
    assert len(tensors) == len(example())


def test_every_flipped_bit_of_the_numbers_is_noticed(whole):
    path, content = whole
    start = 8 + int.from_bytes(content[:8], "little")
    for place in range(start, len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        assert "damaged" in refused(path)


def test_another_format_version(tmp_path):
    path = tmp_path / "a"
    save_file(example() | {"transposed": torch.ones(1)}, path, {"capse": json.dumps({"format": FORMAT + 1})})
    message = refused(path)
    assert f"has format {FORMAT + 1}, this capse reads format {FORMAT}" in message
    assert "train it again, or use the version of capse that wrote it" in message


@pytest.mark.parametrize("header", [None, {}, {"other": "x"}, {"capse": "{"}, {"capse": "[1]"}, {"capse": "null"}])
def test_somebody_elses_safetensors(tmp_path, header):
    save_file({"x": torch.ones(2)}, tmp_path / "a", header)
    assert "was not written by capse" in refused(tmp_path / "a")


def test_tensors_without_their_checksum(tmp_path):
    save_file({"x": torch.ones(2)}, tmp_path / "a", {"capse": json.dumps({"format": FORMAT})})
    assert "damaged" in refused(tmp_path / "a")


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_nan_and_infinity_are_refused(tmp_path, bad):
    save_tensors(tmp_path / "a", {"fine": torch.ones(3), "entities": torch.tensor([1.0, bad])}, {})
    assert "holds NaN or infinity in 'entities': train it again" in refused(tmp_path / "a")


class Owned:
    def __reduce__(self):
        return (Path("owned").touch, ())


@pytest.mark.parametrize("how", ["pickle", "torch", "zip", "text"])
def test_a_pickle_is_refused_and_never_executed(tmp_path, monkeypatch, how):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.safetensors"
    if how == "pickle":
        path.write_bytes(pickle.dumps(Owned()))
    elif how == "torch":
        torch.save({"x": torch.ones(2), "y": Owned()}, path)
    elif how == "zip":
        path.write_bytes(b"PK\x03\x04" + pickle.dumps(Owned()))
    else:
        path.write_text("weights: 1\n")
    assert "damaged or not a capse file" in refused(path)
    assert not (tmp_path / "owned").exists()


def test_a_full_disk_keeps_the_old_file(path, monkeypatch):
    before = path.read_bytes()

    def full(piece):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("capse.runs.tensors._bytes_of", full)
    with pytest.raises(StorageError, match="No space left on device"):
        save_tensors(path, {"x": torch.ones(9)}, {})
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]


def test_a_table_for_which_no_disk_has_room_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "missing")])
    with pytest.raises(StorageError, match="No usable temporary directory") as error:
        array_on_disk((3, 2), "f4")
    assert "TMPDIR" in error.value.remedy
