"""Short vectors of floats inside compiled loops: one register each where the CPU's are that wide.

numba has no such type, and whether LLVM finds the vectors in unrolled scalars is luck. These are LLVM's own vector
operations, so there is no remainder loop either: every element of a table is computed by the same instructions.

How many lanes there are must be known when a loop is compiled. ``lanes`` is therefore a tuple of that length: its type
says it, and what is in it does not matter.
"""

from __future__ import annotations

from collections.abc import Callable
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
        vector, integer = arguments[0], ir.IntType(32)
        while vector.type.count > 1:
            half = vector.type.count // 2
            low, high = (
                builder.shuffle_vector(
                    vector, vector, ir.Constant(ir.VectorType(integer, half), list(range(start, start + half)))
                )
                for start in (0, half)
            )
            vector = builder.fadd(low, high)
        return builder.extract_element(vector, integer(0))

    return lanes.dtype(lanes), generate


@intrinsic
def times_plus(_typing: Any, lanes: Any, factor: Any, addend: Any) -> tuple[Any, Codegen]:
    """lanes · factor + addend for a scalar factor, rounded once where the CPU can."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = arguments[0].type
        name = f"llvm.fmuladd.v{lanes.count}f{lanes.dtype.bitwidth}"
        kind = ir.FunctionType(vector, [vector] * 3)
        fused = cgutils.get_or_insert_function(builder.module, kind, name)  # type: ignore[no-untyped-call]
        return builder.call(fused, [arguments[0], _splat(builder, arguments[1], lanes.count), arguments[2]])

    return addend(lanes, lanes.dtype, addend), generate


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
