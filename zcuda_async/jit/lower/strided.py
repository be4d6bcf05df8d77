"""Every other element: two wide accesses and a shuffle take the place of a gather or a scatter.

Addresses of the lanes tell at compile time that they lie two elements apart (``s[2 * t]``, one field of a pair).
What lies between the first lane's element and the last one's is in the same pages, so it may be read, too; it is
never written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zcuda_async.jit.builder import Type

if TYPE_CHECKING:
    from zcuda_async.jit.lower.group import Group

__all__ = ("is_every_other", "load_every_other", "store_every_other")

_SIZES: Final = (4, 8)


def is_every_other(stride: int | None, size: int, count: int) -> bool:
    """Whether lanes access single words, or pairs of words, with one left out between two of them."""
    return count == 1 and size in _SIZES and stride == 2 * size


def load_every_other(group: Group, pointer: str, kind: Type, size: int, tag: str) -> str:
    """The elements at `pointer` + 2 * size * lane, for all lanes."""
    builder, lanes = group.builder, group.lanes
    low = builder.op(f"load {kind}, ptr {pointer}, align {size}{tag}")
    # The second half ends with the last lane's element: what is behind that may be in no page.
    behind = builder.op(f"getelementptr i8, ptr {pointer}, i64 {size * (lanes - 1)}")
    high = builder.op(f"load {kind}, ptr {behind}, align {size}{tag}")
    order = [*range(0, lanes, 2), *range(lanes + 1, 2 * lanes, 2)]
    return builder.shuffle(kind, low, high, order)


def store_every_other(
    group: Group, pointer: str, kind: Type, size: int, value: str, mask: str | None, tag: str
) -> None:
    """Write the elements at `pointer` + 2 * size * lane, for the lanes of the mask."""
    builder, lanes = group.builder, group.lanes
    truth = kind.of("i1")
    for half in range(2):
        sources = [half * lanes // 2 + at // 2 for at in range(lanes)]
        values = builder.shuffle(kind, value, "poison", sources)
        if mask is None:
            active = truth.vector([1 - at % 2 for at in range(lanes)])
        else:
            order = [lanes if at % 2 else source for at, source in enumerate(sources)]
            active = builder.shuffle(truth, mask, "zeroinitializer", order)
        at = builder.op(f"getelementptr i8, ptr {pointer}, i64 {half * lanes * size}") if half else pointer
        builder.call(
            "void",
            f"llvm.masked.store.{kind.suffix}.p0",
            [(kind, values), ("ptr", at), ("i32", str(size)), (truth, active)],
            tag,
        )
