"""What CUDA keeps for each host thread: the current device, the last error, the per-thread default streams."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import anyio

from zcuda_async import AbandonedError, CudaError, Status
from zcuda_compat.bridge import BRIDGE

if TYPE_CHECKING:
    from zcuda_compat.primary import Primary
    from zcuda_compat.stream import Stream

__all__ = ("THREAD", "as_cuda_error", "last_failure")


class _ThreadState(threading.local):
    """One thread's state; each thread sees its own values."""

    def __init__(self) -> None:
        self.device = 0
        self.failure: CudaError | None = None
        """The last failure, cleared by cudaGetLastError."""
        self.in_callback = False
        """Whether the thread is running a host function of a stream."""
        self.streams: dict[Primary, Stream] = {}
        """The per-thread default streams."""


THREAD: Final = _ThreadState()


def last_failure() -> CudaError | None:
    """The whole story behind what cudaPeekAtLastError would return: what failed, where, and what to do.

    None if this thread's last error is clear.  Looking does not clear it.
    """
    return THREAD.failure


def as_cuda_error(error: Exception) -> CudaError:
    """The CUDA error that a call reports for an exception of the runtime."""
    if isinstance(error, CudaError):
        # The sticky error is one object for all threads: what one keeps of it must not grow with every raise.
        return error.with_traceback(None)
    if isinstance(error, MemoryError):
        return CudaError(Status.cudaErrorMemoryAllocation, "the host has no memory left")
    if BRIDGE.has_ended:
        return CudaError(Status.cudaErrorCudartUnloading, str(error))
    if isinstance(error, AbandonedError):
        return CudaError(Status.cudaErrorContextIsDestroyed, str(error))
    if isinstance(error, anyio.ClosedResourceError):
        return CudaError(Status.cudaErrorInvalidResourceHandle, str(error))
    return CudaError(Status.cudaErrorUnknown, f"{type(error).__name__}: {error}")
