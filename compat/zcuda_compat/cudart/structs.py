"""The structures, with CUDA's field names; plain Python values instead of C ones."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from zcuda_compat.cudart.enums import cudaMemoryType, cudaSharedMemoryMode
from zcuda_compat.handles import cudaStream_t

__all__ = (
    "cudaDeviceProp",
    "cudaFuncAttributes",
    "cudaLaunchConfig_t",
    "cudaPointerAttributes",
    "cudaUUID_t",
    "dim3",
)


class _Printable:
    """Shows one field a line, as the C structures' wrappers do."""

    __slots__ = ()

    def __str__(self) -> str:
        lines = (f"{entry.name} : {getattr(self, entry.name)}" for entry in fields(self))  # type: ignore[arg-type]
        return "\n".join(lines)


@dataclass(slots=True)
class dim3(_Printable):
    """The extent of a grid or block."""

    x: int = 1
    y: int = 1
    z: int = 1


@dataclass(slots=True)
class cudaUUID_t(_Printable):
    """A 16-byte identifier."""

    bytes: bytes = bytes(16)


@dataclass(slots=True)
class cudaPointerAttributes(_Printable):
    """What `cudaPointerGetAttributes` knows of a pointer; addresses are ints, 0 for none."""

    type: cudaMemoryType = cudaMemoryType.cudaMemoryTypeUnregistered
    device: int = 0
    devicePointer: int = 0
    hostPointer: int = 0
    localityDomainOrdinal: int = 0


@dataclass(slots=True)
class cudaFuncAttributes(_Printable):
    """What `cudaFuncGetAttributes` knows of a kernel; sizes are in bytes."""

    sharedSizeBytes: int = 0
    constSizeBytes: int = 0
    localSizeBytes: int = 0
    maxThreadsPerBlock: int = 0
    numRegs: int = 0
    ptxVersion: int = 0
    binaryVersion: int = 0
    cacheModeCA: int = 0
    maxDynamicSharedSizeBytes: int = 0
    preferredShmemCarveout: int = 0
    clusterDimMustBeSet: int = 0
    requiredClusterWidth: int = 0
    requiredClusterHeight: int = 0
    requiredClusterDepth: int = 0
    clusterSchedulingPolicyPreference: int = 0
    nonPortableClusterSizeAllowed: int = 0
    deviceNodeUpdateStatus: int = 0
    sharedMemoryMode: cudaSharedMemoryMode = cudaSharedMemoryMode.cudaSharedMemoryModeDefault


@dataclass(slots=True)
class cudaLaunchConfig_t(_Printable):
    """How `cudaLaunchKernelExC` launches; `attrs` and `numAttrs` must say that there are no attributes."""

    gridDim: dim3 = field(default_factory=dim3)
    blockDim: dim3 = field(default_factory=dim3)
    dynamicSmemBytes: int = 0
    stream: cudaStream_t | int | None = None
    attrs: object = None
    numAttrs: int = 0


@dataclass(slots=True)
class cudaDeviceProp(_Printable):
    """What a device is and allows; sizes are in bytes, and what the software device does not have is 0."""

    name: bytes = b""
    uuid: cudaUUID_t = field(default_factory=cudaUUID_t)
    luid: bytes = bytes(8)
    luidDeviceNodeMask: int = 0
    totalGlobalMem: int = 0
    sharedMemPerBlock: int = 0
    regsPerBlock: int = 0
    warpSize: int = 0
    memPitch: int = 0
    maxThreadsPerBlock: int = 0
    maxThreadsDim: list[int] = field(default_factory=lambda: [0] * 3)
    maxGridSize: list[int] = field(default_factory=lambda: [0] * 3)
    totalConstMem: int = 0
    major: int = 0
    minor: int = 0
    textureAlignment: int = 0
    texturePitchAlignment: int = 0
    multiProcessorCount: int = 0
    integrated: int = 0
    canMapHostMemory: int = 0
    maxTexture1D: int = 0
    maxTexture1DMipmap: int = 0
    maxTexture2D: list[int] = field(default_factory=lambda: [0] * 2)
    maxTexture2DMipmap: list[int] = field(default_factory=lambda: [0] * 2)
    maxTexture2DLinear: list[int] = field(default_factory=lambda: [0] * 3)
    maxTexture2DGather: list[int] = field(default_factory=lambda: [0] * 2)
    maxTexture3D: list[int] = field(default_factory=lambda: [0] * 3)
    maxTexture3DAlt: list[int] = field(default_factory=lambda: [0] * 3)
    maxTextureCubemap: int = 0
    maxTexture1DLayered: list[int] = field(default_factory=lambda: [0] * 2)
    maxTexture2DLayered: list[int] = field(default_factory=lambda: [0] * 3)
    maxTextureCubemapLayered: list[int] = field(default_factory=lambda: [0] * 2)
    maxSurface1D: int = 0
    maxSurface2D: list[int] = field(default_factory=lambda: [0] * 2)
    maxSurface3D: list[int] = field(default_factory=lambda: [0] * 3)
    maxSurface1DLayered: list[int] = field(default_factory=lambda: [0] * 2)
    maxSurface2DLayered: list[int] = field(default_factory=lambda: [0] * 3)
    maxSurfaceCubemap: int = 0
    maxSurfaceCubemapLayered: list[int] = field(default_factory=lambda: [0] * 2)
    surfaceAlignment: int = 0
    concurrentKernels: int = 0
    ECCEnabled: int = 0
    pciBusID: int = 0
    pciDeviceID: int = 0
    pciDomainID: int = 0
    tccDriver: int = 0
    asyncEngineCount: int = 0
    unifiedAddressing: int = 0
    memoryBusWidth: int = 0
    l2CacheSize: int = 0
    persistingL2CacheMaxSize: int = 0
    maxThreadsPerMultiProcessor: int = 0
    streamPrioritiesSupported: int = 0
    globalL1CacheSupported: int = 0
    localL1CacheSupported: int = 0
    sharedMemPerMultiprocessor: int = 0
    regsPerMultiprocessor: int = 0
    managedMemory: int = 0
    isMultiGpuBoard: int = 0
    multiGpuBoardGroupID: int = 0
    hostNativeAtomicSupported: int = 0
    pageableMemoryAccess: int = 0
    concurrentManagedAccess: int = 0
    computePreemptionSupported: int = 0
    canUseHostPointerForRegisteredMem: int = 0
    cooperativeLaunch: int = 0
    sharedMemPerBlockOptin: int = 0
    pageableMemoryAccessUsesHostPageTables: int = 0
    directManagedMemAccessFromHost: int = 0
    maxBlocksPerMultiProcessor: int = 0
    accessPolicyMaxWindowSize: int = 0
    reservedSharedMemPerBlock: int = 0
    hostRegisterSupported: int = 0
    sparseCudaArraySupported: int = 0
    hostRegisterReadOnlySupported: int = 0
    timelineSemaphoreInteropSupported: int = 0
    memoryPoolsSupported: int = 0
    gpuDirectRDMASupported: int = 0
    gpuDirectRDMAFlushWritesOptions: int = 0
    gpuDirectRDMAWritesOrdering: int = 0
    memoryPoolSupportedHandleTypes: int = 0
    deferredMappingCudaArraySupported: int = 0
    ipcEventSupported: int = 0
    clusterLaunch: int = 0
    unifiedFunctionPointers: int = 0
    deviceNumaConfig: int = 0
    deviceNumaId: int = 0
    mpsEnabled: int = 0
    hostNumaId: int = 0
    gpuPciDeviceID: int = 0
    gpuPciSubsystemID: int = 0
    hostNumaMultinodeIpcSupported: int = 0
