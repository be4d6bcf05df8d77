"""Which declared register types an operand of a given type accepts."""

from __future__ import annotations

from functools import cache
from typing import Final

from zcuda_async.ptx.ir import TYPE_BITS
from zcuda_async.ptx.table_syntax import TYPE_WIDTHS

__all__ = ("REGISTER_TYPES", "registers_for")

REGISTER_TYPES: Final = frozenset(TYPE_BITS) - {"bf16", "bf16x2"}
"""The types a ``.reg`` may be declared with."""


@cache
def registers_for(type_: str, *, relaxed: bool = False) -> frozenset[str]:
    """The register types that fit an operand of type `type_`.

    A ``.b`` operand takes any register of its size, an integer one any integer register, and a
    floating-point one its own type or ``.b`` of its size.  Relaxed operands (loads, stores,
    conversions) also take wider registers, except that floating-point registers never change size.
    """
    if type_ in ("", "pred"):
        return frozenset(("pred",)) if type_ else frozenset()
    width = TYPE_WIDTHS[type_]
    if type_ in TYPE_BITS and type_[0] == "b" and type_[1:].isdigit():
        wide = {width} if not relaxed else {bits for bits in TYPE_BITS.values() if bits >= width}
        return frozenset(name for name in REGISTER_TYPES - {"pred"} if TYPE_BITS[name] in wide)
    if type_[0] not in "us":
        bits_types = {f"b{bits}" for bits in (16, 32, 64) if bits == width or (relaxed and bits > width)}
        return frozenset(({type_} & REGISTER_TYPES) | bits_types)
    wide = {width} | ({bits for bits in (16, 32, 64) if bits > width} if relaxed else set())
    return frozenset(f"{kind}{bits}" for kind in "bus" for bits in wide) & REGISTER_TYPES
