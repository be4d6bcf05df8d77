"""zcuda-async: CUDA on the CPU, for asyncio and trio.

``async with open_device(0) as dev`` starts a device; `Device` makes streams, events, buffers and modules.
Every operation is submitted at once and returns an awaitable `Op`.
"""

from zcuda_async._version import __version__
from zcuda_async.completion import as_completed
from zcuda_async.context import Context
from zcuda_async.device import Device, device_count, open_device
from zcuda_async.errors import CompileError, CudaError, LaunchError, Status
from zcuda_async.event import Event, elapsed_ms
from zcuda_async.kernel import Kernel
from zcuda_async.launch import LaunchConfig
from zcuda_async.memory.buffer import Buffer, BufferView, PinnedBuffer, PinnedBufferView
from zcuda_async.module import Module
from zcuda_async.op import AbandonedError, Op
from zcuda_async.options import DeviceLimits, DeviceProperties, EventOptions, MemoryInfo, StreamOptions
from zcuda_async.stream import Stream
from zcuda_async.texture import (
    AddressMode,
    Array,
    ChannelFormat,
    FilterMode,
    ReadMode,
    Surface,
    Texture,
    TextureOptions,
)
from zcuda_async.timing.clock import Clock, RealClock, VirtualClock
from zcuda_async.timing.link import LINK_PROFILES, LinkProfile
from zcuda_async.timing.recorder import Phase, Record, Recorder

__all__ = (
    "LINK_PROFILES",
    "AbandonedError",
    "AddressMode",
    "Array",
    "Buffer",
    "BufferView",
    "ChannelFormat",
    "Clock",
    "CompileError",
    "Context",
    "CudaError",
    "Device",
    "DeviceLimits",
    "DeviceProperties",
    "Event",
    "EventOptions",
    "FilterMode",
    "Kernel",
    "LaunchConfig",
    "LaunchError",
    "LinkProfile",
    "MemoryInfo",
    "Module",
    "Op",
    "Phase",
    "PinnedBuffer",
    "PinnedBufferView",
    "ReadMode",
    "RealClock",
    "Record",
    "Recorder",
    "Status",
    "Stream",
    "StreamOptions",
    "Surface",
    "Texture",
    "TextureOptions",
    "VirtualClock",
    "__version__",
    "as_completed",
    "device_count",
    "elapsed_ms",
    "open_device",
)
