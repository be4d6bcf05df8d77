"""What each register looks like across the lanes: uniform, affine or varying.

One shape per register, joined over all its definitions.  Shapes only ever move up the lattice, so
the fixpoint in `analyse` ends.  Two facts decide a definition's shape: the instruction's operands,
and whether it must be *blended* (written under a mask while other lanes still need the old value).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from zcuda_async.jit.cfg import Block, ControlFlow
from zcuda_async.jit.geometry import Geometry
from zcuda_async.jit.layout import KernelLayout
from zcuda_async.jit.pending import Pending, find_pending
from zcuda_async.jit.registers import CARRY, live_at_entry, reads_carry, sources, writes
from zcuda_async.ptx.ir import (
    TYPE_BITS,
    Address,
    Immediate,
    Instruction,
    Operand,
    Register,
    SpecialRegister,
    Symbol,
    VectorOperand,
)

__all__ = ("UNIFORM", "VARYING", "Analysis", "Shape", "analyse")

_LIMIT: Final = 1 << 31
_WIDE: Final = frozenset(("u32", "s32", "u64", "s64"))


@dataclass(frozen=True, slots=True)
class Shape:
    """A value across the lanes.

    `stride`: 0 is uniform within a part, s is affine (base + s * lane), None is varying.  `same`: all
    parts of a group hold the same.  `const`: the value, when it is one known integer.  `align`: a
    power of two that divides every part's base.  `limit`: all lanes are in [0, limit), if known.
    `even`: the parts' bases lie at equal distances, so the first two tell all others.
    """

    stride: int | None
    same: bool
    const: int | None = None
    align: int = 1
    limit: int | None = None
    even: bool = False

    @property
    def is_even(self) -> bool:
        """Whether every part's base is as far from the one before as the second is from the first."""
        return self.even or self.same

    @property
    def is_uniform(self) -> bool:
        """Whether all lanes of the whole group hold one value."""
        return self.stride == 0 and self.same


UNIFORM: Final = Shape(0, True)
VARYING: Final = Shape(None, False)


def constant(value: int) -> Shape:
    """The shape of a known integer."""
    align = min(value & -value, 1 << 20) if value else 1 << 20
    return Shape(0, True, value, align, value + 1 if 0 <= value < _LIMIT else None)


def join(a: Shape | None, b: Shape) -> Shape:
    """The least shape that describes both."""
    if a is None or a == b:
        return b
    return Shape(
        stride=a.stride if a.stride == b.stride else None,
        same=a.same and b.same,
        const=a.const if a.const == b.const else None,
        align=min(a.align, b.align),
        # A limit that moves would climb for ever in a loop: it is dropped at once.
        limit=a.limit if a.limit == b.limit else None,
        even=a.is_even and b.is_even,
    )


def _add(a: Shape, b: Shape, sign: int) -> Shape:
    same, even = a.same and b.same, a.is_even and b.is_even
    if a.const is not None and b.const is not None:
        return constant(a.const + sign * b.const)
    if a.stride is None or b.stride is None:
        return Shape(None, same)
    limit = None
    if sign > 0 and a.limit is not None and b.limit is not None and a.limit + b.limit <= _LIMIT:
        limit = a.limit + b.limit - 1
    return Shape(a.stride + sign * b.stride, same, None, min(a.align, b.align), limit, even)


def _multiply(a: Shape, b: Shape) -> Shape:
    same = a.same and b.same
    if a.const is not None and b.const is not None:
        return constant(a.const * b.const)
    align = min(a.align * b.align, 1 << 20)
    for value, factor in ((a, b.const), (b, a.const)):
        if factor is not None and value.stride is not None:
            fits = value.limit is not None and factor >= 0 and (value.limit - 1) * factor < _LIMIT
            limit = (value.limit - 1) * factor + 1 if fits and value.limit is not None else None
            return Shape(value.stride * factor, same, None, align, limit, value.is_even)
    if a.stride == 0 and b.stride == 0:
        return Shape(0, same, None, align, None, (a.is_even and b.same) or (a.same and b.is_even))
    return Shape(None, same)


def _wrapped(value: int, bits: int, *, signed: bool) -> int:
    """An integer as `bits` bits hold it."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def _widen(value: Shape, signed: bool, lanes: int, bits: int = 32) -> Shape:
    """A value of `bits` bits extended to more.

    An affine value stays affine, and parts stay evenly spaced, only if no lane wraps around.  For signed 32-bit
    values that is taken for granted, as C++ and nvcc do; for others it must follow from the alignment or the limit.
    """
    if value.const is not None:
        return constant(_wrapped(value.const, bits, signed=signed))
    if value.stride is not None:
        value = replace(value, stride=_wrapped(value.stride, bits, signed=True))
    if (signed and bits == 32) or (value.limit is not None and value.limit <= 1 << (bits - 1)):
        return value
    value = replace(value, even=False)
    if value.stride in (0, None):
        return value
    if not signed and 0 <= (value.stride or 0) * (lanes - 1) < min(value.align, 1 << bits):
        return value
    return Shape(None, value.same)


class Transfer:
    """Shapes of results from shapes of operands, for one geometry."""

    def __init__(
        self,
        geometry: Geometry,
        shapes: dict[str, Shape],
        local: dict[str, int] | None = None,
        local_size: int = 0,
        elsewhere: frozenset[str] = frozenset(),
    ) -> None:
        self.geometry = geometry
        self.shapes = shapes
        self.local = local or {}
        self.local_size = local_size
        self.elsewhere = elsewhere

    def of(self, operand: Operand) -> Shape:
        """An operand's shape; registers nothing was written to yet count as uniform."""
        if isinstance(operand, Register):
            return self.shapes.get(operand.name, UNIFORM)
        if isinstance(operand, Immediate):
            return constant(operand.value) if isinstance(operand.value, int) else UNIFORM
        if isinstance(operand, SpecialRegister):
            return self.special(operand.name)
        if isinstance(operand, Address):
            base = self.of(operand.base)
            return _add(base, constant(operand.offset), 1) if operand.offset else base
        if isinstance(operand, Symbol):
            if operand.name in self.elsewhere:
                return VARYING
            if operand.name in self.local:  # every lane has its own frame
                return Shape(self.local_size, self.geometry.parts == 1, None, 16)
            return Shape(0, True, None, 16)
        if isinstance(operand, VectorOperand):
            return _lanewise([self.of(element) for element in operand.elements])
        return VARYING

    def special(self, name: str) -> Shape:
        """The shape of a special register."""
        geometry = self.geometry
        x, y, z = geometry.block
        lanes, width = geometry.lanes, geometry.width
        single = geometry.parts == 1
        if name in ("%ntid.x", "%ntid.y", "%ntid.z"):
            return constant(geometry.block["xyz".index(name[-1])])
        if name in ("%laneid", "%lanemask_lt"):
            affine = Shape(1, single or lanes >= 32, None, lanes, 32)
            return affine if name == "%laneid" and lanes <= 32 else Shape(None, single)
        if name.startswith("%lanemask_"):
            return Shape(None, single)
        if name == "%warpid":
            return Shape(0, width <= 32, None, 1, 32)
        if name == "%tid.x":
            return self._tid_x(x, y * z)
        if name == "%tid.y":
            return self._tid_row(y, x, z)
        if name == "%tid.z":
            return self._tid_row(z, x * y, 1)
        if name.startswith(
            (
                "%ctaid",
                "%nctaid",
                "%gridid",
                "%envreg",
                "%dynamic_smem",
                "%total_smem",
                "%nwarpid",
                "%cluster",
                "%nclusterid",
            )
        ):
            return UNIFORM
        if name == "WARP_SZ":
            return constant(32)
        return UNIFORM

    def _tid_x(self, x: int, rows: int) -> Shape:
        lanes, single = self.geometry.lanes, self.geometry.parts == 1
        if x == 1:
            return constant(0)
        if x % lanes == 0 or rows == 1:
            return Shape(1, single or x == lanes, None, lanes, 1024, self.geometry.is_one_row)
        return Shape(None, single or lanes % x == 0)

    def _tid_row(self, size: int, below: int, above: int) -> Shape:
        """`tid.y` or `tid.z`: `size` rows of `below` threads each, `above` times."""
        geometry = self.geometry
        if size == 1:
            return constant(0)
        if below % geometry.lanes == 0:
            each_part_a_row = below == geometry.lanes and (above == 1 or size % geometry.parts == 0)
            same = geometry.parts == 1 or below % geometry.width == 0
            return Shape(0, same, None, 1, size, each_part_a_row)
        return Shape(None, geometry.parts == 1)

    def result(self, instruction: Instruction) -> Shape:
        """The shape of what an instruction computes, guard and mask apart."""
        operands = [self.of(operand) for operand in sources(instruction)]
        if reads_carry(instruction):
            operands.append(self.of(CARRY))
        rule = _RULES.get(instruction.opcode)
        if rule is not None:
            return rule(self, instruction, operands)
        return _lanewise(operands)


def _lanewise(operands: Sequence[Shape]) -> Shape:
    same = all(shape.same for shape in operands)
    return Shape(0 if all(shape.stride == 0 for shape in operands) else None, same)


Rule = Callable[[Transfer, Instruction, list[Shape]], Shape]


def _is_float(instruction: Instruction) -> bool:
    return "f" in instruction.types[0]


def _rule_add(_: Transfer, instruction: Instruction, operands: list[Shape]) -> Shape:
    if _is_float(instruction) or any(map(instruction.has, ("cc", "sat"))) or instruction.types[0].endswith("x2"):
        return _lanewise(operands)
    return _add(operands[0], operands[1], 1 if instruction.opcode == "add" else -1)


def _product(transfer: Transfer, instruction: Instruction, a: Shape, b: Shape) -> Shape:
    if instruction.has("hi"):
        return _lanewise([a, b])
    if instruction.has("wide"):
        signed, bits = instruction.types[0].startswith("s"), TYPE_BITS[instruction.types[0]]
        a, b = (_widen(value, signed, transfer.geometry.lanes, bits) for value in (a, b))
    return _multiply(a, b)


def _rule_mul(transfer: Transfer, instruction: Instruction, operands: list[Shape]) -> Shape:
    if _is_float(instruction):
        return _lanewise(operands)
    return _product(transfer, instruction, operands[0], operands[1])


def _rule_mad(transfer: Transfer, instruction: Instruction, operands: list[Shape]) -> Shape:
    if _is_float(instruction) or instruction.has("cc") or instruction.has("sat"):
        return _lanewise(operands)
    return _add(_product(transfer, instruction, operands[0], operands[1]), operands[2], 1)


def _rule_shl(_: Transfer, instruction: Instruction, operands: list[Shape]) -> Shape:
    amount = operands[1].const
    if amount is None or not 0 <= amount < TYPE_BITS[instruction.types[0]]:
        return _lanewise(operands)
    return replace(_multiply(operands[0], constant(1 << amount)), same=operands[0].same)


def _field(value: Shape, lanes: int) -> int | None:
    """A power of two that the lanes' distances from the base stay below, if the base is a multiple of it."""
    if value.stride is None or value.stride < 0:
        return None
    field = 1 << (value.stride * (lanes - 1)).bit_length()
    return field if field <= value.align else None


def _rule_shr(transfer: Transfer, instruction: Instruction, operands: list[Shape]) -> Shape:
    """Shifting out the bits in which lanes differ leaves one value; shifting out zeros divides the stride."""
    value, amount = operands[0], operands[1].const
    field = _field(value, transfer.geometry.lanes)
    if amount is None or not 0 <= amount < TYPE_BITS[instruction.types[0]] or field is None or value.stride is None:
        return _lanewise(operands)
    limit = None if value.limit is None else ((value.limit - 1) >> amount) + 1
    align = max(1, value.align >> amount)
    if field <= 1 << amount:
        return Shape(0, value.same, None, align, limit)
    if value.stride % (1 << amount) == 0:
        return Shape(value.stride >> amount, value.same, None, align, limit)
    return _lanewise(operands)


def _rule_and(transfer: Transfer, instruction: Instruction, operands: list[Shape]) -> Shape:
    """A constant mask that has all the bits in which lanes differ keeps the stride; one that has none, one value."""
    if instruction.types[0] == "pred":
        return _lanewise(operands)
    for value, other in (operands, reversed(operands)):
        field = _field(value, transfer.geometry.lanes)
        if other.const is None or field is None:
            continue
        mask = other.const & ((1 << TYPE_BITS[instruction.types[0]]) - 1)
        kept = mask & (field - 1)
        if kept not in (0, field - 1):
            continue
        align = min(max(value.align, mask & -mask), 1 << 20)
        limits = [limit for limit in (value.limit, mask + 1) if limit is not None and limit <= _LIMIT]
        return Shape(value.stride if kept else 0, value.same, None, align, min(limits, default=None))
    return _lanewise(operands)


def _rule_or(transfer: Transfer, instruction: Instruction, operands: list[Shape]) -> Shape:
    """``or`` and ``xor`` with a value that has no bit where lanes differ: it goes into the base."""
    if instruction.types[0] == "pred":
        return _lanewise(operands)
    for value, other in (operands, reversed(operands)):
        field = _field(value, transfer.geometry.lanes)
        if not value.stride or other.stride != 0 or field is None:
            continue
        differing = (field - 1) & -(value.stride & -value.stride)
        if other.align >= field or (other.const is not None and not other.const & differing):
            return Shape(value.stride, value.same and other.same, None, min(value.align, other.align))
    return _lanewise(operands)


def _rule_mov(_: Transfer, instruction: Instruction, operands: list[Shape]) -> Shape:
    source = instruction.operands[1]
    is_plain = isinstance(source, Register | Immediate | SpecialRegister | Symbol)
    return operands[0] if is_plain and isinstance(instruction.operands[0], Register) else _lanewise(operands)


def _rule_convert(transfer: Transfer, instruction: Instruction, operands: list[Shape]) -> Shape:
    if instruction.opcode == "cvta":
        return operands[0]
    to, source = instruction.types[0], instruction.types[1]
    if not {to, source} <= _WIDE or instruction.has("sat"):
        return _lanewise(operands)
    if TYPE_BITS[to] > TYPE_BITS[source]:
        return _widen(operands[0], source.startswith("s"), transfer.geometry.lanes)
    return replace(operands[0], limit=None)


def _rule_selp(_: Transfer, instruction: Instruction, operands: list[Shape]) -> Shape:
    if operands[2].stride == 0:
        either = join(operands[0], operands[1])
        return replace(either, const=None, same=all(o.same for o in operands), even=either.even and operands[2].same)
    return _lanewise(operands)


def _rule_load(_: Transfer, instruction: Instruction, operands: list[Shape]) -> Shape:
    if instruction.has("param") and operands[0].is_uniform:
        return UNIFORM
    if instruction.has("local") or operands[0].stride != 0:
        return Shape(None, operands[0].same and not instruction.has("local"))
    return Shape(0, operands[0].same)


def _rule_varying(*_: object) -> Shape:
    return VARYING


def _rule_vote(transfer: Transfer, instruction: Instruction, operands: list[Shape]) -> Shape:
    """A vote's outcome is one per warp, unless its lanes may have different membermasks."""
    if instruction.opcode != "activemask" and not operands[-1].is_uniform:
        return VARYING
    return Shape(0, transfer.geometry.width <= 32)


def _rule_barrier_result(_: Transfer, instruction: Instruction, __: list[Shape]) -> Shape:
    """All threads of a block get the same, where they wait for each other."""
    return UNIFORM if instruction.has("all") else VARYING


_RULES: Final[dict[str, Rule]] = {
    "bar.result": _rule_barrier_result,
    "elect": _rule_varying,
    "mbarrier": _rule_varying,
    **dict.fromkeys(("mma", "wmma", "ldmatrix", "movmatrix"), _rule_varying),
    **dict.fromkeys(("tex", "tld4", "txq", "suld", "suq", "istypep"), _rule_varying),
    "mapa": _rule_varying,
    "getctarank": _rule_varying,
    "add": _rule_add,
    "sub": _rule_add,
    "mul": _rule_mul,
    "mad": _rule_mad,
    "shl": _rule_shl,
    "shr": _rule_shr,
    "and": _rule_and,
    "or": _rule_or,
    "xor": _rule_or,
    "mov": _rule_mov,
    "cvt": _rule_convert,
    "cvta": _rule_convert,
    "selp": _rule_selp,
    "ld": _rule_load,
    "atom": _rule_varying,
    "shfl": _rule_varying,
    "match": _rule_varying,
    "vprintf": _rule_varying,
    "malloc": _rule_varying,
    "vote": _rule_vote,
    "activemask": _rule_vote,
    "redux": _rule_vote,
}


@dataclass(frozen=True, slots=True)
class Analysis:
    """Everything code generation needs to know about a function at one geometry."""

    flow: ControlFlow
    geometry: Geometry
    shapes: dict[str, Shape]
    pending: Pending
    live: tuple[frozenset[str], ...]

    def kept(self, index: int) -> frozenset[str]:
        """Registers whose old value waiting lanes may need while block `index` runs."""
        return _kept(self.pending, self.live, index)


def _kept(pending: Pending, live: tuple[frozenset[str], ...], index: int) -> frozenset[str]:
    return frozenset().union(*(live[block] for block in pending.waiting(index)))


def is_branch_uniform(block: Block, shapes: dict[str, Shape]) -> bool:
    """Whether all lanes of a group take the branch at the end of `block` the same way."""
    guard = block.branch.guard if block.branch is not None else None
    return guard is None or shapes.get(guard.register.name, UNIFORM).is_uniform


def _step(flow: ControlFlow, transfer: Transfer, pending: Pending, live: tuple[frozenset[str], ...]) -> bool:
    """Apply every instruction once; whether anything changed."""
    shapes, changed = transfer.shapes, False
    for block in flow.blocks:
        if pending.body[block.index] is None:
            continue
        kept = _kept(pending, live, block.index)
        for instruction in block.instructions:
            targets = writes(instruction)
            if not targets:
                continue
            plain = transfer.result(instruction)
            guard = instruction.guard
            divergent = guard is not None and shapes.get(guard.register.name, UNIFORM).stride != 0
            for register in targets:
                shape = plain
                if divergent or register.name in kept:
                    shape = VARYING if transfer.geometry.parts > 1 else Shape(None, True)
                elif guard is not None:
                    same = shapes.get(guard.register.name, UNIFORM).same
                    shape = join(shapes.get(register.name), plain)
                    shape = replace(shape, same=plain.same and same, even=shape.is_even and same)
                old = shapes.get(register.name)
                new = join(old, shape)
                if register.type == "pred" and new.stride not in (0, None):
                    new = replace(new, stride=None, even=False)
                if new != old:
                    shapes[register.name] = new
                    changed = True
    return changed


def analyse(flow: ControlFlow, geometry: Geometry, layout: KernelLayout, *, partial: bool | None = None) -> Analysis:
    """Find shapes and pending sets together, to their common fixpoint.

    `partial` says whether some lanes may be missing from the start; by default that follows from the geometry.
    """
    partial = geometry.is_partial if partial is None else partial
    live = live_at_entry(flow)
    shapes: dict[str, Shape] = {}
    transfer = Transfer(geometry, shapes, layout.local, layout.local_size, layout.elsewhere)
    while True:
        pending = find_pending(flow, lambda block: is_branch_uniform(block, shapes), partial=partial)
        if not _step(flow, transfer, pending, live):
            return Analysis(flow, geometry, shapes, pending, live)
