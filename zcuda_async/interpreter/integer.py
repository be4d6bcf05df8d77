"""Integer arithmetic, bit fields, logic and shifts, as the PTX manual's pseudo code has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from zcuda_async.interpreter.bits import Compute, Factory, clamped, is_signed, mask, number, packed, wrapped
from zcuda_async.ptx.ir import Immediate, Instruction
from zcuda_async.ptx.table_syntax import TYPE_WIDTHS

__all__ = ("INTEGER",)


def _fitted(instruction: Instruction) -> Callable[[int], int]:
    """How a result is brought into its type: modulo its range, or limited to it by ``.sat``."""
    kind = instruction.types[0]
    return (lambda value: clamped(value, kind)) if instruction.has("sat") else (lambda value: wrapped(value, kind))


def _add(instruction: Instruction) -> Compute:
    kind, fit = instruction.types[0], _fitted(instruction)
    return lambda a, b: fit(number(a, kind) + number(b, kind))


def _sub(instruction: Instruction) -> Compute:
    kind, fit = instruction.types[0], _fitted(instruction)
    return lambda a, b: fit(number(a, kind) - number(b, kind))


def _product(instruction: Instruction) -> tuple[Callable[[int, int], int], str]:
    """``mul.lo``, ``.hi`` or ``.wide`` of two bit patterns, as an integer; and the result's type."""
    kind = instruction.types[0]
    width = TYPE_WIDTHS[kind]
    if instruction.has("hi"):
        return (lambda a, b: number(a, kind) * number(b, kind) >> width), kind
    wide = f"{kind[0]}{width * 2}" if instruction.has("wide") else kind
    return (lambda a, b: number(a, kind) * number(b, kind)), wide


def _mul(instruction: Instruction) -> Compute:
    product, kind = _product(instruction)
    return lambda a, b: wrapped(product(a, b), kind)


def _mad(instruction: Instruction) -> Compute:
    product, kind = _product(instruction)
    fit = clamped if instruction.has("sat") else wrapped
    return lambda a, b, c: fit(product(a, b) + number(c, kind), kind)


def _product24(instruction: Instruction) -> Callable[[int, int], int]:
    """The product of the low 24 bits: its low 32 bits, or bits 16 to 47."""
    kind = instruction.types[0]
    down = 16 if instruction.has("hi") else 0

    def low24(bits: int) -> int:
        bits &= mask(24)
        return bits - (1 << 24) if is_signed(kind) and bits >> 23 else bits

    return lambda a, b: number(low24(a) * low24(b) >> down & mask(32), kind)


def _mul24(instruction: Instruction) -> Compute:
    product = _product24(instruction)
    return lambda a, b: product(a, b) & mask(32)


def _mad24(instruction: Instruction) -> Compute:
    product, fit, kind = _product24(instruction), _fitted(instruction), instruction.types[0]
    return lambda a, b, c: fit(product(a, b) + number(c, kind))


def _div(instruction: Instruction) -> Compute:
    """Toward zero.  Division by zero is open in PTX; the machines give all ones."""
    kind = instruction.types[0]

    def compute(a: int, b: int) -> int:
        x, y = number(a, kind), number(b, kind)
        if y == 0:
            return wrapped(-1, kind)
        quotient = abs(x) // abs(y)
        return wrapped(quotient if (x < 0) == (y < 0) else -quotient, kind)

    return compute


def _rem(instruction: Instruction) -> Compute:
    """The sign of the dividend.  Division by zero gives the dividend."""
    kind = instruction.types[0]

    def compute(a: int, b: int) -> int:
        x, y = number(a, kind), number(b, kind)
        if y == 0:
            return a
        rest = abs(x) % abs(y)
        return wrapped(-rest if x < 0 else rest, kind)

    return compute


def _abs(instruction: Instruction) -> Compute:
    kind = instruction.types[0]
    return lambda a: wrapped(abs(number(a, kind)), kind)


def _neg(instruction: Instruction) -> Compute:
    kind = instruction.types[0]
    return lambda a: wrapped(-a, kind)


def _extreme(choose: Callable[[int, int], int]) -> Factory:
    def make(instruction: Instruction) -> Compute:
        kind = instruction.types[0]
        floor = 0 if instruction.has("relu") else -(1 << 64)
        return lambda a, b: wrapped(max(choose(number(a, kind), number(b, kind)), floor), kind)

    return make


def _sad(instruction: Instruction) -> Compute:
    kind = instruction.types[0]
    return lambda a, b, c: wrapped(abs(number(a, kind) - number(b, kind)) + c, kind)


# ---------------------------------------------------------------------- logic and shifts


def _bitwise(combine: Callable[[int, int], int]) -> Factory:
    return lambda _: combine


def _not(instruction: Instruction) -> Compute:
    ones = mask(TYPE_WIDTHS[instruction.types[0]])
    return lambda a: a ^ ones


def _cnot(_: Instruction) -> Compute:
    return lambda a: int(a == 0)


def _shl(instruction: Instruction) -> Compute:
    kind = instruction.types[0]
    width = TYPE_WIDTHS[kind]
    return lambda a, by: wrapped(a << min(by, width), kind)


def _shr(instruction: Instruction) -> Compute:
    kind = instruction.types[0]
    width = TYPE_WIDTHS[kind]
    return lambda a, by: wrapped(number(a, kind) >> min(by, width), kind)


def _shf(instruction: Instruction) -> Compute:
    """Shift {b, a} and keep the high word of a left shift, the low word of a right shift."""
    left, clamp = instruction.has("l"), instruction.has("clamp")

    def compute(a: int, b: int, c: int) -> int:
        by = min(c, 32) if clamp else c & 31
        joined = b << 32 | a
        return (joined << by >> 32 if left else joined >> by) & mask(32)

    return compute


def _lop3(instruction: Instruction) -> Compute:
    table = instruction.operands[4]
    assert isinstance(table, Immediate)
    look_up = int(table.value)

    def logic(a: int, b: int, c: int) -> int:
        result = 0
        for bit in range(32):
            row = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1)
            result |= (look_up >> row & 1) << bit
        return result

    if instruction.has("or"):
        return lambda a, b, c, _, q: (logic(a, b, c), int(logic(a, b, c) != 0) | q)
    if instruction.has("and"):
        return lambda a, b, c, _, q: (logic(a, b, c), int(logic(a, b, c) != 0) & q)
    return lambda a, b, c, _: logic(a, b, c)


_PERMUTES: Final[dict[str, Callable[[int, int], int]]] = {
    "f4e": lambda byte, c: byte + c,
    "b4e": lambda byte, c: (c - byte) % 8,
    "rc8": lambda _, c: c,
    "ecl": max,
    "ecr": min,
    "rc16": lambda byte, c: (c & 1) * 2 + byte % 2,
}
"""For the special modes: destination byte and control value to source byte."""


def _prmt(instruction: Instruction) -> Compute:
    mode = next((_PERMUTES[name] for name in _PERMUTES if instruction.has(name)), None)

    def compute(a: int, b: int, c: int) -> int:
        source, result = b << 32 | a, 0
        for byte in range(4):
            selector = c >> 4 * byte & 15 if mode is None else mode(byte, c & 3)
            value = source >> 8 * (selector & 7) & 0xFF
            if selector & 8:  # the byte's sign, eight times
                value = 0xFF if value & 0x80 else 0
            result |= value << 8 * byte
        return result

    return compute


# ---------------------------------------------------------------------- bit fields


def _popc(_: Instruction) -> Compute:
    return lambda a: a.bit_count()


def _clz(instruction: Instruction) -> Compute:
    width = TYPE_WIDTHS[instruction.types[0]]
    return lambda a: width - a.bit_length()


def _bfind(instruction: Instruction) -> Compute:
    kind = instruction.types[0]
    top = TYPE_WIDTHS[kind] - 1

    def compute(a: int) -> int:
        value = number(a, kind)
        found = (~value if value < 0 else value).bit_length() - 1
        if found < 0:
            return mask(32)
        return top - found if instruction.has("shiftamt") else found

    return compute


def _brev(instruction: Instruction) -> Compute:
    width = TYPE_WIDTHS[instruction.types[0]]
    return lambda a: int(format(a, f"0{width}b")[::-1], 2)


def _bfe(instruction: Instruction) -> Compute:
    kind = instruction.types[0]
    top = TYPE_WIDTHS[kind] - 1

    def compute(a: int, b: int, c: int) -> int:
        position, length = b & 0xFF, c & 0xFF
        sign = a >> min(position + length - 1, top) & 1 if is_signed(kind) and length else 0
        result = 0
        for bit in range(top + 1):
            inside = bit < length and position + bit <= top
            result |= (a >> (position + bit) & 1 if inside else sign) << bit
        return result

    return compute


def _bfi(instruction: Instruction) -> Compute:
    top = TYPE_WIDTHS[instruction.types[0]] - 1

    def compute(a: int, b: int, c: int, d: int) -> int:
        position, length = c & 0xFF, d & 0xFF
        for bit in range(length):
            if position + bit <= top:
                b = b & ~(1 << (position + bit)) | (a >> bit & 1) << (position + bit)
        return b

    return compute


def _fns(_: Instruction) -> Compute:
    def compute(bits: int, base: int, offset: int) -> int:
        steps = number(offset, "s32")
        position, left = base, abs(steps) - 1
        if steps == 0:
            return base if bits >> base & 1 else mask(32)
        while 0 <= position < 32:
            if bits >> position & 1:
                if left == 0:
                    return position
                left -= 1
            position += 1 if steps > 0 else -1
        return mask(32)

    return compute


def _szext(instruction: Instruction) -> Compute:
    kind, clamp = instruction.types[0], instruction.has("clamp")

    def compute(a: int, b: int) -> int:
        if clamp and b >= 32:
            return a
        length = b & 31
        value = a & mask(length)
        return wrapped(value - (1 << length) if length and is_signed(kind) and value >> (length - 1) else value, kind)

    return compute


def _bmsk(instruction: Instruction) -> Compute:
    clamp = instruction.has("clamp")

    def compute(a: int, b: int) -> int:
        start, length = (min(a, 32), min(b, 32)) if clamp else (a & 31, b & 31)
        return mask(length) << start & mask(32)

    return compute


def _fields(word: int, width: int, kind: str) -> list[int]:
    """The signed or unsigned `width`-bit fields of a 32-bit word, the lowest first."""
    return [number(word >> at & mask(width), f"{kind[0]}{width}") for at in range(0, 32, width)]


def _dp4a(instruction: Instruction) -> Compute:
    first, second = instruction.types

    def compute(a: int, b: int, c: int) -> int:
        pairs = zip(_fields(a, 8, first), _fields(b, 8, second), strict=True)
        return (c + sum(x * y for x, y in pairs)) & mask(32)

    return compute


def _dp2a(instruction: Instruction) -> Compute:
    first, second = instruction.types
    start = 2 if instruction.has("hi") else 0

    def compute(a: int, b: int, c: int) -> int:
        pairs = zip(_fields(a, 16, first), _fields(b, 8, second)[start : start + 2], strict=True)
        return (c + sum(x * y for x, y in pairs)) & mask(32)

    return compute


INTEGER: Final[dict[str, Factory]] = {
    "add": packed(_add), "sub": _sub, "mul": _mul, "mad": _mad, "mul24": _mul24, "mad24": _mad24,
    "div": _div, "rem": _rem, "abs": _abs, "neg": _neg, "min": packed(_extreme(min)), "max": packed(_extreme(max)),
    "sad": _sad, "and": _bitwise(lambda a, b: a & b), "or": _bitwise(lambda a, b: a | b),
    "xor": _bitwise(lambda a, b: a ^ b), "not": _not, "cnot": _cnot, "shl": _shl, "shr": _shr, "shf": _shf,
    "lop3": _lop3, "prmt": _prmt, "popc": _popc, "clz": _clz, "bfind": _bfind, "brev": _brev, "bfe": _bfe,
    "bfi": _bfi, "fns": _fns, "szext": _szext, "bmsk": _bmsk, "dp4a": _dp4a, "dp2a": _dp2a,
}  # fmt: skip
