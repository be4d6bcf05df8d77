"""The enumerations, with CUDA's names and values."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from zcuda_async import Status

__all__ = (
    "CudaEnum",
    "cudaComputeMode",
    "cudaError_t",
    "cudaFuncAttribute",
    "cudaJitOption",
    "cudaLibraryOption",
    "cudaLimit",
    "cudaMemcpyKind",
    "cudaMemoryType",
    "cudaSharedMemoryMode",
)


class CudaEnum(IntEnum):
    """An int with a name, which ``str`` and f-strings show together."""

    def __str__(self) -> str:
        return repr(self)

    def __format__(self, spec: str) -> str:
        return int.__format__(self, spec) if spec else repr(self)


if TYPE_CHECKING:
    cudaError_t = Status
else:
    cudaError_t = CudaEnum("cudaError_t", {status.name: status.value for status in Status}, module=__name__)
    cudaError_t.__doc__ = "The error codes; `cudaSuccess` is 0."


class cudaMemcpyKind(CudaEnum):
    """The direction of a copy."""

    cudaMemcpyHostToHost = 0
    cudaMemcpyHostToDevice = 1
    cudaMemcpyDeviceToHost = 2
    cudaMemcpyDeviceToDevice = 3
    cudaMemcpyDefault = 4


class cudaMemoryType(CudaEnum):
    """What kind of memory a pointer points to."""

    cudaMemoryTypeUnregistered = 0
    cudaMemoryTypeHost = 1
    cudaMemoryTypeDevice = 2
    cudaMemoryTypeManaged = 3


class cudaFuncAttribute(CudaEnum):
    """What `cudaFuncSetAttribute` can set."""

    cudaFuncAttributeMaxDynamicSharedMemorySize = 8
    cudaFuncAttributePreferredSharedMemoryCarveout = 9
    cudaFuncAttributeClusterDimMustBeSet = 10
    cudaFuncAttributeRequiredClusterWidth = 11
    cudaFuncAttributeRequiredClusterHeight = 12
    cudaFuncAttributeRequiredClusterDepth = 13
    cudaFuncAttributeNonPortableClusterSizeAllowed = 14
    cudaFuncAttributeClusterSchedulingPolicyPreference = 15
    cudaFuncAttributeSharedMemoryMode = 16
    cudaFuncAttributeMax = 17


class cudaSharedMemoryMode(CudaEnum):
    """How a kernel may be given its shared memory."""

    cudaSharedMemoryModeDefault = 0
    cudaSharedMemoryModeRequirePortable = 1
    cudaSharedMemoryModeAllowNonPortable = 2
    cudaSharedMemoryModeAllowOversizedSharedMemory = 3
    cudaSharedMemoryModePreferOversizedSharedMemory = 4


class cudaLimit(CudaEnum):
    """What `cudaDeviceSetLimit` can set."""

    cudaLimitStackSize = 0
    cudaLimitPrintfFifoSize = 1
    cudaLimitMallocHeapSize = 2
    cudaLimitDevRuntimeSyncDepth = 3
    cudaLimitDevRuntimePendingLaunchCount = 4
    cudaLimitMaxL2FetchGranularity = 5
    cudaLimitPersistingL2CacheSize = 6
    cudaLimitPerBlockMemorySize = 10


class cudaComputeMode(CudaEnum):
    """Who may use a device."""

    cudaComputeModeDefault = 0
    cudaComputeModeExclusive = 1
    cudaComputeModeProhibited = 2
    cudaComputeModeExclusiveProcess = 3


class cudaJitOption(CudaEnum):
    """Options of the compilation of PTX."""

    cudaJitMaxRegisters = 0
    cudaJitThreadsPerBlock = 1
    cudaJitWallTime = 2
    cudaJitInfoLogBuffer = 3
    cudaJitInfoLogBufferSizeBytes = 4
    cudaJitErrorLogBuffer = 5
    cudaJitErrorLogBufferSizeBytes = 6
    cudaJitOptimizationLevel = 7
    cudaJitFallbackStrategy = 10
    cudaJitGenerateDebugInfo = 11
    cudaJitLogVerbose = 12
    cudaJitGenerateLineInfo = 13
    cudaJitCacheMode = 14
    cudaJitPositionIndependentCode = 30
    cudaJitMinCtaPerSm = 31
    cudaJitMaxThreadsPerBlock = 32
    cudaJitOverrideDirectiveValues = 33


class cudaLibraryOption(CudaEnum):
    """Options of loading a library."""

    cudaLibraryHostUniversalFunctionAndDataTable = 0
    cudaLibraryBinaryIsPreserved = 1
