"""Where variables live: in the shared window, in a lane's local frame, in the globals image."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from zcuda_async.jit.inline import EXITED, EXITED_OFFSET, argument_offsets
from zcuda_async.ptx.addresses import function_addresses
from zcuda_async.ptx.ir import Function, Module, Variable

__all__ = ("KernelLayout", "align_up", "function_layout", "globals_layout", "kernel_layout")

_DYNAMIC_ALIGN = 16


def align_up(value: int, align: int) -> int:
    """The first multiple of `align` that is not below `value`."""
    return -(-value // align) * align


@dataclass(frozen=True, slots=True)
class KernelLayout:
    """Byte offsets by variable name; `static_shared` bytes of static shared memory are used.

    `local_size` is the bytes of `.local` memory each lane has.  `constants` are the ranges of the globals
    image, (offset, size), that hold `.const` variables; `param_bytes` the size of the parameters.
    `arguments` are the places of a function's parameters and results in the area that its caller gives each
    lane, `functions` the addresses of functions.  `outer` are the module's `.local` variables, as a function sees
    them: in the kernel's frame, where each lane has `outer_size` bytes.  `frame_bytes` is what a call of a function
    takes from a thread's stack.
    """

    shared: dict[str, int]
    static_shared: int
    local: dict[str, int]
    local_size: int
    globals: dict[str, int]
    params: dict[str, int]
    uses_dynamic_shared: bool
    constants: tuple[tuple[int, int], ...] = ()
    param_bytes: int = 0
    arguments: dict[str, int] = field(default_factory=dict)
    functions: dict[str, int] = field(default_factory=dict)
    outer: dict[str, int] = field(default_factory=dict)
    outer_size: int = 0
    frame_bytes: int = 0

    @property
    def elsewhere(self) -> frozenset[str]:
        """Variables that lie in the frames of callers: each lane's at another address."""
        return frozenset((*self.arguments, *self.outer))


def _place(variables: list[Variable]) -> tuple[dict[str, int], int]:
    offsets: dict[str, int] = {}
    end = 0
    for variable in variables:
        end = align_up(end, variable.align)
        offsets[variable.name] = end
        end += variable.size or 0
    return offsets, end


def globals_layout(module: Module) -> tuple[dict[str, int], int]:
    """Offsets of the module's .global and .const variables in its memory, and what they take in bytes.

    Those with initial values come first, small ones before large ones: the image ends with the last initial value,
    however large the variables are.
    """
    variables = [v for v in module.variables if v.space in ("global", "const") and v.size is not None]
    plain = [v for v in variables if not v.initial]
    return _place([*sorted((v for v in variables if v.initial), key=lambda v: v.size or 0), *plain])


def _arguments(function: Function) -> dict[str, int]:
    params = (*function.params, *function.returns)
    offsets, _ = argument_offsets(params)
    return {EXITED: EXITED_OFFSET, **{param.name: offset for param, offset in zip(params, offsets, strict=True)}}


_CALL_BYTES: Final = 16
"""What a call takes at least: a return address and one saved value."""


def _frame_bytes(module: Module, function: Function) -> int:
    """What a call of a function takes from a thread's stack: at most what it would on a GPU, which saves registers too.

    Areas for arguments, which a GPU has in registers, do not count.
    """
    declared = {v.name for f in module.functions for v in f.variables if v.space == "local"}
    own = (v.size or 0 for v in function.variables if v.space == "local" and v.name.partition("~")[0] in declared)
    return align_up(_CALL_BYTES + sum(own), 8)


def function_layout(module: Module, function: Function, kernel: KernelLayout) -> KernelLayout:
    """Lay out what a function that is called out of line can name; it shares the kernel's shared memory."""
    outer = {v.name: kernel.local[v.name] for v in module.variables if v.space == "local"}
    own, size = _place([v for v in function.variables if v.space == "local"])
    return replace(
        kernel_layout(module, function),
        shared=kernel.shared,
        static_shared=kernel.static_shared,
        local=own,
        local_size=align_up(size, 16),
        arguments=_arguments(function),
        outer=outer,
        outer_size=kernel.local_size,
        frame_bytes=_frame_bytes(module, function),
    )


def kernel_layout(module: Module, function: Function) -> KernelLayout:
    """Lay out everything that `function` can name."""
    variables = (*module.variables, *function.variables)
    static = [v for v in variables if v.space == "shared" and v.size is not None]
    dynamic = [v for v in variables if v.space == "shared" and v.size is None]
    shared, end = _place(static)
    start = align_up(end, max([_DYNAMIC_ALIGN, *(v.align for v in dynamic)])) if dynamic else end
    shared.update({variable.name: start for variable in dynamic})
    local, local_size = _place([v for v in variables if v.space == "local"])
    image, _ = globals_layout(module)
    return KernelLayout(
        shared=shared,
        static_shared=start,
        local=local,
        local_size=align_up(local_size, 16),
        globals=image,
        params={param.name: param.offset for param in function.params if function.is_entry},
        uses_dynamic_shared=bool(dynamic),
        constants=tuple((image[v.name], v.size or 0) for v in module.variables if v.space == "const" and v.size),
        param_bytes=max((param.offset + param.size for param in function.params), default=0),
        functions=function_addresses(module),
    )
