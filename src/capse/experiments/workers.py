"""Trials at work: in this process, or several at a time in processes of their own.

A process gets trials as lines of JSON on its standard input and answers with lines of JSON. It has a process group of
its own, so that Ctrl-C reaches the study only, which then asks every process to stop once; and it ends at once when
its input does, because then the study was killed.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import IO, Any, Literal

from capse.errors import CapseError, StorageError
from capse.experiments.engine import Listener, StepReport
from capse.experiments.fit import fit
from capse.experiments.grid import Trial
from capse.experiments.recipe import Recipe
from capse.experiments.study import StudyFolder
from capse.graph.dataset import Graph
from capse.runs.atomic import write_text

Claim = Callable[[], Trial | None]
Progress = Callable[[Trial, float], None]  # a share of the trial from 0 to 1
End = Literal["trained", "found", "elsewhere"]  # found: it had ended already; elsewhere: another process is at it
Ended = Callable[[Trial, End], None]

_REPORT_SECONDS = 0.5
_GRACE_SECONDS = 60.0  # for the checkpoint of a process that was asked to stop
_LONGEST_MESSAGE = 500  # characters


def train_here(study: StudyFolder, graph: Graph, claim: Claim, progress: Progress, ended: Ended) -> None:
    """Train one trial after the other in this process."""
    while trial := claim():
        ended(trial, train_trial(study, graph, trial, partial(progress, trial)))


def train_trial(study: StudyFolder, graph: Graph, trial: Trial, progress: Callable[[float], None]) -> End:
    """Train a trial to its end and leave a run, or a file that says why not."""
    run = study.run(trial.number)
    with study.at_work(trial.number) as held:
        if not held:
            return "elsewhere"
        if run.results.is_file():
            return "found"
        attempt(study, graph, trial, _Share(trial, progress))
    return "trained"


def attempt(study: StudyFolder, graph: Graph, trial: Trial, listener: Listener) -> None:
    """Train a trial, or go on with it; what goes wrong is left in its file."""
    error = study.error(trial.number)
    error.unlink(missing_ok=True)
    try:
        fit(graph, trial.recipe, out=study.run(trial.number).path, resume=True, listener=listener)
    except StorageError:  # it would befall every trial
        raise
    except Exception as problem:
        said = str(problem) if isinstance(problem, CapseError) else repr(problem)
        write_text(error, " ".join(said.split())[:_LONGEST_MESSAGE] + "\n")
    _free_gpu_memory()


def train_in_processes(
    study: StudyFolder, name: str, jobs: int, claim: Claim, progress: Progress, ended: Ended
) -> None:
    """Train up to ``jobs`` trials at a time, each in a process of its own; on any error all stop, with a checkpoint."""
    pool = _Pool(study, name, jobs, claim, progress, ended)
    try:
        for _ in range(jobs):
            pool.begin()
        while any(worker.trial for worker in pool.workers):
            pool.take(*pool.events.get())
    finally:
        pool.stop()


@dataclass
class _Pool:
    """The processes of a study."""

    study: StudyFolder
    name: str
    jobs: int
    claim: Claim
    progress: Progress
    ended: Ended
    events: queue.Queue[tuple[_Worker, dict[str, Any] | None]] = field(default_factory=queue.Queue)
    workers: list[_Worker] = field(default_factory=list)

    def begin(self, worker: _Worker | None = None) -> None:
        """Give ``worker``, or a new one, the next trial; without one it ends."""
        trial = self.claim()
        if trial is not None:
            if worker is None:
                worker = _Worker(self.study, self.name, self.jobs, self.events)
                self.workers.append(worker)
            worker.train(trial)
        elif worker is not None:
            worker.trial = None
            worker.stop()

    def take(self, worker: _Worker, event: dict[str, Any] | None) -> None:
        """What ``worker`` says of its trial; None is its end."""
        trial = worker.trial
        if trial is None:
            return
        if event is None:
            self.workers.remove(worker)
            worker.close(time.monotonic() + _GRACE_SECONDS)
            write_text(self.study.error(trial.number), f"its process ended with {worker.status()}\n")
            self.ended(trial, "trained")
            self.begin()
        elif "share" in event:
            self.progress(trial, event["share"])
        elif "storage" in event:
            raise StorageError(event["storage"])
        elif "end" in event:
            self.ended(trial, event["end"])
            self.begin(worker)
        else:
            worker.ready = True

    def stop(self) -> None:
        for worker in self.workers:
            worker.stop()
        deadline = time.monotonic() + _GRACE_SECONDS
        for worker in self.workers:
            worker.close(deadline)


class _Worker:
    """A process that trains, seen from the study."""

    def __init__(self, study: StudyFolder, name: str, jobs: int, events: queue.Queue[Any]) -> None:
        self.trial: Trial | None = None
        self.ready = False
        self.process = subprocess.Popen(
            [sys.executable, "-m", "capse.experiments.workers"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,
        )
        self.listener = threading.Thread(target=self._listen, args=(self.process.stdout, events), daemon=True)
        self.listener.start()
        threads = [max(1, count // jobs) for count in _threads()]
        self._send({"study": str(study.path.resolve()), "name": name, "threads": threads, "arguments": sys.argv})

    def train(self, trial: Trial) -> None:
        self.trial = trial
        self._send({"trial": trial.number, "settings": trial.settings, "recipe": trial.recipe.to_mapping()})

    def status(self) -> str:
        code = self.process.wait()
        return f"signal {-code}" if code < 0 else f"status {code}"

    def stop(self) -> None:
        """Ask for a checkpoint and an end; what has not begun, or waits, has nothing to keep."""
        if self.ready and self.trial is not None:
            self.process.send_signal(signal.SIGINT)
        else:
            self.process.kill()

    def close(self, deadline: float) -> None:
        """Wait for the end, but not for ever; a second Ctrl-C does not wait."""
        try:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(max(0.0, deadline - time.monotonic()))
        finally:
            self.process.kill()
            self.process.wait()
            self.listener.join(1)  # it closes the pipe that it reads
            with suppress(BrokenPipeError):  # what was not sent to one that has died
                assert self.process.stdin is not None
                self.process.stdin.close()

    def _send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # it has died, and the listener says so
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()

    def _listen(self, answers: IO[str], events: queue.Queue[Any]) -> None:
        with answers, suppress(ValueError):  # a line that a kill has cut
            for line in answers:
                events.put((self, json.loads(line)))
        events.put((self, None))


class _Share(Listener):
    """Says how much of a trial is done, now and then."""

    def __init__(self, trial: Trial, progress: Callable[[float], None]) -> None:
        self.epochs = trial.recipe.training.epochs
        self.progress = progress
        self.said = 0.0

    def step(self, report: StepReport) -> None:
        if time.monotonic() - self.said >= _REPORT_SECONDS:
            self.said = time.monotonic()
            self.progress((report.epoch - 1 + report.step / report.steps) / self.epochs)


def _threads() -> tuple[int, int]:
    import numba
    import torch

    return torch.get_num_threads(), numba.get_num_threads()


def _free_gpu_memory() -> None:
    """What this process keeps for its next trial is missing in the others."""
    import torch

    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def main() -> None:
    """The process: train what standard input says, one after the other."""
    # In the background of a shell SIGINT is ignored, and children inherit that; here it is how the study says stop.
    signal.signal(signal.SIGINT, signal.default_int_handler)

    import numba
    import torch

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever else is printed must not get between the answers
    orders: queue.Queue[dict[str, Any]] = queue.Queue()

    def listen() -> None:
        for line in sys.stdin:
            orders.put(json.loads(line))
        os._exit(1)  # the study has gone

    def answer(**message: Any) -> None:
        answers.write(json.dumps(message) + "\n")
        answers.flush()

    threading.Thread(target=listen, daemon=True).start()
    first = orders.get()
    sys.argv = first["arguments"]  # they are recorded as the command that made the run
    torch.set_num_threads(first["threads"][0])
    numba.set_num_threads(first["threads"][1])
    study = StudyFolder(first["study"])
    graph = study.load_graph(first["name"])
    answer(ready=True)
    while True:
        order = orders.get()
        trial = Trial(order["trial"], order["settings"], Recipe.from_mapping(order["recipe"]))
        try:
            answer(end=train_trial(study, graph, trial, lambda share: answer(share=share)))
        except StorageError as error:
            answer(storage=str(error))


if __name__ == "__main__":
    try:
        main()
    except (KeyboardInterrupt, BrokenPipeError):
        os._exit(130)
    except BaseException:
        traceback.print_exc()
        os._exit(1)  # an ordinary exit would wait for the thread that listens
