"""Textures (PTX ISA 9.7.10): tex, tld4, txq, suq and istypep.

A handle is the address of a header (`jit.texture_header`).  A fetch is a call of a function (`texture_fetch`), part by
part; where lanes have handles of their own, once for each handle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from zcuda_async.jit.builder import Type
from zcuda_async.jit.lower.half import narrow
from zcuda_async.jit.lower.handles import by_handle
from zcuda_async.jit.lower.texture_code import CHANNELS, call_channels, header_field, level_field
from zcuda_async.jit.lower.texture_fetch import Fetch, fetch_function
from zcuda_async.jit.shapes import VARYING
from zcuda_async.jit.texture_header import LEVEL_FIELDS, LEVEL_SIZE, LEVELS_OFFSET, SURFACE, TEXTURE
from zcuda_async.ptx.ir import Instruction, Operand
from zcuda_async.ptx.texture import GEOMETRIES, QUERIES, elements_of, geometry_of

if TYPE_CHECKING:
    from zcuda_async.jit.lower import Lowering
    from zcuda_async.jit.lower.group import Group

__all__ = ("TEXTURES",)


def _kind_of_fetch(instruction: Instruction) -> Fetch:
    geometry = geometry_of(instruction)
    is_gather = instruction.opcode == "tld4"
    mode = "gather" if is_gather else next((name for name in ("level", "grad") if instruction.has(name)), "base")
    # d, a, c, then what the mode adds; one more is the offset
    plain = 3 + {"level": 1, "grad": 2}.get(mode, 0)
    channel = next((index for index, name in enumerate("rgba") if instruction.has(name)), 0)
    is_integer = instruction.types[-1] == "s32"
    has_offset = len(instruction.operands) > plain
    parts = [mode, next(part for part in instruction.modifiers if part in GEOMETRIES)]
    parts += ["int"] * is_integer + ["offset"] * has_offset + ["rgba"[channel]] * is_gather
    return Fetch(".".join(parts), geometry, mode, is_integer, has_offset, channel)


def _arguments(group: Group, instruction: Instruction, fetch: Fetch, part: int) -> list[tuple[Type, str]]:
    """What the fetch's function takes, from the instruction's operands."""
    given: list[Operand] = []
    for position, operand in enumerate(instruction.operands[2:]):
        elements = elements_of(operand)
        layers = int(fetch.geometry.is_layered) if position == 0 else 0
        count = 1 if fetch.mode == "level" and position == 1 else fetch.geometry.axes
        given += elements[: layers + count]  # without the fourth of a vector of three
    kinds = fetch.arguments(group.lanes)
    return [
        (kind, group.read(operand, kind.elem, part, vector=True))
        for (kind, _), operand in zip(kinds, given, strict=True)
    ]


def texture(group: Group, instruction: Instruction) -> None:
    """``tex`` and ``tld4``."""
    builder = group.builder
    fetch = _kind_of_fetch(instruction)
    name, texts = fetch_function(fetch, builder.features, group.lanes)
    builder.declarations |= texts
    columns: list[list[str]] = [[] for _ in range(CHANNELS)]
    for part in range(group.parts):
        arguments = _arguments(group, instruction, fetch, part)

        def call(header: str, _: str, arguments: list[tuple[Type, str]] = arguments) -> list[str]:
            return call_channels(builder, group.lanes, name, arguments, header)

        results = by_handle(group, instruction, instruction.operands[1], part, [group.vector("i32")] * CHANNELS, call)
        for column, value in zip(columns, results, strict=True):
            column.append(value)
    _write(group, instruction, columns)
    if instruction.second_destination is not None:  # everything is resident
        ones = [group.vector("i1").const(1)] * group.parts
        group.write(instruction.second_destination, ones, "i1", VARYING, instruction.guard)


def _write(group: Group, instruction: Instruction, columns: Sequence[Sequence[str]]) -> None:
    """The destination's registers; halves are made from f32."""
    destinations = elements_of(instruction.operands[0])
    kind = instruction.types[0]
    if kind == "f16x2":
        pairs = [(_halves(group, columns[index]), _halves(group, columns[index + 1])) for index in (0, 2)]
        for destination, (low, high) in zip(destinations, pairs, strict=True):
            values = [_packed(group, *pair) for pair in zip(low, high, strict=True)]
            group.write(destination, values, "i32", VARYING, instruction.guard)
        return
    for destination, column in zip(destinations, columns, strict=True):
        values, elem = (_halves(group, column), "i16") if kind == "f16" else (list(column), "i32")
        group.write(destination, values, elem, VARYING, instruction.guard)


def _halves(group: Group, column: Sequence[str]) -> list[str]:
    builder, floats = group.builder, group.vector("float")
    halves = []
    for value in column:
        single = builder.cast("bitcast", group.vector("i32"), value, floats)
        half = narrow(builder, floats, single, floats.of("half"), "rn", finite=False)
        halves.append(builder.cast("bitcast", floats.of("half"), half, floats.of("i16")))
    return halves


def _packed(group: Group, low: str, high: str) -> str:
    builder, words, shorts = group.builder, group.vector("i32"), group.vector("i16")
    low, high = (builder.cast("zext", shorts, value, words) for value in (low, high))
    return builder.binary("or", words, low, builder.binary("shl", words, high, words.const(16)))


def query(group: Group, instruction: Instruction) -> None:
    """``txq`` and ``suq``: a field of the header."""
    builder = group.builder
    name = next(part for part in instruction.modifiers if part != "level")
    values = []
    for part in range(group.parts):

        def make(header: str, _: str, part: int = part) -> list[str]:
            if instruction.has("level"):
                return [_level_size(group, header, group.read(instruction.operands[2], "i32", part, vector=True), name)]
            read = header_field if name in QUERIES else level_field
            return [builder.splat(group.vector("i32"), read(builder, header, QUERIES.get(name, name)))]

        values += by_handle(group, instruction, instruction.operands[1], part, [group.vector("i32")], make)
    group.write(instruction.operands[0], values, "i32", VARYING, instruction.guard)


def _level_size(group: Group, header: str, level: str, name: str) -> str:
    """The size of each lane's level; there is none beyond the last."""
    builder, words = group.builder, group.vector("i32")
    last = builder.op(f"sub i32 {header_field(builder, header, 'levels')}, 1")
    number = builder.intrinsic("umin", words, level, builder.splat(words, last))
    offset = builder.binary("mul", words, number, words.const(LEVEL_SIZE))
    offset = builder.binary("add", words, offset, words.const(LEVELS_OFFSET + LEVEL_FIELDS[name][0]))
    pointers = builder.op(f"getelementptr i8, ptr {header}, {words} {offset}")
    truth = group.vector("i1")
    return builder.call(
        words,
        f"llvm.masked.gather.{words.suffix}.v{group.lanes}p0",
        [(Type("ptr", group.lanes), pointers), ("i32", "4"), (truth, truth.const(1)), (words, "poison")],
    )


_TYPES: Final = {"texref": TEXTURE, "surfref": SURFACE, "samplerref": -1}


def is_type(group: Group, instruction: Instruction) -> None:
    """``istypep``: whether a handle is one of a texture or a surface; samplers of their own there are none."""
    builder, words = group.builder, group.vector("i32")
    wanted = next(_TYPES[part] for part in instruction.modifiers if part in _TYPES)
    values = []
    for part in range(group.parts):

        def make(header: str, _: str) -> list[str]:
            return [builder.splat(words, header_field(builder, header, "kind"))]

        (kind,) = by_handle(group, instruction, instruction.operands[1], part, [words], make)
        values.append(builder.compare("icmp eq", words, kind, words.const(wanted)))
    group.write(instruction.operands[0], values, "i1", VARYING, instruction.guard)


TEXTURES: Final[dict[str, Lowering]] = {
    "tex": texture,
    "tld4": texture,
    "txq": query,
    "suq": query,
    "istypep": is_type,
}
