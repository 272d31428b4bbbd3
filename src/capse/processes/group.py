"""The processes that work on one result, and what they say to each other.

Started by ``torchrun``, which tells each its number; a process that was started alone is a group of one, to which all
of this costs nothing. Tensors go by nccl between GPUs and by gloo otherwise; gloo gets what lies on a GPU by way of the
CPU.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import torch
from torch import Tensor, distributed

from capse.errors import ProcessError
from capse.processes.job import is_started_together, rank_in_job, size_of_job

LIMIT = 300.0  # seconds that a process waits for the others where nothing else is said
_SECONDS_TO_REPORT = 5.0  # that those who are left have to say so when one is gone


class Group:
    """One of ``size`` processes, number ``rank``; without a group of torch's it is the only one."""

    def __init__(self, rank: int = 0, size: int = 1, limit: float = LIMIT, *, has_nccl: bool = False) -> None:
        self.rank, self.size, self.limit, self.has_nccl = rank, size, limit, has_nccl
        self.sent = 0  # bytes, so far, to other processes
        self.told_to_stop = False  # by a signal, which waits for a moment at which all can stop

    @property
    def leads(self) -> bool:
        """Whether this is the process that speaks and writes for all."""
        return self.rank == 0

    def device(self, chosen: torch.device) -> torch.device:
        """This process's own device where a kind is chosen: of several GPUs, the one of its number on the machine."""
        if chosen != torch.device("cuda") or self.size == 1:
            return chosen
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())

    def gather(self, tensor: Tensor) -> list[Tensor]:
        """Everybody's tensor (n, ...), in the order of processes; only n may differ."""
        if self.size == 1:
            return [tensor]
        lengths = [int(n) for n in self._gather_alike(torch.tensor([len(tensor)]))]
        padded = tensor.new_zeros(max(lengths), *tensor.shape[1:])
        padded[: len(tensor)] = tensor
        return [found[:length] for found, length in zip(self._gather_alike(padded), lengths, strict=True)]

    def exchange(self, pieces: Sequence[Tensor]) -> list[Tensor]:
        """Gives ``pieces[p]`` (n, ...) to process p, and returns what each process gave to this one."""
        if self.size == 1:
            return list(pieces)
        lengths = torch.tensor([len(piece) for piece in pieces])
        others = torch.empty_like(lengths)
        with self._watched():
            distributed.all_to_all_single(others, lengths)
        given = self._staged(torch.cat(list(pieces)))
        received = given.new_empty(int(others.sum()), *given.shape[1:])
        with self._watched():
            distributed.all_to_all_single(received, given, others.tolist(), lengths.tolist())
        self.sent += (len(given) - len(pieces[self.rank])) * _bytes_of_row(given)
        return list(received.to(pieces[0].device).split(others.tolist()))

    def most(self, *numbers: int) -> list[int]:
        """The largest that any process says, of each of these numbers."""
        if self.size == 1:
            return list(numbers)
        said = torch.tensor(numbers)
        with self._watched():
            distributed.all_reduce(said, distributed.ReduceOp.MAX)
        found: list[int] = said.tolist()
        return found

    @contextmanager
    def stopping_together(self) -> Iterator[None]:
        """Within it Ctrl-C is kept in ``told_to_stop``, for a moment at which all can stop."""
        with self._kept(signal.SIGINT) if self.size > 1 else contextlib.nullcontext():
            yield

    @contextmanager
    def _kept(self, number: signal.Signals) -> Iterator[None]:
        """Within it that signal sets ``told_to_stop`` and does nothing else."""
        if threading.current_thread() is not threading.main_thread():
            yield  # only the main thread gets signals
            return

        def keep(number: int, frame: object) -> None:
            self.told_to_stop = True

        previous = signal.signal(number, keep)
        try:
            yield
        finally:
            signal.signal(number, previous)

    def total(self, tensor: Tensor) -> Tensor:
        """The sum of everybody's tensors, all of one shape; exact for integers."""
        if self.size == 1:
            return tensor
        given = self._staged(tensor.clone())
        with self._watched():
            distributed.all_reduce(given)
        return given.to(tensor.device)

    def wait(self) -> None:
        """Until every process has come here."""
        self.most(0)

    def _gather_alike(self, tensor: Tensor) -> list[Tensor]:
        given = self._staged(tensor.contiguous())
        found = [torch.empty_like(given) for _ in range(self.size)]
        with self._watched():
            distributed.all_gather(found, given)
        self.sent += (self.size - 1) * len(given) * _bytes_of_row(given)
        return [part.to(tensor.device) for part in found]

    def _staged(self, tensor: Tensor) -> Tensor:
        """A tensor where its collective can be done."""
        return tensor if self.has_nccl else tensor.cpu()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """A clear error where somebody is gone or does not answer."""
        started = time.monotonic()
        try:
            yield
        except RuntimeError as error:
            waited = time.monotonic() - started
            gone = self._missing()
            who = f"process {', '.join(map(str, gone))}" if gone else "another process"
            what, remedy = f"lost {who}", "what was saved is whole: go on with --resume"
            if waited >= 0.9 * self.limit:
                what, remedy = f"waited {waited:,.0f} s in vain for {who}", f"{remedy}, or raise training.wait_seconds"
            speaks = self.rank == next(rank for rank in range(self.size) if rank not in gone)
            raise ProcessError(f"process {self.rank} of {self.size} {what}", remedy, speaks=speaks) from error

    def _missing(self) -> list[int]:
        """Those who do not report now."""
        store = distributed.distributed_c10d._get_default_store()
        mark = "capse/left/{}".format
        gone = [rank for rank in range(self.size) if rank != self.rank]
        with contextlib.suppress(RuntimeError):
            store.set(mark(self.rank), "here")
            until = time.monotonic() + _SECONDS_TO_REPORT
            while gone and time.monotonic() < until:
                gone = [rank for rank in gone if not store.check([mark(rank)])]
                time.sleep(0.05)
            return gone
        return []  # nobody can be asked


def _bytes_of_row(tensor: Tensor) -> int:
    return tensor.element_size() * (tensor[0].numel() if len(tensor) else 0)


def _has_gpu_of_its_own() -> bool:
    """Whether no two processes of this machine would share a GPU, which nccl refuses."""
    return 0 < int(os.environ.get("LOCAL_WORLD_SIZE", "1")) <= torch.cuda.device_count()


_joined: Group | None = None  # the one that this process is in


@contextmanager
def joined(limit: float = LIMIT) -> Iterator[Group]:
    """The group that torchrun started this process in; left at the end, however that comes.

    Within another such block it is that block's group. torchrun sends SIGTERM to all that are left when a process has
    died; that ends nobody here, so that they can say who is missing.
    """
    global _joined
    if _joined is not None or not is_started_together() or size_of_job() == 1:
        yield _joined or Group()
        return
    group = _join(limit)
    _joined = group
    try:
        with group._kept(signal.SIGTERM):
            yield group
    finally:
        _joined = None
        distributed.destroy_process_group()


def _join(limit: float) -> Group:
    rank, size = rank_in_job(), size_of_job()
    has_nccl = distributed.is_nccl_available() and _has_gpu_of_its_own()
    try:
        distributed.init_process_group("cpu:gloo,cuda:nccl" if has_nccl else "gloo", timeout=timedelta(seconds=limit))
    except (RuntimeError, ValueError) as error:
        place = f"{os.environ.get('MASTER_ADDR')}:{os.environ.get('MASTER_PORT')}"
        raise ProcessError(
            f"process {rank} of {size} cannot reach the others at {place} within {limit:g} s",
            "check torchrun's --rdzv-endpoint or --master-addr, and that every node was started",
        ) from error
    return Group(rank, size, limit, has_nccl=has_nccl)
