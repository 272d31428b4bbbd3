"""How the filters of ConvKB and CapsE start: at random, or so that the network begins as a simpler model.

A network over [h_i, r_i, t_i] with ReLU units can draw any function of these three numbers. Two starts give it one that
is known to rank well: a *distance*, |h + r − t| as in TransE, and a *product*, h·r·t as in DistMult.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

FilterStart = Literal["normal", "translation", "distance", "product"]
FILTER_SIZE = 0.1  # of the filters' entries at the start
START_NOISE = 0.1  # where the start is a distance, in shares of what it is added to: filters must not stay alike
PRODUCT_NOISE = 5e-3  # where it is a product, of filters of size 1 over the vectors' and of weights of their product's
REACH = 9.0  # how far out a product is drawn, in units of the vectors' entries

# 24 x y z = (x + y + z)³ − (x + y − z)³ − (x − y + z)³ − (−x + y + z)³
_DIRECTIONS = ((1, 1, 1), (1, 1, -1), (1, -1, 1), (-1, 1, 1))
_SIGNS = (1, -1, -1, -1)
FILTERS_PER_KNOT = 2 * len(_DIRECTIONS)


def start_filters(count: int, start: FilterStart) -> Tensor:
    """Filters (3, N): truncated normal of deviation 0.1, or all of them (0.1, 0.1, −0.1), TransE's x = h + r − t.

    ``distance`` has them in pairs of opposite sign, relu(x) + relu(−x) = |x|, with some noise. ``product`` gives the
    noise alone: what is added to it depends on the vectors.
    """
    if start == "normal":
        return nn.init.trunc_normal_(torch.empty(3, count), std=FILTER_SIZE, a=-2 * FILTER_SIZE, b=2 * FILTER_SIZE)
    if start == "product":
        return nn.init.normal_(torch.empty(3, count), std=PRODUCT_NOISE)
    filters = torch.tensor([FILTER_SIZE, FILTER_SIZE, -FILTER_SIZE])[:, None].repeat(1, count)
    if start == "distance":
        filters[:, 1::2] *= -1
        filters += nn.init.normal_(torch.empty(3, count), std=START_NOISE * FILTER_SIZE)
    return filters


def product_filters(knots: int) -> tuple[Tensor, Tensor, Tensor]:
    """Filters ω (3, 8J), biases b (8J,) and weights w (8J,) with Σ_n w_n relu(ω_n·[x, y, z] + b_n) ≈ x y z.

    The product is a sum of four cubes, and each cube is drawn by straight lines between J knots on either side of zero.
    """
    ends = torch.linspace(0, REACH, knots + 1)
    slopes = (ends[1:] ** 3 - ends[:-1] ** 3) / (ends[1:] - ends[:-1])
    steeper = slopes.diff(prepend=torch.zeros(1))  # (J,) what each knot adds to the slope
    sides = torch.tensor([1.0, -1.0])
    directions, signs = torch.tensor(_DIRECTIONS).T.float(), torch.tensor(_SIGNS).float()
    # (direction, knot, side), flattened in this order
    filters = (directions[:, :, None, None] * sides).expand(3, -1, knots, -1).flatten(1)
    biases = -ends[:-1].repeat(len(_SIGNS), 1).repeat_interleave(2)
    weights = (signs[:, None, None] * steeper[:, None] * sides).flatten() / 24
    return filters, biases, weights
