"""Arithmetic of the 16-bit floats and of pairs of them (PTX ISA "Half Precision Floating-Point").

A pair (``.f16x2``) is two lanes: the 16 words of a vector are taken as 32 halves.  Sums and products
are computed in f32, whose 24 bits are at least two more than twice the 11 of f16, so rounding a second
time changes nothing.  A fused multiply-add needs more care: its f32 result is rounded to odd.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zcuda_async.jit.builder import Builder, Type
from zcuda_async.jit.lower.floating import saturate
from zcuda_async.jit.lower.half import narrow, widen
from zcuda_async.jit.lower.lanewise import lanewise
from zcuda_async.jit.lower.mathematics import exp2_approx, tanh_approx
from zcuda_async.jit.lower.odd import fma_to_odd, halves_of
from zcuda_async.ptx.ir import Instruction

if TYPE_CHECKING:
    from zcuda_async.jit.lower import Lowering
    from zcuda_async.jit.lower.group import Group

__all__ = (
    "HALF",
    "HALF_TYPES",
    "Layout16",
    "add_halves",
    "as_halves",
    "extreme_half",
    "flush_bits",
    "layout_of",
    "narrow_bits",
    "on_halves",
    "widen_bits",
)

HALF_TYPES: Final = frozenset({"f16", "f16x2", "bf16", "bf16x2"})


@dataclass(frozen=True, slots=True)
class Layout16:
    """A 16-bit format: LLVM's name of it, its infinity, and its smallest normal number."""

    elem: str
    infinity: int
    smallest: int


_HALF: Final = Layout16("half", 0x7C00, 0x0400)
_BRAIN: Final = Layout16("bfloat", 0x7F80, 0x0080)


def layout_of(ptx_type: str) -> Layout16:
    """The format of a 16-bit float type or of a pair of them."""
    return _BRAIN if ptx_type.startswith("bf") else _HALF


HalfCompute = Callable[[Builder, Instruction, Layout16, Type, Sequence[str]], str]
"""(builder, instruction, format, vector of ``i16``, operands) → the result, of the same type.

The patterns are kept as integers: LLVM calls run-time functions to move ``bfloat`` values about.
"""


def as_halves(builder: Builder, ptx_type: str, kind: Type, value: str) -> tuple[Type, str]:
    """The bit patterns of a value of a 16-bit float type, or of pairs: (type, value)."""
    bits = Type("i16", 2 * max(kind.lanes, 1)) if ptx_type.endswith("x2") else kind.of("i16")
    return bits, builder.cast("bitcast", kind, value, bits)


def on_halves(compute: HalfCompute) -> Callable[[Group, Instruction], None]:
    """A lowering from a computation on bit patterns of 16-bit floats."""

    def run(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
        name = instruction.types[0]
        pairs = [as_halves(builder, name, kind, arg) for arg in args]
        bits = pairs[0][0]
        value = compute(builder, instruction, layout_of(name), bits, [arg for _, arg in pairs])
        return builder.cast("bitcast", bits, value, kind)

    return lanewise(
        run,
        source_types=lambda i: [_CARRIER[i.types[0]]] * (len(i.operands) - 1),
        result_type=lambda i: _CARRIER[i.types[0]],
    )


_CARRIER: Final = {"f16": "b16", "bf16": "b16", "f16x2": "b32", "bf16x2": "b32"}


def flush_bits(builder: Builder, form: Layout16, bits: Type, value: str) -> str:
    """Subnormal numbers to zero of the same sign."""
    size = builder.binary("and", bits, value, bits.const(0x7FFF))
    tiny = builder.compare("icmp ult", bits, size, bits.const(form.smallest))
    return builder.select(bits, tiny, builder.binary("and", bits, value, bits.const(-0x8000)), value)


def widen_bits(builder: Builder, form: Layout16, bits: Type, value: str) -> tuple[Type, str]:
    """As f32: (type, value)."""
    own = bits.of(form.elem)
    return widen(builder, own, builder.cast("bitcast", bits, value, own))


def narrow_bits(builder: Builder, form: Layout16, kind: Type, value: str) -> str:
    """An f32 rounded to nearest."""
    own = kind.of(form.elem)
    return builder.cast("bitcast", own, narrow(builder, kind, value, own, "rn", finite=False), kind.of("i16"))


WideCompute = Callable[[Builder, Type, Sequence[str]], str]
"""(builder, vector of ``float``, operands) → the result in f32, right for being rounded again."""


def _through_f32(wide_compute: WideCompute) -> HalfCompute:
    """Widen, compute, round; with what ``.ftz``, ``.sat`` and ``.relu`` ask for."""

    def run(builder: Builder, instruction: Instruction, form: Layout16, bits: Type, args: Sequence[str]) -> str:
        ftz = instruction.has("ftz")
        if ftz:
            args = [flush_bits(builder, form, bits, arg) for arg in args]
        columns = [halves_of(builder, bits, arg) for arg in args]
        single = columns[0][0]
        native = single.of("float")
        results = []
        for row in zip(*(pieces for _, pieces in columns), strict=True):
            value = wide_compute(builder, native, [widen_bits(builder, form, single, each)[1] for each in row])
            if instruction.has("sat"):
                value = saturate(builder, native, value)
            if instruction.has("relu"):
                above = builder.compare("fcmp ugt", native, value, native.const(0.0))
                value = builder.select(native, above, value, native.const(0.0))
            results.append(narrow_bits(builder, form, native, value))
        _, result = builder.concat(native.of("i16"), results)
        return flush_bits(builder, form, bits, result) if ftz else result

    return run


def _binary(opcode: str) -> WideCompute:
    return lambda builder, kind, args: builder.binary(opcode, kind, args[0], args[1])


_FMA: Final = {
    wide_range: _through_f32(lambda b, kind, row, w=wide_range: fma_to_odd(b, kind, *row, wide_range=w))  # type: ignore[misc]
    for wide_range in (False, True)
}


def _fma(builder: Builder, instruction: Instruction, form: Layout16, bits: Type, args: Sequence[str]) -> str:
    """``fma``, rounded once; with ``.oob`` +0 where a or b is from outside a tensor."""
    value = _FMA[form is _BRAIN](builder, instruction, form, bits, args)
    if not instruction.has("oob"):
        return value
    for factor in args[:2]:
        size = builder.binary("and", bits, factor, bits.const(0x7FFF))
        outside = builder.compare("icmp eq", bits, size, bits.const(_OUTSIDE))
        value = builder.select(bits, outside, bits.const(0), value)
    return value


_OUTSIDE: Final = 0x7FF7
"""What copies of tensors put where there is nothing, in both formats; its sign does not matter."""


def add_halves(builder: Builder, form: Layout16, bits: Type, a: str, b: str) -> str:
    """The sum of two 16-bit floats, rounded to nearest, subnormal numbers kept."""
    (wide, a), (_, b) = (widen_bits(builder, form, bits, value) for value in (a, b))
    return narrow_bits(builder, form, wide, builder.binary("fadd", wide, a, b))


def _sign_change(opcode: str, constant: int) -> HalfCompute:
    """``neg`` and ``abs``."""

    def run(builder: Builder, instruction: Instruction, form: Layout16, bits: Type, args: Sequence[str]) -> str:
        value = flush_bits(builder, form, bits, args[0]) if instruction.has("ftz") else args[0]
        return builder.binary(opcode, bits, value, bits.const(constant))

    return run


def _order(builder: Builder, bits: Type, value: str) -> str:
    """Signed integers that sort like the floats, -0 before +0; its own inverse."""
    sign = builder.binary("ashr", bits, value, bits.const(15))
    return builder.binary("xor", bits, value, builder.binary("and", bits, sign, bits.const(0x7FFF)))


def _minmax(builder: Builder, instruction: Instruction, form: Layout16, bits: Type, args: Sequence[str]) -> str:
    if instruction.has("ftz"):
        args = [flush_bits(builder, form, bits, arg) for arg in args]
    nan, xorsign = instruction.has("NaN"), instruction.has("xorsign")
    return extreme_half(builder, form, bits, instruction.opcode, args[0], args[1], nan=nan, xorsign=xorsign)


def extreme_half(
    builder: Builder,
    form: Layout16,
    bits: Type,
    opcode: str,
    a: str,
    b: str,
    *,
    nan: bool = False,
    xorsign: bool = False,
) -> str:
    """``min`` or ``max`` of bit patterns.  A NaN operand loses, or wins with `nan`."""
    truth = bits.of("i1")
    magnitudes = [builder.binary("and", bits, value, bits.const(0x7FFF)) for value in (a, b)]
    nans = [builder.compare("icmp ugt", bits, size, bits.const(form.infinity)) for size in magnitudes]
    left, right = magnitudes if xorsign else (a, b)
    # A NaN gives way to the other operand; both stay where both are.
    kept = [builder.select(bits, nans[0], right, left), builder.select(bits, nans[1], left, right)]
    keys = [_order(builder, bits, value) for value in kept]
    value = _order(builder, bits, builder.intrinsic("s" + opcode, bits, *keys))
    if xorsign:
        sign = builder.binary("and", bits, builder.binary("xor", bits, a, b), bits.const(-0x8000))
        value = builder.binary("or", bits, value, sign)
    none = builder.binary("or" if nan else "and", truth, nans[0], nans[1])
    return builder.select(bits, none, bits.const(0x7FFF), value)


def _approximate(function: Callable[[Builder, Type, str], str]) -> HalfCompute:
    return _through_f32(lambda builder, kind, args: function(builder, kind, args[0]))


HALF: Final[dict[str, Lowering]] = {
    "add": on_halves(_through_f32(_binary("fadd"))),
    "sub": on_halves(_through_f32(_binary("fsub"))),
    "mul": on_halves(_through_f32(_binary("fmul"))),
    "fma": on_halves(_fma),
    "neg": on_halves(_sign_change("xor", -0x8000)),
    "abs": on_halves(_sign_change("and", 0x7FFF)),
    "min": on_halves(_minmax),
    "max": on_halves(_minmax),
    "ex2": on_halves(_approximate(exp2_approx)),
    "tanh": on_halves(_approximate(tanh_approx)),
}
