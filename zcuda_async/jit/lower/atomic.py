"""``atom`` and ``red`` (PTX ISA 9.7.13): lane by lane, in lane order.

Shared memory belongs to one worker, so its atomics are plain read-modify-write.  Global ones use the
machine's.  An addition to one address whose result nobody reads is summed across the lanes first.
What the machine has no instruction for (16-bit floats) is a loop around compare-and-exchange.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zcuda_async.jit.builder import Type, llvm_type
from zcuda_async.jit.lower.halfmath import HALF_TYPES, add_halves, as_halves, extreme_half, layout_of
from zcuda_async.jit.lower.memory import Place, place, shared_pointer, space_of, spread
from zcuda_async.jit.shapes import VARYING
from zcuda_async.ptx.ir import TYPE_BITS, Address, Instruction, Operand, Register, VectorOperand

if TYPE_CHECKING:
    from zcuda_async.jit.lower import Lowering
    from zcuda_async.jit.lower.group import Group

__all__ = ("ATOMIC",)

_OPERATIONS: Final = ("add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec")


@dataclass(frozen=True, slots=True)
class _Atomic:
    """One atom/red instruction, taken apart.

    `count` elements one after another are changed, each atomically; `elem` is LLVM's type of one.
    """

    operation: str
    ptx_type: str
    elem: str
    space: str
    count: int
    has_result: bool

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return TYPE_BITS[self.ptx_type] // 8

    @property
    def is_half(self) -> bool:
        """Whether elements are 16-bit floats or pairs of them, kept as integers."""
        return self.ptx_type in HALF_TYPES


def _elements(operand: Operand) -> tuple[Operand, ...]:
    return operand.elements if isinstance(operand, VectorOperand) else (operand,)


def atomic(group: Group, instruction: Instruction) -> None:
    """``atom`` and ``red``."""
    what = _describe(group, instruction)
    operands = instruction.operands[1:] if instruction.opcode == "atom" else instruction.operands
    # A cache policy may follow, which has no meaning here.
    address, sources = operands[0], operands[1 : 3 if what.operation == "cas" else 2]
    flat = [element for source in sources for element in _elements(source)]
    shape = group.transfer.of(address)
    places = [place(group, address, what.space, part) for part in range(group.parts)]
    fixed = [_fixed(group, source, what.elem) for source in flat]
    values = [[group.read(source, what.elem, part, vector=True) for source in flat] for part in range(group.parts)]
    masks = [group.active(instruction, part) for part in range(group.parts)]
    if _adds_up(what) and shape.stride == 0:
        for where, (value,), mask in zip(places, values, masks, strict=True):
            _add_together(group, what, where, value, mask)
        return
    results = _by_lane(group, what, _addresses(group, what, address, places), values, masks, fixed)
    if what.has_result:
        for destination, column in zip(_elements(instruction.operands[0]), results, strict=True):
            group.write(destination, column, what.elem, VARYING, instruction.guard)


def _describe(group: Group, instruction: Instruction) -> _Atomic:
    operation = next(name for name in _OPERATIONS if instruction.has(name))
    ptx_type = instruction.types[0]
    space = space_of(instruction)
    if ptx_type == "b128" and space != "shared" and not group.target.has_wide_atomics:
        raise group.refuse(instruction, "this processor cannot exchange 128 bits atomically")
    destinations = _elements(instruction.operands[0]) if instruction.opcode == "atom" else ()
    wanted = any(isinstance(each, Register) and each.name in group.read_names for each in destinations)
    count = next((int(name[1:]) for name in ("v2", "v4", "v8") if instruction.has(name)), 1)
    elem = f"i{TYPE_BITS[ptx_type]}" if ptx_type in HALF_TYPES else llvm_type(ptx_type)
    return _Atomic(operation, ptx_type, elem, space, count, wanted)


def _adds_up(what: _Atomic) -> bool:
    """Whether lanes may be summed before memory is touched."""
    return what.operation == "add" and not what.has_result and what.count == 1 and not what.is_half


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


def _fixed(group: Group, source: Operand, elem: str) -> str | None:
    """The scalar that all lanes bring, if it is one."""
    return group.read(source, elem, 0, vector=False) if group.shape(source).is_uniform else None


@dataclass(frozen=True, slots=True)
class _Addresses:
    """Where each lane goes: pointers, or offsets of `kind` from `base`."""

    kind: Type
    parts: list[str]
    base: str | None = None

    def pointer(self, group: Group, value: str) -> str:
        """One lane's pointer."""
        if self.base is None:
            return value
        wide = group.builder.op(f"sext i32 {value} to i64")
        return group.builder.op(f"getelementptr i8, ptr {self.base}, i64 {wide}")


def _addresses(group: Group, what: _Atomic, operand: Operand, places: list[Place]) -> _Addresses:
    """Half as much to write and read back where 32-bit offsets into shared memory do."""
    assert isinstance(operand, Address)
    base, lanes = operand.base, group.lanes
    if what.space != "shared" or not isinstance(base, Register) or llvm_type(base.type) != "i32":
        return _Addresses(Type("ptr", lanes), [spread(group, where) for where in places])
    start = shared_pointer(group)
    if operand.offset:
        start = group.builder.op(f"getelementptr i8, ptr {start}, i64 {operand.offset}")
    offsets = [group.read(base, "i32", part, vector=True) for part in range(group.parts)]
    return _Addresses(Type("i32", lanes), offsets, start)


def _by_lane(
    group: Group,
    what: _Atomic,
    addresses: _Addresses,
    values: list[list[str]],
    masks: list[str | None],
    fixed: list[str | None],
) -> list[list[str]]:
    """Every active lane in turn: a loop over the parts, and in it one over the lanes.

    The result is what was in memory: for each element a value per part.
    """
    builder, lanes, parts = group.builder, group.lanes, group.parts
    kind = group.vector(what.elem)
    operands = [(addresses.kind, addresses.parts)]
    columns = zip(fixed, zip(*values, strict=True), strict=True)
    operands += [(kind, list(column)) for known, column in columns if known is None]
    arrays = [_array(group, operand, column) for operand, column in operands]
    bits = None
    if any(mask is not None for mask in masks):
        truth = group.vector("i1")
        bits = _array(group, Type(f"i{lanes}"), [group.mask_bits(mask or truth.const(1)) for mask in masks])
    old = [builder.alloca(f"[{parts} x {kind}]") for _ in range(what.count if what.has_result else 0)]
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
        given = iter(own[1:])
        brought = [known if known is not None else next(given) for known in fixed]
        for at, before in enumerate(_lane(group, what, addresses.pointer(group, own[0]), brought)):
            if old:
                to = builder.op(f"getelementptr {kind.elem}, ptr {old[at]}, i32 {index}")
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
    return [_loaded(group, kind, array) for array in old]


def _array(group: Group, kind: Type, values: list[str]) -> str:
    """The parts' values one after another in memory."""
    builder = group.builder
    array = builder.alloca(f"[{len(values)} x {kind}]")
    for index, value in enumerate(values):
        at = builder.op(f"getelementptr {kind}, ptr {array}, i32 {index}")
        builder.line(f"store {kind} {value}, ptr {at}")
    return array


def _loaded(group: Group, kind: Type, array: str) -> list[str]:
    builder = group.builder
    slots = [builder.op(f"getelementptr {kind}, ptr {array}, i32 {number}") for number in range(group.parts)]
    return [builder.op(f"load {kind}, ptr {slot}") for slot in slots]


def _lane(group: Group, what: _Atomic, pointer: str, values: list[str]) -> list[str]:
    """One lane's operations, one for each element; the values that were there before."""
    if what.count == 1:
        return [_one(group, what, pointer, values)]
    before = []
    for index, value in enumerate(values):
        at = group.builder.op(f"getelementptr i8, ptr {pointer}, i64 {index * what.size}")
        before.append(_one(group, what, at, [value]))
    return before


def _one(group: Group, what: _Atomic, pointer: str, values: list[str]) -> str:
    """One operation; the value that was there before."""
    if what.space == "shared":
        return _plain(group, what, pointer, values)
    if what.operation in ("inc", "dec"):
        return _wrap_around(group, what, pointer, values[0])
    if (what.is_half or what.size == 16) and what.operation != "cas":
        return _exchange_loop(group, what, pointer, values[0])
    return _locked(group, what, pointer, values)


def _updated(group: Group, what: _Atomic, old: str, value: str) -> str:
    """The new value, for read-modify-write without a lock."""
    builder, kind = group.builder, Type(what.elem)
    if what.operation == "exch":
        return value
    if what.is_half:
        return _updated_half(group, what, old, value)
    if what.operation in ("inc", "dec"):
        return _wrapped(group, what, old, value)
    if what.operation in ("min", "max"):
        sign = "s" if what.ptx_type[0] == "s" else "u"
        return builder.intrinsic(sign + what.operation, kind, old, value)
    opcode = "fadd" if kind.is_float else what.operation
    return builder.binary(opcode, kind, old, value)


def _wrapped(group: Group, what: _Atomic, old: str, limit: str) -> str:
    """``inc``: old >= limit ? 0 : old + 1; ``dec``: old == 0 or old > limit ? limit : old - 1."""
    builder, kind = group.builder, Type(what.elem)
    if what.operation == "inc":
        wraps = builder.compare("icmp uge", kind, old, limit)
        return builder.select(kind, wraps, kind.const(0), builder.binary("add", kind, old, kind.const(1)))
    below = builder.binary("sub", kind, old, kind.const(1))
    outside = builder.compare("icmp ugt", kind, old, limit)
    none = builder.compare("icmp eq", kind, old, kind.const(0))
    return builder.select(kind, builder.binary("or", kind.of("i1"), outside, none), limit, below)


def _updated_half(group: Group, what: _Atomic, old: str, value: str) -> str:
    builder, kind, form = group.builder, Type(what.elem), layout_of(what.ptx_type)
    (bits, a), (_, b) = (as_halves(builder, what.ptx_type, kind, each) for each in (old, value))
    if what.operation == "add":
        result = add_halves(builder, form, bits, a, b)
    else:
        result = extreme_half(builder, form, bits, what.operation, a, b)
    return builder.cast("bitcast", bits, result, kind)


def _plain(group: Group, what: _Atomic, pointer: str, values: list[str]) -> str:
    builder, kind = group.builder, Type(what.elem)
    old = builder.op(f"load {kind}, ptr {pointer}, align {what.size}, !tbaa !5")
    if what.operation == "cas":
        same = builder.compare("icmp eq", kind, old, values[0])
        new = builder.select(kind, same, values[1], old)
    else:
        new = _updated(group, what, old, values[0])
    builder.line(f"store {kind} {new}, ptr {pointer}, align {what.size}, !tbaa !5")
    return old


def _exchange_loop(group: Group, what: _Atomic, pointer: str, value: str) -> str:
    """Compute from what is there, and try again if it has changed meanwhile."""
    builder, kind, size = group.builder, what.elem, what.size
    seen = builder.alloca(kind, 8)
    # Only a guess, so 128 bits may be read in two pieces.
    first = builder.op(f"load volatile {kind}, ptr {pointer}, align {size}")
    builder.line(f"store {kind} {first}, ptr {seen}")
    again, done = builder.block_name("exchange"), builder.block_name("exchanged")
    builder.line(f"br label %{again}")
    builder.label(again)
    old = builder.op(f"load {kind}, ptr {seen}")
    new = _updated(group, what, old, value)
    pair = builder.op(f"cmpxchg ptr {pointer}, {kind} {old}, {kind} {new} seq_cst seq_cst, align {size}")
    builder.line(f"store {kind} {builder.op(f'extractvalue {{ {kind}, i1 }} {pair}, 0')}, ptr {seen}")
    builder.line(f"br i1 {builder.op(f'extractvalue {{ {kind}, i1 }} {pair}, 1')}, label %{done}, label %{again}")
    builder.label(done)
    return builder.op(f"load {kind}, ptr {seen}")


def _locked(group: Group, what: _Atomic, pointer: str, values: list[str]) -> str:
    builder, kind, size = group.builder, Type(what.elem), what.size
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
    """``inc`` and ``dec``, atomically."""
    name = "uinc_wrap" if what.operation == "inc" else "udec_wrap"
    return group.builder.op(f"atomicrmw {name} ptr {pointer}, {what.elem} {limit} seq_cst, align {what.size}")


ATOMIC: Final[dict[str, Lowering]] = {"atom": atomic, "red": atomic}
