"""Instructions that stop a kernel, and those that a CPU has nothing to do for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zcuda_async.jit.abi import WORKER_FIELDS
from zcuda_async.jit.builder import Builder
from zcuda_async.ptx.ir import Instruction

if TYPE_CHECKING:
    from zcuda_async.jit.lower import Lowering
    from zcuda_async.jit.lower.group import Group

__all__ = (
    "ASSERT",
    "DEADLOCK",
    "FAULTS",
    "LAUNCH_FAILURE",
    "MISALIGNED",
    "OUT_OF_RESOURCES",
    "STACK_ERROR",
    "raise_fault",
)

LAUNCH_FAILURE: Final = 719
"""cudaErrorLaunchFailure: what a ``trap`` becomes."""

MISALIGNED: Final = 716
"""cudaErrorMisalignedAddress: an access to a surface at a place that is no multiple of its size."""

ASSERT: Final = 710
"""cudaErrorAssert: a failed ``assert`` (a call of ``__assertfail``)."""

DEADLOCK: Final = 702
"""cudaErrorLaunchTimeout: threads wait at barriers that can never open."""

OUT_OF_RESOURCES: Final = 701
"""cudaErrorLaunchOutOfResources: a block's frames do not fit the worker's scratch memory."""


STACK_ERROR: Final = 714
"""cudaErrorHardwareStackError: calls, or what functions take by ``alloca``, exceed the stack."""

_TRAPS: Final = {"assert": ASSERT, "stack": STACK_ERROR}
"""What traps of these kinds, which the compiler itself makes, become."""


def raise_fault(builder: Builder, code: int, line: int | str) -> None:
    """Report a fault and stop: the worker's signal handler keeps what is stored here.

    `line` is the line in the PTX text, or the name of an i64 that holds it.
    """
    for name, value in (("fault_code", code), ("fault_site", line)):
        at = builder.op(f"getelementptr i8, ptr %worker, i64 {WORKER_FIELDS[name][0]}")
        builder.line(f"store volatile i64 {value}, ptr {at}, align 8")
    builder.call("void", "llvm.trap", [])


def trap(group: Group, instruction: Instruction) -> None:
    """``trap`` and failed assertions: any active lane that reaches one faults the launch."""
    builder = group.builder
    masks = [group.active(instruction, part) for part in range(group.parts)]
    known = [mask for mask in masks if mask is not None]
    fault, go_on = builder.block_name("trap"), builder.block_name("untrapped")
    some = group.any_of(known) if len(known) == len(masks) else "true"
    builder.line(f"br i1 {some}, label %{fault}, label %{go_on}")
    builder.label(fault)
    raise_fault(builder, _TRAPS.get("".join(instruction.modifiers), LAUNCH_FAILURE), instruction.span.site)
    builder.line(f"br label %{go_on}")
    builder.label(go_on)


def nothing(_: Group, __: Instruction) -> None:
    """``nanosleep``, ``brkpt`` without a debugger, events, and dependent launches, which start when this one ends."""


FAULTS: Final[dict[str, Lowering]] = {
    "trap": trap,
    "brkpt": nothing,
    "nanosleep": nothing,
    "pmevent": nothing,
    "griddepcontrol": nothing,
}
