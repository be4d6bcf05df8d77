"""Calls of device functions: a frame for each, arguments and results by way of ``.param`` memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from zcuda_async.interpreter.operands import address_of, reader, writer
from zcuda_async.interpreter.services import SERVICES
from zcuda_async.interpreter.thread import Exited, Frame, MemoryFaultError, Step, Thread, TrapError, Wait, line_of
from zcuda_async.ptx.ir import Instruction, Operand, Symbol, VectorOperand

__all__ = ("call_step", "leave", "ret_step")


_DEEPEST: Final = 10_000


def ret_step(_: Instruction, __: int, ___: Mapping[str, int]) -> Step:
    """``ret``: back to the caller, or the end of the thread."""
    return leave


def call_step(instruction: Instruction, _: int, __: Mapping[str, int]) -> Step:
    """``call (results), function, (arguments)``: a new frame, with the arguments copied into it."""
    results, callee, arguments = instruction.operands[:3]
    named = callee.name if isinstance(callee, Symbol) else ""
    pointer = None if named else reader(callee, "u64")
    assert isinstance(results, VectorOperand)
    assert isinstance(arguments, VectorOperand)

    def step(thread: Thread) -> None:
        launch = thread.block.launch
        name = named if pointer is None else launch.functions.get(pointer(thread), "behind the pointer")
        code = launch.codes.get(name)
        if code is None and name in SERVICES:
            _serve(thread, name, results.elements, arguments.elements)
            return
        if code is None:
            raise _without_body(instruction, name)
        if len(thread.frames) > _DEEPEST:
            raise MemoryFaultError(f"{line_of(instruction)}: calls are nested more than {_DEEPEST} deep")
        caller = thread.frame
        frame = Frame(code, len(thread.local), len(thread.params), results=results.elements)
        values = [
            _argument(thread, operand, param.type, param.size)
            for operand, param in zip(arguments.elements, code.params, strict=True)
        ]
        thread.local.extend(bytes(code.frame_size + -code.frame_size % 16))
        thread.params.extend(bytes(code.param_size))
        for param, value in zip(code.params, values, strict=True):
            start = frame.param_base + param.offset
            thread.params[start : start + param.size] = value
        thread.frames.append(caller)
        thread.frame = frame

    return step


def _without_body(instruction: Instruction, name: str) -> Exception:
    if name == "__assertfail":
        return TrapError(f"{line_of(instruction)}: a device assertion failed")
    return LookupError(f"{line_of(instruction)}: function {name} has no body")


def _serve(thread: Thread, name: str, results: tuple[Operand, ...], arguments: tuple[Operand, ...]) -> None:
    """A function of the device runtime."""
    service, sizes, result_size = SERVICES[name]
    data = [_argument(thread, operand, f"b{size * 8}", size) for operand, size in zip(arguments, sizes, strict=True)]
    value = service(thread, *[int.from_bytes(each, "little") for each in data])
    for operand in results:
        _result(thread, operand, f"b{result_size * 8}", value.to_bytes(result_size, "little"))


def _argument(thread: Thread, operand: Operand, kind: str, size: int) -> bytes:
    """The bytes of an argument: a ``.param`` variable's, or a register's or constant's."""
    if isinstance(operand, Symbol):
        start = address_of(thread, operand.name) + operand.offset
        return bytes(thread.params[start : start + size])
    return reader(operand, kind)(thread).to_bytes(size, "little")


def _result(thread: Thread, operand: Operand, kind: str, data: bytes) -> None:
    """Give the caller a result: in a ``.param`` variable, or in a register."""
    if isinstance(operand, Symbol):
        at = address_of(thread, operand.name) + operand.offset
        thread.params[at : at + len(data)] = data
    else:
        writer(operand, kind)(thread, int.from_bytes(data, "little"))


def leave(thread: Thread) -> Wait | None:
    """End the innermost call: its return values go where the caller wants them.  A kernel's own end is the thread's."""
    if not thread.frames:
        return Exited()
    frame, thread.frame = thread.frame, thread.frames.pop()
    for operand, result in zip(frame.results, frame.code.returns, strict=True):
        start = frame.param_base + frame.code.variables[result.name].offset
        _result(thread, operand, result.type, bytes(thread.params[start : start + result.size]))
    del thread.local[frame.local_base :]
    del thread.params[frame.param_base :]
    return None
