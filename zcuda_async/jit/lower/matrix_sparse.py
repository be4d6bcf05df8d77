"""Products with a sparse factor: which rows of b the elements of a belong to (PTX ISA 9.7.14.6: mma.sp).

Half of a is there: of every chunk of four places (of tf32: two; of 4-bit integers: eight, in pairs) the two
that the chunk's four bits of metadata name.  The bits of a lane's register of a are in one lane of its group
of four, which the selector and the register's number choose.
"""

from __future__ import annotations

from typing import Final

from zcuda_async.jit.builder import Builder, Type
from zcuda_async.ptx.matrix import ELEMENT_BITS, Fragment, Product

__all__ = ("lay_out_places",)

_WARP: Final = 32
_WORDS: Final = Type("i32", _WARP)


def lay_out_places(b: Builder, product: Product, selector: int, to: str) -> None:
    """Write, for every place k of the packed a and every row, where b's row begins: i32 ``[k][row]``.

    Args:
        b: Where code goes: in a function whose %e has the lanes' metadata.
        product: Its matrices.
        selector: The sparsity selector.
        to: Where to write.
    """
    fragment = product.a
    metadata = b.op(f"load {_WORDS}, ptr %e, align 64")
    for register in range(fragment.registers):
        bits = _bits_of(b, fragment, register, selector, metadata)
        block, half = divmod(register, 2)
        for index in range(fragment.per_register):
            rows = _rows_of_b(b, product, bits, block, index)
            for t in range(4):
                picked = b.shuffle(_WORDS, rows, "poison", range(t, _WARP, 4))
                k = (block * 4 + t) * fragment.per_register + index
                at = b.op(f"getelementptr i32, ptr {to}, i32 {k * product.m + half * 8}")
                b.line(f"store {Type('i32', 8)} {picked}, ptr {at}, align 4")


def _bits_of(b: Builder, fragment: Fragment, register: int, selector: int, metadata: str) -> str:
    """The metadata of a register's elements, from the lowest bit on.

    Elements of 16 or 32 bits have four bits: those of rows g and g + 8 are in the halves of one word.
    Smaller ones have eight, and rows g and g + 8 words of their own.
    """
    if ELEMENT_BITS[fragment.type] >= 16:
        thread = selector * (fragment.registers // 2) + register // 2
        shifts = [16 * (register % 2) + 4 * (lane % 4) for lane in range(_WARP)]
    else:
        thread = selector * fragment.registers + register
        shifts = [8 * (lane % 4) for lane in range(_WARP)]
    words = b.shuffle(_WORDS, metadata, "poison", [lane // 4 * 4 + thread for lane in range(_WARP)])
    return b.binary("lshr", _WORDS, words, _WORDS.vector(shifts))


def _rows_of_b(b: Builder, product: Product, bits: str, block: int, index: int) -> str:
    """Where the rows of b begin that the lanes' elements at place `index` of a register are multiplied with."""
    fragment = product.a
    together = 2 if ELEMENT_BITS[fragment.type] == 4 else 1
    number = index // together
    two = b.binary("and", _WORDS, b.binary("lshr", _WORDS, bits, _WORDS.const(2 * number)), _WORDS.const(3))
    if fragment.type == "tf32":  # its places are those of two halves each
        two = b.binary("lshr", _WORDS, two, _WORDS.const(1))
    scaled = b.binary("mul", _WORDS, two, _WORDS.const(together * product.n))
    width = 2 * fragment.per_register
    inside = number // 2 * 4 * together + index % together
    first = [((block * 4 + lane % 4) * width + inside) * product.n for lane in range(_WARP)]
    return b.binary("add", _WORDS, scaled, _WORDS.vector(first))
