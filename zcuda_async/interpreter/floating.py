"""Floating-point arithmetic: operands are decoded exactly, results are rounded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from zcuda_async.interpreter import exact
from zcuda_async.interpreter.bits import Compute, Factory, packed
from zcuda_async.interpreter.exact import FORMATS, NAN, Format, Kind, Value
from zcuda_async.interpreter.mathematics import cosine, exp2, hyperbolic_tangent, log2, reciprocal_root, sine
from zcuda_async.ptx.ir import Instruction

__all__ = ("FLOATING", "rounding", "saturate", "wrap")

_UPPER: Final = Format(11, 20)
_MODES: Final = ("rn", "rz", "rm", "rp", "rna")
_OUT_OF_BOUNDS: Final = 0x7FF7
"""The NaN, of either sign, that tensor copies fill with and ``.oob`` looks for, in f16 and bf16."""
Exact = Callable[..., Value]


def rounding(instruction: Instruction) -> str:
    """The rounding mode of an instruction: to nearest, ties to even, if it names none."""
    return next((mode for mode in _MODES if instruction.has(mode)), "rn")


def saturate(form: Format, bits: int) -> int:
    """``.sat``: into [0, 1]; NaN becomes +0."""
    value = form.decode(bits)
    if value.is_nan or value.negative or value.is_zero:
        return 0
    one = form.encode(exact.finite(1))
    return min(bits, one)  # positive floats are ordered like their bit patterns


def _relu(form: Format, bits: int) -> int:
    """``.relu``: negative becomes +0; NaN stays."""
    return bits if form.is_nan(bits) else 0 if bits & form.sign_bit else bits


def wrap(instruction: Instruction, ptx_type: str, compute: Exact) -> Compute:
    """Decode, compute exactly, round; with what ``.ftz``, ``.sat``, ``.relu`` and ``.oob`` ask for."""
    form, mode, flushes = FORMATS[ptx_type], rounding(instruction), instruction.has("ftz")

    def run(*operands: int) -> int:
        if instruction.has("oob") and any(bits & ~form.sign_bit == _OUT_OF_BOUNDS for bits in operands[:2]):
            return 0
        if flushes:
            operands = tuple(form.flush(bits) for bits in operands)
        result = form.encode(compute(*(form.decode(bits) for bits in operands)), mode)
        if flushes:
            result = form.flush(result)
        if instruction.has("sat"):
            result = saturate(form, result)
        return _relu(form, result) if instruction.has("relu") else result

    return run


def _rounded(compute: Callable[..., Value]) -> Factory:
    """A factory for a computation that takes the rounding mode as its first argument."""

    def make(instruction: Instruction) -> Compute:
        mode = rounding(instruction)
        return wrap(instruction, instruction.types[0], lambda *values: compute(mode, *values))

    return packed(make)


def _fma(mode: str, a: Value, b: Value, c: Value) -> Value:
    return exact.add(exact.multiply(a, b), c, mode)


def _abs(instruction: Instruction) -> Compute:
    form = FORMATS[instruction.types[0]]
    flushes = instruction.has("ftz")
    return lambda a: (form.flush(a) if flushes else a) & ~form.sign_bit


def _neg(instruction: Instruction) -> Compute:
    form = FORMATS[instruction.types[0]]
    flushes = instruction.has("ftz")
    return lambda a: (form.flush(a) if flushes else a) ^ form.sign_bit


def _order(form: Format, bits: int) -> int:
    """A key that sorts numbers by value, -0 before +0."""
    return -(bits & ~form.sign_bit) - 1 if bits & form.sign_bit else bits


def _extreme(choose: Callable[..., int]) -> Factory:
    """``min`` and ``max``: a NaN loses, or wins with ``.NaN``."""

    def make(instruction: Instruction) -> Compute:
        form = FORMATS[instruction.types[0]]
        propagates, xors, flushes = (instruction.has(name) for name in ("NaN", "xorsign", "ftz"))

        def compute(a: int, b: int) -> int:
            sign = (a ^ b) & form.sign_bit
            if flushes:
                a, b = form.flush(a), form.flush(b)
            if xors:
                a, b = a & ~form.sign_bit, b & ~form.sign_bit
            numbers = [bits for bits in (a, b) if not form.is_nan(bits)]
            if not numbers or (propagates and len(numbers) < 2):
                return form.nan_bits
            result = choose(numbers, key=lambda bits: _order(form, bits))
            return result | sign if xors else result

        return compute

    return packed(make)


def _copysign(instruction: Instruction) -> Compute:
    """The sign of a, the magnitude of b."""
    sign = FORMATS[instruction.types[0]].sign_bit
    return lambda a, b: (b & ~sign) | (a & sign)


def _testp(instruction: Instruction) -> Compute:
    form = FORMATS[instruction.types[0]]
    kind = next(iter(instruction.modifiers))

    def compute(bits: int) -> int:
        value = form.decode(bits)
        subnormal = form.is_subnormal(bits)
        return int(
            {
                "finite": not value.is_nan and not value.is_infinite,
                "infinite": value.is_infinite,
                "number": not value.is_nan,
                "notanumber": value.is_nan,
                "normal": not value.is_nan and not value.is_infinite and not subnormal,  # zeros count as normal
                "subnormal": subnormal,
            }[kind]
        )

    return compute


def _one_argument(function: Callable[[Value], Value]) -> Factory:
    return _rounded(lambda _, a: function(a))


def _reciprocal_value(a: Value) -> Value:
    return exact.divide(exact.finite(1), a)


def _divide(instruction: Instruction) -> Compute:
    """Division; ``.approx`` is a * (1 / b) with a reciprocal that is never subnormal."""

    def quotient(_: str, a: Value, b: Value) -> Value:
        if instruction.has("approx") and not b.is_nan and not b.is_infinite and b.magnitude > 2**126:
            return exact.multiply(a, Value(Kind.FINITE, b.negative))
        return exact.divide(a, b)

    return _rounded(quotient)(instruction)


def _gross(factory: Factory) -> Factory:
    """``.approx.ftz.f64``: computed on upper words, numbers of 11 bits of exponent and 20 of fraction."""

    def make(instruction: Instruction) -> Compute:
        if instruction.types[0] != "f64" or not (instruction.has("approx") and instruction.has("ftz")):
            return factory(instruction)
        function = _reciprocal_value if instruction.opcode == "rcp" else reciprocal_root
        return lambda bits: _UPPER.flush(_UPPER.encode(function(_UPPER.decode(_UPPER.flush(bits >> 32))))) << 32

    return make


def _subtract(mode: str, a: Value, b: Value) -> Value:
    return NAN if b.is_nan else exact.add(a, b.negated(), mode)


FLOATING: Final[dict[str, Factory]] = {
    "add": _rounded(lambda mode, a, b: exact.add(a, b, mode)),
    "sub": _rounded(_subtract),
    "mul": _rounded(lambda _, a, b: exact.multiply(a, b)),
    "fma": _rounded(_fma),
    "mad": _rounded(_fma),
    "div": _divide,
    "rcp": _gross(_one_argument(_reciprocal_value)),
    "sqrt": _one_argument(exact.square_root),
    "rsqrt": _gross(_one_argument(reciprocal_root)),
    "abs": packed(_abs),
    "neg": packed(_neg),
    "min": _extreme(min),
    "max": _extreme(max),
    "copysign": _copysign,
    "testp": _testp,
    "ex2": _one_argument(exp2),
    "lg2": _one_argument(log2),
    "sin": _one_argument(sine),
    "cos": _one_argument(cosine),
    "tanh": _one_argument(hyperbolic_tangent),
}
