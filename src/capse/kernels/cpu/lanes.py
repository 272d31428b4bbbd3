"""Short vectors of floats inside compiled loops: one register each where the CPU's are that wide.

numba has no such type, and whether LLVM finds the vectors in unrolled scalars is luck. These are LLVM's own vector
operations, so there is no remainder loop either: every element of a table is computed by the same instructions.

How many lanes there are must be known when a loop is compiled. ``lanes`` is therefore a tuple of that length: its type
says it, and what is in it does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numba.extending
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import models, register_model

Codegen = Callable[[Any, Any, Any, Any], Any]


def intrinsic(function: Callable[..., tuple[Any, Codegen]]) -> Any:
    """numba's decorator, without the types that would have callers pass the typing context."""
    return numba.extending.intrinsic(function)


class Lanes(types.Type):
    """``count`` floats of one type."""

    def __init__(self, dtype: types.Float, count: int) -> None:
        self.dtype = dtype
        self.count = count
        super().__init__(f"Lanes({dtype}, {count})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, lanes: Lanes) -> None:
        vector = ir.VectorType(manager.lookup(lanes.dtype).get_value_type(), lanes.count)
        super().__init__(manager, lanes, vector)  # type: ignore[no-untyped-call]


def _pointer(context: Any, builder: Any, array: types.Array, value: Any, index: Any, count: int) -> Any:
    element = builder.gep(context.make_array(array)(context, builder, value).data, [index])
    return builder.bitcast(element, ir.VectorType(context.get_value_type(array.dtype), count).as_pointer())


def _splat(builder: Any, scalar: Any, count: int) -> Any:
    """The scalar in every lane."""
    integer = ir.IntType(32)
    one = builder.insert_element(ir.Constant(ir.VectorType(scalar.type, count), ir.Undefined), scalar, integer(0))
    return builder.shuffle_vector(one, one, ir.Constant(ir.VectorType(integer, count), [0] * count))


@intrinsic
def load(_typing: Any, array: Any, index: Any, lanes: Any) -> tuple[Any, Codegen]:
    """array[index : index + count] of a contiguous array."""
    loaded = Lanes(array.dtype, lanes.count)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, array, arguments[0], arguments[1], loaded.count)
        return builder.load(pointer, align=array.dtype.bitwidth // 8)

    return loaded(array, types.intp, lanes), generate


@intrinsic
def zeros(_typing: Any, array: Any, lanes: Any) -> tuple[Any, Codegen]:
    """Zeros of the array's type."""
    zero = Lanes(array.dtype, lanes.count)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.get_constant_null(zero)

    return zero(array, lanes), generate


@intrinsic
def spread(_typing: Any, number: Any, lanes: Any) -> tuple[Any, Codegen]:
    """The number in every lane."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _splat(builder, arguments[0], lanes.count)

    return Lanes(number, lanes.count)(number, lanes), generate


@intrinsic
def widen(_typing: Any, lanes: Any) -> tuple[Any, Codegen]:
    """The same numbers as float64."""
    wide = Lanes(types.float64, lanes.count)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fpext(arguments[0], context.get_value_type(wide)) if lanes != wide else arguments[0]

    return wide(lanes), generate


@intrinsic
def store(_typing: Any, array: Any, index: Any, lanes: Any) -> tuple[Any, Codegen]:
    """array[index : index + count] = lanes, rounded to the array's type."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, array, arguments[0], arguments[1], lanes.count)
        value = arguments[2]
        if lanes.dtype != array.dtype:
            value = builder.fptrunc(value, pointer.type.pointee)
        builder.store(value, pointer, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), generate


@intrinsic
def plus(_typing: Any, left: Any, right: Any) -> tuple[Any, Codegen]:
    """left + right."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fadd(*arguments)

    return left(left, right), generate


@intrinsic
def minus(_typing: Any, left: Any, right: Any) -> tuple[Any, Codegen]:
    """left − right."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fsub(*arguments)

    return left(left, right), generate


@intrinsic
def times(_typing: Any, left: Any, right: Any) -> tuple[Any, Codegen]:
    """left · right, lane by lane."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fmul(*arguments)

    return left(left, right), generate


@intrinsic
def first(_typing: Any, lanes: Any, count: Any) -> tuple[Any, Codegen]:
    """The first so many lanes; the others, whatever is in them, become zero."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        integer = ir.IntType(32)
        numbers = ir.Constant(ir.VectorType(integer, lanes.count), list(range(lanes.count)))
        limit = _splat(builder, builder.trunc(arguments[1], integer), lanes.count)
        return builder.select(builder.icmp_signed("<", numbers, limit), arguments[0], context.get_constant_null(lanes))

    return lanes(lanes, types.intp), generate


@intrinsic
def total(_typing: Any, lanes: Any) -> tuple[Any, Codegen]:
    """The sum over the lanes, a power of two of them: of halves, of their halves, and so on."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _fold(builder, arguments[0], builder.fadd)

    return lanes.dtype(lanes), generate


@intrinsic
def largest(_typing: Any, lanes: Any) -> tuple[Any, Codegen]:
    """The largest of the lanes, a power of two of them."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _fold(builder, arguments[0], partial(larger, builder))

    return lanes.dtype(lanes), generate


@intrinsic
def maximum(_typing: Any, left: Any, right: Any) -> tuple[Any, Codegen]:
    """The larger of left and right, lane by lane; left where that is NaN."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return larger(builder, *arguments)

    return left(left, right), generate


def larger(builder: Any, left: Any, right: Any) -> Any:
    """`maximum`, for other operations to be made of."""
    return builder.select(builder.fcmp_ordered("<", left, right), right, left)


def _fold(builder: Any, vector: Any, combine: Callable[[Any, Any], Any]) -> Any:
    while vector.type.count > 1:
        half = vector.type.count // 2
        vector = combine(*(_shuffle(builder, vector, vector, range(start, start + half)) for start in (0, half)))
    return builder.extract_element(vector, ir.IntType(32)(0))


def _shuffle(builder: Any, left: Any, right: Any, chosen: Iterable[int]) -> Any:
    """The chosen lanes of left and, counted on, of right."""
    numbers = list(chosen)
    return builder.shuffle_vector(left, right, ir.Constant(ir.VectorType(ir.IntType(32), len(numbers)), numbers))


@intrinsic
def transpose(
    _typing: Any, array: Any, start: Any, stride: Any, result: Any, to: Any, to_stride: Any, lanes: Any
) -> tuple[Any, Codegen]:
    """result[to + c·to_stride + i] = array[start + i·stride + c] for four c and as many i as there are lanes.

    Four numbers at a time are put in their places by loads, and then turned in squares of four by four.
    """
    count = lanes.count

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        source, start, stride, target, to, to_stride, _ = arguments

        def place(kind: Any, value: Any, start: Any, stride: Any, i: int, count: int) -> Any:
            index = builder.add(start, builder.mul(stride, stride.type(i)))
            return _pointer(context, builder, kind, value, index, count)

        def joined(parts: list[Any]) -> Any:
            while len(parts) > 1:
                numbers = range(2 * parts[0].type.count)
                parts = [_shuffle(builder, *pair, numbers) for pair in zip(parts[::2], parts[1::2], strict=True)]
            return parts[0]

        fours = [
            builder.load(place(array, source, start, stride, i, 4), align=array.dtype.bitwidth // 8)
            for i in range(count)
        ]
        rows = [joined(fours[i::4]) for i in range(4)]
        for half in (2, 1):
            for i in (i for i in range(4) if not i & half):
                upper, lower = rows[i], rows[i + half]
                rows[i] = _shuffle(builder, upper, lower, (c + (count - half if c & half else 0) for c in range(count)))
                rows[i + half] = _shuffle(
                    builder, upper, lower, (c + (count if c & half else half) for c in range(count))
                )
        for c, row in enumerate(rows):
            builder.store(row, place(result, target, to, to_stride, c, count), align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, types.intp, result, types.intp, types.intp, lanes), generate


@intrinsic
def times_plus(_typing: Any, lanes: Any, factor: Any, addend: Any) -> tuple[Any, Codegen]:
    """lanes · factor + addend for a factor that is a scalar or lanes, rounded once where the CPU can."""
    by_lanes = isinstance(factor, Lanes)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        factors = arguments[1] if by_lanes else _splat(builder, arguments[1], lanes.count)
        return fused(builder, arguments[0], factors, arguments[2])

    return addend(lanes, factor if by_lanes else lanes.dtype, addend), generate


def fused(builder: Any, left: Any, right: Any, addend: Any) -> Any:
    """`times_plus`, for other operations to be made of."""
    vector = left.type
    name = f"llvm.fmuladd.v{vector.count}f{64 if vector.element == ir.DoubleType() else 32}"
    kind = ir.FunctionType(vector, [vector] * 3)
    function = cgutils.get_or_insert_function(builder.module, kind, name)  # type: ignore[no-untyped-call]
    return builder.call(function, [left, right, addend])


@intrinsic
def count_below(_typing: Any, lanes: Any, number: Any) -> tuple[Any, Codegen]:
    """How many lanes are smaller than a number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        smaller = builder.fcmp_ordered("<", arguments[0], _splat(builder, arguments[1], lanes.count))
        bits = builder.bitcast(smaller, ir.IntType(lanes.count))
        return builder.zext(builder.ctpop(bits), context.get_value_type(types.intp))

    return types.intp(lanes, lanes.dtype), generate


@intrinsic
def next_up(_typing: Any, number: Any) -> tuple[Any, Codegen]:
    """The smallest float above a number that is not +∞ or NaN."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        integer = ir.IntType(number.bitwidth)
        positive_zero = builder.fadd(arguments[0], ir.Constant(arguments[0].type, 0.0))  # −0 has other bits than 0
        bits = builder.bitcast(positive_zero, integer)
        step = builder.select(
            builder.icmp_signed(">=", bits, ir.Constant(integer, 0)), ir.Constant(integer, 1), ir.Constant(integer, -1)
        )
        return builder.bitcast(builder.add(bits, step), arguments[0].type)

    return number(number), generate


@intrinsic
def prefetch(_typing: Any, array: Any, index: Any) -> tuple[Any, Codegen]:
    """Have array[index] of a contiguous array brought nearer; the index may be beyond its end."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        element = builder.gep(context.make_array(array)(context, builder, arguments[0]).data, [arguments[1]])
        pointer, integer = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, integer, integer, integer])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")  # type: ignore[no-untyped-call]
        to_read, second_level, of_data = integer(0), integer(2), integer(1)
        builder.call(fetch, [builder.bitcast(element, pointer), to_read, second_level, of_data])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate
