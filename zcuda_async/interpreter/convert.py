"""``cvt`` in all the forms whose types are ordinary integers and floats."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Final

from zcuda_async.interpreter import exact
from zcuda_async.interpreter.bits import Compute, Factory, clamped, is_float, mask, number, wrapped
from zcuda_async.interpreter.exact import FORMATS, Format, Value
from zcuda_async.interpreter.floating import rounding, saturate
from zcuda_async.ptx.ir import Instruction
from zcuda_async.ptx.table_syntax import TYPE_WIDTHS

__all__ = ("CONVERT",)


def _nearest_even(x: Fraction) -> int:
    return round(x)


_TO_INTEGER: Final[dict[str, Callable[[Fraction], int]]] = {
    "rni": _nearest_even,
    "rzi": math.trunc,
    "rmi": math.floor,
    "rpi": math.ceil,
}


def _integral(instruction: Instruction) -> Callable[[Fraction], int] | None:
    return next((_TO_INTEGER[name] for name in _TO_INTEGER if instruction.has(name)), None)


def _from_integer(instruction: Instruction, to: str, source: str) -> Compute:
    if not is_float(to):
        fit = clamped if instruction.has("sat") else wrapped
        return lambda a: fit(number(a, source), to)
    form, mode = FORMATS[to], rounding(instruction)
    finish = _finisher(instruction, form, to)
    return lambda a: finish(exact.finite(number(a, source)), mode)


def _float_to_integer(instruction: Instruction, to: str, source: str) -> Compute:
    """Rounded to an integer, then limited to the type.  NaN is zero, or the top bit where 64 bits are involved."""
    form, to_integer = FORMATS[source], _integral(instruction)
    assert to_integer is not None
    flushes = instruction.has("ftz") and source == "f32"
    width = TYPE_WIDTHS[to]
    nan = 1 << (width - 1) if source == "f64" or width == 64 else 0

    def compute(a: int) -> int:
        value = form.decode(form.flush(a) if flushes else a)
        if value.is_nan:
            return nan
        if value.is_infinite:
            return clamped(-(1 << 100) if value.negative else 1 << 100, to)
        return clamped(to_integer(value.signed), to)

    return compute


def _float_to_float(instruction: Instruction, to: str, source: str) -> Compute:
    form, result, to_integer, mode = FORMATS[source], FORMATS[to], _integral(instruction), rounding(instruction)
    flushes = instruction.has("ftz") and source == "f32"
    finish = _finisher(instruction, result, to)

    def compute(a: int) -> int:
        value = form.decode(form.flush(a) if flushes else a)
        if to_integer is not None and not value.is_nan and not value.is_infinite:
            value = exact.finite(to_integer(value.signed), negative_zero=value.negative)
        return finish(value, mode)

    return compute


def _finisher(instruction: Instruction, form: Format, to: str) -> Callable[[Value, str], int]:
    """Rounding to the result's format, and what ``.ftz``, ``.sat``, ``.relu`` and ``.satfinite`` do then."""
    flushes = instruction.has("ftz") and to == "f32"

    def finish(value: Value, mode: str) -> int:
        bits = form.encode(value, mode)
        if flushes:
            bits = form.flush(bits)
        if instruction.has("satfinite") and bits & ~form.sign_bit == form.infinity_bits:
            bits -= 1  # the largest finite number of that sign
        if instruction.has("relu") and bits & form.sign_bit and not form.is_nan(bits):
            bits = 0
        return saturate(form, bits) if instruction.has("sat") else bits

    return finish


def _tf32(instruction: Instruction) -> Compute:
    """f32 with only ten fraction bits: 13 low bits are rounded off and left zero."""
    narrow, mode = Format(8, 10), rounding(instruction)
    finish = _finisher(instruction, narrow, "tf32")
    wide = FORMATS["f32"]
    return lambda a: finish(wide.decode(a), mode) << 13


def _two_to_packed(instruction: Instruction, to: str) -> Compute:
    """``cvt.rn.f16x2.f32 d, a, b``: a goes to the high half."""
    one = _float_to_float(instruction, to.removesuffix("x2"), instruction.types[1])

    def compute(a: int, b: int) -> int:
        high, low = one(a), one(b)
        assert isinstance(high, int)
        assert isinstance(low, int)
        return high << 16 | low

    return compute


_BYTES: Final = {"e4m3x2": Format(4, 3), "e5m2x2": Format(5, 2)}
_LARGEST: Final = {"e4m3x2": 448, "e5m2x2": 57344}
_NAN_BYTE: Final = 0x7F


def _to_byte(kind: str, value: Value, *, relu: bool) -> int:
    """One 8-bit float, rounded to nearest; what would be beyond the largest number is that number."""
    if value.is_nan:
        return _NAN_BYTE
    if value.negative and relu:
        return 0
    form, largest = _BYTES[kind], _LARGEST[kind]
    sign = form.sign_bit if value.negative else 0
    if value.is_infinite or value.magnitude >= largest:
        # e4m3 has no infinity: its largest exponent holds numbers up to 448.
        return sign | (0x7E if kind == "e4m3x2" else 0x7B)
    if kind == "e4m3x2" and value.magnitude >= 1:  # half of it, which the format with infinity holds, with 1 more
        return sign | form.encode(exact.finite(value.magnitude / 2)) + (1 << form.fraction_bits)
    return sign | form.encode(exact.finite(value.magnitude))


def _to_bytes(instruction: Instruction, to: str, source: str) -> Compute:
    """Two f32 (the first for the high byte), or the halves of an f16x2."""
    form, relu = FORMATS["f16" if source == "f16x2" else "f32"], instruction.has("relu")

    def one(bits: int) -> int:
        return _to_byte(to, form.decode(bits), relu=relu)

    if source == "f16x2":
        return lambda a: one(a >> 16) << 8 | one(a & mask(16))
    return lambda a, b: one(a) << 8 | one(b)


def _from_byte(kind: str, code: int) -> Value:
    form = _BYTES[kind]
    if kind == "e4m3x2" and code & mask(7) != _NAN_BYTE:  # no infinity and one NaN: the top exponent holds numbers
        fraction, exponent = code & 7, code >> 3 & 15
        size = (8 + fraction if exponent else fraction) * Fraction(2) ** (max(exponent, 1) - 10)
        return Value(exact.Kind.FINITE, bool(code & 0x80), size)
    return form.decode(code)


def _from_bytes(instruction: Instruction, source: str) -> Compute:
    form, relu = FORMATS["f16"], instruction.has("relu")

    def one(code: int) -> int:
        value = _from_byte(source, code)
        return 0 if relu and value.negative and not value.is_nan else form.encode(value)

    return lambda a: one(a >> 8) << 16 | one(a & mask(8))


def _pack(instruction: Instruction) -> Compute:
    """``cvt.pack.sat``: a and b limited to the narrow type, b in the low field; c's low bits above them."""
    to, source = instruction.types[0], instruction.types[1]
    width = TYPE_WIDTHS[to]

    def compute(a: int, b: int, c: int = 0) -> int:
        pair = clamped(number(a, source), to) << width | clamped(number(b, source), to)
        return (c << 2 * width | pair) & mask(32)

    return compute


def _cvt(instruction: Instruction) -> Compute:
    to, source = instruction.types[0], instruction.types[1]
    if instruction.has("pack"):
        return _pack(instruction)
    if to == "tf32":
        return _tf32(instruction)
    if to in ("f16x2", "bf16x2") and source == "f32":
        return _two_to_packed(instruction, to)
    if to in _BYTES:
        return _to_bytes(instruction, to, source)
    if source in _BYTES:
        return _from_bytes(instruction, source)
    if not is_float(source):
        return _from_integer(instruction, to, source)
    return (_float_to_float if is_float(to) else _float_to_integer)(instruction, to, source)


CONVERT: Final[dict[str, Factory]] = {"cvt": _cvt}
