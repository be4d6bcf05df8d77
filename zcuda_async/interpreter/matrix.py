"""Matrix instructions: what the lanes of a warp hold is put together, multiplied exactly, and given back.

Each element of a sum is rounded after every product, in the order of k; sums in f16 are kept in f32 and
rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Final

from zcuda_async.interpreter import exact
from zcuda_async.interpreter.addressing import Place
from zcuda_async.interpreter.bits import mask, number
from zcuda_async.interpreter.exact import FORMATS, Value
from zcuda_async.interpreter.floating import rounding
from zcuda_async.interpreter.matrix_layouts import Cell, Where, partners, place, place_in_quad
from zcuda_async.interpreter.operands import reader, writer
from zcuda_async.interpreter.thread import AtWarp, Step, Thread, Wait
from zcuda_async.ptx.ir import Immediate, Instruction
from zcuda_async.ptx.matrix import ELEMENT_BITS, Fragment, Product, elements_of, fragment_of, product_of

__all__ = ("MATRIX_STEPS",)

_WARP: Final = 32
_ALL: Final = 0xFFFFFFFF
Lanes = Mapping[int, tuple[int, ...]]


# ---------------------------------------------------------------------- fragments


def _matrix(fragment: Fragment, role: str, lanes: Lanes, first: int, where: Where) -> dict[Cell, int]:
    """The element codes, from each lane's operands `first` on."""
    bits, each = ELEMENT_BITS[fragment.type], fragment.per_register
    found: dict[Cell, int] = {}
    for lane, operands in lanes.items():
        for register in range(fragment.registers):
            word = operands[first + register]
            for element in range(each):
                found[where(fragment, role, lane, register, element)] = word >> element * bits & mask(bits)
    return found


def _registers(fragment: Fragment, codes: Mapping[Cell, int], lane: int, where: Where) -> tuple[int, ...]:
    bits, each = ELEMENT_BITS[fragment.type], fragment.per_register
    return tuple(
        sum(codes[where(fragment, "d", lane, register, element)] << element * bits for element in range(each))
        for register in range(fragment.registers)
    )


# ---------------------------------------------------------------------- products


def _decode(code: int, kind: str) -> Value:
    if kind == "tf32":
        return FORMATS["f32"].decode(code & ~mask(13))
    if kind in _BYTES:
        return _byte(code, *_BYTES[kind])
    return FORMATS[kind].decode(code)


_BYTES: Final = {"e4m3": (3, 7), "e5m2": (2, 15)}
"""8-bit floats: bits of the fraction, and bias."""


def _byte(code: int, fraction_bits: int, bias: int) -> Value:
    exponent, fraction = code >> fraction_bits & mask(7 - fraction_bits), code & mask(fraction_bits)
    is_negative = bool(code >> 7)
    if fraction_bits == 3 and code & 0x7F == 0x7F:
        return exact.NAN
    if fraction_bits == 2 and exponent == 31:
        return exact.NAN if fraction else exact.infinity(is_negative)
    whole = fraction + (1 << fraction_bits if exponent else 0)
    size = Fraction(whole) * Fraction(2) ** (max(exponent, 1) - bias - fraction_bits)
    return exact.finite(-size if is_negative else size, negative_zero=is_negative)


def _sum_of_floats(row: Sequence[Value], column: Sequence[Value], start: Value, d_kind: str, mode: str) -> int:
    """The bits of start + row x column, each step of which is rounded by `mode`."""
    running = FORMATS["f64" if d_kind == "f64" else "f32"]
    total = running.encode(start)
    for a, b in zip(row, column, strict=True):
        total = running.encode(exact.add(exact.multiply(a, b), running.decode(total), mode), mode)
    return FORMATS[d_kind].encode(running.decode(total))


def _sum_of_integers(products: int, start: int, *, saturates: bool) -> int:
    total = products + number(start, "s32")
    if saturates:
        total = max(-(1 << 31), min((1 << 31) - 1, total))
    return total & mask(32)


def _made_finite(bits: int, kind: str) -> int:
    """``.satfinite`` of floats: the largest number instead of infinity, +0 instead of NaN."""
    form = FORMATS[kind]
    if form.is_nan(bits):
        return 0
    return bits - 1 if bits & ~form.sign_bit == form.infinity_bits else bits


def _product_step(instruction: Instruction, at: int, _: Mapping[str, int]) -> Step:
    what = product_of(instruction)
    kind = "b64" if what.d.type == "f64" else "b32"
    operands = instruction.operands[1:5] if what.is_sparse else instruction.operands[1:]
    sources = [reader(each, kind) for operand in operands for each in elements_of(operand)]
    writers = [writer(each, kind) for each in elements_of(instruction.operands[0])]

    def exchange(lanes: dict[int, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
        if what.count == 1:
            return _product(instruction, lanes, place)
        layouts = [part for part in instruction.modifiers if part in ("row", "col")]
        where = place_in_quad(dict(zip("ab", layouts, strict=True)))
        found: dict[int, tuple[int, ...]] = {}
        for quad in range(what.count):
            own = {lane: given for lane, given in lanes.items() if lane % 16 // 4 == quad}
            found |= _product(instruction, own, where)
        return found

    return _at_warp(at, sources, writers, exchange)


def _product(instruction: Instruction, lanes: Lanes, where: Where) -> dict[int, tuple[int, ...]]:
    """What the lanes get of one product, from their registers of a, b, c and the metadata."""
    what = product_of(instruction)
    a = _matrix(what.a, "a", lanes, 0, where)
    b = _matrix(what.b, "b", lanes, what.a.registers, where)
    c = _matrix(what.c, "c", lanes, what.a.registers + what.b.registers, where)
    met: Mapping[Cell, int] = {}
    if what.is_sparse:
        selector = instruction.operands[-1]
        assert isinstance(selector, Immediate)
        met = partners(what, int(selector.value), {lane: given[-1] for lane, given in lanes.items()})
    d = _multiply(instruction, a, b, c, met)
    return {lane: _registers(what.d, d, lane, where) for lane in lanes}


def _multiply(
    instruction: Instruction,
    a: Mapping[Cell, int],
    b: Mapping[Cell, int],
    c: Mapping[Cell, int],
    met: Mapping[Cell, int],
) -> dict[Cell, int]:
    """The codes of d; `met` says for elements of a which row of b they are multiplied with, if not that of their k."""
    what = product_of(instruction)
    multiply = _floats if what.a.type in FORMATS or what.a.type in _BYTES or what.a.type == "tf32" else _integers
    depth = range(what.a.columns)
    found: dict[Cell, int] = {}
    for i in range(what.m):
        row = [a[i, k] for k in depth]
        for j in range(what.n):
            column = [b[met.get((i, k), k), j] for k in depth]
            found[i, j] = multiply(instruction, what, row, column, c[i, j])
    return found


def _floats(instruction: Instruction, what: Product, row: Sequence[int], column: Sequence[int], start: int) -> int:
    left = [_decode(code, what.a.type) for code in row]
    right = [_decode(code, what.b.type) for code in column]
    first = FORMATS[what.c.type].decode(start)
    bits = _sum_of_floats(left, right, first, what.d.type, rounding(instruction))
    return _made_finite(bits, what.d.type) if instruction.has("satfinite") else bits


def _integers(instruction: Instruction, _: Product, row: Sequence[int], column: Sequence[int], start: int) -> int:
    total = sum(_term(instruction, x, y) for x, y in zip(row, column, strict=True))
    return _sum_of_integers(total, start, saturates=instruction.has("satfinite"))


def _term(instruction: Instruction, x: int, y: int) -> int:
    a_kind, b_kind = instruction.types[1:3]
    if a_kind == "b1":
        return x ^ y if instruction.has("xor") else x & y
    return _integer(x, a_kind) * _integer(y, b_kind)


def _integer(code: int, kind: str) -> int:
    bits = ELEMENT_BITS[kind]
    return code - (1 << bits) if kind[0] == "s" and code >> bits - 1 else code


def _at_warp(
    at: int,
    sources: Sequence[Callable[[Thread], int]],
    writers: Sequence[Callable[[Thread, int], object]],
    exchange: Callable[[dict[int, tuple[int, ...]]], dict[int, tuple[int, ...]]],
) -> Step:
    def finish(thread: Thread, results: tuple[int, ...]) -> None:
        for write, result in zip(writers, results, strict=True):
            write(thread, result)

    def step(thread: Thread) -> Wait:
        return AtWarp(at, _ALL, tuple(read(thread) for read in sources), exchange, finish)

    return step


# ---------------------------------------------------------------------- memory


def _number(where: Place, thread: Thread, address: int, size: int) -> int:
    return int.from_bytes(where.load(thread, address, size), "little")


def _cells(instruction: Instruction, lane: int, register: int) -> list[tuple[int, int, int]]:
    """(lane that gives the row's address, byte offset in the row, shift in the register) of both elements."""
    row, pair = divmod(lane, 4)
    if instruction.has("trans"):
        return [(8 * register + 2 * pair + e, 2 * row, 16 * e) for e in range(2)]
    return [(8 * register + row, 4 * pair + 2 * e, 16 * e) for e in range(2)]


def _addresses(lanes: dict[int, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
    everyone = tuple(lanes[lane][0] if lane in lanes else 0 for lane in range(_WARP))
    return dict.fromkeys(lanes, everyone)


def _load_matrix_step(instruction: Instruction, at: int, _: Mapping[str, int]) -> Step:
    destination, where = instruction.operands[0], Place(instruction, instruction.operands[1])
    writers = [writer(each, "b32") for each in elements_of(destination)]

    def finish(thread: Thread, rows: tuple[int, ...]) -> None:
        for register, write in enumerate(writers):
            word = 0
            for row, offset, shift in _cells(instruction, thread.lane, register):
                word |= _number(where, thread, rows[row] + offset, 2) << shift
            write(thread, word)

    return _exchange_addresses(at, where.address, finish)


def _store_matrix_step(instruction: Instruction, at: int, _: Mapping[str, int]) -> Step:
    where, source = Place(instruction, instruction.operands[0]), instruction.operands[1]
    readers = [reader(each, "b32") for each in elements_of(source)]

    def finish(thread: Thread, rows: tuple[int, ...]) -> None:
        for register, read in enumerate(readers):
            word = read(thread)
            for row, offset, shift in _cells(instruction, thread.lane, register):
                half = (word >> shift & 0xFFFF).to_bytes(2, "little")
                where.store(thread, rows[row] + offset, half)

    return _exchange_addresses(at, where.address, finish)


def _exchange_addresses(
    at: int, address: Callable[[Thread], int], finish: Callable[[Thread, tuple[int, ...]], None]
) -> Step:
    return lambda thread: AtWarp(at, _ALL, (address(thread),), _addresses, finish)


def _move_matrix_step(instruction: Instruction, at: int, _: Mapping[str, int]) -> Step:
    def exchange(lanes: dict[int, tuple[int, ...]]) -> dict[int, tuple[int, ...]]:
        def at(row: int, column: int) -> int:
            return lanes[4 * row + column // 2][0] >> 16 * (column % 2) & 0xFFFF

        return {lane: (at(2 * (lane % 4), lane // 4) | at(2 * (lane % 4) + 1, lane // 4) << 16,) for lane in lanes}

    sources, writers = [reader(instruction.operands[1], "b32")], [writer(instruction.operands[0], "b32")]
    return _at_warp(at, sources, writers, exchange)


# ---------------------------------------------------------------------- wmma's loads and stores


def _wmma_step(instruction: Instruction, at: int, labels: Mapping[str, int]) -> Step:
    if instruction.has("mma"):
        return _product_step(instruction, at, labels)
    fragment = fragment_of(instruction)
    is_load = instruction.has("load")
    registers, pointer = instruction.operands[:2] if is_load else reversed(instruction.operands[:2])
    where = Place(instruction, pointer)
    kind = "b64" if fragment.type == "f64" else "b32"
    bits = ELEMENT_BITS[fragment.type]
    dense = fragment.columns if instruction.has("row") else fragment.rows
    stride = reader(instruction.operands[2], "u32") if len(instruction.operands) > 2 else lambda _: dense
    reads = [reader(each, kind) for each in elements_of(registers)]
    writes = [writer(each, kind) for each in elements_of(registers)] if is_load else []

    def element_at(thread: Thread, register: int, element: int) -> tuple[int, int]:
        """The address of an element's first byte, and its lowest bit there."""
        role = "a" if instruction.has("a") else "b" if instruction.has("b") else "c"
        row, column = place(fragment, role, thread.lane, register, element)
        major, minor = (row, column) if instruction.has("row") else (column, row)
        first, bit = divmod((major * stride(thread) + minor) * bits, 8)
        return where.address(thread) + first, bit

    def load(thread: Thread, _: tuple[int, ...]) -> None:
        for register, write in enumerate(writes):
            word = 0
            for element in range(fragment.per_register):
                address, bit = element_at(thread, register, element)
                value = _number(where, thread, address, max(1, bits // 8)) >> bit & mask(bits)
                word |= value << element * bits
            write(thread, word)

    def store(thread: Thread, _: tuple[int, ...]) -> None:
        for register, read in enumerate(reads):
            word = read(thread)
            for element in range(fragment.per_register):
                data = (word >> element * bits & mask(bits)).to_bytes(bits // 8, "little")
                where.store(thread, element_at(thread, register, element)[0], data)

    finish = load if is_load else store
    return lambda thread: AtWarp(at, _ALL, (), lambda lanes: dict.fromkeys(lanes, ()), finish)


MATRIX_STEPS: Final[dict[str, Callable[[Instruction, int, Mapping[str, int]], Step]]] = {
    "mma": _product_step,
    "wmma": _wmma_step,
    "ldmatrix": _load_matrix_step,
    "stmatrix": _store_matrix_step,
    "movmatrix": _move_matrix_step,
}
