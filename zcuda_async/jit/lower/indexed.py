"""Addresses as programs write them: a base that all lanes share, and an index of 32 bits in each lane.

PTX widens an index (``mul.wide.s32``, ``cvt.s64.s32``, ``shl``) and adds it to a pointer, all in 64 bits.  Vectors of
64 bits are two registers for every one of 32, and gathers by 64-bit pointers take twice as long; so what a 64-bit
register was made of is remembered for as long as its value is at hand, and used where it is an address.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from zcuda_async.ptx.ir import Immediate, Instruction, Operand, Register

if TYPE_CHECKING:
    from zcuda_async.jit.builder import Type
    from zcuda_async.jit.lower.group import Group

__all__ = ("Index", "index_of", "remember", "sources_of_index")

_WIDEST: Final = 1 << 16
"""The largest scale that is remembered."""


@dataclass(frozen=True, slots=True)
class Index:
    """``base + offset + extend(lanes) * scale``: `base` is an i64 (None: 0), `lanes` a vector of i32.

    `is_wide` says that they are i64 instead, and `is_shared` says that lanes are offsets into shared memory.
    """

    lanes: str
    scale: int
    is_signed: bool
    base: str | None = None
    offset: int = 0
    is_shared: bool = False
    is_wide: bool = False

    def pointers(self, group: Group, offset: int = 0) -> str:
        """The addresses, `offset` bytes further on."""
        builder, start = group.builder, self.start(group, offset)
        values, kind = self.lanes, self.kind(group)
        if not self.is_signed and not self.is_wide:
            values, kind = builder.cast("zext", kind, values, kind.of("i64")), kind.of("i64")
        return builder.op(f"getelementptr [{self.scale} x i8], ptr {start}, {kind} {values}")

    def start(self, group: Group, offset: int = 0) -> str:
        """Where index 0 is, `offset` bytes further on, as a scalar pointer."""
        builder = group.builder
        pointer = builder.op(f"inttoptr i64 {self.base or '0'} to ptr")
        total = self.offset + offset
        return builder.op(f"getelementptr i8, ptr {pointer}, i64 {total}") if total else pointer

    def pointer(self, group: Group, lane: str, offset: int = 0) -> str:
        """One address, given that lane's index."""
        builder = group.builder
        wide = lane if self.is_wide else builder.op(f"{'sext' if self.is_signed else 'zext'} i32 {lane} to i64")
        return builder.op(f"getelementptr [{self.scale} x i8], ptr {self.start(group, offset)}, i64 {wide}")

    def kind(self, group: Group) -> Type:
        """The type of `lanes`."""
        return group.vector("i64" if self.is_wide else "i32")


def sources_of_index(group: Group, instruction: Instruction) -> list[Index] | None:
    """What the result of an instruction is made of, part by part, if that can be told; before it is lowered."""
    destination = instruction.operands[0] if instruction.operands else None
    if not isinstance(destination, Register) or instruction.guard is not None:
        return None
    if destination.name not in group.analysis.shapes or destination.name not in group.read_names:
        return None
    if group.storage(destination)[0].stride is not None or group.plain(instruction).stride is not None:
        return None
    if group.masks is not None and destination.name in group.kept:
        return None
    make = _MAKERS.get(instruction.opcode)
    if make is None:
        return None
    found = []
    for part in range(group.count(group.storage(destination)[0])):
        index = make(group, instruction, part)
        if index is None or not 1 <= index.scale <= _WIDEST:
            return None
        found.append(index)
    return found


def remember(group: Group, instruction: Instruction, found: list[Index]) -> None:
    """Keep what `sources_of_index` found, with the values that the instruction has got since."""
    destination = instruction.operands[0]
    assert isinstance(destination, Register)
    for part, index in enumerate(found):
        value = group.current.get((destination.name, part))
        if value is not None:
            group.indices[value] = index


def index_of(group: Group, operand: Operand, part: int) -> Index | None:
    """What is known of a 64-bit register's value."""
    if not isinstance(operand, Register) or operand.name not in group.analysis.shapes:
        return None
    if group.storage(operand)[0].same:
        part = 0
    value = group.current.get((operand.name, part))
    return group.indices.get(value) if value is not None else None


def _lanes(group: Group, operand: Operand, part: int) -> str | None:
    if not isinstance(operand, Register) or group.shape(operand).stride is not None:
        return None
    return group.read(operand, "i32", part, vector=True)


def _wide_product(group: Group, instruction: Instruction, part: int) -> Index | None:
    """``mul.wide`` and ``mad.wide`` of an index and a constant."""
    factor = instruction.operands[2]
    if not instruction.has("wide") or instruction.types[0] not in ("s32", "u32") or not isinstance(factor, Immediate):
        return None
    lanes = _lanes(group, instruction.operands[1], part)
    if lanes is None or factor.float_bits:
        return None
    index = Index(lanes, int(factor.value), instruction.types[0] == "s32")
    if instruction.opcode == "mul":
        return index
    return _with_base(group, index, instruction.operands[3], part)


def _converted(group: Group, instruction: Instruction, part: int) -> Index | None:
    """``cvt.s64.s32`` and ``cvt.u64.u32``."""
    to, source = instruction.types[:2]
    if to not in ("s64", "u64") or source not in ("s32", "u32"):
        return None
    lanes = _lanes(group, instruction.operands[1], part)
    return None if lanes is None else Index(lanes, 1, source == "s32")


def _shifted(group: Group, instruction: Instruction, part: int) -> Index | None:
    amount = instruction.operands[2]
    index = index_of(group, instruction.operands[1], part)
    if index is None or index.base is not None or not isinstance(amount, Immediate) or instruction.types[0] != "b64":
        return None
    by = int(amount.value)
    return replace(index, scale=index.scale << by, offset=index.offset << by) if 0 <= by <= 16 else None


def _sum(group: Group, instruction: Instruction, part: int) -> Index | None:
    if instruction.types[0] not in ("s64", "u64") or instruction.has("cc"):
        return None
    a, b = instruction.operands[1:]
    for one, other in ((a, b), (b, a)):
        index = index_of(group, one, part) or _wide_lanes(group, one, part)
        if index is not None:
            return _with_base(group, index, other, part)
    return None


def _wide_lanes(group: Group, operand: Operand, part: int) -> Index | None:
    """A 64-bit value of which nothing is known: what is added to it is the same for all lanes."""
    if not isinstance(operand, Register) or group.shape(operand).stride is not None:
        return None
    return Index(group.read(operand, "i64", part, vector=True), 1, True, is_wide=True)


def _with_base(group: Group, index: Index, base: Operand, part: int) -> Index | None:
    """An index counted from a base, which all lanes of a part share."""
    if isinstance(base, Immediate):
        value = int(base.value)
        value -= (value >> 63 & 1) << 64
        return replace(index, offset=index.offset + value)
    if not isinstance(base, Register) or group.shape(base).stride != 0 or index.base is not None:
        return None
    return replace(index, base=group.read(base, "i64", part, vector=False))


_MAKERS: Final = {"mul": _wide_product, "mad": _wide_product, "cvt": _converted, "shl": _shifted, "add": _sum}
