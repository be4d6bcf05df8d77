"""Accesses by which threads meet: ``.volatile``, ``.relaxed``, ``.acquire``, ``.release`` and ``.mmio``.

Each lane's is one of its own that LLVM neither moves nor merges: loads acquire and stores release, whatever was
asked for.  On x86-64 every load and store does; on ARM these are other instructions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from zcuda_async.jit.builder import Type
from zcuda_async.ptx.ir import Instruction

if TYPE_CHECKING:
    from zcuda_async.jit.lower.group import Group

__all__ = ("is_ordered", "load_by_lane", "load_ordered", "store_by_lane", "store_ordered")

_ORDERED: Final = ("volatile", "relaxed", "acquire", "release", "mmio")
_OWN: Final = ("shared", "shared::cta", "shared::cluster", "local")
"""Memory that one worker alone looks at."""

_WIDE: Final = 128


def is_ordered(instruction: Instruction) -> bool:
    """Whether other threads' writes must be seen: no hoisting, no merging."""
    return any(instruction.has(name) for name in _ORDERED)


def load_ordered(group: Group, instruction: Instruction, pointer: str, elem: str) -> str:
    """One scalar."""
    builder, whole = group.builder, _integer(elem)
    atomic, order = _spelling(group, instruction, whole, "acquire")
    value = builder.op(f"load {atomic} {whole}, ptr {pointer}{order}, align {whole.bits // 8}")
    return builder.cast("bitcast", whole, value, Type(elem))


def store_ordered(group: Group, instruction: Instruction, pointer: str, elem: str, value: str) -> None:
    """One scalar."""
    builder, whole = group.builder, _integer(elem)
    atomic, order = _spelling(group, instruction, whole, "release")
    bits = builder.cast("bitcast", Type(elem), value, whole)
    builder.line(f"store {atomic} {whole} {bits}, ptr {pointer}{order}, align {whole.bits // 8}")


def load_by_lane(
    group: Group, instruction: Instruction, pointers: str, elem: str, count: int, mask: str | None
) -> list[str]:
    """`count` elements one after another for each active lane: a vector for each."""
    builder, kind = group.builder, group.vector(elem)
    slots = [builder.alloca(str(kind)) for _ in range(count)]

    def body(lane: str) -> None:
        pointer = group.lane_of(Type("ptr", group.lanes), pointers, lane)
        for index, slot in enumerate(slots):
            value = load_ordered(group, instruction, _element(group, pointer, elem, index), elem)
            to = builder.op(f"getelementptr {elem}, ptr {slot}, i32 {lane}")
            builder.line(f"store {elem} {value}, ptr {to}")

    group.each_lane(None if mask is None else group.mask_bits(mask), body)
    return [builder.op(f"load {kind}, ptr {slot}") for slot in slots]


def store_by_lane(
    group: Group, instruction: Instruction, pointers: str, elem: str, values: Sequence[str], mask: str | None
) -> None:
    """The elements of each active lane, one after another."""

    def body(lane: str) -> None:
        pointer = group.lane_of(Type("ptr", group.lanes), pointers, lane)
        for index, value in enumerate(values):
            one = group.lane_of(group.vector(elem), value, lane)
            store_ordered(group, instruction, _element(group, pointer, elem, index), elem, one)

    group.each_lane(None if mask is None else group.mask_bits(mask), body)


def _element(group: Group, pointer: str, elem: str, index: int) -> str:
    return group.builder.op(f"getelementptr {elem}, ptr {pointer}, i64 {index}") if index else pointer


def _integer(elem: str) -> Type:
    return Type(f"i{Type(elem).bits}")


def _spelling(group: Group, instruction: Instruction, whole: Type, order: str) -> tuple[str, str]:
    """What stands before the type and behind the pointer."""
    if whole.bits < _WIDE or group.target.has_wide_atomics:
        return "atomic volatile", f" {order}"
    if any(map(instruction.has, _OWN)):
        return "volatile", ""
    raise group.refuse(instruction, "this processor cannot access 128 bits atomically")
