"""Explains why a worker died, in CUDA's terms."""

from __future__ import annotations

import signal
import struct
from typing import TYPE_CHECKING, Final

from zcuda_async.errors import Status
from zcuda_async.executor.base import Fault
from zcuda_async.executor.protocol import (
    CURRENT,
    CURRENT_OFFSET,
    NO_BLOCK,
    SIGNAL,
    SIGNAL_OFFSET,
    STACK,
    STACK_OFFSET,
    loading_kernel,
    read_text,
)
from zcuda_async.jit.abi import REPORT_SIZE, WORKER, WORKER_FIELDS
from zcuda_async.memory.mapping import PAGE

if TYPE_CHECKING:
    from zcuda_async.executor.process import WorkerProcess
    from zcuda_async.memory.arena import Arena

__all__ = ("current_launch", "explain_death")

_FIELDS: Final = tuple(WORKER_FIELDS)

_SI_KERNEL: Final = 128
"""The si_code of an access fault for which the processor reports no address."""

_CRASHES: Final = frozenset(
    (
        signal.SIGABRT,
        signal.SIGBUS,
        signal.SIGFPE,
        signal.SIGILL,
        signal.SIGSEGV,
        signal.SIGSYS,
        signal.SIGTRAP,
    )
)

_REPORT_COUNT: Final = struct.Struct("<I")
_REPORT_RECORD: Final = struct.Struct("<IIQ")

_WHAT: Final = {
    Status.cudaErrorIllegalAddress: "illegal address {address:#x}",
    Status.cudaErrorMisalignedAddress: "misaligned address {address:#x}",
    Status.cudaErrorAssert: "assertion failed",
    Status.cudaErrorHardwareStackError: "stack overflow",
    Status.cudaErrorIllegalInstruction: "illegal instruction",
    Status.cudaErrorLaunchFailure: "arithmetic fault or trap",
    Status.cudaErrorLaunchTimeout: "deadlock",
}


def current_launch(arena: Arena, worker: WorkerProcess) -> int:
    """Address of the launch that a dead worker was running, 0 for none."""
    (address,) = CURRENT.unpack_from(arena.view(worker.region.page, PAGE), CURRENT_OFFSET)
    return int(address)


def explain_death(arena: Arena, worker: WorkerProcess, kernel: str | None) -> Fault:
    """Turn a reaped worker's state page and exit status into a `Fault`.

    `kernel` is the name of the kernel it was running, None if it was idle.
    """
    page = arena.view(worker.region.page, PAGE)
    state = dict(zip(_FIELDS, WORKER.unpack_from(page), strict=True))
    code, address, line = state["fault_code"], state["fault_address"], state["fault_site"] or None
    block = None if kernel is None or state["block"] == NO_BLOCK else state["block"]
    if text := read_text(page):
        loading = loading_kernel(text)
        if loading is not None and not _has_crashed(worker):
            detail = f"worker {worker.index} {_status(worker)} while loading kernel {loading}"
            return Fault(Status.cudaErrorLaunchFailure, detail)
        return Fault(code, f"worker {worker.index} (pid {worker.pid}): {text}")
    if not state["scratch"] and not _has_crashed(worker):
        detail = f"worker {worker.index} {_status(worker)} while it started"
        return Fault(Status.cudaErrorLaunchFailure, detail)
    if not state["scratch"]:
        detail = f"worker {worker.index} {_status(worker)} before it was ready; its error output may say more"
        return Fault(Status.cudaErrorInitializationError, detail)
    if not code:
        during = "while idle" if kernel is None else f"while running {_where(kernel, block, None)}"
        return Fault(Status.cudaErrorLaunchFailure, f"worker {worker.index} {_status(worker)} {during}", block=block)
    low, high = STACK.unpack_from(page, STACK_OFFSET)
    if code == Status.cudaErrorIllegalAddress and low <= address < high:
        code = int(Status.cudaErrorHardwareStackError)
    if code not in (Status.cudaErrorIllegalAddress, Status.cudaErrorMisalignedAddress):
        address = None
    if SIGNAL.unpack_from(page, SIGNAL_OFFSET) == (signal.SIGSEGV, _SI_KERNEL):
        address = None
    where = "outside any kernel" if kernel is None else f"in {_where(kernel, block, line)}"
    waiting = ""
    if code == Status.cudaErrorLaunchTimeout:
        end = state["scratch"] + state["scratch_size"]
        waiting = describe_deadlock(bytes(arena.view(end - REPORT_SIZE, REPORT_SIZE)))
    number = None if line is None else line % (1 << 32)
    return Fault(code, f"{_what(arena, code, address)} {where}{waiting}", address, block, number)


def describe_deadlock(report: bytes) -> str:
    """Who waits where, from what the worker left (see `jit.abi.REPORT_SIZE`): ``: threads 0-31 wait at …``."""
    (count,) = _REPORT_COUNT.unpack_from(report)
    lines: dict[int, list[int]] = {}
    for first, line, mask in _REPORT_RECORD.iter_unpack(report[16 : 16 + 16 * min(count, REPORT_SIZE // 16 - 1)]):
        threads = [first + bit for bit in range(64) if mask >> bit & 1]
        lines.setdefault(line, []).extend(threads)
    places = [f"threads {_ranges(sorted(set(threads)))} at line {line}" for line, threads in sorted(lines.items())]
    return f": nobody can open the barriers where its threads wait: {'; '.join(places)}" if places else ""


def _ranges(numbers: list[int]) -> str:
    """``0-31, 40, 64-95``."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number, number])
    texts = [str(low) if low == high else f"{low}-{high}" for low, high in runs]
    return ", ".join(texts[:8]) + (f" and {len(texts) - 8} more" if len(texts) > 8 else "")


def _what(arena: Arena, code: int, address: int | None) -> str:
    try:
        status = Status(code)
    except ValueError:
        return f"error {code}"
    text = _WHAT.get(status, status.name)
    if "{address" not in text:
        return text
    if address is None:
        return "access through a wild or misaligned address"
    return text.format(address=address) + _neighbour(arena, address)


def _neighbour(arena: Arena, address: int) -> str:
    """Name the buffer that ends at or before `address`, for overruns."""
    below = arena.device_heap.find_before(address)
    if below is None or address > arena.layout.limit:
        return ""
    past = address - below.address - below.size
    return f" ({past} bytes past the end of the {below.size}-byte buffer at {below.address:#x})" if past >= 0 else ""


def _line(site: int) -> str:
    """The line of a `Span.site`; in a linked module the text's number too."""
    unit, line = divmod(site, 1 << 32)
    return f"{line} of text {unit + 1}" if unit else str(line)


def _where(kernel: str, block: int | None, line: int | None) -> str:
    at = "" if line is None else f" (PTX line {_line(line)})"
    return f"{kernel}{at}" if block is None else f"block {block} of {kernel}{at}"


def _has_crashed(worker: WorkerProcess) -> bool:
    """Whether it ended by what it did itself, and not by a signal from outside."""
    status = worker.returncode
    return status is None or status >= 0 or -status in _CRASHES


def _status(worker: WorkerProcess) -> str:
    status = worker.returncode
    if status is not None and status < 0:
        return f"(pid {worker.pid}) was killed by signal {-status} ({signal.Signals(-status).name})"
    return f"(pid {worker.pid}) exited with status {status}"
