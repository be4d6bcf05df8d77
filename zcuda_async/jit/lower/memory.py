"""Loads and stores (PTX ISA 9.7.9): the address's shape decides what an access becomes.

uniform → one scalar access; affine with the stride of the element → a plain vector access (masked
where lanes are off), with twice that stride → two of them (see `strided`); affine with the stride of
a ``.v2``/``.v4`` group → wide accesses and shuffles; anything else → gather and scatter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from zcuda_async.jit.builder import Type, llvm_type
from zcuda_async.jit.lower.indexed import Index, index_of
from zcuda_async.jit.lower.ordered import is_ordered, load_by_lane, load_ordered, store_by_lane, store_ordered
from zcuda_async.jit.lower.rows import first_of_row, row_or_apart
from zcuda_async.jit.lower.special import launch_field, symbol_value, worker_field
from zcuda_async.jit.lower.strided import is_every_other, load_every_other, store_every_other
from zcuda_async.jit.lower.windows import find_window, has_windows
from zcuda_async.jit.shapes import Shape
from zcuda_async.ptx.ir import TYPE_BITS, Address, Immediate, Instruction, Operand, Register, Symbol, VectorOperand

if TYPE_CHECKING:
    from zcuda_async.jit.lower import Lowering
    from zcuda_async.jit.lower.group import Group

__all__ = ("MEMORY", "Place", "place", "shared_pointer", "space_of", "spread")

_SPACES: Final = ("global", "shared", "local", "param", "const")
_LINE: Final = 64
_WORD: Final = 4
_TWO: Final = 2
_OFF: Final = "zeroinitializer"
"""What lanes that do not load get.  Not poison: it would spread to masks (false and poison is poison)."""

_AHEAD: Final = 8
"""How many iterations ahead a loop's loads are prefetched."""

_ONCE: Final = "0"
"""The prefetches' locality: what is read once in passing is not worth a place in the outer caches."""

_FEW_LOADS: Final = 8
"""The most loads of a loop that is prefetched for: more are either neighbours, whose lines are asked for already, or
come from so many places that what is asked for early is gone again when it is read."""
_TAGS: Final = {"global": "!tbaa !3", "shared": "!tbaa !5", "local": "!tbaa !7", "const": "!tbaa !3"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where one part accesses memory: a pointer (shape.stride given) or a vector of pointers.

    `index` says what the pointers of the vector are made of, where that is known.
    """

    pointer: str
    shape: Shape
    index: Index | None = None


def space_of(instruction: Instruction) -> str:
    """The state space of an access, "" for generic."""
    for modifier in instruction.modifiers:
        name = modifier.partition("::")[0]
        if name in _SPACES:
            return name
    return ""


def _tag(space: str) -> str:
    """Accesses to different state spaces never alias; generic ones may be anything."""
    return ", " + _TAGS[space] if space in _TAGS else ""


def place(group: Group, operand: Operand, space: str, part: int) -> Place:
    """The address of an access for one part."""
    assert isinstance(operand, Address)
    shape = group.transfer.of(operand)
    builder, base = group.builder, operand.base
    vector = shape.stride is None
    if isinstance(base, Symbol):
        return _symbol_place(group, operand, base, space, part, shape)
    if isinstance(base, Immediate):
        fixed = (int(base.value) + operand.offset) & ((1 << 64) - 1)
        if space == "shared":
            pointer = builder.op(f"getelementptr i8, ptr {shared_pointer(group)}, i64 {fixed}")
        else:
            pointer = builder.op(f"inttoptr i64 {fixed} to ptr")
        return Place(pointer, shape)
    elem = llvm_type(base.type)
    known = _index(group, operand, base, space, part) if vector else None
    if known is not None:
        return Place(known.pointers(group), shape, known)
    value = group.read(base, elem, part, vector=vector)
    kind = Type(elem, group.lanes if vector else 0)
    pointers = f"<{group.lanes} x ptr>" if vector else "ptr"
    if space == "shared":
        if elem == "i32":  # offsets wrap around, so a small negative base may be meant to
            value = builder.cast("sext", kind, value, kind.of("i64")) if not vector else value
        index = kind if vector else Type("i64")
        pointer = builder.op(f"getelementptr i8, ptr {shared_pointer(group)}, {index} {value}")
    else:
        value = builder.cast("zext", kind, value, kind.of("i64"))
        pointer = builder.op(f"inttoptr {kind.of('i64')} {value} to {pointers}")
    if operand.offset:
        pointer = builder.op(f"getelementptr i8, {pointers} {pointer}, i64 {operand.offset}")
    return Place(pointer, shape)


def _places(group: Group, operand: Operand, space: str, count: int) -> Iterator[Place]:
    """The address of an access for each of `count` parts.

    Where parts are evenly spaced the distance is all there is to know of them: registers for one pointer and one
    distance, instead of one pointer for each part.
    """
    assert isinstance(operand, Address)
    shape, builder = group.transfer.of(operand), group.builder
    is_even = shape.stride is not None and shape.is_even and isinstance(operand.base, Register)
    # In one row, what differs from part to part can only be the thread's index in it.
    is_row = group.geometry.is_one_row and group.advances(operand)
    if count == 1 or not is_even or (count == _TWO and not is_row):
        yield from (place(group, operand, space, part) for part in range(count))
        return
    where = place(group, operand, space, 0)
    yield where
    if is_row:
        for part in range(1, count):
            offset = part * group.lanes * (shape.stride or 0)
            yield replace(where, pointer=builder.op(f"getelementptr i8, ptr {where.pointer}, i64 {offset}"))
        return
    second = place(group, operand, space, 1)
    yield second
    start, following = (builder.op(f"ptrtoint ptr {each.pointer} to i64") for each in (where, second))
    distance = builder.op(f"sub i64 {following}, {start}")
    where = second
    for _ in range(_TWO, count):
        where = replace(where, pointer=builder.op(f"getelementptr i8, ptr {where.pointer}, i64 {distance}"))
        yield where


def _index(group: Group, operand: Address, base: Register, space: str, part: int) -> Index | None:
    """The varying address in a register as a base and an index of 32 bits."""
    if space == "shared":
        if llvm_type(base.type) != "i32":
            return None
        lanes = group.read(base, "i32", part, vector=True)
        return Index(lanes, 1, True, worker_field(group, "shared"), operand.offset, is_shared=True)
    index = index_of(group, base, part)
    return None if index is None else replace(index, offset=index.offset + operand.offset)


def shared_pointer(group: Group) -> str:
    """Where the block's shared memory starts."""
    base = worker_field(group, "shared")
    return group.builder.hoist(f"inttoptr i64 {base} to ptr")


def _params_pointer(group: Group) -> str:
    return group.builder.hoist(f"inttoptr i64 {launch_field(group, 'params')} to ptr")


def _symbol_place(group: Group, operand: Address, base: Symbol, space: str, part: int, shape: Shape) -> Place:
    offset = operand.offset
    builder = group.builder
    if base.name in group.layout.params:
        offset += group.layout.params[base.name] + base.offset
        return Place(builder.op(f"getelementptr i8, ptr {_params_pointer(group)}, i64 {offset}"), shape)
    value, _ = symbol_value(group, Symbol(base.name, base.offset + offset), part)
    if base.name in group.layout.shared:
        return Place(builder.op(f"getelementptr i8, ptr {shared_pointer(group)}, i64 {value}"), shape)
    if base.name in group.layout.elsewhere:
        return Place(builder.op(f"inttoptr {group.vector('i64')} {value} to <{group.lanes} x ptr>"), shape)
    return Place(builder.op(f"inttoptr i64 {value} to ptr"), shape)


def _elements(operand: Operand) -> tuple[Operand, ...]:
    return operand.elements if isinstance(operand, VectorOperand) else (operand,)


def spread(group: Group, where: Place, offset: int = 0) -> str:
    """A vector of pointers, whatever the shape."""
    builder, lanes = group.builder, group.lanes
    if where.shape.stride is None:
        if not offset:
            return where.pointer
        if where.index is not None:
            return where.index.pointers(group, offset)
        return builder.op(f"getelementptr i8, <{lanes} x ptr> {where.pointer}, i64 {offset}")
    ramp = Type("i64", lanes).vector([where.shape.stride * lane + offset for lane in range(lanes)])
    return builder.op(f"getelementptr i8, ptr {where.pointer}, <{lanes} x i64> {ramp}")


def _memory_type(instruction: Instruction) -> tuple[str, int]:
    """(LLVM element type in memory, bytes)."""
    kind = instruction.types[0]
    return llvm_type(kind), TYPE_BITS[kind] // 8


# ---------------------------------------------------------------------- loads


def load(group: Group, instruction: Instruction) -> None:
    """``ld`` and ``ldu``."""
    destinations = _elements(instruction.operands[0])
    plain = group.plain(instruction)
    ordered = is_ordered(instruction)
    columns: list[list[str]] = [[] for _ in destinations]
    places = _places(group, instruction.operands[1], space_of(instruction), group.count(plain))
    for part, where in enumerate(places):
        values = _load_part(group, instruction, where, len(destinations), part, plain, ordered=ordered)
        for column, value in zip(columns, values, strict=True):
            column.append(value)
    elem, _ = _memory_type(instruction)
    signed = instruction.types[0].startswith("s")
    for destination, column in zip(destinations, columns, strict=True):
        group.write(destination, column, elem, plain, instruction.guard, signed=signed)


def _prefetch(group: Group, instruction: Instruction, pointer: str, size: int, part: int) -> None:
    """Ask for what the same load will want a few iterations on.

    A group walks its own part of the data with the stride of the whole block or grid, which hardware
    prefetchers follow badly: they stop at page ends.  The stride is the distance from the last time.
    """
    builder = group.builder
    if part * group.lanes * size % _LINE and group.lanes * size < _LINE:
        return  # the line was asked for by an earlier part
    here = builder.op(f"ptrtoint ptr {pointer} to i64")
    key = (instruction.span.line, instruction.span.column)
    if part == 0:
        slot = group.strides.setdefault(key, builder.alloca("i64", 8))
        last = builder.op(f"load i64, ptr {slot}")
        builder.line(f"store i64 {here}, ptr {slot}")
        step = builder.op(f"sub i64 {here}, {last}")
        group.ahead[key] = builder.op(f"mul i64 {step}, {_AHEAD}")
    for line in range(0, max(1, group.lanes * size), _LINE):
        there = builder.op(f"add i64 {here}, {group.ahead[key]}")
        target = builder.op(f"inttoptr i64 {there} to ptr")
        at = builder.op(f"getelementptr i8, ptr {target}, i64 {line}")
        builder.call("void", "llvm.prefetch.p0", [("ptr", at), ("i32", "0"), ("i32", _ONCE), ("i32", "1")])


def _load_part(
    group: Group, instruction: Instruction, where: Place, count: int, part: int, plain: Shape, *, ordered: bool
) -> list[str]:
    elem, size = _memory_type(instruction)
    stride = where.shape.stride
    if plain.stride == 0:
        return _load_uniform(group, instruction, where, count, part, ordered=ordered)
    mask = _reading(group, instruction, part, plain)
    if ordered:
        return load_by_lane(group, instruction, spread(group, where), elem, count, mask)
    tag = _tag(space_of(instruction))
    if stride == size * count and count in (1, 2, 4):
        if group.advances(instruction.operands[1]) and group.loads_in_loop() <= _FEW_LOADS:
            _prefetch(group, instruction, where.pointer, size * count, part)
        return _load_consecutive(group, where.pointer, elem, size, count, mask, tag)
    kind = group.vector(elem)
    if mask is None and is_every_other(stride, size, count):
        return [load_every_other(group, where.pointer, kind, size, tag)]

    def gathers() -> list[str]:
        if size == _WORD and count in (2, 4):
            return _gather_pairs(group, where, kind, count, mask, tag)
        return [_gather(group, kind, spread(group, where, size * index), size, mask, tag) for index in range(count)]

    if stride is not None or count not in (1, 2, 4):
        return gathers()
    is_row, first = first_of_row(group, where, size * count, mask)

    def row() -> list[str]:
        return _load_consecutive(group, first, elem, size, count, mask, tag)

    def apart() -> list[str]:
        if not has_windows(group, where, size, count):
            return gathers()
        window = find_window(group, where, count, mask)
        return row_or_apart(group, window.holds_all, lambda: window.load(group, kind, tag), gathers, kind)

    return row_or_apart(group, is_row, row, apart, kind)


def _reading(group: Group, instruction: Instruction, part: int, plain: Shape) -> str | None:
    """The lanes that load: for a value that all parts share, and that is loaded once, those of every part."""
    if not plain.same:
        return group.active(instruction, part)
    masks = [group.active(instruction, each) for each in range(group.parts)]
    total = masks[0]
    for mask in masks[1:]:
        total = None if mask is None or total is None else group.builder.binary("or", group.vector("i1"), total, mask)
    return total


def _load_uniform(
    group: Group, instruction: Instruction, where: Place, count: int, part: int, *, ordered: bool
) -> list[str]:
    elem, size = _memory_type(instruction)
    space = space_of(instruction)
    pointer = where.pointer
    if space == "param":
        tag = ", !invariant.load !9"
    else:
        tag = _tag(space)
        pointer = _safe_pointer(group, instruction, where, part)
    values = []
    for index in range(count):
        at = group.builder.op(f"getelementptr i8, ptr {pointer}, i64 {index * size}") if index else pointer
        if ordered:
            values.append(load_ordered(group, instruction, at, elem))
        else:
            values.append(group.builder.op(f"load {elem}, ptr {at}, align {size}{tag}"))
    return values


def _integer(elem: str) -> str:
    return f"i{Type(elem).bits}"


def _safe_pointer(group: Group, instruction: Instruction, where: Place, part: int) -> str:
    """A pointer that may be read even if no lane of the part is active (some lane of the group is)."""
    if instruction.guard is None and (group.masks is None or where.shape.same):
        return where.pointer
    mask = _reading(group, instruction, part, where.shape)
    if mask is None:
        return where.pointer
    some = group.any_of([mask])
    return group.builder.op(f"select i1 {some}, ptr {where.pointer}, ptr %worker")


def _load_consecutive(
    group: Group, pointer: str, elem: str, size: int, count: int, mask: str | None, tag: str
) -> list[str]:
    builder, lanes = group.builder, group.lanes
    wide = Type(elem, lanes * count)
    if mask is None:
        loaded = builder.op(f"load {wide}, ptr {pointer}, align {size}{tag}")
    else:
        loaded = builder.call(
            wide,
            f"llvm.masked.load.{wide.suffix}.p0",
            [("ptr", pointer), ("i32", str(size)), (wide.of("i1"), _repeat(group, mask, count)), (wide, _OFF)],
            tag,
        )
    if count == 1:
        return [loaded]
    return [builder.shuffle(wide, loaded, "poison", range(index, lanes * count, count)) for index in range(count)]


def _repeat(group: Group, mask: str, count: int) -> str:
    """A mask with every lane `count` times in a row."""
    if count == 1:
        return mask
    indices = [lane for lane in range(group.lanes) for _ in range(count)]
    return group.builder.shuffle(group.vector("i1"), mask, "poison", indices)


def _gather(group: Group, kind: Type, pointers: str, size: int, mask: str | None, tag: str) -> str:
    if size < 4:
        return _gather_narrow(group, kind, pointers, mask)
    truth = kind.of("i1")
    return group.builder.call(
        kind,
        f"llvm.masked.gather.{kind.suffix}.v{kind.lanes}p0",
        [(f"<{kind.lanes} x ptr>", pointers), ("i32", str(size)), (truth, mask or truth.const(1)), (kind, _OFF)],
        tag,
    )


def _gather_pairs(group: Group, where: Place, kind: Type, count: int, mask: str | None, tag: str) -> list[str]:
    """Elements of 32 bits two at a time: a vector in memory is a multiple of 64 bits, and aligned to its size."""
    builder, pair, words = group.builder, group.vector("i64"), Type("i32", 2 * group.lanes)
    found = []
    for index in range(0, count, 2):
        both = _gather(group, pair, spread(group, where, _WORD * index), 2 * _WORD, mask, tag)
        flat = builder.cast("bitcast", pair, both, words)
        for half in range(2):
            value = builder.shuffle(words, flat, "poison", range(half, 2 * group.lanes, 2))
            found.append(builder.cast("bitcast", group.vector("i32"), value, kind))
    return found


def _gather_narrow(group: Group, kind: Type, pointers: str, mask: str | None) -> str:
    """8- and 16-bit gathers read the aligned word around the element: it lies in the same page."""
    builder = group.builder
    wide, address = group.vector("i32"), group.vector("i64")
    where = builder.op(f"ptrtoint <{kind.lanes} x ptr> {pointers} to {address}")
    aligned = builder.binary("and", address, where, address.const(-4))
    words = builder.op(f"inttoptr {address} {aligned} to <{kind.lanes} x ptr>")
    word = _gather(group, wide, words, 4, mask, "")
    low = builder.cast("trunc", address, where, wide)
    shift = builder.binary("shl", wide, builder.binary("and", wide, low, wide.const(3)), wide.const(3))
    narrow = kind.of(_integer(kind.elem))
    value = builder.cast("trunc", wide, builder.binary("lshr", wide, word, shift), narrow)
    return builder.cast("bitcast", narrow, value, kind)


# ---------------------------------------------------------------------- stores


def store(group: Group, instruction: Instruction) -> None:
    """``st``."""
    address, source = instruction.operands[0], instruction.operands[1]
    elements = _elements(source)
    elem, _ = _memory_type(instruction)
    space = space_of(instruction)
    shape = group.transfer.of(address)
    # A place that all parts share gets the value of the last active lane; CUDA leaves open which.
    for part, where in enumerate(_places(group, address, space, group.parts)):
        mask = group.active(instruction, part)
        if shape.stride == 0 and all(group.shape(element).stride == 0 for element in elements):
            scalars = [group.read(element, elem, part, vector=False) for element in elements]
            _store_uniform(group, instruction, where.pointer, scalars, mask)
            continue
        values = [group.read(element, elem, part, vector=True) for element in elements]
        _store_part(group, instruction, where, values, mask)


def _store_uniform(
    group: Group, instruction: Instruction, pointer: str, values: Sequence[str], mask: str | None
) -> None:
    elem, size = _memory_type(instruction)
    tag = _tag(space_of(instruction))

    ordered = is_ordered(instruction)

    def write() -> None:
        builder = group.builder
        for index, value in enumerate(values):
            at = builder.op(f"getelementptr i8, ptr {pointer}, i64 {index * size}") if index else pointer
            if ordered:
                store_ordered(group, instruction, at, elem, value)
            else:
                builder.line(f"store {elem} {value}, ptr {at}, align {size}{tag}")

    _when_any(group, mask, write)


def _when_any(group: Group, mask: str | None, write: Callable[[], None]) -> None:
    if mask is None:
        write()
        return
    builder = group.builder
    some = group.any_of([mask])
    then, done = builder.block_name("some"), builder.block_name("none")
    builder.line(f"br i1 {some}, label %{then}, label %{done}")
    builder.label(then)
    write()
    builder.line(f"br label %{done}")
    builder.label(done)


def _store_part(group: Group, instruction: Instruction, where: Place, values: Sequence[str], mask: str | None) -> None:
    elem, size = _memory_type(instruction)
    kind = group.vector(elem)
    tag = _tag(space_of(instruction))
    count = len(values)
    if is_ordered(instruction):
        store_by_lane(group, instruction, spread(group, where), elem, values, mask)
        return
    if where.shape.stride == size * count and count in (1, 2, 4):
        _store_consecutive(group, where.pointer, kind, size, values, mask, tag)
        return

    if is_every_other(where.shape.stride, size, count):
        store_every_other(group, where.pointer, kind, size, values[0], mask, tag)
        return

    def scatters() -> tuple[()]:
        _scatter_or_store(group, where, kind, size, values, mask, tag)
        return ()

    def row() -> tuple[()]:
        _store_consecutive(group, first, kind, size, values, mask, tag)
        return ()

    if where.shape.stride is not None or count not in (1, 2, 4):
        scatters()
        return
    is_row, first = first_of_row(group, where, size * count, mask)
    row_or_apart(group, is_row, row, scatters, kind)


def _store_consecutive(
    group: Group, pointer: str, kind: Type, size: int, values: Sequence[str], mask: str | None, tag: str
) -> None:
    builder = group.builder
    wide, value = _interleave(group, kind, values)
    if mask is None:
        builder.line(f"store {wide} {value}, ptr {pointer}, align {size}{tag}")
        return
    builder.call(
        "void",
        f"llvm.masked.store.{wide.suffix}.p0",
        [(wide, value), ("ptr", pointer), ("i32", str(size)), (wide.of("i1"), _repeat(group, mask, len(values)))],
        tag,
    )


def _scatter_or_store(
    group: Group, where: Place, kind: Type, size: int, values: Sequence[str], mask: str | None, tag: str
) -> None:
    """Where a single lane is on (one of each warp often writes what the warp has found), a plain store."""
    if mask is None:
        _scatter(group, where, kind, size, values, mask, tag)
        return
    builder, lanes = group.builder, group.lanes
    bits = builder.op(f"zext i{lanes} {group.mask_bits(mask)} to i32")
    alone = builder.op(f"icmp eq i32 {builder.intrinsic('ctpop', Type('i32'), bits)}, 1")
    labels = [builder.block_name(hint) for hint in ("alone", "several", "stored")]
    builder.line(f"br i1 {alone}, label %{labels[0]}, label %{labels[1]}")
    builder.label(labels[0])
    lane = builder.call("i32", "llvm.cttz.i32", [("i32", bits), ("i1", "true")])
    if where.index is not None:
        pointer = where.index.pointer(group, group.lane_of(where.index.kind(group), where.index.lanes, lane))
    else:
        pointer = group.lane_of(Type("ptr", lanes), spread(group, where), lane)
    for index, value in enumerate(values):
        at = builder.op(f"getelementptr i8, ptr {pointer}, i64 {size * index}") if index else pointer
        builder.line(f"store {kind.elem} {group.lane_of(kind, value, lane)}, ptr {at}, align {size}{tag}")
    builder.line(f"br label %{labels[2]}")
    builder.label(labels[1])
    _scatter(group, where, kind, size, values, mask, tag)
    builder.line(f"br label %{labels[2]}")
    builder.label(labels[2])


def _scatter(
    group: Group, where: Place, kind: Type, size: int, values: Sequence[str], mask: str | None, tag: str
) -> None:
    if size == _WORD and len(values) in (2, 4):  # a vector in memory is a multiple of 64 bits, and aligned to its size
        pair = group.vector("i64")
        pairs = [_interleave(group, kind, values[index : index + 2]) for index in range(0, len(values), 2)]
        joined = [group.builder.cast("bitcast", wide, value, pair) for wide, value in pairs]
        _scatter(group, where, pair, 2 * size, joined, mask, tag)
        return
    builder, truth = group.builder, kind.of("i1")
    for index, value in enumerate(values):
        pointers = spread(group, where, size * index)
        builder.call(
            "void",
            f"llvm.masked.scatter.{kind.suffix}.v{kind.lanes}p0",
            [(kind, value), (f"<{kind.lanes} x ptr>", pointers), ("i32", str(size)), (truth, mask or truth.const(1))],
            tag,
        )


def _interleave(group: Group, kind: Type, values: Sequence[str]) -> tuple[Type, str]:
    if len(values) == 1:
        return kind, values[0]
    wide, joined = group.builder.concat(kind, values)
    lanes = group.lanes
    order = [index * lanes + lane for lane in range(lanes) for index in range(len(values))]
    return wide, group.builder.shuffle(wide, joined, "poison", order)


def nothing(_: Group, __: Instruction) -> None:
    """Prefetches and hints: a CPU's caches need none."""


def fence(group: Group, _: Instruction) -> None:
    """``membar`` and ``fence``."""
    group.builder.line("fence seq_cst")


MEMORY: Final[dict[str, Lowering]] = {
    "ld": load,
    "ldu": load,
    "st": store,
    "prefetch": nothing,
    "prefetchu": nothing,
    "membar": fence,
    "fence": fence,
}
