"""The flags and special handles, with CUDA's names and values."""

from __future__ import annotations

from typing import Final

__all__ = (
    "CUDART_VERSION",
    "cudaCpuDeviceId",
    "cudaEventBlockingSync",
    "cudaEventDefault",
    "cudaEventDisableTiming",
    "cudaEventInterprocess",
    "cudaEventRecordDefault",
    "cudaEventRecordExternal",
    "cudaEventWaitDefault",
    "cudaEventWaitExternal",
    "cudaHostAllocDefault",
    "cudaHostAllocMapped",
    "cudaHostAllocPortable",
    "cudaHostAllocWriteCombined",
    "cudaInvalidDeviceId",
    "cudaStreamDefault",
    "cudaStreamLegacy",
    "cudaStreamNonBlocking",
    "cudaStreamPerThread",
)

CUDART_VERSION: Final = 13050

cudaCpuDeviceId: Final = -1
cudaInvalidDeviceId: Final = -2

cudaStreamDefault: Final = 0
cudaStreamNonBlocking: Final = 1
cudaStreamLegacy: Final = 1
cudaStreamPerThread: Final = 2

cudaEventDefault: Final = 0
cudaEventBlockingSync: Final = 1
cudaEventDisableTiming: Final = 2
cudaEventInterprocess: Final = 4
cudaEventRecordDefault: Final = 0
cudaEventRecordExternal: Final = 1
cudaEventWaitDefault: Final = 0
cudaEventWaitExternal: Final = 1

cudaHostAllocDefault: Final = 0
cudaHostAllocPortable: Final = 1
cudaHostAllocMapped: Final = 2
cudaHostAllocWriteCombined: Final = 4
