"""Warp-level instructions: shuffles, votes, reductions (PTX ISA 9.7.9.6, 9.7.13).

W is a multiple of 32 in kernels that use them, so a warp is a fixed set of whole parts of one group.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from zcuda_async.jit.builder import Builder, Type
from zcuda_async.jit.lower.members import active_masks, by_members, lane_mask, warp_bits
from zcuda_async.jit.shapes import VARYING
from zcuda_async.ptx.ir import Instruction, Operand

if TYPE_CHECKING:
    from zcuda_async.jit.lower import Lowering
    from zcuda_async.jit.lower.group import Group

__all__ = ("WARP", "WARP_OPCODES", "warps")

_WARP: Final = 32
_WORDS: Final = Type("i32", _WARP)
_FULL: Final = 0xFFFFFFFF
_LOWEST, _HIGHEST = -(1 << 31), (1 << 31) - 1
_INFINITY: Final = 0x7F800000
_CANONICAL_NAN: Final = 0x7FFFFFFF


def warps(group: Group) -> list[range]:
    """The parts of each warp of the group."""
    per_warp = _WARP // group.lanes
    return [range(start, start + per_warp) for start in range(0, group.parts, per_warp)]


def shuffle(group: Group, instruction: Instruction) -> None:
    """``shfl.sync``: d gets lane j's a; where j lies outside the segment, the lane's own, and p is false."""
    mode = next(name for name in ("up", "down", "bfly", "idx") if instruction.has(name))
    destination, a, b, c = instruction.operands[:4]
    lane, clamp = group.shape(b).const, group.shape(c).const
    values: list[str] = []
    flags: list[str] = []
    for parts in warps(group):
        sources = [group.read(a, "i32", part, vector=True) for part in parts]
        kind, whole = group.builder.concat(group.vector("i32"), sources)
        if lane is not None and clamp is not None:
            moved, valid = _constant_shuffle(group, kind, whole, mode, lane, clamp)
        else:
            moved, valid = _variable_shuffle(group, kind, whole, mode, b, c, parts)
        for index in range(len(parts)):
            start = index * group.lanes
            values.append(group.builder.slice(kind, moved, start, group.lanes))
            flags.append(group.builder.slice(kind.of("i1"), valid, start, group.lanes))
    group.write(destination, values, "i32", VARYING, instruction.guard)
    group.write(instruction.second_destination, flags, "i1", VARYING, instruction.guard)


def source_lane(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """(source lane, whether it is inside the segment) for one lane; the manual's pseudo code."""
    b, clamp, segment = b & 31, c & 31, c >> 8 & 31
    top = (lane & segment) | (clamp & ~segment & 31)
    bottom = lane & segment
    if mode == "up":
        source = lane - b
        inside = source >= top
    else:
        source = {"down": lane + b, "bfly": lane ^ b, "idx": bottom | (b & ~segment & 31)}[mode]
        inside = source <= top
    return (source if inside else lane), inside


def _constant_shuffle(group: Group, kind: Type, whole: str, mode: str, b: int, c: int) -> tuple[str, str]:
    table = [source_lane(mode, lane, b, c) for lane in range(_WARP)]
    moved = group.builder.shuffle(kind, whole, "poison", [source for source, _ in table])
    return moved, kind.of("i1").vector([int(inside) for _, inside in table])


def _variable_shuffle(
    group: Group, kind: Type, whole: str, mode: str, b: Operand, c: Operand, parts: range
) -> tuple[str, str]:
    builder = group.builder
    truth = kind.of("i1")

    def read(operand: Operand) -> str:
        return builder.concat(group.vector("i32"), [group.read(operand, "i32", part, vector=True) for part in parts])[1]

    def masked(value: str, mask: int) -> str:
        return builder.binary("and", kind, value, kind.const(mask))

    lane = kind.vector(range(_WARP))
    by, control = masked(read(b), 31), read(c)
    clamp = masked(control, 31)
    segment = masked(builder.binary("lshr", kind, control, kind.const(8)), 31)
    outside = builder.binary("xor", kind, segment, kind.const(31))
    bottom = builder.binary("and", kind, lane, segment)
    top = builder.binary("or", kind, bottom, builder.binary("and", kind, clamp, outside))
    if mode == "up":
        source = builder.binary("sub", kind, lane, by)
        inside = builder.compare("icmp sge", kind, source, top)
    else:
        if mode == "down":
            source = builder.binary("add", kind, lane, by)
        elif mode == "bfly":
            source = builder.binary("xor", kind, lane, by)
        else:
            source = builder.binary("or", kind, bottom, builder.binary("and", kind, by, outside))
        inside = builder.compare("icmp sle", kind, source, top)
    source = builder.op(f"select {truth} {inside}, {kind} {source}, {kind} {lane}")
    return _permute(group, kind, whole, source), inside


def _permute(group: Group, kind: Type, value: str, indices: str) -> str:
    """Lanes picked by variable indices, through memory."""
    builder = group.builder
    slot = builder.alloca(str(kind))
    builder.line(f"store {kind} {value}, ptr {slot}")
    pointers = builder.op(f"getelementptr i32, ptr {slot}, {kind} {indices}")
    truth = kind.of("i1")
    return builder.call(
        kind,
        f"llvm.masked.gather.{kind.suffix}.v{kind.lanes}p0",
        [(f"<{kind.lanes} x ptr>", pointers), ("i32", "4"), (truth, truth.const(1)), (kind, "poison")],
    )


def vote(group: Group, instruction: Instruction) -> None:
    """``vote.sync.{all, any, uni, ballot}`` and ``activemask``."""
    shape = group.plain(instruction)
    elem = "i32" if instruction.opcode == "activemask" or instruction.has("ballot") else "i1"
    values: list[str] = []
    for parts in warps(group):
        if instruction.opcode == "activemask":
            values += [warp_bits(group, active_masks(group, instruction, parts))] * len(parts)
        else:
            truths = warp_bits(group, [_truth(group, instruction, part) for part in parts])
            values += _for_members(group, instruction, elem, parts, partial(_vote_of, group, instruction, truths))
    group.write(instruction.operands[0], values if not shape.same else values[:1], elem, shape, instruction.guard)


def _for_members(
    group: Group, instruction: Instruction, elem: str, parts: range, value: Callable[[str], str]
) -> list[str]:
    """One value for all members of a warp, for each of its parts: a scalar if there is one set of members."""
    operand, wide, builder = instruction.operands[2], Type(elem, _WARP), group.builder
    if group.shape(operand).is_uniform:
        return list(by_members(group, instruction, operand, parts, (), lambda members: (value(members),))) * len(parts)
    (whole,) = by_members(
        group, instruction, operand, parts, (wide,), lambda members: (builder.splat(wide, value(members)),)
    )
    return [builder.slice(wide, whole, index * group.lanes, group.lanes) for index in range(len(parts))]


def _truth(group: Group, instruction: Instruction, part: int) -> str:
    value = group.read(instruction.operands[1], "i1", part, vector=True)
    if 1 not in instruction.negated_operands:
        return value
    kind = group.vector("i1")
    return group.builder.binary("xor", kind, value, kind.const(1))


def _vote_of(group: Group, instruction: Instruction, truths: str, members: str) -> str:
    builder = group.builder
    ballot = builder.op(f"and i32 {members}, {truths}")
    if instruction.has("ballot"):
        return ballot
    if instruction.has("any"):
        return builder.op(f"icmp ne i32 {ballot}, 0")
    every = builder.op(f"icmp eq i32 {ballot}, {members}")
    if instruction.has("all"):
        return every
    none = builder.op(f"icmp eq i32 {ballot}, 0")
    return builder.op(f"or i1 {every}, {none}")


def redux(group: Group, instruction: Instruction) -> None:
    """``redux.sync``: one reduction over the member lanes of a warp."""
    shape = group.plain(instruction)
    total = _total_of_floats if instruction.types[0] == "f32" else _total
    values: list[str] = []
    for parts in warps(group):
        sources = [group.read(instruction.operands[1], "i32", part, vector=True) for part in parts]
        _, whole = group.builder.concat(group.vector("i32"), sources)
        values += _for_members(group, instruction, "i32", parts, partial(total, group, instruction, whole))
    group.write(instruction.operands[0], values if not shape.same else values[:1], "i32", shape, instruction.guard)


def _reduced(group: Group, operation: str, words: str) -> str:
    return group.builder.call("i32", f"llvm.vector.reduce.{operation}.{_WORDS.suffix}", [(_WORDS, words)])


def _total(group: Group, instruction: Instruction, whole: str, members: str) -> str:
    is_signed = instruction.types[0] == "s32"
    operation = next(name for name in ("add", "min", "max", "and", "or", "xor") if instruction.has(name))
    sign = ("s" if is_signed else "u") if operation in ("min", "max") else ""
    low, high = (_LOWEST, _HIGHEST) if is_signed else (0, _FULL)
    neutral = {"min": high, "max": low, "and": -1}.get(operation, 0)
    chosen = group.builder.select(_WORDS, lane_mask(group, members), whole, _WORDS.const(neutral))
    return _reduced(group, sign + operation, chosen)


def _total_of_floats(group: Group, instruction: Instruction, whole: str, members: str) -> str:
    """The least or greatest f32 that is a number, by integers that sort like floats; with ``.NaN`` a NaN wins."""
    builder = group.builder
    operation, neutral = ("smin", _HIGHEST) if instruction.has("min") else ("smax", _LOWEST)
    size = builder.binary("and", _WORDS, whole, _WORDS.const(_HIGHEST))
    nan = builder.compare("icmp ugt", _WORDS, size, _WORDS.const(_INFINITY))
    key = size if instruction.has("abs") else _sorted(builder, _WORDS, whole)
    left_out = builder.op(f"xor i32 {members}, -1")
    none = builder.binary("or", _WORDS.of("i1"), nan, lane_mask(group, left_out))
    total = _reduced(group, operation, builder.select(_WORDS, none, _WORDS.const(neutral), key))
    # No number has the neutral element for a key.
    fails = builder.op(f"icmp eq i32 {total}, {neutral}")
    if instruction.has("NaN"):
        lanes = builder.cast("bitcast", _WORDS.of("i1"), nan, Type("i32"))
        seen = builder.op(f"and i32 {members}, {lanes}")
        fails = builder.op(f"or i1 {fails}, {builder.op(f'icmp ne i32 {seen}, 0')}")
    return builder.op(f"select i1 {fails}, i32 {_CANONICAL_NAN}, i32 {_sorted(builder, Type('i32'), total)}")


def _sorted(builder: Builder, kind: Type, bits: str) -> str:
    """Signed integers that sort like the floats, -0 before +0; its own inverse."""
    sign = builder.binary("ashr", kind, bits, kind.const(31))
    return builder.binary("xor", kind, bits, builder.binary("and", kind, sign, kind.const(_HIGHEST)))


WARP: Final[dict[str, Lowering]] = {"shfl": shuffle, "vote": vote, "activemask": vote, "redux": redux}
WARP_OPCODES: Final = frozenset(WARP) | {"match", "elect", "mma", "wmma", "ldmatrix", "stmatrix", "movmatrix"}
