"""Calls of device functions, expanded in place before anything else looks at the kernel.

    { .param .b32 param0; st.param.f32 [param0], %f1;          mov.b32 param0@0, %f1
      .param .b32 retval0; call (retval0), square, (param0); → mov.b32 %f1~1, param0@0
      ld.param.f32 %f2, [retval0]; }                           …  mov.b32 %f2, retval0@0

The callee's parameters become the caller's parameter variables, its registers and labels get names
of their own, and its ``ret`` a jump behind the call.  Parameter variables that are only ever accessed
at constant offsets, always the same way, then turn into registers; the others into local memory.
Recursion and calls through pointers have no such form and are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from zcuda_async.ptx.ir import (
    TYPE_BITS,
    Address,
    Function,
    Guard,
    Instruction,
    Label,
    Module,
    Operand,
    Register,
    Symbol,
    Variable,
    VectorOperand,
)

__all__ = ("RefusedCallError", "inline_calls", "services_of")

_LARGEST: Final = 200_000
"""Instructions that a kernel may grow to."""


_BUILT_IN: Final = {"__assertfail": "assert"}
"""Functions that the compiler knows, and the kind of trap that a call of them is."""


_SERVICES: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "vprintf": (("b32",), ("b64", "b64")),
    "malloc": (("b64",), ("b64",)),
    "free": ((), ("b64",)),
}
"""Functions of CUDA's device runtime that have a lowering of their own: types of their results and parameters."""


_SERVICE_OF: Final = {"vprintf": "printf", "malloc": "heap", "free": "heap"}


class RefusedCallError(Exception):
    """A call cannot be expanded: the instruction and the reason."""

    def __init__(self, instruction: Instruction, reason: str) -> None:
        super().__init__(instruction, reason)
        self.instruction = instruction
        self.reason = reason


Item = Instruction | Label


@dataclass(frozen=True, slots=True)
class _Renaming:
    """How one expanded body's names differ from the function's own."""

    suffix: str
    symbols: Mapping[str, str]

    def operand(self, operand: Operand) -> Operand:
        match operand:
            case Register(name, kind):
                return Register(name + self.suffix, kind)
            case Label(name):
                return Label(name + self.suffix)
            case Symbol(name, offset):
                return Symbol(self.symbols.get(name, name), offset)
            case Address(base, offset):
                return Address(self.operand(base), offset)  # type: ignore[arg-type]
            case VectorOperand(elements):
                return VectorOperand(tuple(self.operand(element) for element in elements))
            case _:
                return operand

    def guard(self, guard: Guard | None) -> Guard | None:
        if guard is None:
            return None
        return Guard(Register(guard.register.name + self.suffix, guard.register.type), guard.negated)

    def instruction(self, instruction: Instruction) -> Instruction:
        second = instruction.second_destination
        if isinstance(second, Register):
            second = Register(second.name + self.suffix, second.type)
        return replace(
            instruction,
            operands=tuple(self.operand(operand) for operand in instruction.operands),
            guard=self.guard(instruction.guard),
            second_destination=second,
        )


class _Expansion:
    """The body that a kernel grows into."""

    def __init__(self, module: Module) -> None:
        self.functions = {function.name: function for function in module.functions if not function.is_entry}
        self.body: list[Item] = []
        self.variables: list[Variable] = []
        self.count = 0

    def expand(self, function: Function, renaming: _Renaming, end: Label | None, stack: tuple[str, ...]) -> None:
        """Append `function`'s body; its ``ret`` goes to `end` (None: stays)."""
        for item in function.body:
            if len(self.body) > _LARGEST:
                raise RefusedCallError(
                    _first_call(function), f"expanding its calls gives over {_LARGEST:,} instructions"
                )
            if isinstance(item, Label):
                self.body.append(renaming.operand(item))  # type: ignore[arg-type]
            elif item.opcode == "call":
                self._expand_call(renaming.instruction(item), item, stack)
            elif item.opcode == "ret" and end is not None:
                self.body.append(_jump(item, end, renaming.guard(item.guard)))
            else:
                self.body.append(renaming.instruction(item))

    def _expand_call(self, call: Instruction, written: Instruction, stack: tuple[str, ...]) -> None:
        returns, target, arguments = call.operands[:3]
        assert isinstance(returns, VectorOperand)
        assert isinstance(arguments, VectorOperand)
        if not isinstance(target, Symbol):
            raise RefusedCallError(written, "a call through a pointer is not supported yet")
        if target.name in _BUILT_IN:
            self.body.append(replace(call, opcode="trap", modifiers=(_BUILT_IN[target.name],), operands=()))
            return
        callee = self.functions.get(target.name)
        if callee is None and target.name in _SERVICES:
            self._expand_service(call, written, target.name)
            return
        if callee is None:
            raise RefusedCallError(
                written, f"the function {target.name} has no body here, and is not one that is built in"
            )
        if callee.name in stack:
            raise RefusedCallError(written, f"{callee.name} calls itself; recursion is not supported yet")
        if len(callee.params) != len(arguments.elements) or len(callee.returns) != len(returns.elements):
            raise RefusedCallError(written, f"{callee.name} takes other parameters than it is given here")
        self.count += 1
        suffix = f"~{self.count}"
        end = Label(f"return{suffix}")
        if call.guard is not None:
            self._skip(call, end)
        inputs = zip(callee.params, arguments.elements, strict=True)
        symbols = {param.name: self._argument(written, operand, param.type) for param, operand in inputs}
        outputs = list(zip(callee.returns, returns.elements, strict=True))
        symbols.update((param.name, self._variable(written, operand, param.type)) for param, operand in outputs)
        for variable in callee.variables:
            if variable.space in ("local", "param"):
                symbols[variable.name] = variable.name + suffix
                variable = replace(variable, name=variable.name + suffix)  # noqa: PLW2901
            if all(variable.name != other.name for other in self.variables):
                self.variables.append(variable)
        self.expand(callee, _Renaming(suffix, symbols), Label(f"body{suffix}"), (*stack, callee.name))
        self.body.append(Label(f"body{suffix}"))
        for param, operand in outputs:
            self._result(call, operand, symbols[param.name], param.type)
        if call.guard is not None:
            self.body.append(end)

    def _skip(self, call: Instruction, end: Label) -> None:
        """Jump over what a guarded call becomes."""
        assert call.guard is not None
        self.body.append(_jump(call, end, Guard(call.guard.register, not call.guard.negated)))

    def _expand_service(self, call: Instruction, written: Instruction, name: str) -> None:
        """A call of the device runtime: an instruction of its own, between moves from and to the parameters."""
        results, parameters = _SERVICES[name]
        returns, arguments = call.operands[0], call.operands[2]
        assert isinstance(returns, VectorOperand)
        assert isinstance(arguments, VectorOperand)
        if (len(returns.elements), len(arguments.elements)) != (len(results), len(parameters)):
            raise RefusedCallError(written, f"{name} takes other parameters than it is given here")
        self.count += 1
        end = Label(f"return~{self.count}")
        if call.guard is not None:
            self._skip(call, end)
        kinds = (*results, *parameters)
        registers = [Register(f"{name}~{self.count}@{index}", kind) for index, kind in enumerate(kinds)]
        plain = replace(call, guard=None, modifiers=(), types=())
        for register, operand in zip(registers[len(results) :], arguments.elements, strict=True):
            at = Address(Symbol(self._argument(written, operand, register.type)))
            self.body.append(_load(plain, register, at))
        self.body.append(replace(plain, opcode=name, operands=tuple(registers)))
        for register, operand in zip(registers, returns.elements, strict=False):
            at = Address(Symbol(self._variable(written, operand, register.type)))
            self.body.append(_store(plain, at, register))
            self._result(call, operand, at.base.name, register.type)  # type: ignore[union-attr]
        if call.guard is not None:
            self.body.append(end)

    def _variable(self, call: Instruction, operand: Operand, kind: str) -> str:
        """The ``.param`` variable that an argument or a result is; a new one where it is a register or a number."""
        if isinstance(operand, Symbol):
            return operand.name
        if isinstance(operand, VectorOperand | Address | Label):
            raise RefusedCallError(call, "an argument must be a .param variable, a register or a number")
        name = f"argument~{len(self.variables)}"
        size = TYPE_BITS[kind] // 8
        self.variables.append(Variable(name, "param", kind, size, size, call.span))
        return name

    def _argument(self, call: Instruction, operand: Operand, kind: str) -> str:
        name = self._variable(call, operand, kind)
        if not isinstance(operand, Symbol):
            self.body.append(_store(replace(call, guard=None), Address(Symbol(name)), operand, kind))
        return name

    def _result(self, call: Instruction, operand: Operand, name: str, kind: str) -> None:
        if isinstance(operand, Register):
            self.body.append(_load(replace(call, guard=None), operand, Address(Symbol(name)), kind))


def _load(at: Instruction, register: Register, address: Address, kind: str = "") -> Instruction:
    return replace(at, opcode="ld", modifiers=("param",), types=(kind or register.type,), operands=(register, address))


def _store(at: Instruction, address: Address, value: Operand, kind: str = "") -> Instruction:
    kind = kind or getattr(value, "type", "")
    return replace(at, opcode="st", modifiers=("param",), types=(kind,), operands=(address, value))


def _first_call(function: Function) -> Instruction:
    return next(item for item in function.body if isinstance(item, Instruction))


def _jump(at: Instruction, target: Label, guard: Guard | None) -> Instruction:
    return Instruction("bra", (), (), (target,), at.span, guard)


# ---------------------------------------------------------------------- parameter variables


@dataclass(frozen=True, slots=True)
class _Access:
    """One element of a parameter variable that an instruction reads or writes."""

    variable: str
    offset: int
    bits: int


def _accesses(instruction: Instruction, names: Mapping[str, Variable]) -> list[_Access] | None:
    """The parameter accesses of a ``ld.param``/``st.param``; None if it names one in any other way."""
    mentioned = [name for operand in instruction.operands for name in _symbols(operand) if name in names]
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


def _symbols(operand: Operand) -> Iterable[str]:
    match operand:
        case Symbol(name):
            yield name
        case Address(Symbol(name)):
            yield name
        case VectorOperand(elements):
            for element in elements:
                yield from _symbols(element)


def _registers_for(body: list[Item], names: Mapping[str, Variable]) -> set[str]:
    """The parameter variables that can be registers: one width at each offset, and no overlaps."""
    pieces: dict[str, dict[int, int]] = {}
    refused: set[str] = set()
    for item in body:
        if isinstance(item, Label):
            continue
        found = _accesses(item, names)
        if found is None:
            refused.update(name for operand in item.operands for name in _symbols(operand) if name in names)
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


def _place_parameters(body: list[Item], variables: list[Variable]) -> tuple[list[Item], list[Variable]]:
    """Turn parameter variables into registers where possible, into local memory elsewhere."""
    names = {variable.name: variable for variable in variables if variable.space == "param"}
    if not names:
        return body, variables
    as_registers = _registers_for(body, names)
    placed: list[Item] = []
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


def inline_calls(module: Module, function: Function) -> Function:
    """`function` without calls.

    Raises:
        RefusedCallError: It calls through a pointer, recursively, or a function without a body.
    """
    items = [item for item in function.body if isinstance(item, Instruction)]
    if all(item.opcode != "call" for item in items) and all(v.space != "param" for v in function.variables):
        return function
    expansion = _Expansion(module)
    expansion.variables += function.variables
    expansion.expand(function, _Renaming("", {}), None, (function.name,))
    body, variables = _place_parameters(expansion.body, expansion.variables)
    return replace(function, body=tuple(body), variables=tuple(variables))


def services_of(function: Function) -> tuple[str, ...]:
    """The services (see `abi.SERVICES_FIELDS`) that an expanded function needs."""
    opcodes = {item.opcode for item in function.body if isinstance(item, Instruction)}
    return tuple(sorted({_SERVICE_OF[opcode] for opcode in opcodes & _SERVICE_OF.keys()}))
