"""Matrix instructions of a warp (PTX ISA 9.7.14): ldmatrix, stmatrix, movmatrix, mma and wmma.

A fragment's registers are brought together as one vector of 32 lanes each; products are calls of
functions that work on them in memory (`matrix_product`), once for each warp with a lane that is on.
The fragments of ``wmma``, which PTX leaves open, hold a matrix in row-major order: element number
(register * 32 + lane) * E + place, for E elements a register.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from zcuda_async.jit.builder import Type
from zcuda_async.jit.lower.matrix_product import product_function
from zcuda_async.jit.lower.members import active_masks, warp_bits
from zcuda_async.jit.lower.memory import place, space_of, spread
from zcuda_async.jit.lower.warp import warps
from zcuda_async.jit.shapes import VARYING
from zcuda_async.ptx.ir import Address, Instruction, Operand
from zcuda_async.ptx.matrix import ELEMENT_BITS, Fragment, elements_of, fragment_of, product_of

if TYPE_CHECKING:
    from zcuda_async.jit.lower import Lowering
    from zcuda_async.jit.lower.group import Group

__all__ = ("MATRIX",)

_WARP: Final = 32
_WORDS: Final = Type("i32", _WARP)


# ---------------------------------------------------------------------- fragments


def _whole(group: Group, operand: Operand, elem: str, parts: range) -> str:
    """A register of all lanes of a warp."""
    values = [group.read(operand, elem, part, vector=True) for part in parts]
    return group.builder.concat(group.vector(elem), values)[1]


def _put(group: Group, operand: Operand, elem: str, parts: range, array: str) -> None:
    """Write a fragment's registers to memory, ``[register][lane]``."""
    kind = Type(elem, _WARP)
    for index, register in enumerate(elements_of(operand)):
        at = group.builder.op(f"getelementptr {kind}, ptr {array}, i32 {index}")
        group.builder.line(f"store {kind} {_whole(group, register, elem, parts)}, ptr {at}, align 64")


def _array(group: Group, count: int, elem: str) -> str:
    return group.builder.alloca(f"[{count} x {Type(elem, _WARP)}]")


def _each_warp(group: Group, instruction: Instruction, body: Callable[[int, range], None]) -> None:
    """Emit `body(number, parts)` for each warp, skipped when none of its lanes is on."""
    builder = group.builder
    for number, parts in enumerate(warps(group)):
        if group.masks is None and instruction.guard is None:
            body(number, parts)
            continue
        bits = warp_bits(group, active_masks(group, instruction, parts))
        then, done = builder.block_name("warp"), builder.block_name("no.warp")
        builder.line(f"br i1 {builder.op(f'icmp ne i32 {bits}, 0')}, label %{then}, label %{done}")
        builder.label(then)
        with group.apart():
            body(number, parts)
        builder.line(f"br label %{done}")
        builder.label(done)


def _write(group: Group, instruction: Instruction, elem: str, arrays: Sequence[str]) -> None:
    """The destination's registers from the warps' arrays."""
    builder, lanes = group.builder, group.lanes
    kind = Type(elem, _WARP)
    for index, register in enumerate(elements_of(instruction.operands[0])):
        values = []
        for array, parts in zip(arrays, warps(group), strict=True):
            at = builder.op(f"getelementptr {kind}, ptr {array}, i32 {index}")
            whole = builder.op(f"load {kind}, ptr {at}, align 64")
            values += [builder.slice(kind, whole, start * lanes, lanes) for start in range(len(parts))]
        group.write(register, values, elem, VARYING, instruction.guard)


# ---------------------------------------------------------------------- products


def _popc(instruction: Instruction) -> str:
    return next((name for name in ("xor", "and") if instruction.has(name) and instruction.has("popc")), "")


def product(group: Group, instruction: Instruction) -> None:
    """``mma`` and ``wmma.mma``."""
    what = product_of(instruction)
    elem = "i64" if what.d.type == "f64" else "i32"
    is_linear, saturates = instruction.opcode == "wmma", instruction.has("satfinite")
    modes = [name for name in ("rz", "rm", "rp") if instruction.has(name)]
    if modes:
        raise group.refuse(instruction, f".{modes[0]} in products of matrices is not supported yet")
    builder = group.builder
    name = "zcuda." + ".".join((instruction.opcode, *instruction.modifiers, *instruction.types))
    text, needs = product_function(
        f'"{name}"', what, builder.features, is_linear=is_linear, saturates=saturates, popc=_popc(instruction)
    )
    builder.declarations |= {text, *needs}
    fragments = (what.a, what.b, what.c)
    inputs = [_array(group, fragment.registers, elem) for fragment in fragments]
    outputs = [_array(group, what.d.registers, elem) for _ in warps(group)]

    def body(number: int, parts: range) -> None:
        for operand, array in zip(instruction.operands[1:], inputs, strict=True):
            _put(group, operand, elem, parts, array)
        pointers = ", ".join(f"ptr {array}" for array in (*inputs, outputs[number]))
        builder.line(f'call void @"{name}"({pointers})')

    _each_warp(group, instruction, body)
    _write(group, instruction, elem, outputs)


# ---------------------------------------------------------------------- 8x8 matrices of 16 bits


def _row_pointers(group: Group, instruction: Instruction, operand: Operand, parts: range) -> str:
    """The addresses that the lanes of a warp give."""
    assert isinstance(operand, Address)
    space = space_of(instruction)
    values = [
        spread(group, place(group, operand, space, part))
        if place_is_vector(group, operand)
        else group.builder.splat(Type("ptr", group.lanes), place(group, operand, space, part).pointer)
        for part in parts
    ]
    return group.builder.concat(Type("ptr", group.lanes), values)[1]


def place_is_vector(group: Group, operand: Operand) -> bool:
    """Whether lanes have addresses of their own."""
    return group.transfer.of(operand).stride != 0


def _row(group: Group, pointers: str, lane: int) -> str:
    return group.lane_of(Type("ptr", _WARP), pointers, str(lane))


def _transposed(group: Group, words: str) -> str:
    """The transpose of an 8x8 matrix of 16-bit elements, two to a lane."""
    builder, shorts = group.builder, Type("i16", 2 * _WARP)
    flat = builder.cast("bitcast", _WORDS, words, shorts)
    order = [(2 * (lane % 4) + e) * 8 + lane // 4 for lane in range(_WARP) for e in range(2)]
    return builder.op(f"bitcast {shorts} {builder.shuffle(shorts, flat, 'poison', order)} to {_WORDS}")


def load_matrix(group: Group, instruction: Instruction) -> None:
    """``ldmatrix``: lane 8j + r gives the address of row r of matrix j; lane l gets two elements of row l / 4."""
    destination, address = instruction.operands
    count = len(elements_of(destination))
    builder, row = group.builder, Type("i32", 4)
    outputs = [_array(group, count, "i32") for _ in warps(group)]

    def body(number: int, parts: range) -> None:
        pointers = _row_pointers(group, instruction, address, parts)
        for index in range(count):
            rows = [builder.op(f"load {row}, ptr {_row(group, pointers, 8 * index + r)}, align 16") for r in range(8)]
            words = builder.concat(row, rows)[1]
            words = _transposed(group, words) if instruction.has("trans") else words
            at = builder.op(f"getelementptr {_WORDS}, ptr {outputs[number]}, i32 {index}")
            builder.line(f"store {_WORDS} {words}, ptr {at}, align 64")

    _each_warp(group, instruction, body)
    _write(group, instruction, "i32", outputs)


def store_matrix(group: Group, instruction: Instruction) -> None:
    """``stmatrix``: the reverse of ``ldmatrix``."""
    address, source = instruction.operands
    builder, row = group.builder, Type("i32", 4)

    def body(_: int, parts: range) -> None:
        pointers = _row_pointers(group, instruction, address, parts)
        for index, register in enumerate(elements_of(source)):
            words = _whole(group, register, "i32", parts)
            words = _transposed(group, words) if instruction.has("trans") else words
            for r in range(8):
                value = builder.slice(_WORDS, words, 4 * r, 4)
                builder.line(f"store {row} {value}, ptr {_row(group, pointers, 8 * index + r)}, align 16")

    _each_warp(group, instruction, body)


def move_matrix(group: Group, instruction: Instruction) -> None:
    """``movmatrix``: the transpose of the matrix that a register of the warp is."""
    outputs = [_array(group, 1, "i32") for _ in warps(group)]

    def body(number: int, parts: range) -> None:
        words = _transposed(group, _whole(group, instruction.operands[1], "i32", parts))
        group.builder.line(f"store {_WORDS} {words}, ptr {outputs[number]}, align 64")

    _each_warp(group, instruction, body)
    _write(group, instruction, "i32", outputs)


# ---------------------------------------------------------------------- wmma's loads and stores


def _stride(group: Group, instruction: Instruction, fragment: Fragment, part: int) -> str:
    """Elements from one row (column) to the next, as an i64; without a stride the matrix is dense."""
    if len(instruction.operands) < 3:
        return str(fragment.columns if instruction.has("row") else fragment.rows)
    operand = instruction.operands[2]
    vector = group.shape(operand).stride != 0
    value = group.read(operand, "i32", part, vector=vector)
    if vector:
        value = group.lane_of(group.vector("i32"), value, "0")
    return group.builder.op(f"zext i32 {value} to i64")


def _base(group: Group, instruction: Instruction, operand: Operand, part: int) -> str:
    """The matrix's address, which all lanes of a warp agree on."""
    where = place(group, operand, space_of(instruction), part)
    if where.shape.stride is not None:
        return where.pointer
    return group.lane_of(Type("ptr", group.lanes), where.pointer, "0")


def _offsets(group: Group, instruction: Instruction, fragment: Fragment, numbers: Sequence[int], stride: str) -> str:
    """Byte offsets of elements by their numbers in row-major order, as a vector of i64."""
    builder, wide = group.builder, Type("i64", _WARP)
    rows = [number // fragment.columns for number in numbers]
    columns = [number % fragment.columns for number in numbers]
    major, minor = (rows, columns) if instruction.has("row") else (columns, rows)
    size = ELEMENT_BITS[fragment.type] // 8
    steps = builder.binary("mul", wide, wide.vector(major), builder.splat(wide, stride))
    return builder.binary("mul", wide, builder.binary("add", wide, steps, wide.vector(minor)), wide.const(size))


def _pointers(group: Group, base: str, offsets: str) -> str:
    return group.builder.op(f"getelementptr i8, ptr {base}, <{_WARP} x i64> {offsets}")


def _memory_type(fragment: Fragment) -> Type:
    return Type(f"i{ELEMENT_BITS[fragment.type]}", _WARP)


def _numbers(fragment: Fragment, register: int, index: int) -> list[int]:
    """The elements that the lanes hold at place `index` of a register."""
    places = fragment.per_register
    count = fragment.rows * fragment.columns
    return [((register * _WARP + lane) * places + index) % count for lane in range(_WARP)]


def load_fragment(group: Group, instruction: Instruction) -> None:
    """``wmma.load``: f16 factors have more registers than elements; the elements repeat."""
    fragment = fragment_of(instruction)
    builder, small = group.builder, _memory_type(fragment)
    elem = "i64" if fragment.type == "f64" else "i32"
    whole = Type(elem, _WARP)
    outputs = [_array(group, fragment.registers, elem) for _ in warps(group)]

    def body(number: int, parts: range) -> None:
        base = _base(group, instruction, instruction.operands[1], parts[0])
        stride = _stride(group, instruction, fragment, parts[0])
        for register in range(fragment.registers):
            word = whole.const(0)
            for index in range(fragment.per_register):
                offsets = _offsets(group, instruction, fragment, _numbers(fragment, register, index), stride)
                value = _gather(group, small, _pointers(group, base, offsets))
                value = builder.cast("zext", small, value, whole)
                value = builder.binary("shl", whole, value, whole.const(index * small.bits)) if index else value
                word = builder.binary("or", whole, word, value)
            at = builder.op(f"getelementptr {whole}, ptr {outputs[number]}, i32 {register}")
            builder.line(f"store {whole} {word}, ptr {at}, align 64")

    _each_warp(group, instruction, body)
    _write(group, instruction, elem, outputs)


def _gather(group: Group, kind: Type, pointers: str) -> str:
    truth = kind.of("i1")
    return group.builder.call(
        kind,
        f"llvm.masked.gather.{kind.suffix}.v{_WARP}p0",
        [(f"<{_WARP} x ptr>", pointers), ("i32", str(kind.bits // 8)), (truth, truth.const(1)), (kind, "poison")],
    )


def store_fragment(group: Group, instruction: Instruction) -> None:
    """``wmma.store.d``."""
    fragment = fragment_of(instruction)
    builder, small = group.builder, _memory_type(fragment)
    whole = Type("i64" if fragment.type == "f64" else "i32", _WARP)
    truth = small.of("i1")
    address, source = instruction.operands[:2]

    def body(_: int, parts: range) -> None:
        base = _base(group, instruction, address, parts[0])
        stride = _stride(group, instruction, fragment, parts[0])
        for register, operand in enumerate(elements_of(source)):
            word = _whole(group, operand, whole.elem, parts)
            for index in range(fragment.per_register):
                offsets = _offsets(group, instruction, fragment, _numbers(fragment, register, index), stride)
                value = builder.binary("lshr", whole, word, whole.const(index * small.bits)) if index else word
                value = builder.cast("trunc", whole, value, small)
                builder.call(
                    "void",
                    f"llvm.masked.scatter.{small.suffix}.v{_WARP}p0",
                    [
                        (small, value),
                        (f"<{_WARP} x ptr>", _pointers(group, base, offsets)),
                        ("i32", str(small.bits // 8)),
                        (truth, truth.const(1)),
                    ],
                )

    _each_warp(group, instruction, body)


def wmma(group: Group, instruction: Instruction) -> None:
    """``wmma`` in its three forms."""
    if instruction.has("mma"):
        product(group, instruction)
    elif instruction.has("load"):
        load_fragment(group, instruction)
    else:
        store_fragment(group, instruction)


MATRIX: Final[dict[str, Lowering]] = {
    "mma": product,
    "wmma": wmma,
    "ldmatrix": load_matrix,
    "stmatrix": store_matrix,
    "movmatrix": move_matrix,
}
