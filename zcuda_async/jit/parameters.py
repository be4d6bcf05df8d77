"""Parameter variables of calls: registers where they are only ever accessed in one way, local memory elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from zcuda_async.jit.callgraph import symbols
from zcuda_async.ptx.ir import (
    TYPE_BITS,
    Address,
    Instruction,
    Label,
    Operand,
    Register,
    Symbol,
    Variable,
    VectorOperand,
)

__all__ = ("place_parameters",)


@dataclass(frozen=True, slots=True)
class _Access:
    """One element of a parameter variable that an instruction reads or writes."""

    variable: str
    offset: int
    bits: int


def _accesses(instruction: Instruction, names: Mapping[str, Variable]) -> list[_Access] | None:
    """The parameter accesses of a ``ld.param``/``st.param``; None if it names one in any other way."""
    mentioned = [name for operand in instruction.operands for name in symbols(operand) if name in names]
    if not mentioned:
        return []
    if instruction.opcode not in ("ld", "st") or not instruction.has("param"):
        return None
    address = instruction.operands[1 if instruction.opcode == "ld" else 0]
    if not isinstance(address, Address) or not isinstance(address.base, Symbol):
        return None
    bits = TYPE_BITS[instruction.types[0]]
    value = instruction.operands[0 if instruction.opcode == "ld" else 1]
    count = len(value.elements) if isinstance(value, VectorOperand) else 1
    start = address.base.offset + address.offset
    return [_Access(address.base.name, start + index * bits // 8, bits) for index in range(count)]


def _registers_for(body: list[Instruction | Label], names: Mapping[str, Variable]) -> set[str]:
    """The parameter variables that can be registers: one width at each offset, and no overlaps."""
    pieces: dict[str, dict[int, int]] = {}
    refused: set[str] = set()
    for item in body:
        if isinstance(item, Label):
            continue
        found = _accesses(item, names)
        if found is None:
            refused.update(name for operand in item.operands for name in symbols(operand) if name in names)
            continue
        for access in found:
            if pieces.setdefault(access.variable, {}).setdefault(access.offset, access.bits) != access.bits:
                refused.add(access.variable)
    for name, widths in pieces.items():
        ends = [(offset, offset + bits // 8) for offset, bits in sorted(widths.items())]
        if any(end > following for (_, end), (following, _) in pairwise(ends)):
            refused.add(name)
    return set(names) - refused


def _moves(instruction: Instruction, accesses: list[_Access]) -> list[Instruction]:
    """Register moves instead of a parameter access."""
    is_load = instruction.opcode == "ld"
    value = instruction.operands[0 if is_load else 1]
    elements = value.elements if isinstance(value, VectorOperand) else (value,)
    kind = instruction.types[0]
    moves = []
    for element, access in zip(elements, accesses, strict=True):
        slot = Register(f"{access.variable}@{access.offset}", f"b{access.bits}")
        operands = (element, slot) if is_load else (slot, element)
        moves.append(_move(instruction, kind, operands))
    return moves


def _move(instruction: Instruction, kind: str, operands: tuple[Operand, Operand]) -> Instruction:
    """A copy that extends or truncates as ``ld`` and ``st`` do where a register is wider than the type."""
    destination, source = operands
    bits = TYPE_BITS[kind]
    widths = {TYPE_BITS[operand.type] for operand in (destination, source) if isinstance(operand, Register)}
    if widths <= {bits} and bits >= 16:
        return replace(instruction, opcode="mov", modifiers=(), types=(f"b{bits}",), operands=operands)
    to = TYPE_BITS[destination.type] if isinstance(destination, Register) else bits
    sign = "s" if kind[0] == "s" else "u"
    types = (f"{sign}{to}", f"{sign}{bits}")
    return replace(instruction, opcode="cvt", modifiers=(), types=types, operands=operands)


def _as_local(instruction: Instruction) -> Instruction:
    modifiers = tuple("local" if modifier == "param" else modifier for modifier in instruction.modifiers)
    return replace(instruction, modifiers=modifiers)


def place_parameters(
    body: list[Instruction | Label], variables: list[Variable]
) -> tuple[list[Instruction | Label], list[Variable]]:
    """Turn parameter variables into registers where possible, into local memory elsewhere."""
    names = {variable.name: variable for variable in variables if variable.space == "param"}
    if not names:
        return body, variables
    as_registers = _registers_for(body, names)
    placed: list[Instruction | Label] = []
    for item in body:
        if isinstance(item, Label):
            placed.append(item)
            continue
        accesses = _accesses(item, names)
        if not accesses:
            placed.append(item)
        elif accesses[0].variable in as_registers:
            placed += _moves(item, accesses)
        else:
            placed.append(_as_local(item))
    kept = [v for v in variables if v.space != "param"]
    kept += [replace(names[name], space="local") for name in names if name not in as_registers]
    return placed, kept
