"""Video instructions, as the manual's pseudo code has them: on unbounded integers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Final

from zcuda_async.interpreter.bits import Compute, Factory, mask, number
from zcuda_async.ptx.ir import Instruction

__all__ = ("VIDEO",)

_TESTS: Final[dict[str, Callable[[int, int], bool]]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


def _part_select(word: int, kind: str, selector: str) -> int:
    """A byte, a half-word or all of a word, with the sign that its type says."""
    if not selector:
        return number(word, kind)
    width, at = (8 if selector[0] == "b" else 16), int(selector[1])
    return number(word >> width * at & mask(width), f"{kind[0]}{width}")


def _saturated(value: int, kind: str, width: int) -> int:
    low, high = (-(1 << (width - 1)), mask(width - 1)) if kind[0] == "s" else (0, mask(width))
    return min(max(value, low), high)


def _average(a: int, b: int) -> int:
    return (a + b + 1) >> 1 if a + b >= 0 else (a + b) >> 1


def _operation(instruction: Instruction) -> Callable[[int, int], int]:
    name = instruction.opcode.rstrip("24")
    if name == "vset":
        test = next(_TESTS[modifier] for modifier in instruction.modifiers if modifier in _TESTS)
        return lambda a, b: int(test(a, b))
    if name in ("vshl", "vshr"):
        wraps = instruction.has("wrap")
        amount: Callable[[int], int] = (lambda b: b & 31) if wraps else (lambda b: min(b, 32))
        if name == "vshr":
            return lambda a, b: a >> amount(b)
        if instruction.has("sat"):
            return lambda a, b: a << amount(b)
        return lambda a, b: number(a << amount(b) & mask(32), instruction.types[0])
    return _PLAIN[name]


_PLAIN: Final[dict[str, Callable[[int, int], int]]] = {
        "vadd": operator.add, "vsub": operator.sub, "vabsdiff": lambda a, b: abs(a - b),
        "vmin": min, "vmax": max, "vavrg": _average,
    }  # fmt: skip


def _kinds(instruction: Instruction) -> tuple[str, str, str]:
    types = instruction.types if not instruction.opcode.startswith("vset") else ("u32", *instruction.types)
    return types[0], types[1], types[2]


def _scalar(instruction: Instruction) -> Compute:
    dtype, atype, btype = _kinds(instruction)
    dsel, asel, bsel = instruction.selectors[:3]
    operation = _operation(instruction)
    width = 32 if not dsel else 8 if dsel[0] == "b" else 16

    def compute(a: int, b: int, c: int = 0) -> int:
        value = operation(_part_select(a, atype, asel), _part_select(b, btype, bsel))
        if instruction.has("sat"):
            value = _saturated(value, dtype, width)
        if dsel:
            at = width * int(dsel[1])
            return c & ~(mask(width) << at) | (value & mask(width)) << at
        if instruction.has("add"):
            value += c
        elif instruction.has("min"):
            value = min(value, number(c, dtype))
        elif instruction.has("max"):
            value = max(value, number(c, dtype))
        return value & mask(32)

    return compute


def _vmad(instruction: Instruction) -> Compute:
    _, atype, btype = _kinds(instruction)
    signs = [selector.startswith("-") for selector in instruction.selectors]
    asel, bsel = (selector.lstrip("-") for selector in instruction.selectors[1:3])
    signed = "s" in atype or "s" in btype or signs[1] != signs[2]
    shift = 7 if instruction.has("shr7") else 15 if instruction.has("shr15") else 0

    def compute(a: int, b: int, c: int) -> int:
        product = _part_select(a, atype, asel) * _part_select(b, btype, bsel)
        addend = number(c, "s32" if signed else "u32")
        value = (-product if signs[1] != signs[2] else product) + (-addend if signs[3] else addend)
        value = value + int(instruction.has("po")) >> shift
        if instruction.has("sat"):
            value = _saturated(value, "s32" if signed or signs[3] else "u32", 32)
        return value & mask(32)

    return compute


def _simd(instruction: Instruction) -> Compute:
    size = int(instruction.opcode[-1])
    width = 32 // size
    dtype, atype, btype = _kinds(instruction)
    msel, asel, bsel = instruction.selectors[:3]
    letter = "h" if size == 2 else "b"
    digits = "76543210"[-2 * size :]
    chosen = [int(digit) for digit in (msel or letter + digits[size:])[1:]]
    from_a, from_b = asel or letter + digits[size:], bsel or letter + digits[:size]
    operation = _operation(instruction)

    def compute(a: int, b: int, c: int) -> int:
        both, result = b << 32 | a, c
        for at in chosen:
            picked = [
                number(both >> width * int(selector[size - at]) & mask(width), f"{kind[0]}{width}")
                for selector, kind in ((from_a, atype), (from_b, btype))
            ]
            value = operation(*picked)
            if instruction.has("add"):
                result += value
                continue
            if instruction.has("sat"):
                value = _saturated(value, dtype, width)
            result = result & ~(mask(width) << width * at) | (value & mask(width)) << width * at
        return result & mask(32)

    return compute


def _factory(opcode: str) -> Factory:
    return _vmad if opcode == "vmad" else _simd if opcode[-1].isdigit() else _scalar


VIDEO: Final[dict[str, Factory]] = {
    opcode: _factory(opcode)
    for opcode in (
        *("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vshl", "vshr", "vmad", "vset"),
        *(f"{name}{size}" for name in ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax", "vset") for size in (2, 4)),
    )
}
