"""Questions about addresses: which window of the generic address space one lies in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from zcuda_async.interpreter.memory import LOCAL_WINDOW, PARAM_WINDOW, shared_window, space_of
from zcuda_async.interpreter.operands import reader, writer
from zcuda_async.interpreter.thread import Step, Thread
from zcuda_async.ptx.ir import Instruction

__all__ = ("CACHE_POLICY", "isspacep_step")


def _is_shared(thread: Thread, address: int) -> bool:
    start = thread.block.launch.shared_window + thread.block.shared_base
    return 0 <= address - start < len(thread.block.shared)


def _is_cluster_shared(thread: Thread, address: int) -> bool:
    try:
        shared_window(thread, address - thread.block.launch.shared_window)
    except IndexError:
        return False
    return True


def _is_local(thread: Thread, address: int) -> bool:
    return 0 <= address - LOCAL_WINDOW < len(thread.local)


def _is_param(thread: Thread, address: int) -> bool:
    return 0 <= address - PARAM_WINDOW < len(thread.params)


def _is_const(thread: Thread, address: int) -> bool:
    launch = thread.block.launch
    return any(0 <= address - launch.symbols[name] < size for name, size in launch.constants if name in launch.symbols)


def _is_global(thread: Thread, address: int) -> bool:
    """In no other window; the kernel's parameters are global memory."""
    return not any(test(thread, address) for test in (_is_cluster_shared, _is_local, _is_const))


_TESTS: Final[dict[str, Callable[[Thread, int], bool]]] = {
    "shared": _is_shared,
    "shared::cluster": _is_cluster_shared,
    "local": _is_local,
    "param": _is_param,
    "const": _is_const,
    "global": _is_global,
}


def isspacep_step(instruction: Instruction, _: int, __: Mapping[str, int]) -> Step:
    """``isspacep``."""
    test = _TESTS[space_of(instruction)]
    read, write = reader(instruction.operands[1], "u64"), writer(instruction.operands[0], "pred")

    def step(thread: Thread) -> None:
        write(thread, int(test(thread, read(thread))))

    return step


CACHE_POLICY: Final = 0x12F << 52
"""What every cache policy is: opaque, and never looked at."""
