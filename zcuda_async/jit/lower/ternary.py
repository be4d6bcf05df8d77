"""``lop3``: any function of three bits, as few logical operations.

A function is its table: bit 4a + 2b + c of it is the result, so a itself is 0xF0, b 0xCC and c 0xAA.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from itertools import product
from types import MappingProxyType
from typing import Final

from zcuda_async.jit.builder import Builder, Type

__all__ = ("formulas", "ternary")

Formula = int | tuple[str, int, int]
"""A source (0 to 2), or an operation on the functions with two other tables; constants are themselves."""

_SOURCES: Final = {0xF0: 0, 0xCC: 1, 0xAA: 2}
_CONSTANTS: Final = (0x00, 0xFF)
_EMBEDDED: Final = Type("i32", 16)


@cache
def formulas() -> Mapping[int, tuple[int, Formula]]:
    """For each table the least number of operations (and, or, xor) and the last of them."""
    found: dict[int, tuple[int, Formula]] = {table: (0, source) for table, source in _SOURCES.items()}
    found.update((table, (0, table)) for table in _CONSTANTS)
    levels = [list(found)]
    while len(found) < 256:
        cost = len(levels)
        new: list[int] = []
        for left in range(cost):
            for a, b in product(levels[left], levels[cost - 1 - left]):
                for opcode, table in (("and", a & b), ("or", a | b), ("xor", a ^ b)):
                    if table not in found:
                        found[table] = (cost, (opcode, a, b))
                        new.append(table)
        levels.append(new)
    return MappingProxyType(found)


def ternary(builder: Builder, kind: Type, table: int, args: Sequence[str]) -> str:
    """The function with that table of three values."""
    cost, formula = formulas()[table]
    if cost > 1 and kind == _EMBEDDED and "avx512" in builder.features:
        given: list[tuple[Type | str, str]] = [(kind, arg) for arg in args]
        return builder.call(kind, "llvm.x86.avx512.pternlog.d.512", [*given, ("i32", str(table))])
    if table in _CONSTANTS:
        return kind.const(-1 if table else 0)
    if isinstance(formula, int):
        return args[formula]
    opcode, left, right = formula
    return builder.binary(opcode, kind, ternary(builder, kind, left, args), ternary(builder, kind, right, args))
