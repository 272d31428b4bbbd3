"""How the scaled form of CapsE starts as a simpler model.

A network over [h_i, r_i, t_i] with ReLU units can draw any function of these three numbers. Two starts give it one that
is known to rank well: a *distance*, |h + r − t| as in TransE, and a *product*, h·r·t as in DistMult.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from capse.models.feature_maps import FILTER_SIZE, translation_filters

DISTANCE_NOISE = 0.1  # in shares of what it is added to: filters must not stay alike
PRODUCT_NOISE = 5e-3  # of filters of size 1 over the vectors' size, and of weights of their product's
REACH = 9.0  # how far out a product is drawn, in units of the vectors' entries

# 24 x y z = (x + y + z)³ − (x + y − z)³ − (x − y + z)³ − (−x + y + z)³
_DIRECTIONS = ((1, 1, 1), (1, 1, -1), (1, -1, 1), (-1, 1, 1))
_SIGNS = (1, -1, -1, -1)
FILTERS_PER_KNOT = 2 * len(_DIRECTIONS)


def distance_filters(count: int) -> Tensor:
    """Filters (3, N) in pairs of opposite sign, relu(x) + relu(−x) = |x| with x = h + r − t, and some noise."""
    filters = translation_filters(count)
    filters[:, 1::2] *= -1
    return filters + nn.init.normal_(torch.empty(3, count), std=DISTANCE_NOISE * FILTER_SIZE)


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
