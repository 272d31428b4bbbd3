"""e^x of many numbers at once.

With n the whole number nearest to x / ln 2, e^x = 2^n e^r and |r| ≤ ln 2 / 2, so that a Taylor polynomial gives e^r to
the last bit or two. To round x / ln 2, a number is added to it that is so large that only whole ones can be told apart
there; n then stands in the last bits, from where it goes into the exponent.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from llvmlite import ir  # type: ignore[import-untyped]

from capse.kernels.cpu.lanes import Codegen, fused, intrinsic, larger


class Format(NamedTuple):
    """How numbers of so many bits are held, and what e^x needs of it."""

    mantissa: int  # bits
    bias: int  # of the exponent
    least: float  # x of which e^x is next to nothing, and not yet subnormal
    ln_2: tuple[float, float]  # so short a number that its products with n are exact, and the rest
    degree: int  # of the polynomial


FORMATS = {
    32: Format(23, 127, -87.0, (0x162E / 2**13, 3.1946184945309418e-5), 7),
    64: Format(52, 1023, -708.0, (0x162E42FEE / 2**33, 1.9082149292705878e-10), 13),
}


@intrinsic
def exp(_typing: Any, lanes: Any) -> tuple[Any, Codegen]:
    """e^x of lanes x ≤ 0; next to nothing where that is what e^x is."""
    form = FORMATS[lanes.dtype.bitwidth]

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector, integers = arguments[0].type, ir.VectorType(ir.IntType(lanes.dtype.bitwidth), lanes.count)

        def every(kind: Any, number: float) -> Any:
            return ir.Constant(kind, [number] * lanes.count)

        large = every(vector, 1.5 * 2**form.mantissa)
        x = larger(builder, arguments[0], every(vector, form.least))
        shifted = fused(builder, x, every(vector, 1 / math.log(2)), large)
        n, r = builder.fsub(shifted, large), x
        for part in form.ln_2:
            r = fused(builder, n, every(vector, -part), r)
        power = every(vector, 1 / math.factorial(form.degree))
        for degree in reversed(range(form.degree)):
            power = fused(builder, power, r, every(vector, 1 / math.factorial(degree)))
        exponent = builder.add(builder.bitcast(shifted, integers), every(integers, form.bias))
        return builder.fmul(power, builder.bitcast(builder.shl(exponent, every(integers, form.mantissa)), vector))

    return lanes(lanes), generate
