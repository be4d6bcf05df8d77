"""The instruction table, and how an opcode's spelling is resolved against it.

`TABLE` is the one description of the instruction set: the parser, the verifier and the code generator
read it.  PTX written by different compilers puts the dotted parts in different orders
(``atom.global.gpu.acq_rel.add.u32``, ``atom.add.release.gpu.u32``), so everything that is not a type
is matched as a set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from zcuda_async.ptx.ir import Instruction
from zcuda_async.ptx.table_compare import COMPARE_ROWS
from zcuda_async.ptx.table_control import CONTROL_ROWS
from zcuda_async.ptx.table_float import FLOAT_ROWS
from zcuda_async.ptx.table_integer import INTEGER_ROWS
from zcuda_async.ptx.table_matrix import MATRIX_ROWS
from zcuda_async.ptx.table_memory import MEMORY_ROWS
from zcuda_async.ptx.table_registers import registers_for
from zcuda_async.ptx.table_syntax import ALIASES, TYPE_WIDTHS, OperandSlot, Row, Slot, table_of
from zcuda_async.ptx.table_texture import TEXTURE_ROWS
from zcuda_async.ptx.table_video import VIDEO_ROWS

__all__ = ("TABLE", "Expected", "Form", "destinations", "form_of", "resolve", "row_of")

TABLE: Final[Mapping[str, tuple[Row, ...]]] = MappingProxyType(
    table_of(
        INTEGER_ROWS,
        FLOAT_ROWS,
        COMPARE_ROWS,
        MEMORY_ROWS,
        CONTROL_ROWS,
        VIDEO_ROWS,
        MATRIX_ROWS,
        TEXTURE_ROWS,
    )
)
"""Every known form of every known opcode, keyed by opcode (``add``, ``ld``, ``bar``)."""

_LONGEST_SPELLING: Final = 256
_VECTOR_LENGTHS: Final = {"v2": 2, "v4": 4, "v8": 8}
_WIDER: Final = {"u16": "u32", "s16": "s32", "u32": "u64", "s32": "s64"}
_SPECIAL_SPECS: Final = frozenset(("coords", "fragment", "label", "labels", "list", "callee", "name", "constant"))


@dataclass(frozen=True, slots=True)
class Expected:
    """What one operand of a form must be.

    `kind` is ``value``, ``address``, ``constant``, ``label``, ``labels``, ``list``, ``callee``,
    ``fragment``, ``coords`` or ``name``.  `registers` are the declared types that a register there may have, `lanes`
    the length of the vector (0: a scalar).  `takes_symbols` allows variables and, for ``mov``, vectors.
    """

    slot: OperandSlot
    kind: str
    type: str
    registers: frozenset[str]
    lanes: int
    is_destination: bool
    takes_symbols: bool


@dataclass(frozen=True, slots=True)
class Form:
    """A spelling resolved against its row: what an `Instruction` carries, and what it expects.

    `by_count` gives the expected operands for each allowed number of them.
    """

    opcode: str
    modifiers: tuple[str, ...]
    types: tuple[str, ...]
    row: Row
    by_count: Mapping[int, tuple[Expected, ...]]


@lru_cache(maxsize=4096)
def resolve(spelling: str) -> Form | None:
    """The form that an opcode with its dotted parts denotes, or None if there is none."""
    if len(spelling) > _LONGEST_SPELLING:
        return None
    opcode, *parts = spelling.split(".")
    for row in TABLE.get(opcode, ()):
        form = _match(row, [ALIASES.get(part, part) for part in parts])
        if form is not None:
            return form
    return None


def form_of(instruction: Instruction) -> Form:
    """The form of a parsed instruction.

    Raises:
        KeyError: The instruction is not one that `parse` could have made.
    """
    return _form(instruction.opcode, instruction.modifiers, instruction.types)


def row_of(instruction: Instruction) -> Row:
    """The table row of a parsed instruction."""
    return form_of(instruction).row


def destinations(instruction: Instruction) -> int:
    """How many leading operands the instruction writes (0 for ``st``, ``red``, ``bar.sync``, ``bra``…).

    The second half of ``d|p`` is not counted: it is in `Instruction.second_destination`.
    A ``call`` writes the variables in its first operand, which is a list, and counts 0 here.
    """
    return form_of(instruction).row.destinations


@lru_cache(maxsize=4096)
def _form(opcode: str, modifiers: tuple[str, ...], types: tuple[str, ...]) -> Form:
    spelling = ".".join((opcode, *modifiers, *types))
    form = resolve(spelling)
    if form is None:
        raise KeyError(spelling)
    return form


def _match(row: Row, parts: list[str]) -> Form | None:
    types = tuple(part for part in parts if part in TYPE_WIDTHS)
    slots = row.type_slots
    if len(types) != len(slots) or any(type_ not in slot.options for type_, slot in zip(types, slots, strict=True)):
        return None
    modifiers = _assign(row.modifier_slots, [part for part in parts if part not in TYPE_WIDTHS])
    if modifiers is None:
        return None
    expected = tuple(
        _expected(row, index, modifiers, types)
        for index, slot in enumerate(row.operands)
        if slot.name != "policy" or "L2::cache_hint" in modifiers
    )
    return Form(row.opcode, modifiers, types, row, _by_count(expected))


def _assign(slots: tuple[Slot, ...], parts: list[str]) -> tuple[str, ...] | None:
    """The modifiers in the order of the slots; None unless each part fills a slot of its own."""
    filled: list[str] = []
    left = list(parts)
    for slot in slots:
        found = next((part for part in left if part in slot.options or ALIASES.get(part) in slot.options), None)
        if found is not None:
            left.remove(found)
            filled.append(found)
        elif slot.required:
            return None
    return None if left else tuple(filled)


def _by_count(expected: tuple[Expected, ...]) -> Mapping[int, tuple[Expected, ...]]:
    """Leave out optional operands one at a time, the last first; a cache policy is never left out."""
    counts = {len(expected): expected}
    current = expected
    for entry in reversed(expected):
        if entry.slot.is_optional and entry.slot.name != "policy":
            current = tuple(other for other in current if other is not entry)
            counts[len(current)] = current
    return MappingProxyType(counts)


def _expected(row: Row, index: int, modifiers: tuple[str, ...], types: tuple[str, ...]) -> Expected:
    slot = row.operands[index]
    is_destination = index < row.destinations
    type_ = _operand_type(slot, is_destination, types)
    lanes = 0
    if not slot.is_address and not slot.spec:
        lanes = next((_VECTOR_LENGTHS[part] for part in modifiers if part in _VECTOR_LENGTHS), 0)
    kind = "address" if slot.is_address else slot.spec if slot.spec in _SPECIAL_SPECS else "value"
    return Expected(
        slot, kind, type_, registers_for(type_, relaxed=row.relaxed), lanes, is_destination, slot.spec == "any"
    )


def _operand_type(slot: OperandSlot, is_destination: bool, types: tuple[str, ...]) -> str:
    spec = slot.spec
    default = "" if not types else types[0] if is_destination else types[-1]
    if spec in TYPE_WIDTHS:
        return spec
    if spec.isdigit():
        return types[int(spec)]
    if spec == "wide":
        return _WIDER[types[0]]
    return "" if slot.is_address or spec in _SPECIAL_SPECS else default
