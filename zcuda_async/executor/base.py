"""What the runtime asks of anything that runs kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from zcuda_async.jit.info import KernelCode

__all__ = ("Fault", "FaultReporter", "KernelExecutor", "LaunchAhead", "LaunchRequest", "LaunchResult")


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a launch failed: `code` is the cudaError_t value; `block` the linear block index or None."""

    code: int
    detail: str
    address: int | None = None
    block: int | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """One launch, all arguments checked: `params` is the packed parameter buffer.

    `globals_address` is where the module's variables live (0: it has none).  `lane` names the queue whose launches
    follow one another, for `LaunchAhead`; 0 for none.  A cooperative launch's blocks may all wait for each other;
    `cluster` is the blocks of a cluster.  `services_address` is where `jit.abi.SERVICES` lies, 0 if the kernel needs
    none.  `number` is no other launch's of the device; `stack_bytes` is what each thread's calls may take.
    """

    code: KernelCode
    grid: tuple[int, int, int]
    params: bytes
    dynamic_shared: int = 0
    globals_address: int = 0
    lane: int = 0
    is_cooperative: bool = False
    cluster: tuple[int, int, int] = (1, 1, 1)
    services_address: int = 0
    number: int = 0
    stack_bytes: int = 1024


@dataclass(frozen=True, slots=True)
class LaunchResult:
    """How a launch ended.  Times are CLOCK_MONOTONIC nanoseconds stamped by the workers."""

    started_ns: int
    finished_ns: int
    fault: Fault | None = None


class KernelExecutor(Protocol):
    """Runs launches.  All methods are called on the event-loop thread.

    After a fault the executor answers every pending and later launch with that fault until `reset`.
    """

    @property
    def workers(self) -> int:
        """How many launches can make progress at once."""

    def submit(self, request: LaunchRequest, on_done: Callable[[LaunchResult], None]) -> None:
        """Start a launch; `on_done` is called exactly once, later, on the event-loop thread."""

    async def reset(self) -> None:
        """Kill what runs, make the workers whole again, and forget the fault."""

    async def aclose(self) -> None:
        """Stop and release everything, also when cancelled (runs shielded)."""


@runtime_checkable
class LaunchAhead(Protocol):
    """An executor that takes launches before those they follow have ended."""

    def submit_behind(self, request: LaunchRequest, on_done: Callable[[LaunchResult], None]) -> bool:
        """As `submit`, to run after the pending launches of the request's lane, which end first.

        False if it is better to wait for them and then submit it; nothing was started then.
        """


@runtime_checkable
class FaultReporter(Protocol):
    """An executor that can fail while no launch is pending, and says so at once."""

    def watch_faults(self, on_fault: Callable[[Fault], None]) -> None:
        """Call `on_fault`, on the event-loop thread, after each fault, once pending launches were answered."""
