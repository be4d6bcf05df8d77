"""Errors: the last one of each thread, names and descriptions."""

from __future__ import annotations

from operator import index
from typing import SupportsIndex

from zcuda_async import CudaError, Status
from zcuda_compat.cudart.enums import cudaError_t
from zcuda_compat.cudart.results import SUCCESS
from zcuda_compat.primary import peek_current
from zcuda_compat.thread import THREAD, as_cuda_error

__all__ = ("cudaGetErrorName", "cudaGetErrorString", "cudaGetLastError", "cudaPeekAtLastError")

_UNKNOWN = b"unrecognized error code"


def cudaGetLastError() -> tuple[cudaError_t]:
    """Return this thread's last error, and clear it.

    The sticky error of the thread's device is there again until cudaDeviceReset.
    """
    last = cudaPeekAtLastError()
    THREAD.failure = None
    return last


def cudaPeekAtLastError() -> tuple[cudaError_t]:
    """Return this thread's last error."""
    primary = peek_current()
    if primary is not None:
        try:
            primary.check()
        except CudaError as error:
            THREAD.failure = as_cuda_error(error)
    failure = THREAD.failure
    return (SUCCESS if failure is None else cudaError_t(failure.code),)


def cudaGetErrorName(error: SupportsIndex) -> tuple[cudaError_t, bytes]:
    """Return the name of an error code, such as ``b"cudaErrorInvalidValue"``."""
    status = _status(error)
    return SUCCESS, _UNKNOWN if status is None else status.name.encode()


def cudaGetErrorString(error: SupportsIndex) -> tuple[cudaError_t, bytes]:
    """Return what an error code means; `zcuda_compat.last_failure` tells what went wrong in the last call."""
    status = _status(error)
    return SUCCESS, _UNKNOWN if status is None else CudaError(status).detail.encode()


def _status(error: SupportsIndex) -> Status | None:
    try:
        return Status(index(error))
    except ValueError:
        return None
