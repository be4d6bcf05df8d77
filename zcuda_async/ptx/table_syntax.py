"""Rows of the instruction table, and the notation they are written in.

A row is the syntax line of the PTX manual with a few marks added::

    row("add{.rnd}{.ftz}{.sat}.f32 d, a, b", rnd="rn rz rm rp", see="Floating-Point")

* ``{.x}`` may be left out, ``.x`` may not.  `x` is one of the keyword arguments, which lists what may
  stand there, or else the spelling itself.  A slot whose spellings are types is a type slot.
* ``d, a, b`` are the operands; ``{, c}`` may be left out; ``[a]`` is an address; ``{!}c`` may be
  negated; ``d|p`` is a pair and ``d[|p]`` a pair whose second half may be left out.
* An operand's type is that of the first type slot when it is the destination and of the last type
  slot when it is a source.  ``b:u32`` states it; ``b:0`` names a type slot; ``d:wide`` is twice as
  wide as the type; ``c:0..255`` is a constant in that range and ``a:u32(0..15)`` a register or a
  constant in that range; ``a:any`` also takes symbols and (for ``mov``) vectors; ``a:label``,
  ``a:labels``, ``a:callee``,  ``a:list`` and ``a:name`` belong to branches and calls, ``a:fragment`` is a
  vector of as many registers as a matrix takes, ``[a, c:coords]`` a handle and coordinates, two operands.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from zcuda_async.ptx.ir import TYPE_BITS

__all__ = ("ALIASES", "OperandSlot", "Row", "Slot", "TYPE_WIDTHS", "relaxed_row", "row", "table_of")

TYPE_WIDTHS: Final[Mapping[str, int]] = {
    **TYPE_BITS,
    "u16x2": 32,
    "s16x2": 32,
    "tf32": 32,
    "e4m3": 8,
    "e5m2": 8,
    "b1": 1,
    "e4m3x2": 16,
    "e5m2x2": 16,
    **{f"{kind}{bits}": bits for kind in "us" for bits in (2, 4)},
}
"""Width in bits of every type that an instruction may carry (more than registers may be declared with)."""

ALIASES: Final[Mapping[str, str]] = {
    "shared::cta": "shared",
    "param::entry": "param",
    "param::func": "param",
}
"""Spellings that mean the same as a shorter one; instructions carry the shorter one."""

_HEAD: Final = re.compile(r"(\{)?\.([\w:]+)\}?")
_OPERAND: Final = re.compile(
    r"""
    (?P<optional> \{\s*,\s* )? ,? \s*
    (?P<negatable> \{!\} )?
    (?P<bracket> \[ )? (?P<name> [A-Za-z][\w-]* ) \]?
    (?: \[\| (?P<maybe> \w+ ) \] | \| (?P<pair> \w+ ) )?
    (?: : (?P<spec> \d+\.\.\d+ | \w+ ) )? (?: \( (?P<limits> \d+\.\.\d+ ) \) )?
    [\]}]? \s*
    """,
    re.VERBOSE,
)
_RANGE: Final = re.compile(r"(\d+)\.\.(\d+)\Z")
_DESTINATIONS: Final = frozenset(("d", "p"))


@dataclass(frozen=True, slots=True)
class Slot:
    """One dotted part of an opcode: `options` are the spellings that may fill it."""

    name: str
    options: tuple[str, ...]
    required: bool
    is_type: bool


@dataclass(frozen=True, slots=True)
class OperandSlot:
    """One operand of a row.

    `spec` is a type, a type slot's number, ``wide``, ``any``, ``label``…, or empty for the default
    type.  `range` bounds a constant.  `second` is the other half of ``d|p``.
    """

    name: str
    spec: str = ""
    range: tuple[int, int] | None = None
    is_address: bool = False
    is_optional: bool = False
    is_negatable: bool = False
    second: str = ""
    second_required: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """One form of an opcode.

    `destinations` counts the leading operands that are written (``d|p`` is one operand whose second
    half is `Instruction.second_destination`).  `relaxed` rows take registers wider than the type.
    `see` is the title of its section in the PTX ISA manual.
    """

    opcode: str
    syntax: str
    slots: tuple[Slot, ...]
    operands: tuple[OperandSlot, ...]
    destinations: int
    relaxed: bool
    see: str

    @property
    def modifier_slots(self) -> tuple[Slot, ...]:
        """The slots that are not types, in canonical order."""
        return tuple(slot for slot in self.slots if not slot.is_type)

    @property
    def type_slots(self) -> tuple[Slot, ...]:
        """The type slots, in order."""
        return tuple(slot for slot in self.slots if slot.is_type)


def row(syntax: str, *, see: str, **sets: str) -> Row:
    """Read a syntax line; `sets` says what each named slot may hold: words in one string."""
    return _read(syntax, see, sets, relaxed=False)


def relaxed_row(syntax: str, *, see: str, **sets: str) -> Row:
    """The same for an instruction whose registers may be wider than its types."""
    return _read(syntax, see, sets, relaxed=True)


def _read(syntax: str, see: str, sets: Mapping[str, str], *, relaxed: bool) -> Row:
    head, _, tail = syntax.partition(" ")
    opcode = re.split(r"[.{]", head, maxsplit=1)[0]
    operands = tuple(_operands(tail))
    destinations = 1 if operands and operands[0].name in _DESTINATIONS else 0
    slots = tuple(_slot(match, sets) for match in _HEAD.finditer(head))
    return Row(opcode, syntax, slots, operands, destinations, relaxed, see)


def table_of(*groups: Iterable[Row]) -> dict[str, tuple[Row, ...]]:
    """Rows keyed by opcode, in the order given."""
    table: dict[str, list[Row]] = {}
    for group in groups:
        for entry in group:
            table.setdefault(entry.opcode, []).append(entry)
    return {opcode: tuple(rows) for opcode, rows in table.items()}


def _slot(match: re.Match[str], sets: Mapping[str, str]) -> Slot:
    name = match[2]
    options = tuple(sets.get(name, name).split())
    return Slot(name, options, match[1] is None, all(option in TYPE_WIDTHS for option in options))


def _operands(tail: str) -> Iterable[OperandSlot]:
    position = 0
    while position < len(tail):
        match = _OPERAND.match(tail, position)
        if match is None:
            raise ValueError(f"unreadable operand list {tail!r}")
        position = match.end()
        spec = match["spec"] or ("pred" if match["name"] in ("p", "q") else "")
        is_constant = _RANGE.match(spec) is not None
        limits = _RANGE.match(spec if is_constant else match["limits"] or "")
        yield OperandSlot(
            name=match["name"],
            spec="constant" if is_constant else spec,
            range=(int(limits[1]), int(limits[2])) if limits else None,
            is_address=match["bracket"] is not None,
            is_optional=match["optional"] is not None,
            is_negatable=match["negatable"] is not None,
            second=match["maybe"] or match["pair"] or "",
            second_required=match["pair"] is not None,
        )
