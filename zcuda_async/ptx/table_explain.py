"""Why an instruction does not fit the table, in words: what was written, and what is allowed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

from zcuda_async.ptx.table import TABLE, Form
from zcuda_async.ptx.table_syntax import ALIASES, TYPE_WIDTHS, Row

__all__ = ("NOT_SUPPORTED", "explain_count", "explain_spelling")

NOT_SUPPORTED: Final = frozenset(("clusterlaunchcontrol", "multimem", "setmaxnreg", "tcgen05", "tensormap", "wgmma"))
"""Opcodes that PTX has and this table does not."""

_LONGEST_NAME: Final = 40
_TYPE_NOTE: Final = re.compile(r"^[\w.]*(?:\([\d.]*\))?")


def explain_spelling(spelling: str) -> str:
    """The message for an opcode, with its dotted parts, that no row matches."""
    opcode, *parts = spelling.split(".")
    rows = TABLE.get(opcode)
    if rows is None:
        return _unknown_opcode(spelling, opcode)
    for part in dict.fromkeys(parts):
        kind = "type" if part in TYPE_WIDTHS else "modifier"
        allowed = _spellings(rows, types=kind == "type")
        if part not in allowed and ALIASES.get(part, part) not in allowed:
            takes = f"it takes {_dotted(allowed)}" if allowed else f"it takes no {kind}"
            return f"'{spelling}': '{opcode}' has no {kind} '.{part}'; {takes}"
    return f"'{spelling}': '{opcode}' has no such combination; its forms are {_forms(rows, parts)}"


def explain_count(spelling: str, form: Form, count: int) -> str:
    """The message for a wrong number of operands."""
    tail = form.row.syntax.partition(" ")[2]
    wanted = " or ".join(str(number) for number in sorted(form.by_count))
    plural = "" if wanted == "1" else "s"
    shape = f" ({_plain(tail)})" if tail else ""
    return f"'{spelling}' takes {wanted} operand{plural}{shape}, got {count}"


def _unknown_opcode(spelling: str, opcode: str) -> str:
    if opcode in NOT_SUPPORTED:
        return f"instruction '{spelling}' is not supported"
    close = get_close_matches(opcode, TABLE, n=1) if len(opcode) <= _LONGEST_NAME else []
    hint = f"; did you mean '{close[0]}'?" if close else ""
    return f"unknown instruction '{spelling}'{hint}"


def _spellings(rows: Iterable[Row], *, types: bool) -> list[str]:
    options = {option for row in rows for slot in row.slots for option in slot.options}
    return sorted(option for option in options if (option in TYPE_WIDTHS) == types)


def _dotted(names: Iterable[str]) -> str:
    return " ".join(f".{name}" for name in names)


def _forms(rows: tuple[Row, ...], parts: list[str]) -> str:
    """The syntax lines worth showing: those that take the types written, else all."""
    types = [part for part in parts if part in TYPE_WIDTHS]
    near = [row for row in rows if _takes(row, types)]
    return "; ".join(dict.fromkeys(_describe(row) for row in near or rows))


def _takes(row: Row, types: list[str]) -> bool:
    slots = row.type_slots
    return len(slots) == len(types) and all(type_ in slot.options for type_, slot in zip(types, slots, strict=True))


def _describe(row: Row) -> str:
    sets = [f".{slot.name}: {' '.join(slot.options)}" for slot in row.slots if slot.options != (slot.name,)]
    where = f" ({', '.join(sets)})" if sets else ""
    return f"{row.syntax.partition(' ')[0]}{where}"


def _plain(tail: str) -> str:
    """An operand list without the type notes."""
    pieces = tail.split(":")
    kept = [pieces[0]]
    kept.extend(_TYPE_NOTE.sub("", piece) for piece in pieces[1:])
    return "".join(kept)
