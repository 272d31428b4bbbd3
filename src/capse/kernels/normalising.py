"""Batch normalisation with what usually follows it: quick on a GPU, where there are few channels that are large."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from capse.kernels.scoring import INSTALLED, wanted_kernel

LARGEST = 2**13  # numbers of a channel of one example that a program holds in registers
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def normalised(norm: nn.BatchNorm2d, x: Tensor, *, rectify: bool = False, kept: Tensor | None = None) -> Tensor:
    """What ``norm`` makes of x (N, C, H, W); then its positive part; then each channel times ``kept`` (N, C, 1, 1)."""
    fits = x.is_cuda and x.dtype in DTYPES and x.shape[2:].numel() <= LARGEST
    if norm.training and fits and INSTALLED["triton"] and wanted_kernel() != "reference":
        return by_kernel(norm, x, rectify=rectify, kept=kept)
    y: Tensor = norm(x)
    if rectify:
        y = y.relu_()  # not needed by its own gradient, nor by the normalisation's
    return y if kept is None else y * kept


def by_kernel(norm: nn.BatchNorm2d, x: Tensor, *, rectify: bool = False, kept: Tensor | None = None) -> Tensor:
    """The same in training, by Triton's kernels."""
    from capse.kernels.gpu.normalising import Normalised  # here, since it loads Triton

    flat = x.flatten(2)
    y, mean, variance = Normalised.apply(flat, norm.weight, norm.bias, kept, norm.eps, rectify)  # type: ignore[no-untyped-call]
    count = len(x) * flat.shape[2]
    momentum = norm.momentum
    assert momentum is not None  # nobody here averages over all batches
    with torch.no_grad():
        norm.get_buffer("running_mean").lerp_(mean, momentum)
        norm.get_buffer("running_var").lerp_(variance * (count / (count - 1)), momentum)
        norm.get_buffer("num_batches_tracked").add_(1)
    shaped: Tensor = y.view(x.shape)
    return shaped
