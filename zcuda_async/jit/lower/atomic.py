"""``atom`` and ``red`` (PTX ISA 9.7.13): lane by lane, in lane order.

Shared memory belongs to one worker, so its atomics are plain read-modify-write.  Global ones use the
machine's.  An addition to one address whose result nobody reads is summed across the lanes first.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zcuda_async.jit.builder import Type, llvm_type
from zcuda_async.jit.lower.memory import Place, place, space_of
from zcuda_async.jit.shapes import VARYING
from zcuda_async.ptx.ir import TYPE_BITS, Instruction, Register

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
    results = []
    for part in range(group.parts):
        where = place(group, address, what.space, part)
        values = [group.read(source, what.elem, part, vector=True) for source in sources]
        mask = group.active(instruction, part)
        if what.operation == "add" and not what.has_result and shape.stride == 0:
            _add_together(group, what, where, values[0], mask)
        else:
            results.append(_by_lane(group, what, where, values, mask))
    if what.has_result:
        group.write(instruction.operands[0], results, kind.elem, VARYING, instruction.guard)


def _describe(group: Group, instruction: Instruction) -> _Atomic:
    operation = next((name for name in _OPERATIONS if instruction.has(name)), None)
    ptx_type = instruction.types[0]
    if operation is None or ptx_type not in _TYPES:
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


def _by_lane(group: Group, what: _Atomic, where: Place, values: list[str], mask: str | None) -> str:
    builder, lanes = group.builder, group.lanes
    kind = group.vector(what.elem)
    slot = builder.alloca(str(kind)) if what.has_result else ""
    vector = where.shape.stride is None

    def body(lane: str) -> None:
        if vector:
            pointer = group.lane_of(Type("ptr", lanes), where.pointer, lane)
        else:
            offset = builder.op(f"mul i32 {lane}, {where.shape.stride}")
            pointer = builder.op(f"getelementptr i8, ptr {where.pointer}, i32 {offset}")
        old = _one(group, what, pointer, [group.lane_of(kind, value, lane) for value in values])
        if slot:
            to = builder.op(f"getelementptr {kind.elem}, ptr {slot}, i32 {lane}")
            builder.line(f"store {kind.elem} {old}, ptr {to}")

    if what.has_result or mask is None or what.space != "shared":
        group.each_lane(mask, body)
    else:
        _with_fast_path(group, mask, body)
    return builder.op(f"load {kind}, ptr {slot}") if slot else ""


def _with_fast_path(group: Group, mask: str, body: Callable[[str], None]) -> None:
    """Straight-line code when every lane is active, the loop over set bits otherwise."""
    builder = group.builder
    every = builder.op(f"icmp eq i{group.lanes} {group.mask_bits(mask)}, -1")
    fast, slow, done = (builder.block_name(hint) for hint in ("every", "someof", "joined"))
    builder.line(f"br i1 {every}, label %{fast}, label %{slow}, !prof !10")
    builder.label(fast)
    group.each_lane(None, body)
    builder.line(f"br label %{done}")
    builder.label(slow)
    group.each_lane(mask, body)
    builder.line(f"br label %{done}")
    builder.label(done)


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
