"""Distances against NumPy's formula, and the exactness that ranks rely on."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

from capse.kernels import distances
from capse.kernels.compiled import numba
from capse.kernels.distances import TILE, pairwise_distances

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


def vectors(n, k, dtype=torch.float32, seed=0):
    return torch.randn(n, k, dtype=dtype, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("queries", "candidates", "k"), [(1, 1, 1), (3, 5, 4), (7, 2 * TILE + 3, 10), (2, TILE, 99)])
def test_formula(queries, candidates, k, dtype, norm, device):
    q, c = vectors(queries, k, dtype), vectors(candidates, k, dtype, seed=1)
    expected = np.linalg.norm(q.double().numpy()[:, None] - c.double().numpy(), ord=norm, axis=2)
    ours = pairwise_distances(q.to(device), c.to(device), norm)
    assert ours.dtype == dtype
    np.testing.assert_allclose(ours.cpu().numpy(), expected, rtol=1e-5 if dtype == torch.float32 else 1e-12)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("norm", [1, 2])
@pytest.mark.parametrize("k", [7, 100])
def test_equal_candidates_tie_wherever_they_stand(k, norm, device):
    which = np.random.default_rng(0).integers(0, 5, 3 * TILE + 17)
    candidates = vectors(5, k)[which].to(device)
    for queries in (1, 2, 33):
        ours = pairwise_distances(vectors(queries, k, seed=2).to(device), candidates, norm).cpu().numpy()
        for value in range(5):
            assert (ours[:, which == value] == ours[:, which == value][:, :1]).all()


@pytest.mark.parametrize("norm", [1, 2])
def test_a_query_gets_the_same_bits_alone(norm):
    queries, candidates = vectors(50, 30), vectors(600, 30, seed=1)
    together = pairwise_distances(queries, candidates, norm)
    for i in (0, 17, 49):
        assert torch.equal(pairwise_distances(queries[i : i + 1], candidates, norm)[0], together[i])


@pytest.mark.skipif(numba is None, reason="threads are numba's")
def test_threads_change_nothing():
    queries, candidates = vectors(20, 30), vectors(3000, 30, seed=1)
    threads = numba.get_num_threads()
    expected = pairwise_distances(queries, candidates)
    given, wanted = vectors(20, 3000, seed=2), queries.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(pairwise_distances(wanted, candidates), wanted, given)
    try:
        numba.set_num_threads(1)
        assert torch.equal(pairwise_distances(queries, candidates), expected)
        assert torch.equal(torch.autograd.grad(pairwise_distances(wanted, candidates), wanted, given)[0], gradient)
    finally:
        numba.set_num_threads(threads)


@pytest.mark.parametrize("norm", [1, 2])
def test_without_numba(norm, monkeypatch):
    queries, candidates = vectors(20, 30), vectors(300, 30, seed=1)
    compiled = pairwise_distances(queries, candidates, norm)
    monkeypatch.setattr(distances, "_compiled_sums", None)
    torch.testing.assert_close(pairwise_distances(queries, candidates, norm), compiled, rtol=1e-6, atol=0)


@pytest.mark.parametrize("norm", [1, 2])
def test_gradient(norm):
    queries, candidates = vectors(4, 6, torch.float64).requires_grad_(), vectors(5, 6, torch.float64, seed=1)
    assert torch.autograd.gradcheck(lambda q: pairwise_distances(q, candidates, norm), queries)


@pytest.mark.parametrize(("queries", "candidates"), [(1, 1), (6, 2 * TILE + 3), (4, TILE)])
def test_the_gradient_of_l1_is_that_of_the_formula(queries, candidates):
    q, c = vectors(queries, 5, torch.float64), vectors(candidates, 5, torch.float64, seed=1)
    c[0, 2] = q[0, 2]  # the sign of zero is zero
    given = vectors(queries, candidates, torch.float64, seed=2)
    signs = np.sign(q.numpy()[:, None] - c.numpy())
    q.requires_grad_(), c.requires_grad_()
    of_queries, of_candidates = torch.autograd.grad((pairwise_distances(q, c) * given).sum(), (q, c))
    np.testing.assert_allclose(of_queries, np.einsum("bc,bck->bk", given, signs), atol=1e-12)
    np.testing.assert_allclose(of_candidates, -np.einsum("bc,bck->ck", given, signs), atol=1e-12)


def test_not_contiguous():
    queries, candidates = vectors(6, 4).T, vectors(6, 300, seed=1).T
    torch.testing.assert_close(pairwise_distances(queries, candidates), torch.cdist(queries, candidates, p=1))


def test_nan_is_not_lost():
    candidates = vectors(10, 4)
    candidates[3, 2] = torch.nan
    assert pairwise_distances(vectors(2, 4), candidates).isnan().sum(dim=0).tolist() == [0, 0, 0, 2] + [0] * 6


@pytest.mark.skipif(numba is None, reason="numba is not installed")
def test_a_second_process_finds_the_machine_code_of_the_first(tmp_path):
    program = (
        "import torch; from capse.kernels import distances as d\n"
        "d.pairwise_distances(torch.ones(2, 3), torch.ones(4, 3), 1)\n"
        "print(sum(d._compiled_sums.stats.cache_hits.values()), sum(d._compiled_sums.stats.cache_misses.values()))"
    )
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    runs = [subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True) for _ in range(2)]
    assert [run.stdout.split() for run in runs] == [[b"0", b"1"], [b"1", b"0"]]
