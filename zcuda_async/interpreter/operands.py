"""How instructions read and write their operands."""

from __future__ import annotations

from collections.abc import Callable
from operator import floordiv, mod
from time import time_ns
from typing import Final

from zcuda_async.interpreter.bits import mask
from zcuda_async.interpreter.exact import FORMATS
from zcuda_async.interpreter.thread import WARP, InterpreterError, Reader, Thread, UndefinedRegisterError, Writer
from zcuda_async.ptx.ir import (
    TYPE_BITS,
    Immediate,
    Operand,
    Register,
    Sink,
    SpecialRegister,
    Symbol,
    VectorOperand,
)
from zcuda_async.ptx.table_syntax import TYPE_WIDTHS

__all__ = ("address_of", "place_of", "reader", "writer")


def reader(operand: Operand, ptx_type: str, *, negated: bool = False) -> Reader:
    """How to get an operand's bits, as wide as `ptx_type`."""
    width = TYPE_WIDTHS[ptx_type] if ptx_type else 64
    if negated:
        plain = reader(operand, ptx_type)
        return lambda thread: plain(thread) ^ 1
    match operand:
        case Register(name):
            return _register_reader(name, mask(width))
        case Immediate():
            bits = _immediate_bits(operand, ptx_type)
            return lambda _: bits
        case SpecialRegister(name):
            special = _special_reader(name)
            return lambda thread: special(thread) & mask(width)
        case Symbol(name, offset):
            return lambda thread: (address_of(thread, name) + offset) & mask(width)
        case VectorOperand(elements):
            return _pack_reader(elements, width)
        case _:
            raise LookupError(f"operand {operand!r}")


def _register_reader(name: str, ones: int) -> Reader:
    def read(thread: Thread) -> int:
        try:
            return thread.registers[name] & ones
        except KeyError:
            if thread.block.launch.strict:
                raise UndefinedRegisterError(f"register {name} is read before it is written") from None
            return 0

    return read


def _pack_reader(elements: tuple[Operand, ...], width: int) -> Reader:
    part = width // len(elements)
    readers = [reader(element, f"b{part}") for element in elements]
    return lambda thread: sum(read(thread) << part * at for at, read in enumerate(readers))


def _immediate_bits(operand: Immediate, ptx_type: str) -> int:
    """A constant in a type: floating-point literals are rounded to it if it is narrower."""
    ones = mask(TYPE_WIDTHS[ptx_type] if ptx_type else 64)
    if ptx_type == "pred":
        return int(operand.value != 0)
    if not operand.float_bits:
        return int(operand.value) & ones
    own = "f32" if operand.float_bits == 32 else "f64"
    if ptx_type not in FORMATS or ptx_type == own:
        return operand.bits
    return FORMATS[ptx_type].encode(FORMATS[own].decode(operand.bits))


def writer(operand: Operand | None, ptx_type: str) -> Writer:
    """How to store a result of type `ptx_type`, extended to its register's width."""
    match operand:
        case Register(name, register_type):
            width, full = TYPE_WIDTHS[ptx_type], TYPE_BITS[register_type]
            if full <= width or ptx_type[0] != "s":
                return lambda thread, bits: thread.registers.__setitem__(name, bits)
            top, high = 1 << (width - 1), mask(full) ^ mask(width)
            return lambda thread, bits: thread.registers.__setitem__(name, bits | high if bits & top else bits)
        case VectorOperand(elements):
            part = TYPE_WIDTHS[ptx_type] // len(elements)
            return _unpack_writer([writer(element, f"b{part}") for element in elements], part)
        case Sink() | None:
            return lambda _thread, _bits: None
        case _:
            raise LookupError(f"destination {operand!r}")


def _unpack_writer(writers: list[Writer], part: int) -> Writer:
    def write(thread: Thread, bits: int) -> None:
        for at, write_one in enumerate(writers):
            write_one(thread, bits >> part * at & mask(part))

    return write


def place_of(thread: Thread, name: str) -> tuple[str, int]:
    """A variable's state space, and its address there (global and const addresses are generic)."""
    place = thread.frame.code.variables.get(name)
    if place is None:
        if name in thread.block.launch.symbols:
            return "global", thread.block.launch.symbols[name]
        raise InterpreterError(f"variable {name} has no address in this launch")
    if place.space == "shared":
        return "shared", thread.block.shared_base + place.offset
    if not place.in_frame:
        return place.space, place.offset
    return place.space, place.offset + (thread.frame.local_base if place.space == "local" else thread.frame.param_base)


def address_of(thread: Thread, name: str) -> int:
    """A variable's address in its own state space."""
    return place_of(thread, name)[1]


# ---------------------------------------------------------------------- special registers


def _threads(thread: Thread) -> int:
    x, y, z = thread.block.launch.block
    return x * y * z


_Triple = tuple[int, int, int]


def _by_axis(operation: Callable[[int, int], int], a: _Triple, b: _Triple) -> _Triple:
    return operation(a[0], b[0]), operation(a[1], b[1]), operation(a[2], b[2])


_SPECIAL: Final[dict[str, Reader]] = {
    "%laneid": lambda t: t.lane,
    "%warpid": lambda t: t.index // WARP,
    "%nwarpid": lambda t: -(-_threads(t) // WARP),
    "%smid": lambda _: 0,
    "%nsmid": lambda _: 1,
    "%gridid": lambda t: t.block.launch.number,
    "%lanemask_eq": lambda t: 1 << t.lane,
    "%lanemask_lt": lambda t: mask(t.lane),
    "%lanemask_le": lambda t: mask(t.lane + 1),
    "%lanemask_ge": lambda t: mask(WARP) ^ mask(t.lane),
    "%lanemask_gt": lambda t: mask(WARP) ^ mask(t.lane + 1),
    "%clock": lambda t: t.steps,
    "%clock_hi": lambda t: t.steps >> 32,
    "%clock64": lambda t: t.steps,
    "%dynamic_smem_size": lambda t: t.block.launch.dynamic_shared,
    "%globaltimer": lambda _: time_ns(),
    "%globaltimer_lo": lambda _: time_ns() & mask(32),
    "%globaltimer_hi": lambda _: time_ns() >> 32,
    "%current_graph_exec": lambda _: 0,
    "%cluster_ctarank": lambda t: t.block.rank,
    "%cluster_nctarank": lambda t: len(t.block.cluster.blocks),
    "%is_explicit_cluster": lambda t: int(len(t.block.cluster.blocks) > 1),
    "%aggr_smem_size": lambda t: t.block.launch.shared_size + t.block.launch.dynamic_shared,
    "%total_smem_size": lambda t: t.block.launch.shared_size + t.block.launch.dynamic_shared,
}
_TRIPLES: Final[dict[str, Callable[[Thread], _Triple]]] = {
    "%tid": lambda t: t.tid,
    "%ntid": lambda t: t.block.launch.block,
    "%ctaid": lambda t: t.block.index,
    "%nctaid": lambda t: t.block.launch.grid,
    "%clusterid": lambda t: _by_axis(floordiv, t.block.index, t.block.launch.cluster),
    "%nclusterid": lambda t: _by_axis(floordiv, t.block.launch.grid, t.block.launch.cluster),
    "%cluster_ctaid": lambda t: _by_axis(mod, t.block.index, t.block.launch.cluster),
    "%cluster_nctaid": lambda t: t.block.launch.cluster,
}


def _special_reader(name: str) -> Reader:
    if name in _SPECIAL:
        return _SPECIAL[name]
    stem, _, axis = name.partition(".")
    if stem in _TRIPLES and axis:
        triple, at = _TRIPLES[stem], "xyz".index(axis)
        return lambda thread: triple(thread)[at]
    if name.startswith(("%envreg", "%reserved_smem_offset_")):
        return lambda _: 0
    raise LookupError(f"special register {name}")
