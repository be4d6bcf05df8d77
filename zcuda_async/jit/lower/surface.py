"""Surfaces (PTX ISA 9.7.11): suld, sust and sured.

Coordinates along x are bytes (``.b``) or samples (``.p``).  What lies outside is, as the instruction says, a fault, the
nearest place inside, or read as 0 and not written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from zcuda_async.jit.builder import Type
from zcuda_async.jit.lower.faults import LAUNCH_FAILURE, MISALIGNED, raise_fault
from zcuda_async.jit.lower.half import narrow
from zcuda_async.jit.lower.handles import by_handle
from zcuda_async.jit.lower.texture_code import header_field, level_field
from zcuda_async.jit.shapes import VARYING
from zcuda_async.jit.texture_header import CONVERSIONS
from zcuda_async.ptx.ir import TYPE_BITS, Instruction, Operand
from zcuda_async.ptx.texture import elements_of, geometry_of

if TYPE_CHECKING:
    from zcuda_async.jit.lower import Lowering
    from zcuda_async.jit.lower.group import Group

__all__ = ("SURFACES",)

_SIGNED_INT32: Final = 0x10D9


@dataclass(frozen=True, slots=True)
class _Surface:
    """The header's facts about a surface, as scalars, and where it is."""

    header: str
    base: str
    pitch: str
    slice: str
    texel_bytes: str
    sizes: tuple[str, ...]
    """Along each axis, the first in bytes; then the number of layers, if there are any."""


def _read_surface(group: Group, instruction: Instruction, header: str) -> _Surface:
    builder, geometry = group.builder, geometry_of(instruction)
    texel_bytes = header_field(builder, header, "texel_bytes")
    width = builder.op(f"mul i32 {level_field(builder, header, 'width')}, {texel_bytes}")
    sizes = [width, *(level_field(builder, header, name) for name in ("height", "depth")[: geometry.axes - 1])]
    if geometry.is_layered:
        sizes.append(header_field(builder, header, "layers"))
    base, slice_ = (level_field(builder, header, name) for name in ("base", "slice"))
    pitch = builder.op(f"zext i32 {level_field(builder, header, 'pitch')} to i64")
    return _Surface(header, base, pitch, slice_, texel_bytes, tuple(sizes))


def _coordinates(group: Group, instruction: Instruction, operand: Operand, part: int) -> list[str]:
    """Along each axis, and then the layer."""
    geometry = geometry_of(instruction)
    given = elements_of(operand)
    order = [*given[1 : 1 + geometry.axes], given[0]] if geometry.is_layered else list(given[: geometry.axes])
    return [group.read(each, "i32", part, vector=True) for each in order]


@dataclass(frozen=True, slots=True)
class _Places:
    """Where lanes access a surface: pointers that are good where `mask` is set."""

    pointers: str
    mask: str


def _places(
    group: Group, instruction: Instruction, surface: _Surface, coordinates: Sequence[str], size: str, mask: str
) -> _Places:
    """The places of an access of `size` bytes (a scalar i32) by the lanes of a mask; faults are raised here."""
    builder, words, longs = group.builder, group.vector("i32"), group.vector("i64")
    mode = next((name for name in ("clamp", "zero") if instruction.has(name)), "trap")
    inside = group.vector("i1").const(1)
    found = []
    for axis, value in enumerate(coordinates):
        room = surface.sizes[axis]
        room = builder.op(f"sub i32 {room}, {size if axis == 0 else 1}")
        last = builder.splat(words, room)
        inside = builder.binary("and", group.vector("i1"), inside, builder.compare("icmp ule", words, value, last))
        limited = builder.intrinsic("smin", words, builder.intrinsic("smax", words, value, words.const(0)), last)
        found.append(builder.cast("zext", words, limited, longs))
    if mode == "trap":
        _fault_where(group, instruction, mask, inside, LAUNCH_FAILURE)
    if mode != "clamp":
        mask = builder.binary("and", group.vector("i1"), mask, inside)
    below = builder.splat(words, builder.op(f"sub i32 {size}, 1"))
    x = builder.cast("trunc", longs, found[0], words)
    aligned = builder.compare("icmp eq", words, builder.binary("and", words, x, below), words.const(0))
    _fault_where(group, instruction, mask, aligned, MISALIGNED)
    address = builder.binary("add", longs, builder.splat(longs, surface.base), found[0])
    for value, distance in zip(found[1:], _distances(instruction, surface), strict=True):
        address = builder.binary(
            "add", longs, address, builder.binary("mul", longs, value, builder.splat(longs, distance))
        )
    return _Places(builder.op(f"inttoptr {longs} {address} to {group.vector('ptr')}"), mask)


def _distances(instruction: Instruction, surface: _Surface) -> list[str]:
    """Bytes from one place to the next along the axes after the first, and from layer to layer."""
    geometry = geometry_of(instruction)
    found = [surface.pitch, surface.slice][: geometry.axes - 1]
    return [*found, surface.slice] if geometry.is_layered else found


def _fault_where(group: Group, instruction: Instruction, mask: str, good: str, code: int) -> None:
    """End the launch if a lane of the mask is not good."""
    builder, truth = group.builder, group.vector("i1")
    bad = builder.binary("and", truth, mask, builder.binary("xor", truth, good, truth.const(1)))
    fault, go_on = builder.block_name("surface.fault"), builder.block_name("surface")
    builder.line(f"br i1 {group.any_of([bad])}, label %{fault}, label %{go_on}")
    builder.label(fault)
    raise_fault(builder, code, instruction.span.site)
    builder.line(f"br label %{go_on}")
    builder.label(go_on)


def _size_of(instruction: Instruction, data: Operand) -> int:
    """Bytes that ``.b`` moves."""
    return len(elements_of(data)) * TYPE_BITS[instruction.types[0]] // 8


def load(group: Group, instruction: Instruction) -> None:
    """``suld.b``."""
    builder, destination = group.builder, instruction.operands[0]
    kind = group.vector(f"i{TYPE_BITS[instruction.types[0]]}")
    count, size = len(elements_of(destination)), _size_of(instruction, destination)
    columns: list[list[str]] = [[] for _ in range(count)]
    for part in range(group.parts):
        coordinates = _coordinates(group, instruction, instruction.operands[2], part)

        def read(header: str, lanes: str, coordinates: Sequence[str] = coordinates) -> list[str]:
            surface = _read_surface(group, instruction, header)
            where = _places(group, instruction, surface, coordinates, str(size), lanes)
            return [
                builder.call(
                    kind,
                    f"llvm.masked.gather.{kind.suffix}.v{group.lanes}p0",
                    [
                        (group.vector("ptr"), _offset(group, where.pointers, index * kind.bits // 8)),
                        ("i32", str(kind.bits // 8)),
                        (group.vector("i1"), where.mask),
                        (kind, "zeroinitializer"),
                    ],
                )
                for index in range(count)
            ]

        results = by_handle(group, instruction, instruction.operands[1], part, [kind] * count, read)
        for column, value in zip(columns, results, strict=True):
            column.append(value)
    for element, column in zip(elements_of(destination), columns, strict=True):
        group.write(element, column, kind.elem, VARYING, instruction.guard)


def _offset(group: Group, pointers: str, offset: int) -> str:
    if not offset:
        return pointers
    return group.builder.op(f"getelementptr i8, {group.vector('ptr')} {pointers}, i64 {offset}")


def _scatter(group: Group, kind: Type, value: str, pointers: str, mask: str) -> None:
    group.builder.call(
        "void",
        f"llvm.masked.scatter.{kind.suffix}.v{group.lanes}p0",
        [
            (kind, value),
            (group.vector("ptr"), pointers),
            ("i32", str(kind.bits // 8)),
            (group.vector("i1"), mask),
        ],
    )


def store(group: Group, instruction: Instruction) -> None:
    """``sust``."""
    act = _store_samples if instruction.has("p") else _store_bytes
    for part in range(group.parts):
        coordinates = _coordinates(group, instruction, instruction.operands[1], part)

        def write(header: str, lanes: str, part: int = part, coordinates: list[str] = coordinates) -> list[str]:
            act(group, instruction, _read_surface(group, instruction, header), coordinates, part, lanes)
            return []

        by_handle(group, instruction, instruction.operands[0], part, [], write)


def _store_bytes(
    group: Group, instruction: Instruction, surface: _Surface, coordinates: list[str], part: int, lanes: str
) -> None:
    data = instruction.operands[2]
    kind = group.vector(f"i{TYPE_BITS[instruction.types[0]]}")
    where = _places(group, instruction, surface, coordinates, str(_size_of(instruction, data)), lanes)
    for index, element in enumerate(elements_of(data)):
        value = group.read(element, kind.elem, part, vector=True)
        _scatter(group, kind, value, _offset(group, where.pointers, index * kind.bits // 8), where.mask)


def _in_samples(group: Group, surface: _Surface, coordinates: list[str]) -> list[str]:
    """Coordinates whose x counts samples as ones whose x counts bytes; what is far outside stays outside."""
    builder, words = group.builder, group.vector("i32")
    width = builder.op(f"udiv i32 {surface.sizes[0]}, {surface.texel_bytes}")
    near = builder.intrinsic("smax", words, coordinates[0], words.const(-1))
    near = builder.intrinsic("smin", words, near, builder.splat(words, width))
    return [builder.binary("mul", words, near, builder.splat(words, surface.texel_bytes)), *coordinates[1:]]


def _store_samples(
    group: Group, instruction: Instruction, surface: _Surface, coordinates: list[str], part: int, lanes: str
) -> None:
    """``sust.p``: the words become channels of the surface's format; channels that are not given become 0."""
    builder, words = group.builder, group.vector("i32")
    coordinates = _in_samples(group, surface, coordinates)
    where = _places(group, instruction, surface, coordinates, surface.texel_bytes, lanes)
    bits = header_field(builder, surface.header, "channel_bits")
    channels = header_field(builder, surface.header, "channels")
    given = [group.read(element, "i32", part, vector=True) for element in elements_of(instruction.operands[2])]
    for index in range(4):
        value = _as_channel(group, surface, bits, given[index]) if index < len(given) else words.const(0)
        for width in (8, 16, 32):
            kind = words.of(f"i{width}")
            fits = builder.op(f"icmp eq i32 {bits}, {width}")
            there = builder.op(f"icmp ugt i32 {channels}, {index}")
            condition = builder.op(f"and i1 {fits}, {there}")
            then, done = builder.block_name("channel"), builder.block_name("channel.done")
            builder.line(f"br i1 {condition}, label %{then}, label %{done}")
            builder.label(then)
            narrowed = builder.cast("trunc", words, value, kind)
            _scatter(group, kind, narrowed, _offset(group, where.pointers, index * width // 8), where.mask)
            builder.line(f"br label %{done}")
            builder.label(done)


def _as_channel(group: Group, surface: _Surface, bits: str, value: str) -> str:
    """A word as the surface's format has it: integers are limited to its range, f32 is rounded to f16."""
    builder, words, floats = group.builder, group.vector("i32"), group.vector("float")
    conversion = header_field(builder, surface.header, "conversion")
    signs = builder.op(f"sub i32 {bits}, 1")
    top = builder.op(f"sub i32 {builder.op(f'shl i32 1, {signs}')}, 1")
    least = builder.op(f"xor i32 {top}, -1")
    all_ones = builder.op(f"or i32 {builder.op(f'shl i32 {top}, 1')}, 1")
    plain = builder.intrinsic("umin", words, value, builder.splat(words, all_ones))
    signed = builder.intrinsic("smax", words, value, builder.splat(words, least))
    signed = builder.intrinsic("smin", words, signed, builder.splat(words, top))
    single = builder.cast("bitcast", words, value, floats)
    half = narrow(builder, floats, single, floats.of("half"), "rn", finite=False)
    half = builder.cast(
        "zext", words.of("i16"), builder.cast("bitcast", floats.of("half"), half, words.of("i16")), words
    )
    for name, other in (("signed", signed), ("half", half)):
        condition = builder.op(f"icmp eq i32 {conversion}, {CONVERSIONS.index(name)}")
        plain = builder.op(f"select i1 {condition}, {words} {other}, {words} {plain}")
    return plain


def reduce(group: Group, instruction: Instruction) -> None:
    """``sured``: lane by lane, atomically."""
    kind = group.vector(f"i{TYPE_BITS[instruction.types[0]]}")
    for part in range(group.parts):
        coordinates = _coordinates(group, instruction, instruction.operands[1], part)
        value = group.read(instruction.operands[2], kind.elem, part, vector=True)

        def change(header: str, lanes: str, value: str = value, coordinates: list[str] = coordinates) -> list[str]:
            surface = _read_surface(group, instruction, header)
            places = _in_samples(group, surface, coordinates) if instruction.has("p") else coordinates
            where = _places(group, instruction, surface, places, str(kind.bits // 8), lanes)
            _change_each(group, instruction, surface, kind, value, where)
            return []

        by_handle(group, instruction, instruction.operands[0], part, [], change)


def _change_each(
    group: Group, instruction: Instruction, surface: _Surface, kind: Type, value: str, where: _Places
) -> None:
    builder, size = group.builder, kind.bits // 8
    operation = next(name for name in ("add", "min", "max", "and", "or") if instruction.has(name))
    is_signed = "true" if instruction.types[0][0] == "s" else "false"
    if instruction.has("p"):
        data_type = header_field(builder, surface.header, "channel_data_type")
        is_signed = builder.op(f"icmp eq i32 {data_type}, {_SIGNED_INT32}")

    def change(name: str, pointer: str, own: str) -> None:
        builder.op(f"atomicrmw {name} ptr {pointer}, {kind.elem} {own} seq_cst, align {size}")

    def body(lane: str) -> None:
        pointer = group.lane_of(group.vector("ptr"), where.pointers, lane)
        own = group.lane_of(kind, value, lane)
        if operation not in ("min", "max"):
            change(operation, pointer, own)
            return
        labels = [builder.block_name(hint) for hint in ("signed", "unsigned", "reduced")]
        builder.line(f"br i1 {is_signed}, label %{labels[0]}, label %{labels[1]}")
        for label, name in zip(labels, (operation, "u" + operation), strict=False):
            builder.label(label)
            change(name, pointer, own)
            builder.line(f"br label %{labels[2]}")
        builder.label(labels[2])

    group.each_lane(group.mask_bits(where.mask), body)


SURFACES: Final[dict[str, Lowering]] = {"suld": load, "sust": store, "sured": reduce}
