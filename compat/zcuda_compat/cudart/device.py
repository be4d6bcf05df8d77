"""Devices: which there are, which is current, what they are; waiting for one, resetting one."""

from __future__ import annotations

import operator
from dataclasses import replace
from typing import Final, SupportsIndex

import zcuda_async as zc
from zcuda_async import CudaError, Status
from zcuda_compat.bridge import BRIDGE
from zcuda_compat.cudart.constants import CUDART_VERSION
from zcuda_compat.cudart.device_attributes import cudaDeviceAttr
from zcuda_compat.cudart.device_facts import attribute_value, device_properties
from zcuda_compat.cudart.enums import cudaError_t, cudaLimit
from zcuda_compat.cudart.results import SUCCESS, status_call, two_value_call, value_call
from zcuda_compat.cudart.structs import cudaDeviceProp
from zcuda_compat.lifetime import reset
from zcuda_compat.numbers import c_int
from zcuda_compat.primary import check_ordinal, current, current_ordinal, peek_current, primary_of
from zcuda_compat.stream import GREATEST_PRIORITY, LEAST_PRIORITY
from zcuda_compat.thread import THREAD

__all__ = (
    "cudaDeviceGetAttribute",
    "cudaDeviceGetLimit",
    "cudaDeviceGetStreamPriorityRange",
    "cudaDeviceReset",
    "cudaDeviceSetLimit",
    "cudaDeviceSynchronize",
    "cudaDriverGetVersion",
    "cudaGetDevice",
    "cudaGetDeviceCount",
    "cudaGetDeviceProperties",
    "cudaRuntimeGetVersion",
    "cudaSetDevice",
)


@value_call
def cudaGetDeviceCount() -> int:
    """Return the number of devices; `cudaErrorNoDevice` if there is none."""
    devices = zc.device_count()
    if devices == 0:
        check_ordinal(0)
    return devices


@value_call
def cudaGetDevice() -> int:
    """Return this thread's current device."""
    return current_ordinal()


@status_call
def cudaSetDevice(device: SupportsIndex) -> None:
    """Make `device` current for this thread, and open it if it is not open yet."""
    ordinal = c_int(device)
    check_ordinal(ordinal)
    THREAD.device = primary_of(ordinal).ordinal


@value_call
def cudaGetDeviceProperties(device: SupportsIndex) -> cudaDeviceProp:
    """Return what a device is; opens it."""
    primary = primary_of(c_int(device))
    return device_properties(primary.ordinal, primary.device.properties)


@value_call
def cudaDeviceGetAttribute(attr: cudaDeviceAttr, device: SupportsIndex) -> int:
    """Return one attribute of a device, 0 for what it does not have; opens it."""
    try:
        attribute = cudaDeviceAttr(attr)
    except ValueError:
        raise CudaError(Status.cudaErrorInvalidValue, f"there is no device attribute {attr!r}") from None
    primary = primary_of(c_int(device))
    return attribute_value(primary.ordinal, primary.device.properties, attribute)


@two_value_call
def cudaDeviceGetStreamPriorityRange() -> tuple[int, int]:
    """Return the least and the greatest priority of streams; lower numbers are more urgent."""
    return LEAST_PRIORITY, GREATEST_PRIORITY


_LIMITS: Final = {
    cudaLimit.cudaLimitStackSize: "stack_bytes",
    cudaLimit.cudaLimitPrintfFifoSize: "printf_fifo_bytes",
    cudaLimit.cudaLimitMallocHeapSize: "malloc_heap_bytes",
}


def _limit(limit: cudaLimit) -> str:
    name = _LIMITS.get(limit)
    if name is None:
        raise CudaError(
            Status.cudaErrorUnsupportedLimit, f"limits are {', '.join(each.name for each in _LIMITS)}; got {limit!r}"
        )
    return name


@status_call
def cudaDeviceSetLimit(limit: cudaLimit, value: SupportsIndex) -> None:
    """Set what kernels may use of the current device's own runtime, in bytes.

    `cudaErrorInvalidValue` for the size of what a launched kernel has used already.
    """
    name, device = _limit(limit), current().device
    size = max(1, operator.index(value))
    BRIDGE.call(lambda: setattr(device, "limits", replace(device.limits, **{name: size})))


@value_call
def cudaDeviceGetLimit(limit: cudaLimit) -> int:
    """Return a limit of the current device, in bytes."""
    value: int = getattr(current().device.limits, _limit(limit))
    return value


@status_call
def cudaDeviceSynchronize() -> None:
    """Wait until everything submitted to the current device has finished; returns what failed."""
    current().synchronize()


@status_call
def cudaDeviceReset() -> None:
    """Destroy everything on the current device and clear its sticky error.

    Pending work is cut off; pointers, streams, events and variables of libraries are gone.
    """
    primary = peek_current()
    if primary is not None:
        reset(primary)


def cudaDriverGetVersion() -> tuple[cudaError_t, int]:
    """Return the CUDA version that is mirrored, as 1000 x major + 10 x minor."""
    return SUCCESS, CUDART_VERSION


def cudaRuntimeGetVersion() -> tuple[cudaError_t, int]:
    """Return the CUDA version that is mirrored, as 1000 x major + 10 x minor."""
    return SUCCESS, CUDART_VERSION
