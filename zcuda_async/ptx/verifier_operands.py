"""One rule per class of operand: does it fit what the table row wants there?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, TypeAlias

from zcuda_async.ptx.ir import (
    TYPE_BITS,
    Address,
    Immediate,
    Instruction,
    Label,
    Operand,
    Register,
    Sink,
    SpecialRegister,
    Symbol,
    VectorOperand,
)
from zcuda_async.ptx.table import Expected
from zcuda_async.ptx.table_memory import SPACES
from zcuda_async.ptx.table_special import SPECIAL_REGISTERS
from zcuda_async.ptx.table_syntax import TYPE_WIDTHS
from zcuda_async.ptx.verifier_context import Context

__all__ = ("OPERAND_RULES", "OperandRule")

OperandRule: TypeAlias = Callable[[Operand, Expected, Instruction, Context], str | None]

_WANTED: Final[Mapping[str, str]] = {
    "address": "an address in brackets",
    "label": "a label",
    "labels": "the name of a .branchtargets list",
    "list": "a list in parentheses",
    "callee": "a function",
    "name": "the name of a .callprototype",
}
_WRITING: Final = frozenset(("st", "atom", "red"))
_DISCARDING: Final = frozenset(("atom", "lop3", "elect"))
_POINTERS: Final = frozenset(f"{kind}{bits}" for kind in "bus" for bits in (32, 64))
_NARROW_SPACES: Final = frozenset(("shared", "local", "param", "const"))


def _register(operand: Operand, wanted: Expected, item: Instruction, context: Context) -> str | None:
    assert isinstance(operand, Register)
    if wanted.kind == "coords":
        return None
    if wanted.kind == "fragment":
        return _fragment(VectorOperand((operand,)), item)
    if wanted.lanes:
        return _needs_vector(wanted, f"'{_shown(operand)}'")
    if wanted.kind == "callee":
        return None if operand.type in ("b64", "u64", "s64") else "a function's address is a 64-bit register"
    if wanted.kind != "value":
        return _wrong_kind(wanted, f"the register '{_shown(operand)}'")
    if operand.type in wanted.registers:
        return None
    found = f"'{_shown(operand)}' of type .{operand.type}"
    return f"operand {wanted.slot.name} must be a register of type {_dotted(wanted)}, got {found}"


def _special(operand: Operand, wanted: Expected, item: Instruction, context: Context) -> str | None:
    assert isinstance(operand, SpecialRegister)
    if item.opcode not in ("mov", "cvt") or wanted.is_destination:
        return f"the special register '{operand.name}' can only be read with mov or cvt"
    has, needs = TYPE_WIDTHS[SPECIAL_REGISTERS[operand.name]], TYPE_WIDTHS[wanted.type]
    if wanted.type[0] in "bus" and wanted.type in TYPE_BITS and (has == needs or (has, needs) == (32, 16)):
        return None
    if has == needs == 1:
        return None
    return f"'{operand.name}' is of type .{SPECIAL_REGISTERS[operand.name]}, which does not fit .{wanted.type}"


def _immediate(operand: Operand, wanted: Expected, item: Instruction, context: Context) -> str | None:
    assert isinstance(operand, Immediate)
    if wanted.is_destination:
        return f"operand {wanted.slot.name} is written, so it must be a register, not a constant"
    if wanted.lanes:
        return _needs_vector(wanted, "a constant")
    if wanted.kind == "coords":
        return None
    if wanted.kind not in ("value", "constant"):
        return _wrong_kind(wanted, "a constant")
    return _constant(operand, wanted)


def _constant(operand: Immediate, wanted: Expected) -> str | None:
    name, limits = wanted.slot.name, wanted.slot.range
    if limits is not None and (operand.float_bits or not limits[0] <= operand.value <= limits[1]):
        return f"operand {name} must be a constant from {limits[0]} to {limits[1]}, got {operand.value}"
    if wanted.kind == "constant":
        return None
    if operand.float_bits:
        if wanted.type in ("f32", "f64") or wanted.type == f"b{operand.float_bits}":
            return None
        return f"operand {name} is of type .{wanted.type}, which takes no floating-point constant of this width"
    if wanted.type in ("f32", "f64"):
        return f"operand {name} is of type .{wanted.type}; write the constant with a point or as 0f… or 0d…"
    if wanted.type in TYPE_BITS and wanted.type[0] in "bpus" and not wanted.type.startswith("bf"):
        return None
    return f"operand {name} is of type .{wanted.type}, which takes no constant; move it to a register first"


def _symbol(operand: Operand, wanted: Expected, item: Instruction, context: Context) -> str | None:
    assert isinstance(operand, Symbol)
    space = context.space(operand.name)
    if wanted.kind == "callee":
        return None if space == "function" else f"'{operand.name}' is not a function"
    if wanted.kind == "name":
        return None
    if wanted.kind != "value":
        return _wrong_kind(wanted, f"'{operand.name}'")
    if not wanted.takes_symbols:
        return f"operand {wanted.slot.name} must be a register; move the address of '{operand.name}' to one first"
    if item.opcode == "cvta" and space not in (*item.modifiers, "function"):
        return f"'{operand.name}' is in .{space}, not in .{item.modifiers[0]}"
    if wanted.type in _POINTERS and (wanted.type.endswith("64") or space in _NARROW_SPACES):
        return None
    return f"the address of '{operand.name}' does not fit .{wanted.type}; use .u64"


def _address(operand: Operand, wanted: Expected, item: Instruction, context: Context) -> str | None:
    assert isinstance(operand, Address)
    if wanted.kind != "address":
        if wanted.kind == "value":
            return f"operand {wanted.slot.name} is not an address; load the value with ld first"
        return _wrong_kind(wanted, "an address")
    base = operand.base
    if isinstance(base, Register):
        if base.type in _POINTERS:
            return None
        return f"an address needs a 32-bit or 64-bit integer register, got '{_shown(base)}' of type .{base.type}"
    if isinstance(base, Immediate):
        return None
    return _address_space(base, operand, item, context)


def _address_space(base: Symbol, operand: Address, item: Instruction, context: Context) -> str | None:
    space = context.space(base.name)
    if space == "function":
        return f"'{base.name}' is a function: it cannot be loaded from or stored to"
    stated = next((modifier for modifier in item.modifiers if modifier in SPACES), None)
    if base.name in context.params and item.opcode in _WRITING:
        return f"the parameter '{base.name}' can be read only"
    if stated is not None and stated.partition("::")[0] != space:
        return f"'{base.name}' is in .{space}, but the instruction accesses .{stated}"
    return None


def _vector(operand: Operand, wanted: Expected, item: Instruction, context: Context) -> str | None:
    assert isinstance(operand, VectorOperand)
    if wanted.kind in ("list", "labels", "coords"):
        return None
    if wanted.kind == "fragment":
        return _fragment(operand, item)
    if item.opcode == "mov":
        return _packed(operand, wanted, item)
    if not wanted.lanes:
        return f"operand {wanted.slot.name} must not be a vector here"
    if len(operand.elements) != wanted.lanes:
        return _needs_vector(wanted, f"one of {len(operand.elements)}")
    return _elements(operand, wanted, wanted.registers, _dotted(wanted))


def _fragment(operand: VectorOperand, item: Instruction) -> str | None:
    """Registers of 32 bits, or of 64 in products of doubles."""
    width = 64 if "f64" in item.types else 32
    for element in operand.elements:
        if not isinstance(element, Register) or TYPE_BITS[element.type] != width:
            return f"the elements of a matrix must be registers of {width} bits"
    return None


def _packed(operand: VectorOperand, wanted: Expected, item: Instruction) -> str | None:
    """``mov.b32 %r1, {%rs1, %rs2}`` and back: the elements share the width equally."""
    count, width = len(operand.elements), TYPE_BITS[wanted.type]
    if wanted.type[0] != "b" or width < 16 or count not in (2, 4) or width // count < 8:
        return f"mov.{wanted.type} cannot pack or unpack {count} elements; use .b32, .b64 or .b128 with 2 or 4"
    if all(isinstance(other, VectorOperand) for other in item.operands):
        return "only one side of a mov can be a vector"
    element = f"b{width // count}"
    fits = frozenset(name for name, bits in TYPE_BITS.items() if bits == width // count)
    return _elements(operand, wanted, fits, f".{element}")


def _elements(operand: VectorOperand, wanted: Expected, fits: frozenset[str], allowed: str) -> str | None:
    types: set[str] = set()
    for element in operand.elements:
        match element:
            case Register() if element.type not in fits:
                found = f"'{_shown(element)}' of type .{element.type}"
                return f"vector elements must be registers of type {allowed}, got {found}"
            case Register():
                types.add(element.type)
            case Immediate() if not wanted.is_destination:
                continue
            case Sink() if wanted.is_destination:
                continue
            case _:
                return f"vector elements must be registers of type {allowed}"
    if wanted.lanes and len({TYPE_BITS[type_] for type_ in types}) > 1:
        return "all elements of a vector must have the same width"
    return None


def _sink(operand: Operand, wanted: Expected, item: Instruction, context: Context) -> str | None:
    arrives = item.opcode == "mbarrier" and (item.has("arrive") or item.has("arrive_drop"))
    if wanted.is_destination and (arrives or item.opcode in _DISCARDING):
        return None
    return f"operand {wanted.slot.name} cannot be '_' here"


def _label(operand: Operand, wanted: Expected, item: Instruction, context: Context) -> str | None:
    assert isinstance(operand, Label)
    if wanted.kind != "label":
        return _wrong_kind(wanted, f"the label '{_shown(operand)}'")
    return None if operand.name in context.labels else f"label '{_shown(operand)}' is not in this function"


def _wrong_kind(wanted: Expected, found: str) -> str:
    what = _WANTED.get(wanted.kind)
    if wanted.kind == "constant" and wanted.slot.range is not None:
        what = "a constant from {} to {}".format(*wanted.slot.range)
    return f"operand {wanted.slot.name} must be {what or 'a register'}, not {found}"


def _needs_vector(wanted: Expected, found: str) -> str:
    return f"operand {wanted.slot.name} must be a vector of {wanted.lanes} elements, not {found}"


def _dotted(wanted: Expected) -> str:
    names: Iterable[str] = sorted(wanted.registers, key=lambda name: (TYPE_BITS[name], name))
    return " ".join(f".{name}" for name in names)


def _shown(named: Register | Label) -> str:
    """The name as the text has it, without the suffix that makes it unique."""
    return named.name.partition("#")[0]


OPERAND_RULES: Final[Mapping[type, OperandRule]] = {
    Register: _register,
    SpecialRegister: _special,
    Immediate: _immediate,
    Symbol: _symbol,
    Address: _address,
    VectorOperand: _vector,
    Sink: _sink,
    Label: _label,
}
