"""The shape of a launch, and the packing of its arguments into the bytes that the kernel reads.

PTX knows only the width of an integer parameter: nvcc declares ``int`` as ``.u32``.  So a Python int may use
the signed and the unsigned range of its parameter, and ``.b32``/``.b64`` parameters, which carry either kind,
take a Python float as the bits of an f32 or f64.  A numpy or ctypes scalar brings its own width, which must be
the parameter's.  The common cases (an int, a float, a Buffer) are converted without any of those questions.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from zcuda_async.errors import LaunchError, Status
from zcuda_async.integers import as_integer
from zcuda_async.memory.buffer import Buffer

if TYPE_CHECKING:
    from collections.abc import Callable

    from zcuda_async.jit.info import KernelInfo, ParamInfo

__all__ = ("ArgumentPacker", "LaunchConfig", "MAX_BLOCK", "MAX_GRID", "MAX_THREADS", "check_cluster")

MAX_THREADS: Final = 1024
"""Threads a block may have."""
MAX_BLOCK: Final = (1024, 1024, 64)
"""Threads a block may have in each dimension."""
MAX_GRID: Final = (2**31 - 1, 65535, 65535)
"""Blocks a grid may have in each dimension."""

MAX_CLUSTER: Final = 16
"""Blocks a cluster may have."""

Shape = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class LaunchConfig:
    """How many blocks of how many threads a launch has.

    Args:
        grid: blocks, an int or a tuple of up to three ints ``(x, y, z)``; missing ones are 1.
        block: threads of a block, likewise; at most 1024 in all.
        shared_bytes: dynamic shared memory of each block, in bytes.
        cooperative: all blocks run at once and may wait for each other, by ``cooperative_groups::this_grid().sync()``.
        cluster: blocks of a thread block cluster, as for `grid`; they run together and reach each other's shared
            memory.  The grid must be a multiple of it in each dimension.  None: as the kernel says.

    Raises:
        TypeError: a dimension is not an int (a bool is none).
        LaunchError: `cudaErrorInvalidConfiguration` for a dimension below 1 or above the device's limit,
            `cudaErrorInvalidValue` for a negative `shared_bytes`, `cudaErrorInvalidClusterSize` for a cluster of more
            than 16 blocks or one that does not divide the grid.
    """

    grid: Shape | int | tuple[int, ...]
    block: Shape | int | tuple[int, ...]
    shared_bytes: int = 0
    cooperative: bool = False
    cluster: Shape | int | tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        """Normalise both shapes to three dimensions."""
        object.__setattr__(self, "grid", _shape("grid", self.grid, MAX_GRID))
        block = _shape("block", self.block, MAX_BLOCK)
        object.__setattr__(self, "block", block)
        threads = block[0] * block[1] * block[2]
        if threads > MAX_THREADS:
            raise LaunchError(
                Status.cudaErrorInvalidConfiguration,
                f"LaunchConfig block {block} has {threads} threads, the limit is {MAX_THREADS};"
                " use smaller blocks and a larger grid",
            )
        shared_bytes = as_integer(self.shared_bytes)
        if shared_bytes is None:
            raise TypeError(
                f"LaunchConfig shared_bytes is a number of bytes (int), got {_type_name(self.shared_bytes)}"
            )
        object.__setattr__(self, "shared_bytes", shared_bytes)
        if shared_bytes < 0:
            raise LaunchError(
                Status.cudaErrorInvalidValue,
                f"LaunchConfig shared_bytes must be at least 0, got {self.shared_bytes}",
            )
        if self.cluster is not None:
            cluster = _shape("cluster", self.cluster, MAX_GRID)
            object.__setattr__(self, "cluster", cluster)
            check_cluster(cluster, self.grid_shape)

    @property
    def block_shape(self) -> Shape:
        """The block as ``(x, y, z)``."""
        return self.block  # type: ignore[return-value]

    @property
    def grid_shape(self) -> Shape:
        """The grid as ``(x, y, z)``."""
        return self.grid  # type: ignore[return-value]


def check_cluster(cluster: Shape, grid: Shape) -> None:
    """Check a cluster against the grid it divides.

    Raises:
        LaunchError: `cudaErrorInvalidClusterSize`.
    """
    blocks = cluster[0] * cluster[1] * cluster[2]
    if blocks > MAX_CLUSTER:
        detail = f"a cluster of {cluster} has {blocks} blocks, the limit is {MAX_CLUSTER}"
    elif any(size % part for size, part in zip(grid, cluster, strict=True)):
        detail = f"the grid {grid} must be a multiple of the cluster {cluster} in each dimension"
    else:
        return
    raise LaunchError(Status.cudaErrorInvalidClusterSize, detail)


def _shape(what: str, value: object, limits: Shape) -> Shape:
    dimensions = value if isinstance(value, tuple) else (value,)
    if not 1 <= len(dimensions) <= 3:
        raise TypeError(f"LaunchConfig {what} has 1 to 3 dimensions, got {len(dimensions)}: {value!r}")
    sizes: list[int] = []
    for dimension in dimensions:
        size = as_integer(dimension)
        if size is None:
            raise TypeError(
                f"LaunchConfig {what} is an int or a tuple of up to 3 ints, got {_type_name(dimension)}: {value!r}"
            )
        sizes.append(size)
    shape = (*sizes, 1, 1)[:3]
    for axis, size, limit in zip("xyz", shape, limits, strict=True):
        if not 1 <= size <= limit:
            raise LaunchError(
                Status.cudaErrorInvalidConfiguration,
                f"LaunchConfig {what} {axis} must be 1 to {limit}, got {size};"
                + (" skip the launch when there is nothing to do" if size == 0 else f" change {what}={value!r}"),
            )
    return shape[0], shape[1], shape[2]


_KINDS: Final = {
    **dict.fromkeys(("u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64"), "int"),
    **dict.fromkeys(("f16", "f32", "f64"), "float"),
    **dict.fromkeys(("b8", "b16", "b32", "b64"), "bits"),
}
_CTYPES_SCALAR: Final[type] = ctypes.c_int.__mro__[1]
"""The base of ctypes' scalars, which has no public name."""
_INT_CODES: Final = {1: "B", 2: "H", 4: "I", 8: "Q"}
_FLOAT_CODES: Final = {2: "e", 4: "f", 8: "d"}
_CTYPES_CODES: Final = {
    **dict.fromkeys("bhilqBHILQP", "int"),
    **dict.fromkeys("fd", "float"),
    **dict.fromkeys("?c", "int"),
}


@runtime_checkable
class _NumpyDtype(Protocol):
    kind: str
    itemsize: int


class _Parameter:
    """One parameter's conversion: `convert` turns any accepted argument into what `struct` packs."""

    __slots__ = ("_bits", "_index", "_info", "_kernel", "_kind", "code", "convert", "fast_type")

    def __init__(self, kernel: str, index: int, info: ParamInfo) -> None:
        self._kernel = kernel
        self._index = index
        self._info = info
        self._kind = _KINDS.get(info.type, "struct")
        is_scalar = info.count == 1 and self._kind != "struct"
        self._bits = info.size * 8
        self.fast_type: type | None = None
        self.convert: Callable[[object], object] = self._struct
        self.code = f"{info.size}s"
        if is_scalar and self._kind == "float":
            self.code, self.convert, self.fast_type = _FLOAT_CODES[info.size], self._float, float
        elif is_scalar:
            self.code, self.convert = _INT_CODES[info.size], self._integer

    @property
    def declaration(self) -> str:
        """How the PTX text declares it, for messages."""
        array = f"[{self._info.count}]" if self._info.count != 1 else ""
        return f".param .{self._info.type}{array}"

    def _prefix(self) -> str:
        return f"{self._kernel} argument {self._index} ({self._info.name}): {self.declaration}"

    def _needs(self, got: str, fix: str) -> TypeError:
        size = self._info.size
        return TypeError(f"{self._prefix()} needs {size} byte{'s' * (size != 1)}, got {got}; pass {fix}")

    def _suggestion(self) -> str:
        if self._kind == "float":
            return f"a Python float or numpy.float{self._bits}"
        if self._kind == "struct" or self._info.count != 1:
            return f"bytes or a numpy record of exactly {self._info.size} bytes"
        if self._bits == 64:
            return "a Buffer, a device address (int), a Python int, or numpy.uint64"
        return f"a Python int or numpy.uint{self._bits}"

    def _integer(self, value: object) -> int:
        if isinstance(value, int):
            return self._in_range(int(value))
        if isinstance(value, Buffer):
            if self._bits != 64:
                raise self._needs(f"a {type(value).__name__} (8-byte address)", self._suggestion())
            return value.handle
        if isinstance(value, float) and self._kind == "bits" and not _is_numpy_scalar(value):
            return self._float_bits(value)
        kind, data = self._scalar(value)
        if kind == "float" and self._kind != "bits":
            raise self._wrong_kind(value)
        return int.from_bytes(data, "little")

    def _float(self, value: object) -> float:
        if isinstance(value, float) and not _is_numpy_scalar(value):
            self._float_bits(value)
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            return self._exact_float(value)
        kind, data = self._scalar(value)
        if kind != "float":
            raise self._wrong_kind(value)
        number: float = struct.unpack("<" + self.code, data)[0]
        return number

    def _struct(self, value: object) -> bytes:
        data = _object_bytes(value)
        if data is None:
            raise self._needs(f"{_type_name(value)}", self._suggestion())
        if len(data) != self._info.size:
            raise self._needs(f"{_type_name(value)} ({len(data)} bytes)", self._suggestion())
        return data

    def _in_range(self, value: int) -> int:
        low, high = -(1 << self._bits - 1), (1 << self._bits) - 1
        if not low <= value <= high:
            raise ValueError(
                f"{self._prefix()} holds {low} to {high}, got Python int {value};"
                " pass a value in that range, or change the kernel's parameter type"
            )
        return value & high

    def _float_bits(self, value: float) -> int:
        """The bits of a Python float in this parameter's width."""
        code = _FLOAT_CODES.get(self._info.size)
        if code is None:
            raise self._needs("Python float", self._suggestion())
        try:
            return int.from_bytes(struct.pack("<" + code, value), "little")
        except OverflowError:
            raise ValueError(
                f"{self._prefix()} cannot hold {value!r}, which is beyond the largest f{self._bits};"
                " pass a smaller value, or float('inf')"
            ) from None

    def _exact_float(self, value: int) -> float:
        try:
            number: float = struct.unpack("<" + self.code, struct.pack("<" + self.code, value))[0]
        except (OverflowError, struct.error):  # the latter for an int beyond any float
            number = float("nan")
        if number != value:
            raise ValueError(
                f"{self._prefix()} cannot hold Python int {value} exactly; pass float({value}) to round it"
            )
        return number

    def _scalar(self, value: object) -> tuple[str, bytes]:
        """A numpy or ctypes scalar's kind and bytes; its width must be this parameter's."""
        found = _scalar_bytes(value)
        if found is None:
            raise self._wrong_kind(value)
        kind, data = found
        if len(data) != self._info.size:
            raise self._needs(f"{_type_name(value)} ({len(data)} byte{'s' * (len(data) != 1)})", self._suggestion())
        return kind, data

    def _wrong_kind(self, value: object) -> TypeError:
        noun = "an integer" if self._kind == "int" else "a float" if self._kind == "float" else "a number"
        hint = self._suggestion()
        if hasattr(value, "__array_interface__") and getattr(value, "ndim", False):
            hint = "a Buffer: allocate one and copy the array into it with stream.memcpy"
        return TypeError(f"{self._prefix()} takes {noun}, got {_type_name(value)}; pass {hint}")


def _type_name(value: object) -> str:
    kind = type(value)
    if kind in (int, float, bool, str, complex, type(None)):
        return f"Python {kind.__name__}"
    module = kind.__module__
    return kind.__qualname__ if module in ("builtins", "__main__") else f"{module}.{kind.__qualname__}"


def _is_numpy_scalar(value: object) -> bool:
    """Whether it is a numpy scalar; numpy is not imported to find out."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.generic)


def _scalar_bytes(value: object) -> tuple[str, bytes] | None:
    """The kind (int or float) and bytes of a numpy or ctypes scalar, or None if it is neither."""
    if _is_numpy_scalar(value):
        dtype = getattr(value, "dtype", None)
        assert isinstance(dtype, _NumpyDtype)
        kind = {"i": "int", "u": "int", "b": "int", "f": "float"}.get(dtype.kind)
        return None if kind is None else (kind, bytes(memoryview(value)))  # type: ignore[arg-type]
    if isinstance(value, _CTYPES_SCALAR):
        kind = _CTYPES_CODES.get(getattr(value, "_type_", ""))
        return None if kind is None else (kind, memoryview(value).tobytes())  # type: ignore[arg-type]
    return None


def _object_bytes(value: object) -> bytes | None:
    """The bytes of anything with a contiguous buffer, or None."""
    try:
        view = memoryview(value)  # type: ignore[arg-type]
    except TypeError:
        return None
    return view.tobytes() if view.c_contiguous else None


class ArgumentPacker:
    """Checks and packs one kernel's arguments; made once per kernel."""

    __slots__ = ("_format", "_name", "_parameters", "_signature")

    def __init__(self, info: KernelInfo) -> None:
        self._name = info.name
        self._parameters = tuple(_Parameter(info.name, index, param) for index, param in enumerate(info.params, 1))
        self._signature = ", ".join(
            f"{parameter.declaration} {param.name}"
            for parameter, param in zip(self._parameters, info.params, strict=True)
        )
        pieces, end = ["<"], 0
        for parameter, param in zip(self._parameters, info.params, strict=True):
            pieces.append(f"{param.offset - end}x{parameter.code}")
            end = param.offset + param.size
        pieces.append(f"{max(0, info.param_bytes - end)}x")
        self._format = struct.Struct("".join(pieces))

    def pack(self, arguments: tuple[object, ...]) -> bytes:
        """The parameter buffer for `arguments`.

        Raises:
            TypeError: too many or too few, or one of the wrong kind or width.
            ValueError: a number that the parameter cannot hold.
        """
        parameters = self._parameters
        if len(arguments) != len(parameters):
            raise self._wrong_count(len(arguments))
        values = [
            argument if type(argument) is parameter.fast_type else parameter.convert(argument)
            for parameter, argument in zip(parameters, arguments, strict=True)
        ]
        try:
            return self._format.pack(*values)
        except OverflowError:  # a float too large for f32: say which
            return self._format.pack(
                *(parameter.convert(argument) for parameter, argument in zip(parameters, arguments, strict=True))
            )

    def _wrong_count(self, got: int) -> TypeError:
        count = len(self._parameters)
        takes = f"{count} argument{'s' * (count != 1)}" if count else "no arguments"
        return TypeError(
            f"{self._name} takes {takes} ({self._signature}), got {got};"
            " pass one value per parameter after the LaunchConfig"
            if count
            else f"{self._name} takes no arguments, got {got}; pass only the LaunchConfig"
        )
