"""``atom`` and ``red`` (PTX ISA 9.7.13): lane by lane, in lane order.

Shared memory belongs to one worker, so its atomics are plain read-modify-write.  Global ones use the
machine's.  An addition to one address whose result nobody reads is summed across the lanes first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zcuda_async.jit.builder import Type, llvm_type
from zcuda_async.jit.lower.memory import Place, place, space_of, spread
from zcuda_async.jit.shapes import VARYING
from zcuda_async.ptx.ir import TYPE_BITS, Instruction, Register, VectorOperand

if TYPE_CHECKING:
    from zcuda_async.jit.lower import Lowering
    from zcuda_async.jit.lower.group import Group

__all__ = ("ATOMIC",)

_OPERATIONS: Final = ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")


@dataclass(frozen=True, slots=True)
class _Atomic:
    """One atom/red instruction, taken apart."""

    operation: str
    ptx_type: str
    elem: str
    space: str
    has_result: bool


def atomic(group: Group, instruction: Instruction) -> None:
    """``atom`` and ``red``."""
    what = _describe(group, instruction)
    operands = instruction.operands[1:] if instruction.opcode == "atom" else instruction.operands
    address, sources = operands[0], operands[1:]
    if len(sources) > (2 if what.operation == "cas" else 1):
        raise group.refuse(instruction, "a cache policy operand is not supported yet")
    kind = group.vector(what.elem)
    shape = group.transfer.of(address)
    places = [place(group, address, what.space, part) for part in range(group.parts)]
    values = [[group.read(source, what.elem, part, vector=True) for source in sources] for part in range(group.parts)]
    masks = [group.active(instruction, part) for part in range(group.parts)]
    if what.operation == "add" and not what.has_result and shape.stride == 0:
        for where, (value,), mask in zip(places, values, masks, strict=True):
            _add_together(group, what, where, value, mask)
        return
    results = _by_lane(group, what, places, values, masks)
    if what.has_result:
        group.write(instruction.operands[0], results, kind.elem, VARYING, instruction.guard)


def _describe(group: Group, instruction: Instruction) -> _Atomic:
    operation = next((name for name in _OPERATIONS if instruction.has(name)), None)
    ptx_type = instruction.types[0]
    is_vector = any(isinstance(operand, VectorOperand) for operand in instruction.operands)
    if operation is None or ptx_type not in _TYPES or is_vector:
        raise group.refuse(instruction, "this atomic operation is not supported yet")
    destination = instruction.operands[0]
    wanted = instruction.opcode == "atom" and isinstance(destination, Register) and destination.name in group.read_names
    return _Atomic(operation, ptx_type, llvm_type(ptx_type), space_of(instruction), wanted)


_TYPES: Final = frozenset({f"{kind}{bits}" for kind in "bus" for bits in (32, 64)} | {"f32", "f64"})


def _add_together(group: Group, what: _Atomic, where: Place, value: str, mask: str | None) -> None:
    """Sum the active lanes, then add once."""
    builder, kind = group.builder, group.vector(what.elem)
    if mask is not None:
        value = builder.select(kind, mask, value, kind.const(0))
    if kind.is_float:
        total = builder.op(
            f"call reassoc {kind.elem} @llvm.vector.reduce.fadd.{kind.suffix}({kind.elem} "
            f"{Type(kind.elem).const(0.0)}, {kind} {value})"
        )
        builder.declarations.add(f"declare {kind.elem} @llvm.vector.reduce.fadd.{kind.suffix}({kind.elem}, {kind})")
    else:
        total = builder.call(kind.elem, f"llvm.vector.reduce.add.{kind.suffix}", [(kind, value)])
    if mask is None:
        _one(group, what, where.pointer, [total])
        return
    some = group.any_of([mask])
    then, done = builder.block_name("some"), builder.block_name("none")
    builder.line(f"br i1 {some}, label %{then}, label %{done}")
    builder.label(then)
    _one(group, what, where.pointer, [total])
    builder.line(f"br label %{done}")
    builder.label(done)


def _by_lane(
    group: Group, what: _Atomic, places: list[Place], values: list[list[str]], masks: list[str | None]
) -> list[str]:
    """Every active lane in turn: a loop over the parts, and in it one over the lanes."""
    builder, lanes, parts = group.builder, group.lanes, group.parts
    kind, pointers = group.vector(what.elem), Type("ptr", lanes)
    operands = [(pointers, [spread(group, where) for where in places])]
    operands += [(kind, list(column)) for column in zip(*values, strict=True)]
    arrays = [_array(group, operand, column) for operand, column in operands]
    bits = None
    if any(mask is not None for mask in masks):
        truth = group.vector("i1")
        bits = _array(group, Type(f"i{lanes}"), [group.mask_bits(mask or truth.const(1)) for mask in masks])
    old = builder.alloca(f"[{parts} x {kind}]") if what.has_result else ""
    head, done = builder.block_name("parts"), builder.block_name("parts.done")
    counter = builder.alloca("i32", 4)
    builder.line(f"store i32 0, ptr {counter}")
    builder.line(f"br label %{head}")
    builder.label(head)
    part = builder.op(f"load i32, ptr {counter}")
    first = builder.op(f"mul i32 {part}, {lanes}")

    def body(lane: str) -> None:
        index = builder.op(f"add i32 {first}, {lane}")
        own = [
            builder.op(
                f"load {operand.elem}, ptr {builder.op(f'getelementptr {operand.elem}, ptr {array}, i32 {index}')}"
            )
            for (operand, _), array in zip(operands, arrays, strict=True)
        ]
        before = _one(group, what, own[0], own[1:])
        if old:
            to = builder.op(f"getelementptr {kind.elem}, ptr {old}, i32 {index}")
            builder.line(f"store {kind.elem} {before}, ptr {to}")

    mask = None
    if bits is not None:
        at = builder.op(f"getelementptr i{lanes}, ptr {bits}, i32 {part}")
        mask = builder.op(f"load i{lanes}, ptr {at}")
    group.each_lane(mask, body)
    following = builder.op(f"add i32 {part}, 1")
    builder.line(f"store i32 {following}, ptr {counter}")
    more = builder.op(f"icmp ult i32 {following}, {parts}")
    builder.line(f"br i1 {more}, label %{head}, label %{done}")
    builder.label(done)
    if not old:
        return []
    slots = [builder.op(f"getelementptr {kind}, ptr {old}, i32 {number}") for number in range(parts)]
    return [builder.op(f"load {kind}, ptr {slot}") for slot in slots]


def _array(group: Group, kind: Type, values: list[str]) -> str:
    """The parts' values one after another in memory."""
    builder = group.builder
    array = builder.alloca(f"[{len(values)} x {kind}]")
    for index, value in enumerate(values):
        at = builder.op(f"getelementptr {kind}, ptr {array}, i32 {index}")
        builder.line(f"store {kind} {value}, ptr {at}")
    return array


def _one(group: Group, what: _Atomic, pointer: str, values: list[str]) -> str:
    """One lane's operation; the value that was there before."""
    if what.operation in ("inc", "dec"):
        return _wrap_around(group, what, pointer, values[0])
    return (_plain if what.space == "shared" else _locked)(group, what, pointer, values)


def _updated(group: Group, what: _Atomic, old: str, value: str) -> str:
    """The new value, for read-modify-write without a lock."""
    builder, kind = group.builder, Type(what.elem)
    if what.operation == "exch":
        return value
    if what.operation in ("min", "max"):
        sign = "s" if what.ptx_type[0] == "s" else "u"
        return builder.intrinsic(sign + what.operation, kind, old, value)
    opcode = "fadd" if kind.is_float else what.operation
    return builder.binary(opcode, kind, old, value)


def _plain(group: Group, what: _Atomic, pointer: str, values: list[str]) -> str:
    builder, kind = group.builder, Type(what.elem)
    size = TYPE_BITS[what.ptx_type] // 8
    old = builder.op(f"load {kind}, ptr {pointer}, align {size}, !tbaa !5")
    if what.operation == "cas":
        same = builder.compare("icmp eq", kind, old, values[0])
        new = builder.select(kind, same, values[1], old)
    else:
        new = _updated(group, what, old, values[0])
    builder.line(f"store {kind} {new}, ptr {pointer}, align {size}, !tbaa !5")
    return old


def _locked(group: Group, what: _Atomic, pointer: str, values: list[str]) -> str:
    builder, kind = group.builder, Type(what.elem)
    size = TYPE_BITS[what.ptx_type] // 8
    if what.operation == "cas":
        pair = builder.op(
            f"cmpxchg ptr {pointer}, {kind} {values[0]}, {kind} {values[1]} seq_cst seq_cst, align {size}"
        )
        return builder.op(f"extractvalue {{ {kind}, i1 }} {pair}, 0")
    name = {"exch": "xchg", "add": "fadd" if kind.is_float else "add"}.get(what.operation, what.operation)
    if name in ("min", "max") and what.ptx_type[0] != "s":
        name = "u" + name
    return builder.op(f"atomicrmw {name} ptr {pointer}, {kind} {values[0]} seq_cst, align {size}")


def _wrap_around(group: Group, what: _Atomic, pointer: str, limit: str) -> str:
    """``inc``: old >= limit ? 0 : old + 1; ``dec``: old == 0 or old > limit ? limit : old - 1."""
    name = "uinc_wrap" if what.operation == "inc" else "udec_wrap"
    size = TYPE_BITS[what.ptx_type] // 8
    return group.builder.op(f"atomicrmw {name} ptr {pointer}, {what.elem} {limit} seq_cst, align {size}")


ATOMIC: Final[dict[str, Lowering]] = {"atom": atomic, "red": atomic}
