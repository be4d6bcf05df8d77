"""Launches, with the conventions for arguments that cuda.bindings has for ``kernelParams``.

`args` is one of: ``(values, ctypes types)``, two tuples of equal length, where the type None stands for an object in
memory (a ctypes structure, anything with ``getPtr``, an enum); the address of an array of pointers to the
arguments, as an int or as a buffer object holding it; or None for a kernel without parameters.

cuda.bindings has no wrappers of these two functions; the names and parameters are those of the C API.
"""

from __future__ import annotations

import ctypes
import struct
from enum import Enum
from operator import index
from typing import TYPE_CHECKING, Any, Final, SupportsIndex

from zcuda_async import CudaError, LaunchConfig, Status
from zcuda_compat.cudart.library import find_kernel
from zcuda_compat.cudart.results import status_call
from zcuda_compat.cudart.stream import find_stream
from zcuda_compat.cudart.structs import cudaLaunchConfig_t, dim3
from zcuda_compat.handles import HandleLike
from zcuda_compat.memory import resolve
from zcuda_compat.numbers import c_uint, size_t

if TYPE_CHECKING:
    import zcuda_async as zc

__all__ = ("cudaLaunchKernel", "cudaLaunchKernelExC")

Extent = dim3 | tuple[int, ...] | int

_FLOATS: Final = {"f16": struct.Struct("<e"), "f32": struct.Struct("<f"), "f64": struct.Struct("<d")}
_INTEGERS: Final = frozenset(f"{kind}{width}" for kind in "sub" for width in (8, 16, 32, 64))
_SCALARS: Final = frozenset(
    {
        *(ctypes.c_bool, ctypes.c_char, ctypes.c_wchar, ctypes.c_byte, ctypes.c_ubyte, ctypes.c_short),
        *(ctypes.c_ushort, ctypes.c_int, ctypes.c_uint, ctypes.c_long, ctypes.c_ulong, ctypes.c_longlong),
        *(ctypes.c_ulonglong, ctypes.c_size_t, ctypes.c_float, ctypes.c_double),
    }
)


@status_call
def cudaLaunchKernel(
    func: HandleLike,
    gridDim: Extent,
    blockDim: Extent,
    args: object,
    sharedMem: SupportsIndex,
    stream: HandleLike,
) -> None:
    """Launch a kernel after all earlier work on `stream`; does not wait, except for the kernel's first compilation.

    Arguments are read before the call returns.  Extents may also be ints or tuples.
    """
    _launch(func, gridDim, blockDim, args, size_t(sharedMem), stream)


@status_call
def cudaLaunchKernelExC(config: cudaLaunchConfig_t, func: HandleLike, args: object) -> None:
    """Launch a kernel as `config` says; launch attributes are not supported."""
    if config.numAttrs:
        raise CudaError(Status.cudaErrorNotSupported, "launch attributes are not supported; pass numAttrs=0")
    _launch(func, config.gridDim, config.blockDim, args, size_t(config.dynamicSmemBytes), config.stream)


def _launch(func: HandleLike, grid: Extent, block: Extent, args: object, shared: int, stream: HandleLike) -> None:
    entry, target = find_kernel(func), find_stream(stream)
    config = LaunchConfig(_shape(grid), _shape(block), shared)
    kernel = entry.on(target.primary)
    kernel.check_config(config)
    values = _arguments(kernel, args)
    entry.compile(target.primary, config.block_shape)
    target.submit(lambda queue: queue.launch(kernel, config, *values))


def _shape(extent: Extent) -> tuple[int, ...]:
    if isinstance(extent, dim3):
        return c_uint(extent.x), c_uint(extent.y), c_uint(extent.z)
    return tuple(map(c_uint, extent)) if isinstance(extent, tuple) else (c_uint(extent),)


# -- arguments ------------------------------------------------------------------------------------------------


def _arguments(kernel: zc.Kernel, args: object) -> list[object]:
    """The arguments' values, read now."""
    if isinstance(args, tuple):
        pieces = _from_tuples(kernel, args)
    else:
        pieces = _from_pointers(kernel, args)
    return [_value(param.type, param.count, data) for param, data in zip(kernel.params, pieces, strict=True)]


def _value(kind: str, count: int, data: bytes) -> object:
    """The bytes of one argument as what `Stream.launch` takes for such a parameter."""
    if count == 1 and kind in _INTEGERS:
        return int.from_bytes(data, "little")
    if count == 1 and kind in _FLOATS:
        return _FLOATS[kind].unpack(data)[0]
    return data


def _from_pointers(kernel: zc.Kernel, args: object) -> list[bytes]:
    params = kernel.params
    if not params:
        return []
    end = resolve(f"launch of {kernel.name}", "args", args, 8 * len(params))
    pointers = (ctypes.c_uint64 * len(params)).from_address(end.address)
    for number, (pointer, param) in enumerate(zip(pointers, params, strict=True), 1):
        if not pointer:
            raise CudaError(
                Status.cudaErrorInvalidValue,
                f"{kernel.name} argument {number} ({param.name}): its pointer in args is NULL",
            )
    return [ctypes.string_at(pointer, param.size) for pointer, param in zip(pointers, params, strict=True)]


def _from_tuples(kernel: zc.Kernel, args: tuple[Any, ...]) -> list[bytes]:
    if len(args) != 2 or not all(isinstance(half, tuple) for half in args):
        raise TypeError("args as tuples are (values, ctypes types), both of them tuples")
    values, types = args
    if len(values) != len(types):
        raise TypeError(f"args has {len(values)} values but {len(types)} types")
    params = kernel.params
    if len(values) != len(params):
        names = ", ".join(f"{param.type} {param.name}" for param in params)
        raise CudaError(
            Status.cudaErrorInvalidValue,
            f"{kernel.name} takes {len(params)} arguments ({names}), got {len(values)}",
        )
    pieces = []
    for number, (value, kind, param) in enumerate(zip(values, types, params, strict=True), 1):
        data = _object_bytes(value, param.size) if kind is None else _scalar_bytes(value, kind)
        if len(data) != param.size:
            raise CudaError(
                Status.cudaErrorInvalidValue,
                f"{kernel.name} argument {number} ({param.name}): .param .{param.type} needs {param.size} bytes,"
                f" got {getattr(kind, '__name__', type(value).__name__)} ({len(data)} bytes)",
            )
        pieces.append(data)
    return pieces


def _scalar_bytes(value: Any, kind: Any) -> bytes:
    """A value as the bytes of a ctypes scalar type."""
    if kind is ctypes.c_void_p:
        return struct.pack("<Q", _address(value))
    if kind not in _SCALARS:
        raise TypeError(f"{kind!r} is not a ctypes scalar type; pass None for structures")
    if isinstance(value, ctypes.c_float) and kind is ctypes.c_double:
        value = value.value
    return bytes(value if isinstance(value, kind) else kind(value))


def _address(value: Any) -> int:
    if isinstance(value, ctypes.c_void_p):
        return value.value or 0
    if callable(getattr(value, "getPtr", None)):
        return int(value.getPtr())
    return index(value) % 2**64


def _object_bytes(value: Any, size: int) -> bytes:
    """The bytes of an object that is passed by its memory."""
    if isinstance(value, ctypes.Structure):
        return bytes(value)
    if callable(getattr(value, "getPtr", None)):
        return ctypes.string_at(value.getPtr(), size)
    if isinstance(value, Enum):
        return struct.pack("<i", value.value)
    raise TypeError(
        "an argument of type None is a ctypes structure, an enum or an object with getPtr(),"
        f" got {type(value).__name__}"
    )
