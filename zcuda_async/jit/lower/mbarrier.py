"""Barrier objects in shared memory (PTX ISA 9.7.13.15: mbarrier).

The 64-bit word is opaque to programs.  Here it holds, from the lowest bit: 20 bits of arrivals that
the current phase still waits for, 20 bits of arrivals that a phase begins with, 23 bits of bytes that
asynchronous copies still owe (modulo 2**23), and in bit 63 the parity of the phase.  A block's threads
take turns in one worker, so reading and writing back is enough.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from zcuda_async.jit.builder import Type
from zcuda_async.jit.lower.memory import place, space_of, spread
from zcuda_async.jit.shapes import VARYING
from zcuda_async.ptx.ir import Address, Immediate, Instruction, Operand, Sink

if TYPE_CHECKING:
    from zcuda_async.jit.lower import Lowering
    from zcuda_async.jit.lower.group import Group

__all__ = ("MBARRIER",)

_COUNT: Final = (1 << 20) - 1
_BYTES_SHIFT: Final = 40
_BYTES: Final = (1 << 23) - 1

_UPDATE: Final = f"""
define internal i64 @zcuda.mbarrier(ptr %object, i64 %arrivals, i64 %dropped, i64 %bytes) noinline {{
  %old = load i64, ptr %object, align 8
  %pending.old = and i64 %old, {_COUNT}
  %pending = sub i64 %pending.old, %arrivals
  %first.high = lshr i64 %old, 20
  %first.old = and i64 %first.high, {_COUNT}
  %first = sub i64 %first.old, %dropped
  %bytes.high = lshr i64 %old, {_BYTES_SHIFT}
  %bytes.sum = add i64 %bytes.high, %bytes
  %owed = and i64 %bytes.sum, {_BYTES}
  %phase.old = and i64 %old, {-(1 << 63)}
  %none.pending = icmp eq i64 %pending, 0
  %none.owed = icmp eq i64 %owed, 0
  %complete = and i1 %none.pending, %none.owed
  %phase.other = xor i64 %phase.old, {-(1 << 63)}
  %phase = select i1 %complete, i64 %phase.other, i64 %phase.old
  %next = select i1 %complete, i64 %first, i64 %pending
  %next.low = and i64 %next, {_COUNT}
  %first.low = and i64 %first, {_COUNT}
  %first.back = shl i64 %first.low, 20
  %owed.back = shl i64 %owed, {_BYTES_SHIFT}
  %a = or i64 %next.low, %first.back
  %b = or i64 %owed.back, %phase
  %new = or i64 %a, %b
  store i64 %new, ptr %object, align 8
  ret i64 %old
}}"""


def _each(group: Group, instruction: Instruction, address: Operand, body: Callable[[int, str, str], None]) -> None:
    """Emit `body(part, lane, pointer)` for every lane that executes the instruction, in order."""
    assert isinstance(address, Address)
    for part in range(group.parts):
        where = place(group, address, space_of(instruction), part)
        pointers = spread(group, where) if where.shape.stride is not None else where.pointer
        mask = group.active(instruction, part) or group.vector("i1").const(1)

        def each(lane: str, part: int = part, pointers: str = pointers) -> None:
            body(part, lane, group.lane_of(Type("ptr", group.lanes), pointers, lane))

        group.each_lane(group.mask_bits(mask), each)


def _number(group: Group, operand: Operand, part: int, lane: str) -> str:
    """A 32-bit operand of one lane, as an i64."""
    if isinstance(operand, Immediate):
        return str(int(operand.value) & 0xFFFFFFFF)
    value = group.lane_of(group.vector("i32"), group.read(operand, "i32", part, vector=True), lane)
    return group.builder.op(f"zext i32 {value} to i64")


def _update(group: Group, pointer: str, arrivals: str, dropped: str, owed: str) -> str:
    group.builder.declarations.add(_UPDATE)
    values = ", ".join(f"i64 {value}" for value in (arrivals, dropped, owed))
    return group.builder.op(f"call i64 @zcuda.mbarrier(ptr {pointer}, {values})")


def mbarrier(group: Group, instruction: Instruction) -> None:
    """``mbarrier`` in all its forms."""
    names = ("init", "inval", "arrive_drop", "arrive", "expect_tx", "complete_tx", "test_wait", "try_wait")
    operation = next((name for name in names if instruction.has(name)), "pending_count")
    if operation in ("arrive", "arrive_drop"):
        _arrive(group, instruction, drops=operation == "arrive_drop")
    elif operation in ("test_wait", "try_wait"):
        _test(group, instruction)
    elif operation == "pending_count":
        _pending_count(group, instruction)
    elif operation in ("expect_tx", "complete_tx"):
        _owe(group, instruction, "" if operation == "expect_tx" else "-")
    elif operation == "init":
        _init(group, instruction)


def _init(group: Group, instruction: Instruction) -> None:
    builder = group.builder

    def body(part: int, lane: str, pointer: str) -> None:
        count = _number(group, instruction.operands[1], part, lane)
        masked = builder.op(f"and i64 {count}, {_COUNT}")
        word = builder.op(f"or i64 {masked}, {builder.op(f'shl i64 {masked}, 20')}")
        builder.line(f"store i64 {word}, ptr {pointer}, align 8")

    _each(group, instruction, instruction.operands[0], body)


def _owe(group: Group, instruction: Instruction, sign: str) -> None:
    def body(part: int, lane: str, pointer: str) -> None:
        count = _number(group, instruction.operands[1], part, lane)
        count = group.builder.op(f"sub i64 0, {count}") if sign else count
        _update(group, pointer, "0", "0", count)

    _each(group, instruction, instruction.operands[0], body)


def _arrive(group: Group, instruction: Instruction, *, drops: bool) -> None:
    destination, address, *counts = instruction.operands
    builder, kind = group.builder, group.vector("i64")
    keeps = not isinstance(destination, Sink)
    slots = [builder.alloca(str(kind)) for _ in range(group.parts)] if keeps else []
    for slot in slots:
        builder.line(f"store {kind} zeroinitializer, ptr {slot}")

    def body(part: int, lane: str, pointer: str) -> None:
        number = _number(group, counts[0], part, lane) if counts else "1"
        if instruction.has("expect_tx"):
            _update(group, pointer, "0", "0", number)
            number = "1"
        state = _update(group, pointer, number, number if drops else "0", "0")
        if keeps:
            to = builder.op(f"getelementptr i64, ptr {slots[part]}, i32 {lane}")
            builder.line(f"store i64 {state}, ptr {to}")

    _each(group, instruction, address, body)
    if keeps:
        values = [builder.op(f"load {kind}, ptr {slot}") for slot in slots]
        group.write(destination, values, "i64", VARYING, instruction.guard)


def _test(group: Group, instruction: Instruction) -> None:
    """Whether the phase of a state, or the phase of a parity, is over."""
    destination, address, asked = instruction.operands[:3]
    builder, kind = group.builder, group.vector("i64")
    values = []
    slots = [builder.alloca(str(kind)) for _ in range(group.parts)]
    for slot in slots:
        builder.line(f"store {kind} zeroinitializer, ptr {slot}")

    def body(part: int, lane: str, pointer: str) -> None:
        word = builder.op(f"load i64, ptr {pointer}, align 8")
        builder.line(f"store i64 {word}, ptr {builder.op(f'getelementptr i64, ptr {slots[part]}, i32 {lane}')}")

    _each(group, instruction, address, body)
    for part, slot in enumerate(slots):
        words = builder.op(f"load {kind}, ptr {slot}")
        if instruction.has("parity"):
            parity = group.read(asked, "i32", part, vector=True)
            wide = builder.cast("zext", group.vector("i32"), parity, kind)
            state = builder.binary("shl", kind, wide, kind.const(63))
        else:
            state = group.read(asked, "i64", part, vector=True)
        differs = builder.binary("xor", kind, words, state)
        values.append(builder.compare("icmp slt", kind, differs, kind.const(0)))
    group.write(destination, values, "i1", VARYING, instruction.guard)


def _pending_count(group: Group, instruction: Instruction) -> None:
    builder, kind = group.builder, group.vector("i64")
    values = []
    for part in range(group.parts):
        state = group.read(instruction.operands[1], "i64", part, vector=True)
        count = builder.binary("and", kind, state, kind.const(_COUNT))
        values.append(builder.cast("trunc", kind, count, group.vector("i32")))
    group.write(instruction.operands[0], values, "i32", VARYING, instruction.guard)


MBARRIER: Final[dict[str, Lowering]] = {"mbarrier": mbarrier}
