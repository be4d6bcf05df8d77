"""Calls of device functions, expanded in place before anything else looks at the kernel.

    { .param .b32 param0; st.param.f32 [param0], %f1;          mov.b32 param0@0, %f1
      .param .b32 retval0; call (retval0), square, (param0); → mov.b32 %f1~1, param0@0
      ld.param.f32 %f2, [retval0]; }                           …  mov.b32 %f2, retval0@0

The callee's parameters become the caller's parameter variables, its registers and labels get names
of their own, and its ``ret`` a jump behind the call.  Parameter variables that are only ever accessed
at constant offsets, always the same way, then turn into registers; the others into local memory.
Recursive functions, and what calls through pointers may mean, have no such form: they stay functions, which
get their arguments, and leave their results, in an area of their caller's local memory (see `lower.calls`).
So do functions that would make the kernel too large (see `callsize`).
``brx.idx`` becomes a chain of branches here, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from zcuda_async.jit.callgraph import CallGraph, build_call_graph
from zcuda_async.jit.callsize import functions_to_keep
from zcuda_async.jit.parameters import place_parameters
from zcuda_async.ptx.ir import (
    TYPE_BITS,
    Address,
    Function,
    Guard,
    Immediate,
    Instruction,
    Label,
    Module,
    Operand,
    Param,
    Register,
    Symbol,
    Variable,
    VectorOperand,
)

__all__ = (
    "CALL",
    "EXITED",
    "EXITED_OFFSET",
    "Program",
    "RefusedCallError",
    "argument_offsets",
    "expand_calls",
    "services_of",
)

CALL: Final = "call.out"
"""Pseudo-instruction: ``target, area, {functions}``, a call that was not expanded; target is a name or a register."""

EXITED: Final = "~exited"
"""In a function that stays one: the word of its area that says whether the thread has ended."""

EXITED_OFFSET: Final = 0

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
    """The body that a kernel, or a function that stays one, grows into.

    `called` are the functions that it calls out of line.
    """

    def __init__(self, module: Module, graph: CallGraph, *, is_kernel: bool) -> None:
        self.functions = {function.name: function for function in module.functions if not function.is_entry}
        self.graph = graph
        self.is_kernel = is_kernel
        self.called: dict[str, None] = {}
        self.body: list[Item] = []
        self.variables: dict[str, Variable] = {}
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
            elif item.opcode == "brx":
                self._expand_switch(renaming.instruction(item))
            elif item.opcode == "exit" and not self.is_kernel:
                self._expand_exit(renaming.instruction(item))
            elif item.opcode == "ret" and end is not None:
                self.body.append(_jump(item, end, renaming.guard(item.guard)))
            else:
                self.body.append(renaming.instruction(item))

    def _expand_call(self, call: Instruction, written: Instruction, stack: tuple[str, ...]) -> None:
        returns, target, arguments = call.operands[:3]
        assert isinstance(returns, VectorOperand)
        assert isinstance(arguments, VectorOperand)
        if not isinstance(target, Symbol):
            self._call_out_of_line(call, self._targets(call), target)
            return
        if target.name in _BUILT_IN:
            self.body.append(replace(call, opcode="trap", modifiers=(_BUILT_IN[target.name],), operands=()))
            return
        callee = self.functions.get(target.name)
        if callee is None and target.name in _SERVICES:
            self._expand_service(call, written, target.name)
            return
        if callee is None:
            raise RefusedCallError(written, _why_missing(target.name))
        if len(callee.params) != len(arguments.elements) or len(callee.returns) != len(returns.elements):
            raise RefusedCallError(written, f"{callee.name} takes other parameters than it is given here")
        if callee.name in self.graph.recursive:
            self._call_out_of_line(call, [callee], target)
            return
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
            self.variables.setdefault(variable.name, variable)
        saved = self._save_stack(call, callee)
        self.expand(callee, _Renaming(suffix, symbols), Label(f"body{suffix}"), (*stack, callee.name))
        self.body.append(Label(f"body{suffix}"))
        if saved is not None:
            self.body.append(replace(saved, opcode="stackrestore"))
        for param, operand in outputs:
            self._result(call, operand, symbols[param.name], param.type)
        if call.guard is not None:
            self.body.append(end)

    def _save_stack(self, call: Instruction, callee: Function) -> Instruction | None:
        """Remember where the stack is, if the function takes from it by ``alloca``."""
        if all(isinstance(item, Label) or item.opcode != "alloca" for item in callee.body):
            return None
        top = Register(f"stack~{self.count}", "b64")
        self.body.append(replace(call, opcode="stacksave", guard=None, modifiers=(), types=("u64",), operands=(top,)))
        return self.body[-1]  # type: ignore[return-value]

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

    # ------------------------------------------------------------------ calls that stay calls

    def _targets(self, call: Instruction) -> list[Function]:
        """The functions that a call through a pointer may mean: those with parameters of the sizes that it gives."""
        returns, arguments = call.operands[0], call.operands[2]
        assert isinstance(returns, VectorOperand)
        assert isinstance(arguments, VectorOperand)
        sizes = {variable.name: variable.size for variable in self.variables.values() if variable.space == "param"}

        def agrees(params: tuple[Param, ...], operands: tuple[Operand, ...]) -> bool:
            if len(params) != len(operands):
                return False
            found = [sizes.get(getattr(operand, "name", "")) for operand in operands]
            return all(size in (None, param.size) for size, param in zip(found, params, strict=True))

        candidates = (self.functions[name] for name in self.functions if name in self.graph.addressed)
        return [f for f in candidates if agrees(f.params, arguments.elements) and agrees(f.returns, returns.elements)]

    def _call_out_of_line(self, call: Instruction, targets: list[Function], target: Operand) -> None:
        """Put the arguments into an area in local memory, call, and get the results from there."""
        returns, arguments = call.operands[0], call.operands[2]
        assert isinstance(returns, VectorOperand)
        assert isinstance(arguments, VectorOperand)
        self.count += 1
        end = Label(f"return~{self.count}")
        if call.guard is not None:
            self._skip(call, end)
        plain = replace(call, guard=None, modifiers=(), types=())
        area = f"area~{self.count}"
        params = (*targets[0].params, *targets[0].returns) if targets else ()
        offsets, size = argument_offsets(params)
        self.variables[area] = Variable(area, "local", "b8", size, 16, call.span)
        for param, operand, offset in zip(params, arguments.elements, offsets, strict=False):
            self._copy(plain, param, operand, Symbol(area, offset), is_result=False)
        self.called.update((function.name, None) for function in targets)
        names = VectorOperand(tuple(Symbol(function.name) for function in targets))
        self.body.append(replace(plain, opcode=CALL, operands=(target, Symbol(area), names)))
        if self.graph.may_exit:
            self._leave_with_callee(plain, Symbol(area, EXITED_OFFSET))
        first = len(arguments.elements)
        for param, operand, offset in zip(params[first:], returns.elements, offsets[first:], strict=False):
            self._copy(plain, param, operand, Symbol(area, offset), is_result=True)
        if call.guard is not None:
            self.body.append(end)

    def _copy(self, plain: Instruction, param: Param, operand: Operand, area: Symbol, *, is_result: bool) -> None:
        """Move an argument to its place in the area, or a result from there."""
        if isinstance(operand, Register) and is_result:
            self.body.append(_local(_load(plain, operand, Address(area), param.type)))
            return
        if not isinstance(operand, Symbol):
            self.body.append(_local(_store(plain, Address(area), operand, param.type)))
            return
        for start, kind in _pieces(param):
            self.count += 1
            register = Register(f"piece~{self.count}", kind)
            at = Address(Symbol(area.name, area.offset + start))
            variable = Address(Symbol(operand.name, operand.offset + start))
            if is_result:
                self.body += [_local(_load(plain, register, at)), _store(plain, variable, register)]
            else:
                self.body += [_load(plain, register, variable), _local(_store(plain, at, register))]

    def _leave_with_callee(self, plain: Instruction, at: Symbol) -> None:
        """Threads that the callee has ended end here."""
        self.count += 1
        word, ended = Register(f"exited~{self.count}", "b32"), Register(f"ended~{self.count}", "pred")
        self.body.append(_local(_load(plain, word, Address(at))))
        compare = replace(plain, opcode="setp", modifiers=("ne",), types=("s32",), operands=(ended, word, Immediate(0)))
        self.body.append(compare)
        leave = replace(plain, opcode="exit", operands=(), guard=Guard(ended))
        if self.is_kernel:
            self.body.append(leave)
        else:
            self._expand_exit(leave)

    def _expand_exit(self, item: Instruction) -> None:
        """``exit`` in a function that stays one: its caller is told, and does the same."""
        one = _store(replace(item, modifiers=()), Address(Symbol(EXITED)), Immediate(1), "b32")
        self.body += [one, replace(item, opcode="ret", modifiers=(), types=(), operands=())]

    def _expand_switch(self, item: Instruction) -> None:
        """``brx.idx`` as a chain of branches."""
        index, targets = item.operands
        assert isinstance(targets, VectorOperand)
        self.count += 1
        skip = Label(f"switch~{self.count}")
        if item.guard is not None:
            self._skip(item, skip)
        plain = replace(item, guard=None, modifiers=("eq",), types=("u32",))
        *others, last = targets.elements
        assert isinstance(last, Label)
        for number, label in enumerate(others):
            assert isinstance(label, Label)
            hit = Register(f"switch~{self.count}@{number}", "pred")
            self.body.append(replace(plain, opcode="setp", operands=(hit, index, Immediate(number))))
            self.body.append(_jump(item, label, Guard(hit)))
        self.body.append(_jump(item, last, None))
        if item.guard is not None:
            self.body.append(skip)

    # ------------------------------------------------------------------ arguments

    def _variable(self, call: Instruction, operand: Operand, kind: str) -> str:
        """The ``.param`` variable that an argument or a result is; a new one where it is a register or a number."""
        if isinstance(operand, Symbol):
            return operand.name
        if isinstance(operand, VectorOperand | Address | Label):
            raise RefusedCallError(call, "an argument must be a .param variable, a register or a number")
        name = f"argument~{len(self.variables)}"
        size = TYPE_BITS[kind] // 8
        self.variables[name] = Variable(name, "param", kind, size, size, call.span)
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


def _why_missing(name: str) -> str:
    if name.startswith("cudaCG"):
        return f"{name}: grids that span several devices are not supported"
    if name.startswith(("cuda", "__cudaCDP2")):
        return f"{name} belongs to dynamic parallelism: kernels that launch kernels are not supported"
    return f"the function {name} has no body here, and is not one that is built in"


def _local(access: Instruction) -> Instruction:
    return replace(access, modifiers=("local",))


def _pieces(param: Param) -> list[tuple[int, str]]:
    """The offsets and types to copy a parameter by: as it is accessed most likely, so that it can be registers."""
    if param.count == 1 and param.type != "b8":
        return [(0, f"b{param.size * 8}")]
    width = min(param.align, 8)
    while param.size % width:
        width //= 2
    return [(start, f"b{width * 8}") for start in range(0, param.size, width)]


def argument_offsets(params: tuple[Param, ...]) -> tuple[list[int], int]:
    """Where a call's arguments and then its results lie in their area, and the area's size.

    They depend on sizes alone, which a call through a pointer knows; the word at `EXITED_OFFSET` comes first.
    """
    offsets, end = [], 16
    for param in params:
        offsets.append(end)
        end += -(-param.size // 16) * 16
    return offsets, end


def _first_call(function: Function) -> Instruction:
    return next(item for item in function.body if isinstance(item, Instruction))


def _jump(at: Instruction, target: Label, guard: Guard | None) -> Instruction:
    return Instruction("bra", (), (), (target,), at.span, guard)


# ---------------------------------------------------------------------- programs


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel without calls, but for those of `functions`, which call only each other.

    The kernel's variables include the shared ones of the functions.
    """

    kernel: Function
    functions: tuple[Function, ...] = ()
    kept: frozenset[str] = frozenset()
    """Those of the functions that only stay ones because the kernel would become too large."""

    @property
    def instructions(self) -> list[Instruction]:
        """Those of all bodies."""
        bodies = (function.body for function in (self.kernel, *self.functions))
        return [item for body in bodies for item in body if isinstance(item, Instruction)]


def expand_calls(module: Module, kernel: Function) -> Program:
    """A kernel's program.

    Raises:
        RefusedCallError: It calls a function without a body, or that has a form which is not supported.
    """
    items = [item for item in kernel.body if isinstance(item, Instruction)]
    if all(item.opcode not in ("call", "brx") for item in items) and all(v.space != "param" for v in kernel.variables):
        return Program(kernel)
    graph = build_call_graph(module)
    kept = functions_to_keep(module, kernel, graph)
    graph = replace(graph, recursive=graph.recursive | kept)
    known = {function.name: function for function in module.functions}
    done: dict[str, Function] = {}
    waiting = [kernel.name]
    while waiting:
        name = waiting.pop()
        if name not in done:
            done[name], called = _expand_function(module, graph, known[name])
            waiting += reversed(called)
    kernel = done.pop(kernel.name)
    shared = [v for function in done.values() for v in function.variables if v.space == "shared"]
    own = {variable.name for variable in kernel.variables}
    extra = {variable.name: variable for variable in shared if variable.name not in own}
    return Program(replace(kernel, variables=(*kernel.variables, *extra.values())), tuple(done.values()), kept)


def _expand_function(module: Module, graph: CallGraph, function: Function) -> tuple[Function, list[str]]:
    """A function with its calls expanded, and the functions that it calls nevertheless."""
    expansion = _Expansion(module, graph, is_kernel=function.is_entry)
    expansion.variables |= {variable.name: variable for variable in function.variables}
    if graph.may_exit and not function.is_entry:
        first = _first_call(function)
        expansion.body.append(
            _store(replace(first, guard=None, second_destination=None), Address(Symbol(EXITED)), Immediate(0), "b32")
        )
    expansion.expand(function, _Renaming("", {}), None, (function.name,))
    body, variables = place_parameters(expansion.body, list(expansion.variables.values()))
    return replace(function, body=tuple(body), variables=tuple(variables)), list(expansion.called)


def services_of(program: Program) -> tuple[str, ...]:
    """The services (see `abi.SERVICES_FIELDS`) that a kernel needs."""
    opcodes = {item.opcode for item in program.instructions}
    return tuple(sorted({_SERVICE_OF[opcode] for opcode in opcodes & _SERVICE_OF.keys()}))
