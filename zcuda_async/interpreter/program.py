"""Functions ready to run: instructions as steps, labels as places, variables at addresses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from zcuda_async.interpreter.steps import make_step
from zcuda_async.interpreter.thread import FunctionCode, InterpreterError, Place, Step, line_of
from zcuda_async.ptx.ir import Function, Instruction, Label, Module, Param, Variable

__all__ = ("Code", "Programs")


@dataclass(slots=True)
class Code(FunctionCode):
    """One function; a step is made when it is first reached, so unused instructions need no meaning."""

    steps: list[Step | None] = field(default_factory=list)
    labels: dict[str, int] = field(default_factory=dict)

    def step(self, at: int) -> Step:
        """The step of instruction `at`.

        Raises:
            InterpreterError: The interpreter has no such instruction.
        """
        found = self.steps[at]
        if found is None:
            instruction = self.instructions[at]
            try:
                found = self.steps[at] = make_step(instruction, self.first_place + at, self.labels)
            except LookupError as error:
                raise InterpreterError(f"{line_of(instruction)}: not supported ({error})") from error
        return found


class Programs:
    """The functions of a module.  Static shared variables of all of them share one layout."""

    def __init__(self, module: Module, kernel: Function) -> None:
        functions = [function for function in module.functions if not function.is_entry or function is kernel]
        self.codes: dict[str, FunctionCode] = {}
        shared = [(None, v) for v in module.variables if v.space == "shared"]
        owned = [(function.name, v) for function in functions for v in function.variables if v.space == "shared"]
        places, self.shared_size = _shared_layout([*shared, *owned])
        module_local, self.local_size = _layout((v for v in module.variables if v.space == "local"), 0)
        first = 0
        for function in functions:
            variables = {
                name: Place("shared", at) for (owner, name), at in places.items() if owner in (None, function.name)
            }
            variables.update((name, Place("local", at)) for name, at in module_local.items())
            self.codes[function.name] = _code(function, variables, first)
            first += len(function.body)


def _code(function: Function, outer: Mapping[str, Place], first_place: int) -> Code:
    instructions = [item for item in function.body if isinstance(item, Instruction)]
    labels: dict[str, int] = {}
    at = 0
    for item in function.body:
        if isinstance(item, Label):
            labels[item.name] = at
        else:
            at += 1
    local, frame_size = _layout((v for v in function.variables if v.space == "local"), 0)
    variables = dict(outer)
    variables.update((name, Place("local", where, in_frame=True)) for name, where in local.items())
    param_size = _add_params(function, variables)
    return Code(
        name=function.name,
        instructions=instructions,
        first_place=first_place,
        variables=variables,
        params=function.params,
        returns=function.returns,
        frame_size=frame_size,
        param_size=param_size,
        steps=[None] * len(instructions),
        labels=labels,
    )


def _add_params(function: Function, variables: dict[str, Place]) -> int:
    """Give parameters their offsets, and return values and the body's own ``.param`` variables those behind."""
    end = 0
    for param in function.params:
        variables[param.name] = Place("param", param.offset, size=param.size, in_frame=True)
        end = max(end, param.offset + param.size)
    own: list[Param | Variable] = [*function.returns, *(v for v in function.variables if v.space == "param")]
    for variable in own:
        end = -(-end // 16) * 16
        variables[variable.name] = Place("param", end, size=variable.size or 0, in_frame=True)
        end += variable.size or 0
    return -(-end // 16) * 16


def _layout(variables: Iterable[Variable], start: int) -> tuple[dict[str, int], int]:
    """Addresses of variables one after another, and the end."""
    addresses, end = {}, start
    for variable in variables:
        end = -(-end // variable.align) * variable.align
        addresses[variable.name] = end
        end += variable.size or 0
    return addresses, end


def _shared_layout(variables: list[tuple[str | None, Variable]]) -> tuple[dict[tuple[str | None, str], int], int]:
    """Static shared variables, then the place where all the dynamic ones begin."""
    addresses: dict[tuple[str | None, str], int] = {}
    end = 0
    for owner, variable in variables:
        if variable.size is not None:
            end = -(-end // variable.align) * variable.align
            addresses[owner, variable.name] = end
            end += variable.size
    dynamic = [(owner, variable) for owner, variable in variables if variable.size is None]
    if dynamic:
        align = max(16, *(variable.align for _, variable in dynamic))
        end = -(-end // align) * align
        addresses.update(((owner, variable.name), end) for owner, variable in dynamic)
    return addresses, end
