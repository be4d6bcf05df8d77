"""From PTX text to a module's description and to a kernel's object code."""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from zcuda_async.jit.async_copy import expand_copies
from zcuda_async.jit.cfg import ControlFlow, build_control_flow, is_warp_barrier
from zcuda_async.jit.choose import choose_geometry
from zcuda_async.jit.function import ENTRY, needs_coroutines, write_module
from zcuda_async.jit.geometry import Geometry
from zcuda_async.jit.host import host_target, initialise_llvm
from zcuda_async.jit.induction import split_pointers
from zcuda_async.jit.info import KernelCode, KernelInfo, ModuleInfo, ParamInfo, VariableInfo
from zcuda_async.jit.inline import Program, RefusedCallError, expand_calls, services_of
from zcuda_async.jit.layout import function_layout, globals_layout, kernel_layout
from zcuda_async.jit.lower import WARP_OPCODES
from zcuda_async.jit.lower.group import Group, Target
from zcuda_async.jit.outofline import Callee, join_before_calls, prepare_callees, waiting_of_all
from zcuda_async.jit.pipeline import assemble
from zcuda_async.jit.registers import reads
from zcuda_async.jit.shapes import analyse
from zcuda_async.jit.splitting import split_definitions
from zcuda_async.jit.stackalloc import expand_allocations
from zcuda_async.jit.sync import Waiting, find_spins, join_before_exchanges, normalise_barriers, ways_of_waiting
from zcuda_async.ptx.addresses import function_addresses
from zcuda_async.ptx.errors import PtxError
from zcuda_async.ptx.ir import Function, Instruction, Module, Span
from zcuda_async.ptx.linker import parse_texts, split_texts

__all__ = ("compile_kernel", "generate_ir", "inspect_module")

_PARSED: OrderedDict[tuple[str, str], Module] = OrderedDict()
_PARSED_LIMIT: Final = 8
_LARGEST_IMAGE: Final = 1 << 30
_LARGEST_FRAME: Final = 8 << 20
"""Bytes of local memory that a group should not exceed: workers have tens of megabytes for all groups of a block."""

_MOST_PARTS_CALLING: Final = 2
"""Where functions are called out of line, every part's registers go to the stack."""


def _parse(text: str, filename: str) -> Module:
    """Parse, remembering the last few modules: a module's kernels are compiled one by one."""
    key = (text, filename)
    module = _PARSED.get(key)
    if module is None:
        module = parse_texts(text, filename)
        _PARSED[key] = module
        while len(_PARSED) > _PARSED_LIMIT:
            _PARSED.popitem(last=False)
    return module


def inspect_module(text: str, filename: str = "<ptx>") -> ModuleInfo:
    """Parse and verify PTX; what it holds.

    Raises:
        PtxError: The text is malformed or uses something unsupported at module level.
    """
    module = _parse(text, filename)
    offsets, size = globals_layout(module)
    image = _blank_image(module, offsets, text, filename)
    functions = function_addresses(module)
    relocations: list[tuple[int, int]] = []
    variables = []
    for variable in module.variables:
        if variable.name not in offsets:
            continue
        at = offsets[variable.name]
        variables.append(VariableInfo(variable.name, variable.space, at, variable.size or 0))
        if variable.initial:
            image[at : at + len(variable.initial)] = variable.initial
        for where, symbol, addend in variable.relocations:
            if symbol in functions:
                struct.pack_into("<Q", image, at + where, functions[symbol] + addend)
                continue
            if symbol not in offsets:
                message = f"the address of {symbol} in an initialiser is not supported yet"
                raise _error(text, filename, variable.span, message)
            relocations.append((at + where, offsets[symbol] + addend))
    kernels = tuple(_kernel_info(module, function) for function in module.functions if function.is_entry)
    return ModuleInfo(kernels, tuple(variables), bytes(image), tuple(relocations), size)


def _blank_image(module: Module, offsets: Mapping[str, int], text: str, filename: str) -> bytearray:
    """Zeros up to the end of the last initial value."""
    end = 0
    for variable in module.variables:
        if variable.initial and variable.name in offsets:
            end = max(end, offsets[variable.name] + len(variable.initial))
            if end > _LARGEST_IMAGE:
                message = f"initial values of variables that take more than {_LARGEST_IMAGE} bytes are not supported"
                raise _error(text, filename, variable.span, message)
    return bytearray(end)


def _error(text: str, filename: str, span: Span, message: str) -> PtxError:
    """An error that shows its line, in whichever of the linked texts that is."""
    name, source = split_texts(text, filename)[span.unit]
    lines = source.splitlines()
    return PtxError(message, name, span, lines[span.line - 1] if span.line <= len(lines) else "")


def _kernel_info(module: Module, function: Function) -> KernelInfo:
    program = Program(function)
    with suppress(RefusedCallError):  # raised again, with its place, when the kernel is compiled
        program = expand_calls(module, function)
    function = program.kernel
    layout = kernel_layout(module, function)
    directives = dict(function.directives)
    required = directives.get("reqntid")
    limit = directives.get("maxntid")
    cluster = directives.get("reqnctapercluster")
    threads = 1024
    shape = required or limit
    if shape:
        threads = 1
        for size in shape:
            threads *= size
    params = tuple(ParamInfo(p.name, p.type, p.size, p.align, p.offset, p.count) for p in function.params)
    return KernelInfo(
        name=function.name,
        params=params,
        param_bytes=max((p.offset + p.size for p in params), default=0),
        static_shared=layout.static_shared,
        max_threads=min(threads, 1024),
        required_block=(*required, 1, 1)[:3] if required else None,  # type: ignore[arg-type]
        uses_dynamic_shared=layout.uses_dynamic_shared,
        cluster=(*cluster, 1, 1)[:3] if cluster else None,  # type: ignore[arg-type]
        services=services_of(program),
    )


def generate_ir(
    text: str, filename: str, kernel: str, block: tuple[int, int, int], *, target: Target, parts: int | None = None
) -> tuple[str, bool, int]:
    """LLVM IR text of one kernel at one block shape, whether it has coroutines, and its static shared bytes.

    Args:
        text: The PTX module.
        filename: Its name in error messages.
        kernel: Name of the ``.entry``.
        block: Threads per block, (x, y, z).
        target: The processor to generate for.
        parts: Parts per group; None lets `choose_geometry` decide.
    """
    module = _parse(text, filename)
    function = next((f for f in module.functions if f.is_entry and f.name == kernel), None)
    if function is None:
        raise KeyError(kernel)

    def refuse(instruction: Instruction, reason: str) -> PtxError:
        return _error(text, filename, instruction.span, f"{instruction.opcode}: {reason}")

    try:
        program = expand_calls(module, function)
    except RefusedCallError as refused:
        raise refuse(refused.instruction, refused.reason) from None
    called = tuple(expand_copies(expand_allocations(function)) for function in program.functions)
    kept = program.kept
    program = Program(expand_allocations(program.kernel), called, kept)
    layout = kernel_layout(module, program.kernel)
    everyone = _threads_of_all(program, block)
    callees, waiting_functions = prepare_callees(program.functions, everyone, refuse)
    function, flow, waiting = _prepare(join_before_calls(program.kernel, waiting_functions), everyone)
    waiting = waiting_of_all(waiting, callees, waiting_functions)
    program = Program(function, tuple(callee.function for callee in callees))
    instructions = program.instructions
    needs_warps = waiting.counts_threads or any(
        item.opcode in WARP_OPCODES or is_warp_barrier(item) for item in instructions
    )
    if parts is None:
        geometry = choose_geometry(flow, layout, block, target.lanes, needs_warps=needs_warps)
        if program.functions and not needs_warps:
            geometry = Geometry(block, target.lanes, min(geometry.parts, _MOST_PARTS_CALLING))
        while geometry.width > 32 and layout.local_size * geometry.width > _LARGEST_FRAME:
            geometry = Geometry(block, target.lanes, geometry.parts // 2)
    else:
        geometry = Geometry(block, target.lanes, parts)
    read_names = frozenset(register.name for item in instructions for register in reads(item))
    group = Group(analyse(flow, geometry, layout), layout, target, read_names, refuse)
    group.waiting_functions = waiting_functions
    functions = [(callee.function, _function_group(module, callee, group, kept)) for callee in callees]
    ir = write_module(group, waiting, functions, llvm_major=initialise_llvm())
    return ir, needs_coroutines(waiting, geometry), layout.static_shared


def _function_group(module: Module, callee: Callee, kernel: Group, kept: frozenset[str]) -> Group:
    """The group of a function that is called out of line; it shares the kernel's geometry and shared memory."""
    layout = function_layout(module, callee.function, kernel.layout)
    if callee.function.name in kept:  # expanded, it would take nothing from the thread's stack
        layout = replace(layout, frame_bytes=0)
    analysis = analyse(callee.flow, kernel.geometry, layout, partial=True)
    return Group(analysis, layout, kernel.target, kernel.read_names, kernel.refuse)


def _threads_of_all(program: Program, block: tuple[int, int, int]) -> int:
    """How many threads a barrier names that waits for all; 0 if threads may arrive, and exit before it opens."""
    arrives = any(item.opcode in ("bar", "barrier") and item.has("arrive") for item in program.instructions)
    return 0 if arrives else block[0] * block[1] * block[2]


def _prepare(function: Function, everyone: int) -> tuple[Function, ControlFlow, Waiting]:
    """Barriers in their one form, and the control flow with its spin loops."""
    function = normalise_barriers(expand_copies(function), everyone)
    function = split_pointers(split_definitions(function))
    flow = build_control_flow(function)
    spins = find_spins(function, flow)
    if spins:
        function = join_before_exchanges(function)
        flow = build_control_flow(function)
        flow = replace(flow, spins=find_spins(function, flow))
    return function, flow, ways_of_waiting(function, spins=bool(spins))


def compile_kernel(text: str, filename: str, kernel: str, block: tuple[int, int, int]) -> KernelCode:
    """Object code of one kernel for one block shape, for this host.

    Raises:
        PtxError: The text is malformed, or the kernel uses something unsupported.
        KeyError: The module has no such kernel.
    """
    target = host_target()
    ir, suspends, static_shared = generate_ir(text, filename, kernel, block, target=target)
    return KernelCode(kernel, block, ENTRY, assemble(ir, target, suspends=suspends), static_shared)
