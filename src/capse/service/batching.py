"""Questions of many requests, scored in one call: continuous batching.

One thread scores. While it is busy, questions wait; the next call takes as many as a batch may have, of every
waiting request in turn, so that a request of hundreds does not keep a request of one waiting. A question that finds the
thread idle waits a moment for others.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from capse.graph.link_prediction.completion import Completions, Query, complete
from capse.graph.link_prediction.predictor import LinkPredictor
from capse.kernels.frozen import frozen
from capse.service.limits import MAX_WAITING
from capse.service.problems import Problem

BATCH = 64  # questions in one call, at most

Answered = Callable[[int, int, float], None]  # questions, requests they came from, seconds


@dataclass(eq=False)
class _Request:
    predictor: LinkPredictor
    questions: Sequence[Query]
    arrived: float
    future: Future[list[Completions]]
    taken: int = 0  # questions that are in a batch already
    answers: dict[int, Completions] = field(default_factory=dict)


class Batcher:
    """Gathers questions, and answers them in a thread of its own."""

    def __init__(self, window: float, answered: Answered = lambda questions, requests, seconds: None) -> None:
        self.window = window  # seconds that the first question of a batch waits for others
        self.answered = answered
        self._waiting: deque[_Request] = deque()
        self._questions = 0
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="capse-batcher", daemon=True)
        self._thread.start()

    def ask(self, predictor: LinkPredictor, questions: Sequence[Query]) -> Future[list[Completions]]:
        """The answers to come; a Problem where too many questions wait already."""
        request = _Request(predictor, questions, time.monotonic(), Future())
        with self._changed:
            if self._stopped or self._questions + len(questions) > MAX_WAITING:
                raise Problem(
                    "overloaded",
                    "too many questions are waiting",
                    "ask again after a second, or fewer at a time",
                    {"Retry-After": "1"},
                )
            self._questions += len(questions)
            self._waiting.append(request)
            self._changed.notify()
        return request.future

    def stop(self) -> None:
        """Answer what waits, then end the thread."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while batch := self._gather():
            started = time.monotonic()
            self._answer(batch)
            self.answered(len(batch), len({id(request) for request, _ in batch}), time.monotonic() - started)

    def _gather(self) -> list[tuple[_Request, int]]:
        """The next batch, of one model: requests and places of questions in them. Empty when all is done."""
        with self._changed:
            while not self._waiting and not self._stopped:
                self._changed.wait()
            if not self._waiting:
                return []
            until = self._waiting[0].arrived + self.window
            while self._questions < BATCH and not self._stopped and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)
            return self._take()

    def _take(self) -> list[tuple[_Request, int]]:
        predictor = self._waiting[0].predictor
        turn = deque(request for request in self._waiting if request.predictor is predictor)
        batch: list[tuple[_Request, int]] = []
        while turn and len(batch) < BATCH:
            request = turn.popleft()
            batch.append((request, request.taken))
            request.taken += 1
            if request.taken < len(request.questions):
                turn.append(request)
        self._questions -= len(batch)
        self._waiting = deque(request for request in self._waiting if request.taken < len(request.questions))
        return batch

    def _answer(self, batch: list[tuple[_Request, int]]) -> None:
        requests = {id(request): request for request, _ in batch}
        try:
            with frozen():
                found = complete(batch[0][0].predictor, [request.questions[place] for request, place in batch])
        except Exception as error:
            if len(requests) == 1:
                self._fail(batch[0][0], error)
                return
            for one in requests.values():  # nobody's question may spoil another's answer
                self._answer([(request, place) for request, place in batch if request is one])
            return
        for (request, place), answers in zip(batch, found, strict=True):
            request.answers[place] = answers
            if len(request.answers) == len(request.questions):
                request.future.set_result([request.answers[i] for i in range(len(request.questions))])

    def _fail(self, request: _Request, error: Exception) -> None:
        with self._changed:
            if request in self._waiting:
                self._waiting.remove(request)
                self._questions -= len(request.questions) - request.taken
        request.future.set_exception(error)
