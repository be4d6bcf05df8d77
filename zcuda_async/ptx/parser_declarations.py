"""Parameters and variables: types, alignments, array sizes, offsets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zcuda_async.ptx.ir import TYPE_BITS, Param, Span, Variable
from zcuda_async.ptx.parser_cursor import Cursor
from zcuda_async.ptx.parser_initialisers import Image, initialiser

__all__ = ("Declared", "declaration", "parameters", "variables")

_MAX_DIMENSIONS: Final = 8
_MAX_SIZE: Final = 1 << 40
_MAX_ALIGN: Final = 1 << 20
_SPACES: Final = frozenset((".global", ".const", ".shared", ".local", ".param"))
_POINTER_SPACES: Final = frozenset((".global", ".const", ".shared", ".local", ".param"))
_HANDLES: Final = frozenset((".texref", ".samplerref", ".surfref"))


@dataclass(frozen=True, slots=True)
class Declared:
    """The part that parameters and variables share: type, lanes of ``.v4``, alignment in bytes."""

    type: str
    lanes: int
    align: int

    @property
    def element_bytes(self) -> int:
        """Bytes of one array element."""
        return self.lanes * TYPE_BITS[self.type] // 8


def parameters(cursor: Cursor) -> tuple[Param, ...]:
    """Read ``(.param …, .param …)``; offsets follow natural or stated alignment, as in C."""
    cursor.expect("(")
    params: list[Param] = []
    offset = 0
    while not cursor.accept(")"):
        if params:
            cursor.expect(",")
        param = _parameter(cursor, offset)
        params.append(param)
        offset = param.offset + param.size
    return tuple(params)


def _parameter(cursor: Cursor, offset: int) -> Param:
    if cursor.text == ".reg":
        raise cursor.error("function parameters in registers are not supported; declare them in .param space")
    cursor.expect(".param")
    declared = declaration(cursor)
    name = cursor.name("the parameter's name")
    dimensions = _dimensions(cursor)
    if 0 in dimensions:
        raise cursor.error(f"parameter '{name}' needs an array size", cursor.position - 1)
    count = _product(cursor, dimensions) * declared.lanes
    size = count * declared.element_bytes // declared.lanes
    offset += -offset % declared.align
    return Param(name, declared.type, size, declared.align, offset, count)


def declaration(cursor: Cursor) -> Declared:
    """Read ``.align 8 .v2 .b8 .ptr .global .align 16`` in any order; what follows .ptr is advice."""
    type_, lanes, align = "", 1, 0
    is_pointee = False
    start = cursor.position
    while (text := cursor.text).startswith("."):
        if text == ".align":
            cursor.position += 1
            value = _alignment(cursor)
            align = align if is_pointee else value
            continue
        if text == ".ptr":
            is_pointee = True
        elif text in (".v2", ".v4", ".v8"):
            lanes = int(text[2:])
        elif text[1:] in TYPE_BITS and text != ".pred":
            type_ = text[1:]
        elif text in _HANDLES:
            raise cursor.error(f"{text} variables are not supported; use a bindless 64-bit handle")
        elif text == ".attribute":
            _attribute(cursor)
            continue
        elif not (is_pointee and text in _POINTER_SPACES):
            raise cursor.error(f"'{text}' is not a type that memory can hold")
        cursor.position += 1
    if not type_:
        raise cursor.unexpected("a type", start if cursor.position == start else None)
    return Declared(type_, lanes, align or lanes * TYPE_BITS[type_] // 8)


def _attribute(cursor: Cursor) -> None:
    """``.attribute(.managed)`` changes nothing here: the host sees all memory anyway."""
    cursor.position += 1
    cursor.expect("(")
    if not cursor.accept(".managed"):
        raise cursor.error(f"attribute '{cursor.text}' is not supported; .managed is")
    cursor.expect(")")


def _alignment(cursor: Cursor) -> int:
    value = cursor.integer("an alignment in bytes")
    if not 0 < value <= _MAX_ALIGN or value & (value - 1):
        raise cursor.error(f"alignment {value} is not a power of two from 1 to {_MAX_ALIGN}", cursor.position - 1)
    return value


def _dimensions(cursor: Cursor) -> list[int]:
    """Read ``[2][3]``; an empty pair of brackets gives 0."""
    dimensions: list[int] = []
    start = cursor.position
    while cursor.accept("["):
        if cursor.text == "]":
            dimensions.append(0)
        else:
            dimensions.append(cursor.integer("an array size"))
            if dimensions[-1] == 0:
                raise cursor.error("an array size must be at least 1", cursor.position - 1)
        cursor.expect("]")
        if len(dimensions) > _MAX_DIMENSIONS:
            raise cursor.error(f"more than {_MAX_DIMENSIONS} array dimensions are not supported", start)
    if 0 in dimensions[1:]:
        raise cursor.error("only the first array size may be left out", start)
    return dimensions


def _product(cursor: Cursor, dimensions: list[int]) -> int:
    product = 1
    for dimension in dimensions:
        product *= dimension
    if product > _MAX_SIZE:
        raise cursor.error(f"an array of {product} elements is too large", cursor.position - 1)
    return product


def variables(cursor: Cursor, space: str, *, is_extern: bool = False, is_linked: bool = False) -> list[Variable]:
    """Read what follows ``.global``, ``.shared``…: one or several variables, up to the semicolon."""
    declared = declaration(cursor)
    found: list[Variable] = []
    while True:
        found.append(_variable(cursor, space, declared, is_extern, is_linked))
        if cursor.accept(";"):
            return found
        if not cursor.accept(","):
            raise cursor.unexpected("',', '=' or ';'" if found[-1].initial is None else "',' or ';'")


def _variable(cursor: Cursor, space: str, declared: Declared, is_extern: bool, is_linked: bool) -> Variable:
    position = cursor.position
    name = cursor.name("the variable's name")
    span = cursor.span(position)
    dimensions = _dimensions(cursor)
    image: Image | None = None
    if cursor.text == "=":
        if space not in ("global", "const"):
            raise cursor.error(f".{space} variables cannot be initialised; store to '{name}' instead")
        cursor.position += 1
        image = initialiser(cursor, declared.type, _with_lanes(dimensions, declared.lanes))
    if dimensions[:1] == [0] and is_extern and is_linked and space != "shared":
        return _make(name, space, declared, span, None, None)
    if dimensions[:1] == [0]:
        return _unsized(cursor, name, space, declared, span, dimensions, image, position)
    if is_extern and space != "shared" and not is_linked:
        raise cursor.error(
            f".extern .{space} variable '{name}' is defined in another file; load both with link_ptx",
            position,
        )
    size = _product(cursor, dimensions) * declared.element_bytes
    return _make(name, space, declared, span, size, image)


def _with_lanes(dimensions: list[int], lanes: int) -> list[int]:
    return dimensions if lanes == 1 else [*dimensions, lanes]


def _unsized(
    cursor: Cursor,
    name: str,
    space: str,
    declared: Declared,
    span: Span,
    dimensions: list[int],
    image: Image | None,
    position: int,
) -> Variable:
    """``x[]``: dynamic shared memory, or as long as its initialiser."""
    if image is None:
        if space == "shared":
            return _make(name, space, declared, span, None, None)
        raise cursor.error(f"array '{name}' needs a size or an initialiser", position)
    row = _product(cursor, dimensions[1:]) * declared.element_bytes
    return _make(name, space, declared, span, max(row, -(-len(image.data) // row) * row), image)


def _make(name: str, space: str, declared: Declared, span: Span, size: int | None, image: Image | None) -> Variable:
    if image is None:
        return Variable(name, space, declared.type, size, declared.align, span)
    return Variable(name, space, declared.type, size, declared.align, span, bytes(image.data), tuple(image.relocations))
