"""Groups of forked processes of which one is killed, as torchrun would see it: FOLDER KILLS.

Everything is imported once, so that a training of four processes costs a second or two. Prints one JSON object.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from unittest import mock

from safetensors import safe_open
from safetensors.torch import load_file

import capse.cli.display
import capse.cli.train  # noqa: F401  the children find everything loaded
from capse.cli import main
from capse.errors import CapseError
from capse.experiments.engine import Listener, StepReport
from capse.experiments.fit import fit
from capse.graph.dataset import load_graph
from capse.runs.atomic import atomic_path
from capse.runs.folder import RunFolder
from tests.experiments.in_processes import Stop, training_of
from tests.ports import hold_port

Work = Callable[[], object]
PATIENCE = 300.0  # seconds that those who are left may take to end


class Group:
    """Forked processes that find each other as torchrun's do; each one's output and errors are a file."""

    def __init__(self, folder: Path, count: int, work: Work) -> None:
        self.held, port = hold_port()
        self.logs = [folder / f"log-{rank}" for rank in range(count)]
        self.children = [self._fork(rank, count, port, work) for rank in range(count)]

    def _fork(self, rank: int, count: int, port: int, work: Work) -> int:
        child = os.fork()
        if child:
            return child
        os.environ.update(
            {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
            | {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        )
        log = os.open(self.logs[rank], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1), os.dup2(log, 2)
        status = 1
        try:
            with mock.patch("capse.cli.wait_for_first_rank"):
                work()
            status = 0
        except SystemExit as stop:
            status = int(stop.code or 0)
        except CapseError as error:
            sys.stdout.write(f"error: {error}\n")
            sys.stdout.flush()
            status = 2
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def end(self) -> list[int]:
        """The exit statuses; as torchrun does, SIGTERM to all when one has failed."""
        statuses: dict[int, int] = {}
        until = time.monotonic() + PATIENCE
        while len(statuses) < len(self.children):
            if time.monotonic() > until:
                for rank, child in enumerate(self.children):
                    if rank not in statuses:
                        os.kill(child, signal.SIGKILL)
                raise TimeoutError(f"some of {len(self.children)} processes did not end: {statuses}")
            for rank, child in enumerate(self.children):
                if rank in statuses:
                    continue
                found, status = os.waitpid(child, os.WNOHANG)
                if found:
                    statuses[rank] = os.waitstatus_to_exitcode(status)
                    if statuses[rank]:
                        self._terminate(statuses)
            time.sleep(0.01)
        self.held.close()
        return [statuses[rank] for rank in range(len(self.children))]

    def all_live(self) -> bool:
        return all(os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None for child in self.children)

    def _terminate(self, ended: dict[int, int]) -> None:
        for rank, child in enumerate(self.children):
            if rank not in ended:
                os.kill(child, signal.SIGTERM)

    def errors(self) -> list[str]:
        return [line for log in self.logs for line in log.read_text().splitlines() if line.startswith("error: ")]


class Counting(Listener):
    """Keeps in a file how many steps a training has done."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def step(self, report: StepReport) -> None:
        done = (report.epoch - 1) * report.steps + report.step
        with atomic_path(self.file) as temporary:
            temporary.write_text(f"{done} {report.steps}")

    @staticmethod
    def counted(file: Path) -> tuple[int, int]:
        """Steps that are done, and steps of an epoch; nothing before the first."""
        if not file.exists():
            return 0, 0
        done, steps = map(int, file.read_text().split())
        return done, steps


def steps_saved(run: Path, steps: int) -> int:
    """How many steps the last checkpoint of a run knows of, where an epoch has so many."""
    last = RunFolder(run).path / "checkpoints" / "last.safetensors"
    if not last.exists():
        return 0
    with safe_open(last, "pt") as file:
        position = json.loads(file.metadata()["capse"])["position"]
    return int(position["epoch"]) * steps + int(position["step"])


def bits(run: Path) -> dict[str, bytes]:
    return {name: x.numpy().tobytes() for name, x in load_file(RunFolder(run).model).items()}


def in_training(number: int) -> bool:
    return number % 2 == 0


def killed_at_random(folder: Path, kills: int) -> dict[str, object]:
    """Trainings by 2 or 4 processes of which one is killed again and again, each time resumed by another number."""
    seed = time.time_ns()
    sys.stderr.write(f"seed {seed}\n")
    chance = random.Random(seed)
    graph, counted = load_graph("countries"), folder / "steps"
    recipe = folder / "whole" / "recipe.yaml"

    def go_on() -> None:
        fit(graph, str(recipe), out=folder / "run", resume=True, listener=Counting(counted))

    started = time.monotonic()
    assert Group(folder, 2, lambda: fit(graph, str(recipe), out=folder / "timed")).end() == [0, 0]
    duration, reached, lost, lines, done, ends = time.monotonic() - started, [], [], [], 0, 0
    while done < kills:
        before = Counting.counted(counted)
        group = Group(folder, count := chance.choice((2, 4)), go_on)
        victim = chance.randrange(count)
        while in_training(done) and Counting.counted(counted) == before and group.all_live():
            time.sleep(0.01)  # every other kill comes once it trains
        time.sleep(chance.uniform(0, duration / 4))
        os.kill(group.children[victim], signal.SIGKILL)
        statuses = group.end()
        if 0 in statuses:  # it was faster
            ends += 1
            assert bits(folder / "run") == bits(folder / "whole"), "after an end"
            shutil.rmtree(folder / "run")
            counted.unlink()
            continue
        assert statuses[victim] == -signal.SIGKILL, statuses
        done += 1
        did, steps = Counting.counted(counted)
        reached.append(did)
        lost.append(did - steps_saved(folder / "run", steps))
        lines += [(victim, line) for line in group.errors()]
    assert Group(folder, 1, go_on).end() == [0], (folder / "log-0").read_text()
    assert bits(folder / "run") == bits(folder / "whole")
    assert not list((folder / "run").rglob("*.part"))
    return {"kills": done, "ends": ends, "reached": reached, "lost": lost, "lines": lines}


def resumed_by_others(folder: Path) -> dict[str, bool]:
    """What four processes began, ended by 1, 2 and 8."""
    graph, recipe = load_graph("countries"), folder / "whole" / "recipe.yaml"

    def begin() -> None:
        fit(graph, str(recipe), out=folder / "begun", listener=Stop(2, 1))

    assert Group(folder, 4, begin).end() == [0] * 4, [log.read_text() for log in folder.glob("log-*")]
    found = {}
    for count in (1, 2, 8):
        run = shutil.copytree(folder / "begun", folder / f"ended-by-{count}")

        def go_on(run: Path = run) -> None:
            fit(graph, out=run, resume=True)

        assert Group(folder, count, go_on).end() == [0] * count, [log.read_text() for log in folder.glob("log-*")]
        found[str(count)] = bits(run) == bits(folder / "whole")
    return found


def train_whole(folder: Path) -> None:
    """The run that all others must end as: by one process, which would share its table if there were more."""
    arguments = training_of("complex", folder / "whole", **SETTINGS)
    assert Group(folder, 1, lambda: main(arguments)).end() == [0], (folder / "log-0").read_text()


SETTINGS: dict[str, object] = {
    "training.parallel": "rows",
    "training.checkpoint_seconds": 0,
    "training.batch_size": 300,
    "training.wait_seconds": 120,
}


def run(arguments: Sequence[str]) -> dict[str, object]:
    folder, kills = Path(arguments[0]), int(arguments[1])
    train_whole(folder)
    return {"resumed": resumed_by_others(folder), **killed_at_random(folder, kills)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(run(sys.argv[1:])) + "\n")
