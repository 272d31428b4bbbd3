"""Checkpoints: what was packed is what is unpacked, and nothing else's."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest
import torch
from torch import nn

from capse.errors import RunError
from capse.processes.group import Group
from capse.runs.tensors import save_tensors
from capse.training.checkpoints import Checkpoints, Position, RowsHere, pack, unpack


def parts(seed: int, steps: int = 2) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A module and its optimiser after some steps."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(4, 3)).square().sum().backward()
        optimizer.step()
    return model, optimizer


def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> torch.Tensor:
    optimizer.zero_grad()
    model(torch.arange(12.0).reshape(4, 3)).pow(3).sum().backward()
    optimizer.step()
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])


def test_a_step_after_unpacking_is_the_step_that_would_have_come(tmp_path: Path) -> None:
    model, optimizer = parts(seed=0)
    checkpoints = Checkpoints(tmp_path / "checkpoints", "x")
    assert not checkpoints.exists
    position = Position(epoch=3, step=2, loss=1.5, seconds=7.0, best_value=0.25, best_epoch=2, checks_without_gain=1)
    checkpoints.save(pack({"model": model, "optimizer": optimizer}), position)
    assert checkpoints.exists

    again, its_optimizer = parts(seed=1, steps=0)
    tensors, found = checkpoints.load()
    unpack({"model": again, "optimizer": its_optimizer}, tensors)
    assert found == position
    assert torch.equal(step(again, its_optimizer), step(model, optimizer))


def test_each_part_gets_its_own() -> None:
    model, optimizer = parts(seed=0)
    packed = {name: value.clone() for name, value in pack({"model": model, "model_2": optimizer}).items()}
    assert {name for name in packed if name.startswith("model.")} == {f"model.{name}" for name in model.state_dict()}
    assert {f"model_2.{n}.{key}" for n in range(4) for key in ("step", "exp_avg", "exp_avg_sq")} <= set(packed)
    again, its_optimizer = parts(seed=1, steps=0)
    unpack({"model": again, "model_2": its_optimizer}, packed)
    assert torch.equal(step(again, its_optimizer), step(model, optimizer))


def test_momentum_that_is_not_there_is_left_out() -> None:
    """SGD without momentum keeps None, which no file holds."""
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    assert set(pack({"optimizer": optimizer})) == set()


def test_a_training_begins_with_nothing_behind_it() -> None:
    assert Position() == Position(0, 0, 0.0, 0.0, None, 0, 0)


def test_the_best_weights_are_kept_apart(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, "x")
    checkpoints.save({"model.w": torch.zeros(2)}, Position())
    checkpoints.save_best({"w": torch.ones(2)})
    assert checkpoints.load_best()["w"].tolist() == [1, 1]
    assert checkpoints.load()[0]["model.w"].tolist() == [0, 0]


def test_what_cannot_be_resumed_is_said(tmp_path: Path) -> None:
    Checkpoints(tmp_path, "x").save({"model.w": torch.zeros(2)}, Position())
    other = Checkpoints(tmp_path, "y")
    with pytest.raises(RunError, match="belongs to other data or other settings: resume with the same recipe"):
        other.load()
    for metadata in ({}, {"position": {"epochs": 3}}, {"position": None}):
        save_tensors(other.last, {"model.w": torch.zeros(2)}, {"fingerprint": "y", **json.loads(json.dumps(metadata))})
        with pytest.raises(RunError, match="does not say how far the training had come: delete the checkpoints"):
            other.load()
    for error in (RuntimeError("size mismatch"), KeyError("w")):
        with pytest.raises(RunError, match="does not fit this model: delete the checkpoints"), other.must_fit():
            raise error


TABLE = torch.arange(10.0).reshape(5, 2)
ENTITIES = frozenset({"model.entities"})


class Played(Group):
    """A process of several, played by a thread."""

    def __init__(self, rank: int, others: Barrier) -> None:
        super().__init__(rank, others.parties)
        self.others, self.saves, self.waits = others, 0, 0

    def most(self, *numbers: int) -> list[int]:
        self.others.wait(60)
        self.saves += 1
        return [self.saves]

    def wait(self) -> None:
        self.waits += 1
        self.others.wait(60)


def rows_of(tensors: dict[str, torch.Tensor], own: range) -> dict[str, torch.Tensor]:
    return {name: x[own.start : own.stop] if name in ENTITIES else x for name, x in tensors.items()}


def shared(folder: Path, own: range, group: Group | None = None) -> Checkpoints:
    checkpoints = Checkpoints(folder, "x", group)
    checkpoints.rows = RowsHere(ENTITIES, own)
    return checkpoints


def test_each_process_writes_its_rows_and_any_number_goes_on_from_them(tmp_path: Path) -> None:
    meeting, shares = Barrier(2), (range(2), range(2, 5))
    groups = [Played(rank, meeting) for rank in range(2)]
    both = [shared(tmp_path, own, group) for own, group in zip(shares, groups, strict=True)]
    for epoch in (1, 2):
        state = {"model.entities": TABLE + epoch, "model.w": torch.full((1,), float(epoch))}
        with ThreadPoolExecutor(2) as pool:
            parts = [rows_of(state, own) for own in shares]
            list(pool.map(Checkpoints.save, both, parts, [Position(epoch=epoch)] * 2))
    of_the_second = {"last.safetensors", "last-2-0.safetensors", "last-2-1.safetensors"}
    assert {file.name for file in tmp_path.iterdir()} == of_the_second
    assert [group.waits for group in groups] == [2, 2], "the first looks before all have written"
    readers = list(zip(both, shares, strict=True))
    readers += [(shared(tmp_path, range(1, 4)), range(1, 4)), (Checkpoints(tmp_path, "x"), range(5))]
    for one, own in readers:
        tensors, position = one.load()
        assert position == Position(epoch=2)
        assert tensors.keys() == state.keys()
        assert all(torch.equal(tensors[name], part) for name, part in rows_of(state, own).items())
    Checkpoints(tmp_path, "x").save(state, Position(epoch=3))
    assert [file.name for file in tmp_path.iterdir()] == ["last.safetensors"], "one process goes on, and has all rows"


def test_a_share_of_what_one_process_wrote(tmp_path: Path) -> None:
    state = {"model.entities": TABLE, "model.w": torch.ones(3)}
    Checkpoints(tmp_path, "x").save(state, Position())
    tensors, _ = shared(tmp_path, range(1, 3)).load()
    assert torch.equal(tensors["model.entities"], TABLE[1:3])
    assert torch.equal(tensors["model.w"], torch.ones(3))


def test_a_file_of_rows_that_is_gone_is_named(tmp_path: Path) -> None:
    meeting = Barrier(2)
    both = [shared(tmp_path, own, Played(rank, meeting)) for rank, own in enumerate((range(2), range(2, 5)))]
    with ThreadPoolExecutor(2) as pool:
        list(
            pool.map(
                Checkpoints.save, both, [{"model.entities": TABLE[:2]}, {"model.entities": TABLE[2:]}], [Position()] * 2
            )
        )
    (gone,) = tmp_path.glob("last-*-1.safetensors")
    gone.unlink()
    with pytest.raises(RunError, match=rf"{gone.name} is missing: delete the checkpoints folder") as raised:
        Checkpoints(tmp_path, "x").load()
    assert "\n" not in str(raised.value)


def test_rows_that_the_first_process_does_not_see_are_named(tmp_path: Path) -> None:
    class Alone(Played):
        def wait(self) -> None:
            pass

    alone = Alone(0, Barrier(1))
    alone.size = 2
    with pytest.raises(RunError, match=r"process 0 does not see last-1-1\.safetensors"):
        shared(tmp_path, range(2), alone).save({"model.entities": TABLE[:2]}, Position())
    assert not (tmp_path / "last.safetensors").exists()
