"""``wmma.load`` and ``wmma.store``: fragments between memory and registers (PTX ISA 9.7.14.4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from zcuda_async.jit.builder import Type
from zcuda_async.jit.lower.matrix_fragments import array_of, each_warp, whole_register, write_fragment
from zcuda_async.jit.lower.memory import place, space_of
from zcuda_async.jit.lower.warp import warps
from zcuda_async.ptx.ir import Instruction, Operand
from zcuda_async.ptx.matrix import ELEMENT_BITS, Fragment, elements_of, fragment_of

if TYPE_CHECKING:
    from zcuda_async.jit.lower.group import Group

__all__ = ("load_fragment", "store_fragment")

_WARP: Final = 32


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
    elem = "i64" if fragment.type == "f64" else "i32"
    outputs = [array_of(group, fragment.registers, elem) for _ in warps(group)]

    def body(number: int, parts: range) -> None:
        base = _base(group, instruction, instruction.operands[1], parts[0])
        stride = _stride(group, instruction, fragment, parts[0])
        for register in range(fragment.registers):
            if ELEMENT_BITS[fragment.type] < 8:
                word = _load_small(group, fragment, base, stride)
            else:
                word = _load_word(group, instruction, register, base, stride)
            at = group.builder.op(f"getelementptr {Type(elem, _WARP)}, ptr {outputs[number]}, i32 {register}")
            group.builder.line(f"store {Type(elem, _WARP)} {word}, ptr {at}, align 64")

    each_warp(group, instruction, body)
    write_fragment(group, instruction, elem, outputs)


def _load_word(group: Group, instruction: Instruction, register: int, base: str, stride: str) -> str:
    """A register's elements, one by one."""
    fragment = fragment_of(instruction)
    builder, small = group.builder, _memory_type(fragment)
    whole = Type("i64" if fragment.type == "f64" else "i32", _WARP)
    word = whole.const(0)
    for index in range(fragment.per_register):
        offsets = _offsets(group, instruction, fragment, _numbers(fragment, register, index), stride)
        value = _gather(group, small, _pointers(group, base, offsets))
        value = builder.cast("zext", small, value, whole)
        value = builder.binary("shl", whole, value, whole.const(index * small.bits)) if index else value
        word = builder.binary("or", whole, word, value)
    return word


def _load_small(group: Group, fragment: Fragment, base: str, stride: str) -> str:
    """The only register of a factor of less than 8 bits: lane 4g + t has word t of row g of a, or column g of b."""
    builder, wide, bits = group.builder, Type("i64", _WARP), ELEMENT_BITS[fragment.type]
    lines = wide.vector([lane // 4 * bits for lane in range(_WARP)])
    skipped = builder.binary("mul", wide, lines, builder.splat(wide, stride))
    skipped = builder.binary("lshr", wide, skipped, wide.const(3))
    offsets = builder.binary("add", wide, skipped, wide.vector([lane % 4 * 4 for lane in range(_WARP)]))
    return _gather(group, Type("i32", _WARP), _pointers(group, base, offsets))


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
            word = whole_register(group, operand, whole.elem, parts)
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

    each_warp(group, instruction, body)
