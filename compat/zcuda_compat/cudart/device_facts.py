"""What the software device answers about itself: one table for attributes and for `cudaDeviceProp`."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from zcuda_compat.cudart.device_attributes import cudaDeviceAttr as Attr
from zcuda_compat.cudart.structs import cudaDeviceProp, cudaUUID_t

if TYPE_CHECKING:
    from collections.abc import Mapping

    from zcuda_async import DeviceProperties

__all__ = ("attribute_value", "device_properties")

_CONSTANTS: Final[dict[Attr, int]] = {
    Attr.cudaDevAttrTotalConstantMemory: 64 << 10,
    Attr.cudaDevAttrMaxPitch: 2**31 - 1,
    Attr.cudaDevAttrMaxRegistersPerBlock: 65536,
    Attr.cudaDevAttrMaxRegistersPerMultiprocessor: 65536,
    Attr.cudaDevAttrTextureAlignment: 512,
    Attr.cudaDevAttrTexturePitchAlignment: 32,
    Attr.cudaDevAttrSurfaceAlignment: 512,
    Attr.cudaDevAttrGpuOverlap: 1,
    Attr.cudaDevAttrCanMapHostMemory: 1,
    Attr.cudaDevAttrUnifiedAddressing: 1,
    Attr.cudaDevAttrStreamPrioritiesSupported: 1,
    Attr.cudaDevAttrGlobalL1CacheSupported: 1,
    Attr.cudaDevAttrLocalL1CacheSupported: 1,
    Attr.cudaDevAttrMaxSharedMemoryPerMultiprocessor: 100 << 10,
    Attr.cudaDevAttrReservedSharedMemoryPerBlock: 1 << 10,
    Attr.cudaDevAttrMaxBlocksPerMultiprocessor: 16,
    Attr.cudaDevAttrSingleToDoublePrecisionPerfRatio: 2,
}
"""What is the same for every device; attributes named nowhere here are 0."""


def _measured(properties: DeviceProperties) -> dict[Attr, int]:
    """What an open device says."""
    block, grid = properties.max_block_dim, properties.max_grid_dim
    major, minor = properties.compute_capability
    return {
        Attr.cudaDevAttrMaxThreadsPerBlock: properties.max_threads_per_block,
        Attr.cudaDevAttrMaxBlockDimX: block[0],
        Attr.cudaDevAttrMaxBlockDimY: block[1],
        Attr.cudaDevAttrMaxBlockDimZ: block[2],
        Attr.cudaDevAttrMaxGridDimX: grid[0],
        Attr.cudaDevAttrMaxGridDimY: grid[1],
        Attr.cudaDevAttrMaxGridDimZ: grid[2],
        Attr.cudaDevAttrMaxSharedMemoryPerBlock: properties.shared_memory_per_block,
        Attr.cudaDevAttrMaxSharedMemoryPerBlockOptin: properties.shared_memory_per_block_optin,
        Attr.cudaDevAttrWarpSize: properties.warp_size,
        Attr.cudaDevAttrMultiProcessorCount: properties.multiprocessor_count,
        Attr.cudaDevAttrMaxThreadsPerMultiProcessor: properties.max_threads_per_multiprocessor,
        Attr.cudaDevAttrAsyncEngineCount: properties.async_engine_count,
        Attr.cudaDevAttrConcurrentKernels: int(properties.concurrent_kernels),
        Attr.cudaDevAttrComputeCapabilityMajor: major,
        Attr.cudaDevAttrComputeCapabilityMinor: minor,
    }


def attribute_value(ordinal: int, properties: DeviceProperties, attribute: Attr) -> int:
    """The value of one attribute."""
    if attribute is Attr.cudaDevAttrPciDeviceId:
        return ordinal
    return (_CONSTANTS | _measured(properties)).get(attribute, 0)


_FIELDS: Final[Mapping[str, Attr]] = {
    "sharedMemPerBlock": Attr.cudaDevAttrMaxSharedMemoryPerBlock,
    "regsPerBlock": Attr.cudaDevAttrMaxRegistersPerBlock,
    "warpSize": Attr.cudaDevAttrWarpSize,
    "memPitch": Attr.cudaDevAttrMaxPitch,
    "maxThreadsPerBlock": Attr.cudaDevAttrMaxThreadsPerBlock,
    "totalConstMem": Attr.cudaDevAttrTotalConstantMemory,
    "major": Attr.cudaDevAttrComputeCapabilityMajor,
    "minor": Attr.cudaDevAttrComputeCapabilityMinor,
    "textureAlignment": Attr.cudaDevAttrTextureAlignment,
    "texturePitchAlignment": Attr.cudaDevAttrTexturePitchAlignment,
    "surfaceAlignment": Attr.cudaDevAttrSurfaceAlignment,
    "multiProcessorCount": Attr.cudaDevAttrMultiProcessorCount,
    "canMapHostMemory": Attr.cudaDevAttrCanMapHostMemory,
    "concurrentKernels": Attr.cudaDevAttrConcurrentKernels,
    "pciDeviceID": Attr.cudaDevAttrPciDeviceId,
    "asyncEngineCount": Attr.cudaDevAttrAsyncEngineCount,
    "unifiedAddressing": Attr.cudaDevAttrUnifiedAddressing,
    "maxThreadsPerMultiProcessor": Attr.cudaDevAttrMaxThreadsPerMultiProcessor,
    "streamPrioritiesSupported": Attr.cudaDevAttrStreamPrioritiesSupported,
    "globalL1CacheSupported": Attr.cudaDevAttrGlobalL1CacheSupported,
    "localL1CacheSupported": Attr.cudaDevAttrLocalL1CacheSupported,
    "sharedMemPerMultiprocessor": Attr.cudaDevAttrMaxSharedMemoryPerMultiprocessor,
    "regsPerMultiprocessor": Attr.cudaDevAttrMaxRegistersPerMultiprocessor,
    "sharedMemPerBlockOptin": Attr.cudaDevAttrMaxSharedMemoryPerBlockOptin,
    "maxBlocksPerMultiProcessor": Attr.cudaDevAttrMaxBlocksPerMultiprocessor,
    "reservedSharedMemPerBlock": Attr.cudaDevAttrReservedSharedMemoryPerBlock,
}


def device_properties(ordinal: int, properties: DeviceProperties) -> cudaDeviceProp:
    """The structure for one device."""
    prop = cudaDeviceProp(
        name=properties.name.encode(),
        uuid=cudaUUID_t(hashlib.sha256(f"zcuda-async device {ordinal}".encode()).digest()[:16]),
        totalGlobalMem=properties.total_memory,
        maxThreadsDim=list(properties.max_block_dim),
        maxGridSize=list(properties.max_grid_dim),
    )
    for field, attribute in _FIELDS.items():
        setattr(prop, field, attribute_value(ordinal, properties, attribute))
    return prop
