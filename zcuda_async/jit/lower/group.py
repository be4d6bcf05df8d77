"""The code of one group of W threads: how registers, masks and special registers become LLVM values.

Every PTX value is a list of parts of N lanes (see design in docs/architecture.md).  What is stored
for a register follows its shape: uniform and affine registers keep one scalar (the base) per part,
varying ones a vector; if all parts hold the same, only part 0 is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zcuda_async.jit.builder import Builder, Type, llvm_type
from zcuda_async.jit.cfg import EXIT, Block
from zcuda_async.jit.layout import KernelLayout
from zcuda_async.jit.quiet import quiet_registers
from zcuda_async.jit.registers import writes
from zcuda_async.jit.shapes import Analysis, Shape, Transfer
from zcuda_async.ptx.errors import PtxError
from zcuda_async.ptx.ir import (
    Guard,
    Immediate,
    Instruction,
    Operand,
    Register,
    Sink,
    SpecialRegister,
    Symbol,
)

if TYPE_CHECKING:
    from zcuda_async.jit.lower.barrier import Barriers
    from zcuda_async.jit.lower.calls import Calls
    from zcuda_async.jit.lower.indexed import Index

__all__ = ("Group", "Refuse", "Target")


_FIRST: Final = "x86-64"
"""LLVM's name for the first 64-bit x86 processors, and for unknown ones, whose features say what they can do."""


@dataclass(frozen=True, slots=True)
class Target:
    """The host features that code generation itself looks at; the rest is LLVM's business.

    `triple` is LLVM's name for another kind of machine than this one.
    """

    cpu: str
    features: str
    lanes: int
    has_avx512: bool
    triple: str = ""

    @property
    def has_wide_atomics(self) -> bool:
        """Whether 128 bits can be exchanged atomically: by all but the first 64-bit x86 processors."""
        return self.cpu != _FIRST or "+cx16" in self.features


Refuse = Callable[[Instruction, str], PtxError]


def _crossing(analysis: Analysis) -> frozenset[str]:
    """Registers that are alive where a group may stop for others of its block.

    They are frozen when written.  Left alone, LLVM computes such values anew after the suspend point, and keeps
    in the coroutine's frame all that this takes: for a sum of ten loads the ten loads, not the sum.
    """
    if analysis.geometry.groups == 1:
        return frozenset()
    after = [block.taken for block in analysis.flow.blocks if block.barrier is not None and block.taken is not None]
    return frozenset().union(*(analysis.live[index] for index in after if index != EXIT))


class Group:
    """State of code generation for one group function."""

    def __init__(
        self, analysis: Analysis, layout: KernelLayout, target: Target, read_names: frozenset[str], refuse: Refuse
    ) -> None:
        self.analysis = analysis
        self.layout = layout
        self.target = target
        self.read_names = read_names
        self.refuse = refuse
        vectors = "avx512 f16c" if target.has_avx512 else "f16c" if target.lanes >= 8 else ""
        self.builder = Builder(vectors + (" vnni" if "+avx512vnni" in target.features else ""))
        self.geometry = analysis.geometry
        self.parts = analysis.geometry.parts
        self.lanes = analysis.geometry.lanes
        self.transfer = Transfer(analysis.geometry, analysis.shapes, layout.local, layout.local_size, layout.elsewhere)
        self.is_function = bool(layout.arguments)
        self.has_calls = False
        self.waiting_functions: dict[str, int] = {}
        """The functions called out of line that wait for other threads, numbered (see `outofline`)."""
        self.coroutines: dict[str, int] = {}
        """Those of them that are coroutines: all, where groups stop in the middle, else none."""
        self.calls: Calls | None = None
        """Those that lanes are in, where there are coroutines."""
        self.suspends = False
        self.slots: dict[tuple[str, int], str] = {}
        self.current: dict[tuple[str, int], str] = {}
        self.indices: dict[str, Index] = {}
        """What values that serve as addresses were made of (see `indexed`)."""
        self.masks: list[str] | None = None
        self.kept: frozenset[str] = frozenset()
        self.block: Block | None = None
        self.specials: dict[tuple[str, int], str] = {}
        self.barriers: Barriers | None = None
        """For kernels that count who comes to a barrier (see `sync.Waiting`)."""
        self.has_block_state = False
        self.in_cluster = False
        """Whether several blocks are resident at once, each with a `blockstate` and shared memory of its own."""
        self.strides: dict[tuple[int, int], str] = {}
        self.ahead: dict[tuple[int, int], str] = {}
        self._changing: dict[tuple[int, int], frozenset[str]] = {}
        self.crossing = _crossing(analysis)
        self.quiet = quiet_registers(analysis.flow)

    # ------------------------------------------------------------------ shapes and types

    def plain(self, instruction: Instruction) -> Shape:
        """The shape of what the instruction computes, before any blending."""
        return self.transfer.result(instruction)

    def shape(self, operand: Operand) -> Shape:
        """An operand's shape."""
        return self.transfer.of(operand)

    def count(self, shape: Shape) -> int:
        """How many parts have to be computed for a value of that shape."""
        return 1 if shape.same else self.parts

    def vector(self, elem: str) -> Type:
        """The vector type of one part."""
        return Type(elem, self.lanes)

    def type_for(self, elem: str, shape: Shape) -> Type:
        """Vector for varying shapes, scalar for uniform and affine ones."""
        return Type(elem, self.lanes if shape.stride is None else 0)

    # ------------------------------------------------------------------ registers

    def storage(self, register: Register) -> tuple[Shape, Type]:
        """The shape and LLVM type that a register is kept in."""
        shape = self.analysis.shapes[register.name]
        return shape, self.type_for(llvm_type(register.type), shape)

    def _slot(self, register: Register, part: int, kind: Type) -> str:
        key = (register.name, part)
        if key not in self.slots:
            slot = self.slots[key] = self.builder.alloca(str(kind))
            if register.name in self.analysis.live[0]:  # read before it is written, perhaps; LLVM must see a value
                self.builder.entry_stores.append(f"  store {kind} {kind.const(0)}, ptr {slot}")
        return self.slots[key]

    def raw(self, register: Register, part: int) -> tuple[str, Shape, Type]:
        """A register's stored value for one part: the base where it is affine."""
        if register.name not in self.analysis.shapes:
            kind = Type(llvm_type(register.type))
            return kind.const(0), Shape(0, True), kind  # written nowhere
        shape, kind = self.storage(register)
        part = 0 if shape.same else part
        key = (register.name, part)
        if key not in self.current:
            self.current[key] = self.builder.op(f"load {kind}, ptr {self._slot(register, part, kind)}")
        return self.current[key], shape, kind

    @contextmanager
    def apart(self) -> Iterator[None]:
        """For code that not every path takes: what is read in it is read again behind it."""
        current, specials = dict(self.current), dict(self.specials)
        yield
        self.current = {key: value for key, value in current.items() if self.current.get(key) == value}
        self.specials = specials

    def materialise(self, value: str, elem: str, stride: int) -> str:
        """The vector base + stride * lane (just base in every lane when uniform)."""
        kind = self.vector(elem)
        if stride and kind.is_float:  # integers that an untyped `mov` has put into a register for floats
            bits = kind.of(f"i{kind.bits}")
            whole = self.builder.op(f"bitcast {elem} {value} to {bits.elem}")
            return self.builder.cast("bitcast", bits, self.materialise(whole, bits.elem, stride), kind)
        splat = self.builder.splat(kind, value)
        if stride == 0:
            return splat
        ramp = kind.vector([stride * lane for lane in range(self.lanes)])
        return self.builder.binary("add", kind, splat, ramp)

    def reinterpret(self, value: str, source: Type, elem: str, *, signed: bool = False) -> str:
        """The same bits (or, for another width, truncated or extended integers) as element `elem`."""
        to = source.of(elem)
        if source == to:
            return value
        builder = self.builder
        if source.bits == to.bits:
            return builder.cast("bitcast", source, value, to)
        as_int, to_int = source.of(f"i{source.bits}"), source.of(f"i{to.bits}")
        value = builder.cast("bitcast", source, value, as_int)
        opcode = "trunc" if source.bits > to.bits else ("sext" if signed else "zext")
        return builder.cast("bitcast", to_int, builder.cast(opcode, as_int, value, to_int), to)

    def read(self, operand: Operand, elem: str, part: int, *, vector: bool) -> str:
        """An operand as LLVM element type `elem`: a vector, or the scalar base."""
        if isinstance(operand, Register):
            value = self._read_register(operand, elem, part, vector=vector)
            if operand.name in self.quiet:
                self.builder.quiet.add(value)
            return value
        if isinstance(operand, Immediate):
            return self._immediate(operand, Type(elem, self.lanes if vector else 0))
        if isinstance(operand, SpecialRegister | Symbol):
            shape = self.shape(operand)
            value, own = self._named(operand, part)
            if vector and shape.stride is not None:
                value = self.materialise(value, own, shape.stride)
            return self.reinterpret(value, Type(own, self.lanes if vector else 0), elem)
        raise TypeError(f"not a value: {operand!r}")

    def _read_register(self, register: Register, elem: str, part: int, *, vector: bool) -> str:
        value, shape, kind = self.raw(register, part)
        if not vector or shape.stride is None:
            return self.reinterpret(value, kind, elem)
        value = self.materialise(value, kind.elem, shape.stride)
        return self.reinterpret(value, self.vector(kind.elem), elem)

    def _immediate(self, operand: Immediate, kind: Type) -> str:
        if kind.is_float:
            if operand.float_bits:
                return kind.const(float(operand.value))
            own = kind.of(f"i{kind.bits}")
            return self.builder.op(f"bitcast {own} {own.const(operand.value)} to {kind}")
        if operand.float_bits:
            return kind.const(operand.bits)
        value = int(operand.value) & ((1 << kind.bits) - 1) if kind.elem != "i1" else int(operand.value)
        return kind.const(value)

    def _named(self, operand: SpecialRegister | Symbol, part: int) -> tuple[str, str]:
        from zcuda_async.jit.lower.special import TIMES, special_value, symbol_value

        if isinstance(operand, SpecialRegister) and operand.name in TIMES:
            return special_value(self, operand, part)
        key = (str(operand), part)
        if key not in self.specials:
            make = special_value if isinstance(operand, SpecialRegister) else symbol_value
            self.specials[key], elem = make(self, operand, part)  # type: ignore[arg-type]
            self.specials[(key[0] + ":elem", part)] = elem
        return self.specials[key], self.specials[(key[0] + ":elem", part)]

    def write(
        self,
        destination: Operand | None,
        values: Sequence[str],
        elem: str,
        plain: Shape,
        guard: Guard | None,
        *,
        signed: bool = False,
    ) -> None:
        """Store a result: `values` has one entry, or one per part, of the form `plain` says."""
        if destination is None or isinstance(destination, Sink):
            return
        assert isinstance(destination, Register)
        if destination.name not in self.read_names:
            return
        shape, kind = self.storage(destination)
        for part in range(self.count(shape)):
            value = values[part if len(values) > 1 else 0]
            value = self.reinterpret(value, self.type_for(elem, plain), kind.elem, signed=signed)
            if shape.stride is None and plain.stride is not None:
                value = self.materialise(value, kind.elem, plain.stride)
            value = self._blend(destination, part, value, shape, kind, guard)
            if kind.lanes and destination.name in self.crossing:
                value = self.builder.op(f"freeze {kind} {value}")
            self.current[(destination.name, part)] = value
            self.builder.line(f"store {kind} {value}, ptr {self._slot(destination, part, kind)}")

    def _blend(self, register: Register, part: int, value: str, shape: Shape, kind: Type, guard: Guard | None) -> str:
        if shape.stride is not None:
            if guard is None:
                return value
            condition = self.predicate(guard, part, vector=False)
        else:
            masks = self.masks if register.name in self.kept else None
            mask = masks[part] if masks is not None else None
            if guard is not None:
                mask = self.both(mask, self.predicate(guard, part, vector=True))
            if mask is None:
                return value
            condition = mask
        old, _, _ = self.raw(register, part)
        return self.builder.select(kind, condition, value, old)

    def advances(self, operand: Operand) -> bool:
        """Whether an address changes from one iteration to the next of the loop that the block is in."""
        base = getattr(operand, "base", None)
        if self.block is None or not isinstance(base, Register):
            return False
        index, flow = self.block.index, self.analysis.flow
        around = [(head, last) for head, last in flow.regions.items() if head <= index <= last]
        if not around:
            return False
        region = max(around)
        if region not in self._changing:
            self._changing[region] = frozenset(
                register.name
                for block in flow.blocks[region[0] : region[1] + 1]
                for instruction in block.instructions
                for register in writes(instruction)
            )
        return base.name in self._changing[region]

    def loads_in_loop(self) -> int:
        """How many loads the innermost loop around the block has (see `advances`)."""
        assert self.block is not None
        flow, index = self.analysis.flow, self.block.index
        head, last = max((head, last) for head, last in flow.regions.items() if head <= index <= last)
        return sum(item.opcode == "ld" for block in flow.blocks[head : last + 1] for item in block.instructions)

    # ------------------------------------------------------------------ masks

    def predicate(self, guard: Guard, part: int, *, vector: bool) -> str:
        """A guard's truth, per lane or (uniform guards) as a scalar."""
        value = self.read(guard.register, "i1", part, vector=vector)
        if not guard.negated:
            return value
        kind = Type("i1", self.lanes if vector else 0)
        return self.builder.binary("xor", kind, value, kind.const(1))

    def both(self, a: str | None, b: str) -> str:
        """A and b; a None means all lanes."""
        return b if a is None else self.builder.binary("and", self.vector("i1"), a, b)

    def active(self, instruction: Instruction, part: int) -> str | None:
        """The lanes that execute an instruction: the block's mask and its guard; None for all."""
        mask = self.masks[part] if self.masks is not None else None
        if instruction.guard is None:
            return mask
        return self.both(mask, self.predicate(instruction.guard, part, vector=True))

    def mask_bits(self, mask: str) -> str:
        """A part's mask as an integer of N bits."""
        return self.builder.op(f"bitcast {self.vector('i1')} {mask} to i{self.lanes}")

    def any_of(self, masks: Sequence[str]) -> str:
        """Whether any lane of any part is set, as i1."""
        builder, kind = self.builder, self.vector("i1")
        total = masks[0]
        for mask in masks[1:]:
            total = builder.binary("or", kind, total, mask)
        bits = self.mask_bits(total)
        return builder.op(f"icmp ne i{self.lanes} {bits}, 0")

    # ------------------------------------------------------------------ lane loops

    def each_lane(self, mask: str | None, body: Callable[[str], None]) -> None:
        """Emit `body` for every lane set in `mask` (an integer of N bits, None for all), in order.

        It gets the lane's index: an i32, or a constant.
        """
        if mask is None:
            for number in range(self.lanes):
                body(str(number))
            return
        builder = self.builder
        wide = builder.op(f"zext i{self.lanes} {mask} to i32")
        slot = builder.alloca("i32", 4)
        builder.line(f"store i32 {wide}, ptr {slot}")
        head, inside, done = (builder.block_name(hint) for hint in ("lanes", "lane", "lanes.done"))
        builder.line(f"br label %{head}")
        builder.label(head)
        bits = builder.op(f"load i32, ptr {slot}")
        more = builder.op(f"icmp ne i32 {bits}, 0")
        builder.line(f"br i1 {more}, label %{inside}, label %{done}")
        builder.label(inside)
        lane = builder.call("i32", "llvm.cttz.i32", [("i32", bits), ("i1", "true")])
        less = builder.op(f"sub i32 {bits}, 1")
        rest = builder.op(f"and i32 {bits}, {less}")
        builder.line(f"store i32 {rest}, ptr {slot}")
        body(lane)
        builder.line(f"br label %{head}")
        builder.label(done)

    def lane_of(self, kind: Type, value: str, lane: str) -> str:
        """One lane of a vector, by constant or variable index."""
        return self.builder.op(f"extractelement {kind} {value}, i32 {lane}")
