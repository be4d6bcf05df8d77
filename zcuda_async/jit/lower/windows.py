"""Loads whose lanes all read from a few neighbouring lines of memory: found out at run time, like rows.

Exchanges by shared memory (transforms, sorting networks, small tables) read in an order of their own within a stretch
as long as what the lanes read.  A gather takes a step for each lane; here the stretch is loaded whole and its words
are put in order by permutations of two registers (``vpermi2d``), which AVX-512 has.  Only shared memory is looked at:
every load becomes longer, which kernels with many loads from global memory pay for in compile time and gain little by.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zcuda_async.jit.builder import Type
from zcuda_async.jit.lower.rows import all_of

if TYPE_CHECKING:
    from zcuda_async.jit.lower.group import Group
    from zcuda_async.jit.lower.memory import Place

__all__ = ("Window", "find_window", "has_windows")

_LANES: Final = 16
_WORD: Final = 4
_LINE: Final = 64


@dataclass(frozen=True, slots=True)
class Window:
    """`count` pairs of lines from the pointer `start` on; `words` says which word of them each lane begins with.

    `holds_all` is true where all that the lanes read is in there.
    """

    start: str
    words: str
    count: int
    holds_all: str

    def load(self, group: Group, kind: Type, tag: str) -> list[str]:
        """The words of each lane, one vector for each of `count`."""
        builder, words = group.builder, group.vector("i32")
        lines = []
        for number in range(2 * self.count):
            at = builder.op(f"getelementptr i8, ptr {self.start}, i64 {number * _LINE}")
            lines.append(builder.op(f"load {words}, ptr {at}, align {_LINE}{tag}"))
        found = []
        for index in range(self.count):
            chosen = builder.binary("add", words, self.words, words.const(index)) if index else self.words
            value = self._permuted(group, lines[:2], chosen)
            if self.count == 2:
                other = self._permuted(group, lines[2:], chosen)
                is_far = builder.compare(
                    "icmp ugt", words, builder.binary("and", words, chosen, words.const(63)), words.const(31)
                )
                value = builder.select(words, is_far, other, value)
            found.append(builder.cast("bitcast", words, value, kind))
        return found

    def _permuted(self, group: Group, lines: list[str], chosen: str) -> str:
        """Words of two lines; the permutation looks at the lowest five bits of each choice."""
        words = group.vector("i32")
        arguments = [(words, lines[0]), (words, chosen), (words, lines[1])]
        return group.builder.call(words, "llvm.x86.avx512.vpermi2var.d.512", arguments)


def has_windows(group: Group, where: Place, size: int, count: int) -> bool:
    """Whether a load of `count` elements of `size` bytes by each lane can be looked for in a window."""
    fits = group.lanes == _LANES and "avx512" in group.builder.features and size == _WORD and count in (1, 2)
    return fits and where.index is not None and where.index.is_shared


def find_window(group: Group, where: Place, count: int, mask: str | None) -> Window:
    """The lines around what lane 0 reads, and whether the others of the mask read there too.

    They are aligned to all of their size, so none is in a page that no lane reads from.
    """
    builder, words = group.builder, group.vector("i32")
    index = where.index
    assert index is not None
    size = 2 * _LINE * count
    values = builder.op(f"freeze {words} {index.lanes}")
    first = group.lane_of(words, values, "0")
    pointer = index.pointer(group, first)
    address = builder.op(f"ptrtoint ptr {pointer} to i64")
    within = builder.op(f"and i64 {address}, {size - 1}")
    start = builder.op(f"getelementptr i8, ptr {pointer}, i64 {builder.op(f'sub i64 0, {within}')}")
    low = builder.op(f"sub i32 {first}, {builder.op(f'trunc i64 {within} to i32')}")
    place = builder.binary("sub", words, values, builder.splat(words, low))
    inside = builder.compare("icmp ult", words, place, words.const(size - _WORD * (count - 1)))
    holds_all = all_of(group, inside, mask)
    if mask is not None:  # with no lane to read for, lane 0 may point anywhere
        holds_all = builder.op(f"and i1 {holds_all}, {group.any_of([mask])}")
    return Window(start, builder.binary("lshr", words, place, words.const(2)), count, holds_all)
