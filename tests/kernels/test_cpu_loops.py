"""The parts that the compiled kernel is made of."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numba import njit

from capse.kernels.cpu import batch, columns, gradient, loops
from capse.kernels.cpu.columns import sort_columns
from capse.kernels.cpu.lanes import next_up
from capse.kernels.cpu.pieces import piece_buffers, sort_pieces
from capse.kernels.cpu.sorting import argsort
from capse.kernels.cpu.sweep import _sweep_share
from capse.kernels.threads import _pool, in_threads

floats = {np.float32: st.floats(width=32, allow_nan=False), np.float64: st.floats(allow_nan=False)}
types = pytest.mark.parametrize("dtype", [np.float32, np.float64])


@types
@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_argsort(dtype, data):
    numbers = data.draw(arrays.arrays(dtype, st.integers(0, 200), elements=floats[dtype]))
    order = np.empty(len(numbers), np.int64)
    argsort(numbers, order, *np.empty((2, len(numbers)), np.uint64))
    assert sorted(order) == list(range(len(numbers)))
    assert (numbers[order] == np.sort(numbers)).all()


@njit
def next_up_of(number):
    return next_up(number)


@types
@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_next_up(dtype, data):
    number = dtype(data.draw(floats[dtype].filter(lambda number: number != np.inf)))
    with np.errstate(all="ignore"):
        assert next_up_of(number) == np.nextafter(number, dtype(np.inf))


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_keys_say_exactly_when_a_filter_is_on(data):
    """relu(a + w x) is on from its key on if w > 0, and up to its key if w < 0, breakpoints themselves being off."""
    count = data.draw(st.integers(1, 8))
    some = st.sampled_from([-3.0, -1.5, -1.0, -0.1, -1e-30, 1e-30, 0.1, 1 / 3, 1.0, 2.0, 1e30])
    w = np.array(data.draw(st.lists(some, min_size=count, max_size=count)), np.float32).astype(np.float64)
    a = np.array(data.draw(st.lists(some | st.just(0.0), min_size=count, max_size=count)), np.float32).astype(
        np.float64
    )
    keys, anchors = np.empty((2, count + 1), np.float32)
    room = piece_buffers(count, count, np.float32)
    assert sort_pieces(a, w, -np.inf, np.inf, keys, anchors, room) == (count, 0)
    order = room.order
    assert keys[-1] == np.inf
    assert (keys[:-1] <= keys[1:]).all()
    with np.errstate(all="ignore"):
        near = np.concatenate([keys[:-1], -a / w, [0, 1, -1]]).astype(np.float32)
        near = np.concatenate([near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))])
    for x in near[np.isfinite(near)]:
        is_on = x > (-a / w)[order]
        is_on[w[order] < 0] = x < (-a / w)[order][w[order] < 0]
        assert (is_on == np.where(w[order] > 0, keys[:-1] <= x, x < keys[:-1])).all()


@types
@pytest.mark.parametrize(("count", "tile"), [(1, 8), (100, 100), (100, 99), (130, 64), (7, 2)])
def test_columns(dtype, count, tile):
    candidates = np.random.default_rng(0).normal(size=(count, 3)).astype(dtype)
    entries, places, ranges = sort_columns(candidates, tile, threads=2)
    assert places.shape[2] <= tile
    assert entries.shape[2] % 64 == 0
    assert (ranges == np.stack([candidates.min(0), candidates.max(0)], 1)).all()
    for i in range(3):
        seen: list[int] = []
        for number, place in zip(entries[:, i], places[:, i], strict=True):
            held = min(places.shape[2], count - len(seen))
            assert (np.diff(number[:held]) >= 0).all()
            assert (number[held:] == np.inf).all()
            assert (number[:held] == candidates[len(seen) + place[:held].astype(int), i]).all()
            seen.extend(len(seen) + np.sort(place[:held].astype(int)))
        assert seen == list(range(count))


def test_an_error_in_a_thread_is_not_lost():
    def fail(share, shares):
        if share == 1:
            raise ValueError("in a thread")

    with pytest.raises(ValueError, match="in a thread"):
        in_threads(fail, 2)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_process_makes_threads_of_its_own():
    in_threads(lambda share, shares: None, 2)
    assert _pool.cache_info().currsize
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python 3.12 warns of forking with threads about, which is the point
        child = os.fork()
    if child == 0:
        os._exit(_pool.cache_info().currsize)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


OUTER = """
import sys
sys.path.insert(0, {folder!r})
from capse.kernels.cpu import loops
from inner import step
loops._SOURCES = {stamp!r}
def outer(x):
    return step(x) + 1
print(loops.cached(outer)(1))
"""


class TestKeptMachineCode:
    """Kept on disk until a source file changes, be it the file of a loop that is inlined."""

    def run(self, folder, step, stamp):
        (folder / "inner.py").write_text(
            f"from capse.kernels.cpu.loops import inlined\n@inlined\ndef step(x):\n    return x + {step}\n"
        )
        (folder / "outer.py").write_text(OUTER.format(folder=str(folder), stamp=stamp))
        os.utime(folder / "outer.py", (1, 1))  # the file that numba itself looks at stays the same
        done = subprocess.run(
            [sys.executable, "outer.py"], cwd=folder, capture_output=True, text=True, check=True,
            env=os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache")},
        )  # fmt: skip
        return int(done.stdout)

    def test_a_changed_source_is_compiled_anew(self, tmp_path):
        assert self.run(tmp_path, step=10, stamp=("a",)) == 12
        assert list((tmp_path / "cache").rglob("*.nbc")), "numba keeps nothing: has it renamed its stamp?"
        assert self.run(tmp_path, step=20, stamp=("a",)) == 12, "the kept code is not used"
        assert self.run(tmp_path, step=20, stamp=("b",)) == 22

    def test_the_stamp_is_of_every_file_of_the_folder(self):
        folder = Path(loops.__file__).parent
        assert [name for name, _, _ in loops._SOURCES] == sorted(path.name for path in folder.glob("*.py"))
        for function in (batch._forward, batch._backward, _sweep_share, gradient._share, columns._sort_share):
            assert function._cache._cache_file._source_stamp == loops._SOURCES

    def test_without_a_stamp_nothing_is_kept(self, monkeypatch):
        """As if numba had renamed it."""
        monkeypatch.setattr("numba.core.caching.IndexDataCacheFile", lambda **kwargs: object())
        function = loops.cached(lambda x: x + 1)
        assert function(1) == 2
        assert not function.stats.cache_path
