"""Initial values of ``.global`` and ``.const`` variables: to bytes and relocations."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final

from zcuda_async.ptx.ir import TYPE_BITS, Immediate
from zcuda_async.ptx.lexer import is_word, string_bytes
from zcuda_async.ptx.parser_cursor import Cursor
from zcuda_async.ptx.statements_operands import float_bits, negated_number

__all__ = ("Image", "MAX_PADDING", "initialiser")

MAX_PADDING: Final = 1 << 26
"""How many bytes of zeros between written values the initialisers of a module may imply."""


@dataclass(slots=True)
class Image:
    """What has been written so far.  `pieces` are bytes of addresses written one at a time."""

    data: bytearray = field(default_factory=bytearray)
    relocations: list[tuple[int, str, int]] = field(default_factory=list)
    pieces: dict[int, tuple[int, str, int]] = field(default_factory=dict)


def initialiser(cursor: Cursor, type_: str, dimensions: list[int]) -> Image:
    """Read the value after ``=``.  `dimensions` are the array sizes (0: as many as there are)."""
    image = Image()
    start = cursor.position
    if not dimensions:
        if cursor.text == "{":
            raise cursor.error("a scalar takes one value without braces")
        _value(cursor, type_, image, start)
    else:
        _array(cursor, type_, dimensions, image, 0)
    _join_pieces(cursor, image, start)
    return image


def _array(cursor: Cursor, type_: str, dimensions: list[int], image: Image, offset: int) -> int:
    """Read ``{ … }`` or a string for one dimension; returns how many elements it has."""
    width = TYPE_BITS[type_] // 8
    stride = width
    for dimension in dimensions[1:]:
        stride *= dimension
    start = cursor.position
    if cursor.text.startswith('"'):
        return _string(cursor, type_, dimensions, image, offset)
    cursor.expect("{")
    count = 0
    while not cursor.accept("}"):
        if count:
            cursor.expect(",")
        if dimensions[0] and count >= dimensions[0]:
            raise cursor.error(f"more than {dimensions[0]} values for this array")
        _pad(cursor, image, offset + count * stride, start)
        if len(dimensions) > 1 and (cursor.text == "{" or cursor.text.startswith('"')):
            _array(cursor, type_, dimensions[1:], image, offset + count * stride)
        elif len(dimensions) > 1:
            raise cursor.unexpected("'{' for the inner array")
        else:
            _value(cursor, type_, image, start)
        count += 1
    return count


def _string(cursor: Cursor, type_: str, dimensions: list[int], image: Image, offset: int) -> int:
    if TYPE_BITS[type_] != 8 or len(dimensions) != 1:
        raise cursor.error("a string can only initialise an array of bytes")
    data = string_bytes(cursor.text)
    if not dimensions[0]:
        data += b"\0"
    elif len(data) > dimensions[0]:
        raise cursor.error(f"a string of {len(data)} bytes does not fit in {dimensions[0]}")
    _pad(cursor, image, offset, cursor.position)
    image.data += data
    cursor.position += 1
    return len(data)


def _pad(cursor: Cursor, image: Image, offset: int, position: int) -> None:
    missing = offset - len(image.data)
    if missing <= 0:
        return
    cursor.padding += missing
    if cursor.padding > MAX_PADDING:
        raise cursor.error(f"initial values imply more than {MAX_PADDING} bytes of zeros between them", position)
    image.data += bytes(missing)


def _value(cursor: Cursor, type_: str, image: Image, start: int) -> None:
    """Read one element and append its bytes."""
    negative = cursor.accept("-")
    if not is_word(cursor.text):
        position = cursor.position
        value = cursor.number("a value")
        if cursor.text == "(" and not negative:
            _masked_address(cursor, type_, value, image)
            return
        image.data += _encode(cursor, type_, negated_number(value) if negative else value, position)
        return
    if negative:
        raise cursor.unexpected("a number after '-'")
    position = cursor.position
    if TYPE_BITS[type_] != 64 or type_ == "f64":
        raise cursor.error(f"an address needs a 64-bit integer element, not .{type_}")
    symbol, addend = _address(cursor)
    image.relocations.append((len(image.data), symbol, addend))
    image.data += bytes(8)


def _address(cursor: Cursor) -> tuple[str, int]:
    """Read ``symbol``, ``symbol+4`` or ``generic(symbol)+4``."""
    if cursor.text == "generic" and cursor.following == "(":
        cursor.position += 2
        symbol = cursor.name("a variable")
        cursor.expect(")")
    else:
        symbol = cursor.name("a variable")
    addend = 0
    while cursor.text in ("+", "-"):
        sign = -1 if cursor.advance() == "-" else 1
        addend += sign * cursor.integer("an integer offset", signed=True)
    return symbol, addend


def _masked_address(cursor: Cursor, type_: str, mask: Immediate, image: Image) -> None:
    """Read ``0xff00(symbol)``: one byte of an address."""
    position = cursor.position - 1
    shift = {255 << (8 * index): index for index in range(8)}.get(int(mask.value) if not mask.float_bits else -1)
    if shift is None or TYPE_BITS[type_] != 8:
        raise cursor.error("a masked address must be one byte of it, in an array of bytes", position)
    cursor.expect("(")
    symbol, addend = _address(cursor)
    cursor.expect(")")
    image.pieces[len(image.data)] = (shift, symbol, addend)
    image.data.append(0)


def _join_pieces(cursor: Cursor, image: Image, position: int) -> None:
    """Eight bytes of one address in a row make a relocation; anything else cannot be loaded."""
    pieces = image.pieces
    for offset, (shift, symbol, addend) in pieces.items():
        if any(pieces.get(offset - shift + index) != (index, symbol, addend) for index in range(8)):
            raise cursor.error(f"the address of '{symbol}' must be written with all its eight bytes", position)
        if shift == 0:
            image.relocations.append((offset, symbol, addend))


def _encode(cursor: Cursor, type_: str, value: Immediate, position: int) -> bytes:
    width = TYPE_BITS[type_]
    if type_ in ("f32", "f64"):
        return _float_pattern(value, width).to_bytes(width // 8, "little")
    if type_ in ("f16", "bf16") and value.float_bits:
        raise cursor.error(f".{type_} values are written as their bits, for example 0x3C00", position)
    if value.float_bits:
        if type_ != f"b{value.float_bits}":
            raise cursor.error(f"a floating-point value does not fit .{type_}", position)
        return value.bits.to_bytes(width // 8, "little")
    return (int(value.value) & ((1 << width) - 1)).to_bytes(width // 8, "little")


def _float_pattern(value: Immediate, width: int) -> int:
    if value.float_bits == width:
        return value.bits
    real = float(value.value)
    try:
        return float_bits(real, width)
    except OverflowError:  # a double beyond the largest float rounds to infinity
        return struct.unpack(">I", struct.pack(">f", float("inf") if real > 0 else float("-inf")))[0]  # type: ignore[no-any-return]
