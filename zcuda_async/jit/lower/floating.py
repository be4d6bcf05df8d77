"""Floating-point arithmetic (PTX ISA 9.7.3 and 9.7.4).

`add`, `mul` and `fma` are exactly rounded and never contracted, so results equal a reference bit for
bit.  The `.approx` functions keep the error bounds that PTX states for them (checked in
tests/test_jit_instructions.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import llvmlite.binding as llvm

from zcuda_async.jit.builder import Builder, Type
from zcuda_async.jit.lower.directed import DIRECTED, directed
from zcuda_async.jit.lower.lanewise import Compute, lanewise
from zcuda_async.jit.lower.mathematics import exp2_approx, log2_approx, sine_approx, tanh_approx
from zcuda_async.ptx.ir import Instruction

if TYPE_CHECKING:
    from zcuda_async.jit.lower import Lowering

__all__ = ("FLOATING", "flush", "saturate")

SMALLEST_NORMAL: Final = {"float": 2.0**-126, "double": 2.0**-1022}


def flush(builder: Builder, kind: Type, value: str, *, below: float | None = None) -> str:
    """Subnormal values (or those nearer to zero than `below`) to zero of the same sign (``.ftz``)."""
    size = builder.intrinsic("fabs", kind, value)
    tiny = builder.compare("fcmp olt", kind, size, kind.const(below or SMALLEST_NORMAL[kind.elem]))
    return builder.select(kind, tiny, builder.intrinsic("copysign", kind, kind.const(0.0), value), value)


def saturate(builder: Builder, kind: Type, value: str) -> str:
    """Clamp to [0, 1]; NaN becomes +0 (``.sat``)."""
    above = builder.compare("fcmp ogt", kind, value, kind.const(0.0))
    value = builder.select(kind, above, value, kind.const(0.0))
    high = builder.compare("fcmp olt", kind, value, kind.const(1.0))
    return builder.select(kind, high, value, kind.const(1.0))


def _wrapped(compute: Compute) -> Compute:
    """Add what ``.ftz`` and ``.sat`` ask for around a computation."""

    def run(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
        ftz = instruction.has("ftz")
        if ftz:
            args = [flush(builder, kind, value) for value in args]
        value = compute(builder, instruction, kind, args)
        if ftz:
            value = flush(builder, kind, value)
        return saturate(builder, kind, value) if instruction.has("sat") else value

    return run


def _arithmetic(name: str) -> Compute:
    """add, sub, mul, div, fma and sqrt in any rounding mode; ``rcp`` is 1 / a."""

    def run(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
        mode = next((modifier for modifier in instruction.modifiers if modifier in DIRECTED), None)
        if instruction.opcode == "rcp":
            args = [kind.const(1.0), args[0]]
        if instruction.opcode == "div" and instruction.has("approx"):
            args = [args[0], _without_reciprocal(builder, kind, args[1])]
        if mode is not None:
            return directed(builder, name, mode, kind, args)
        if name in ("fma", "sqrt"):
            return builder.intrinsic(name, kind, *args)
        return builder.binary("f" + name, kind, args[0], args[1])

    return _wrapped(run)


def _without_reciprocal(builder: Builder, kind: Type, value: str) -> str:
    """``div.approx``: a divisor beyond 2**126, whose reciprocal would be subnormal, divides as infinity does."""
    size = builder.intrinsic("fabs", kind, value)
    far = builder.compare("fcmp ogt", kind, size, kind.const(2.0**126))
    return builder.select(kind, far, builder.intrinsic("copysign", kind, kind.const(float("inf")), value), value)


def _gross(compute: Compute) -> Compute:
    """``.approx.ftz.f64``: of operand and result only the upper words count; the only NaN is the canonical one."""

    def run(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
        if kind.elem != "double" or not (instruction.has("approx") and instruction.has("ftz")):
            return compute(builder, instruction, kind, args)
        bits = kind.of("i64")
        upper, half = bits.const(-(1 << 32)), bits.const(1 << 31)
        x = builder.binary("and", bits, builder.cast("bitcast", kind, args[0], bits), upper)
        y = compute(builder, instruction, kind, [builder.cast("bitcast", bits, x, kind)])
        number = builder.compare("fcmp ord", kind, y, y)
        rounded = builder.binary("add", bits, builder.cast("bitcast", kind, y, bits), half)
        rounded = builder.binary("and", bits, rounded, upper)
        canonical = bits.const(0x7FFFFFFF00000000)
        return builder.cast("bitcast", bits, builder.select(bits, number, rounded, canonical), kind)

    return run


def _reciprocal_root(builder: Builder, _: Instruction, kind: Type, args: Sequence[str]) -> str:
    """``rsqrt.approx``: on AVX-512 the hardware's 14 bits and one Newton step."""
    x = args[0]
    if kind != Type("float", 16) or "avx512" not in builder.features:
        return builder.binary("fdiv", kind, kind.const(1.0), builder.intrinsic("sqrt", kind, x))
    zero, ones = "zeroinitializer", "i16 -1"
    guess = builder.call(
        kind,
        "llvm.x86.avx512.rsqrt14.ps.512",
        [(kind, x), (kind, zero), tuple(ones.split())],  # type: ignore[list-item]
    )
    # y' = y + y/2 (1 - (x y) y); for 0 and infinity (x y) is NaN and the guess is already exact.
    product = builder.binary("fmul", kind, x, guess)
    negated = builder.op(f"fneg {kind} {product}")
    error = builder.intrinsic("fma", kind, negated, guess, kind.const(1.0))
    half = builder.binary("fmul", kind, guess, kind.const(0.5))
    better = builder.intrinsic("fma", kind, half, error, guess)
    ordered = builder.compare("fcmp ord", kind, product, kind.const(0.0))
    return builder.select(kind, ordered, better, guess)


def _abs(builder: Builder, _: Instruction, kind: Type, args: Sequence[str]) -> str:
    return builder.intrinsic("fabs", kind, args[0])


def _neg(builder: Builder, _: Instruction, kind: Type, args: Sequence[str]) -> str:
    return builder.op(f"fneg {kind} {args[0]}")


def _minmax(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    """-0 < +0, and a NaN operand loses unless ``.NaN`` is given."""
    family = "imum" if instruction.has("NaN") else "imumnum"
    values = list(args)
    if instruction.has("xorsign"):  # of the magnitudes, with the product's sign
        values = [builder.intrinsic("fabs", kind, value) for value in args]
    value = values[0]
    for other in values[1:]:
        value = _extreme(builder, instruction.opcode, family, kind, value, other)
    if not instruction.has("xorsign"):
        return value
    bits = kind.of(f"i{kind.bits}")
    sign = builder.binary("xor", bits, *(builder.cast("bitcast", kind, arg, bits) for arg in args))
    return builder.intrinsic("copysign", kind, value, builder.cast("bitcast", bits, sign, kind))


_LLVM_MAJOR: Final = llvm.llvm_version_info[0]


_EMBEDDED: Final = Type("float", 16)
_RANGE: Final = {"min": 0b0100, "max": 0b0101}
"""What ``vrangeps`` is to find, and that its sign is the result's own: -0 is less than +0."""

_QUIETEN: Final = 0x11111121
"""For ``vfixupimmps``: every kind of value as it is, signalling NaNs quiet."""


def _range(builder: Builder, opcode: str, kind: Type, operands: Sequence[str]) -> str:
    """``vrangeps``: one instruction, in which a quiet NaN loses as in PTX; of others quiet ones are made first."""
    mode, all_lanes = ("i32", "4"), ("i16", "-1")
    table = kind.of("i32").const(_QUIETEN)

    def quieten(value: str) -> str:
        if value in builder.quiet:
            return value
        name, given = "llvm.x86.avx512.mask.fixupimm.ps.512", (kind, value)
        return builder.call(kind, name, [given, given, (kind.of("i32"), table), ("i32", "0"), all_lanes, mode])

    first, second = ((kind, quieten(value)) for value in operands)
    what = ("i32", str(_RANGE[opcode]))
    name = "llvm.x86.avx512.mask.range.ps.512"
    found = builder.call(kind, name, [first, second, what, (kind, "zeroinitializer"), all_lanes, mode])
    builder.quiet.add(found)
    return found


def _extreme(builder: Builder, opcode: str, family: str, kind: Type, a: str, b: str) -> str:
    if family == "imumnum" and kind == _EMBEDDED and "avx512" in builder.features:
        return _range(builder, opcode, kind, (a, b))
    if family == "imum" or _LLVM_MAJOR > 20:
        return builder.intrinsic(opcode + family, kind, a, b)
    # LLVM 20 has minimumnum and maximumnum wrong where an operand is -0: equal operands, zeros among them, by hand.
    # And its minnum and maxnum let signalling NaNs win on ARM: a NaN gives way before.
    bits = kind.of(f"i{kind.bits}")
    nans = [builder.compare("fcmp uno", kind, value, value) for value in (a, b)]
    a, b = builder.select(kind, nans[0], b, a), builder.select(kind, nans[1], a, b)
    words = [builder.cast("bitcast", kind, value, bits) for value in (a, b)]
    same = builder.binary("and" if opcode == "max" else "or", bits, *words)
    return builder.select(
        kind,
        builder.compare("fcmp oeq", kind, a, b),
        builder.cast("bitcast", bits, same, kind),
        builder.intrinsic(opcode + "num", kind, a, b),
    )


def _copysign(builder: Builder, _: Instruction, kind: Type, args: Sequence[str]) -> str:
    # PTX: the sign of a, the magnitude of b.
    return builder.intrinsic("copysign", kind, args[1], args[0])


# PTX counts the zeros among the normal numbers.
_CLASSES: Final = {"finite": 0x1F8, "infinite": 0x204, "number": 0x3FC, "notanumber": 0x003, "normal": 0x168}
_CLASSES_TEST: Final = {**_CLASSES, "subnormal": 0x090}


def _testp(builder: Builder, instruction: Instruction, kind: Type, args: Sequence[str]) -> str:
    name = next(modifier for modifier in instruction.modifiers if modifier in _CLASSES_TEST)
    return builder.call(
        kind.of("i1"), f"llvm.is.fpclass.{kind.suffix}", [(kind, args[0]), ("i32", str(_CLASSES_TEST[name]))]
    )


def _approx(function: object) -> Compute:
    return _wrapped(lambda builder, _, kind, args: function(builder, kind, args[0]))  # type: ignore[operator]


FLOATING: Final[dict[str, Lowering]] = {
    "add": lanewise(_arithmetic("add")),
    "sub": lanewise(_arithmetic("sub")),
    "mul": lanewise(_arithmetic("mul")),
    "fma": lanewise(_arithmetic("fma")),
    "mad": lanewise(_arithmetic("fma")),
    "div": lanewise(_arithmetic("div")),
    "rcp": lanewise(_gross(_arithmetic("div"))),
    "sqrt": lanewise(_arithmetic("sqrt")),
    "rsqrt": lanewise(_gross(_wrapped(_reciprocal_root))),
    "abs": lanewise(_wrapped(_abs)),
    "neg": lanewise(_wrapped(_neg)),
    "min": lanewise(_wrapped(_minmax)),
    "max": lanewise(_wrapped(_minmax)),
    "copysign": lanewise(_copysign),
    "testp": lanewise(_testp, result_type=lambda _: "pred"),
    "ex2": lanewise(_approx(exp2_approx)),
    "lg2": lanewise(_approx(log2_approx)),
    "sin": lanewise(_approx(lambda b, k, x: sine_approx(b, k, x, cosine=False))),
    "cos": lanewise(_approx(lambda b, k, x: sine_approx(b, k, x, cosine=True))),
    "tanh": lanewise(_approx(tanh_approx)),
}
