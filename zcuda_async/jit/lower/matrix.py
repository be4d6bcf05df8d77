"""Matrix instructions of a warp (PTX ISA 9.7.14): ldmatrix, stmatrix, movmatrix, mma and wmma.

A fragment's registers are brought together as one vector of 32 lanes each; products are calls of
functions that work on them in memory (`matrix_product`), once for each warp with a lane that is on.
The fragments of ``wmma``, which PTX leaves open, hold a matrix in row-major order: element number
(register * 32 + lane) * E + place, for E elements a register; factors of less than 8 bits are laid
out as for ``mma``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zcuda_async.jit.builder import Type
from zcuda_async.jit.lower.directed import DIRECTED
from zcuda_async.jit.lower.matrix_fragments import array_of, each_warp, put_fragment, whole_register, write_fragment
from zcuda_async.jit.lower.matrix_product import Options, product_function
from zcuda_async.jit.lower.matrix_wmma import load_fragment, store_fragment
from zcuda_async.jit.lower.memory import place, space_of, spread
from zcuda_async.jit.lower.warp import warps
from zcuda_async.ptx.ir import Address, Immediate, Instruction, Operand
from zcuda_async.ptx.matrix import elements_of, product_of

if TYPE_CHECKING:
    from zcuda_async.jit.lower import Lowering
    from zcuda_async.jit.lower.group import Group

__all__ = ("MATRIX",)

_WARP: Final = 32
_WORDS: Final = Type("i32", _WARP)


# ---------------------------------------------------------------------- products


def _options(instruction: Instruction) -> Options:
    popc = next((name for name in ("xor", "and") if instruction.has(name) and instruction.has("popc")), "")
    layouts = tuple(part for part in instruction.modifiers if part in ("row", "col"))
    last = instruction.operands[-1]
    selector = int(last.value) if isinstance(last, Immediate) else 0
    mode = next(filter(instruction.has, DIRECTED), "")
    return Options(instruction.has("satfinite"), popc, layouts, selector, mode)


def product(group: Group, instruction: Instruction) -> None:
    """``mma``, ``mma.sp`` and ``wmma.mma``."""
    what = product_of(instruction)
    elem = "i64" if what.d.type == "f64" else "i32"
    builder, options = group.builder, _options(instruction)
    name = "zcuda." + ".".join((instruction.opcode, *instruction.modifiers, *instruction.types, str(options.selector)))
    text, needs = product_function(f'"{name}"', what, builder.features, options)
    builder.declarations |= {text, *needs}
    sources = instruction.operands[1:5] if what.is_sparse else instruction.operands[1:]
    inputs = [array_of(group, len(elements_of(operand)), elem) for operand in sources]
    outputs = [array_of(group, what.d.registers, elem) for _ in warps(group)]

    def body(number: int, parts: range) -> None:
        for operand, array in zip(sources, inputs, strict=True):
            put_fragment(group, operand, elem, parts, array)
        pointers = ", ".join(f"ptr {array}" for array in (*inputs[:3], outputs[number], *inputs[3:]))
        builder.line(f'call void @"{name}"({pointers})')

    each_warp(group, instruction, body)
    write_fragment(group, instruction, elem, outputs)


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
    outputs = [array_of(group, count, "i32") for _ in warps(group)]

    def body(number: int, parts: range) -> None:
        pointers = _row_pointers(group, instruction, address, parts)
        for index in range(count):
            rows = [builder.op(f"load {row}, ptr {_row(group, pointers, 8 * index + r)}, align 16") for r in range(8)]
            words = builder.concat(row, rows)[1]
            words = _transposed(group, words) if instruction.has("trans") else words
            at = builder.op(f"getelementptr {_WORDS}, ptr {outputs[number]}, i32 {index}")
            builder.line(f"store {_WORDS} {words}, ptr {at}, align 64")

    each_warp(group, instruction, body)
    write_fragment(group, instruction, "i32", outputs)


def store_matrix(group: Group, instruction: Instruction) -> None:
    """``stmatrix``: the reverse of ``ldmatrix``."""
    address, source = instruction.operands
    builder, row = group.builder, Type("i32", 4)

    def body(_: int, parts: range) -> None:
        pointers = _row_pointers(group, instruction, address, parts)
        for index, register in enumerate(elements_of(source)):
            words = whole_register(group, register, "i32", parts)
            words = _transposed(group, words) if instruction.has("trans") else words
            for r in range(8):
                value = builder.slice(_WORDS, words, 4 * r, 4)
                builder.line(f"store {row} {value}, ptr {_row(group, pointers, 8 * index + r)}, align 16")

    each_warp(group, instruction, body)


def move_matrix(group: Group, instruction: Instruction) -> None:
    """``movmatrix``: the transpose of the matrix that a register of the warp is."""
    outputs = [array_of(group, 1, "i32") for _ in warps(group)]

    def body(number: int, parts: range) -> None:
        words = _transposed(group, whole_register(group, instruction.operands[1], "i32", parts))
        group.builder.line(f"store {_WORDS} {words}, ptr {outputs[number]}, align 64")

    each_warp(group, instruction, body)
    write_fragment(group, instruction, "i32", outputs)


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
