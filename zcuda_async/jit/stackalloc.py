"""``alloca`` (PTX ISA, Stack Manipulation): each lane has an area in local memory, and a register with its top.

A function that was expanded in place frees what it took when it returns: `inline` puts ``stacksave`` and
``stackrestore`` around it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from zcuda_async.ptx.ir import Function, Guard, Immediate, Instruction, Label, Operand, Register, Symbol, Variable

__all__ = ("expand_allocations",)

_AREA_BYTES: Final = 16 << 10
"""Bytes that each lane may take at a time."""

_AREA: Final = Symbol("alloca~area")
_TOP: Final = Register("alloca~top", "b64")
_DEFAULT_ALIGN: Final = 8
_COMPANIONS: Final = ("alloca", "stacksave", "stackrestore")


def expand_allocations(function: Function) -> Function:
    """``alloca`` and its companions as arithmetic on addresses; more than there is room for faults the launch."""
    instructions = [item for item in function.body if isinstance(item, Instruction)]
    if all(item.opcode not in _COMPANIONS for item in instructions):
        return function
    at = replace(instructions[0], guard=None, second_destination=None, negated_operands=())
    body: list[Instruction | Label] = [_make(at, "mov", "u64", _TOP, _AREA)]
    for number, item in enumerate(function.body):
        if isinstance(item, Instruction) and item.opcode in _COMPANIONS:
            body += _expand(item, number)
        else:
            body.append(item)
    area = Variable(_AREA.name, "local", "b8", _AREA_BYTES, 16, function.span)
    return replace(function, body=tuple(body), variables=(*function.variables, area))


def _make(at: Instruction, opcode: str, kind: str, *operands: Operand) -> Instruction:
    modifiers = ("gt",) if opcode == "setp" else ("stack",) if opcode == "trap" else ()
    return replace(at, opcode=opcode, modifiers=modifiers, types=(kind,) if kind else (), operands=operands)


def _expand(item: Instruction, number: int) -> Iterator[Instruction | Label]:
    plain = replace(item, guard=None)
    skip = Label(f"alloca~{number}")
    if item.guard is not None:
        unless = Guard(item.guard.register, not item.guard.negated)
        yield replace(_make(plain, "bra", "", skip), guard=unless)
    if item.opcode == "stacksave":
        yield _make(plain, "mov", "u64", item.operands[0], _TOP)
    elif item.opcode == "stackrestore":
        yield _make(plain, "mov", "u64", _TOP, item.operands[0])
    else:
        yield from _allocate(plain, number)
    if item.guard is not None:
        yield skip


def _allocate(item: Instruction, number: int) -> Iterator[Instruction]:
    align = int(getattr(item.operands[2], "value", _DEFAULT_ALIGN)) if len(item.operands) > 2 else _DEFAULT_ALIGN
    start, end = Register(f"alloca~{number}@start", "b64"), Register(f"alloca~{number}@end", "b64")
    room, wild = Register(f"alloca~{number}@room", "b64"), Register(f"alloca~{number}@wild", "pred")
    yield _make(item, "add", "s64", start, _TOP, Immediate(align - 1))
    yield _make(item, "and", "b64", start, start, Immediate(-align))
    yield _make(item, "mov", "u64", end, Symbol(_AREA.name, _AREA_BYTES))
    yield _make(item, "sub", "s64", room, end, start)
    yield _make(item, "setp", "u64", wild, item.operands[1], room)
    yield replace(_make(item, "trap", ""), guard=Guard(wild))
    yield _make(item, "add", "s64", _TOP, start, item.operands[1])
    yield _make(item, "mov", "u64", item.operands[0], start)
