"""Arrays, and the textures and surfaces by which kernels see them.

An `Array` is an image in device memory: rows one after another, planes or layers one after another, levels of its
mipmap one after another.  Its bytes are copied like any others, through `Array.view`.  A `Texture` reads an array, or
a plain buffer, with a format, a filter and address modes (`TextureOptions`); a `Surface` reads and writes an array.
Either is passed to a kernel as it is, for its ``cudaTextureObject_t`` or ``cudaSurfaceObject_t``.

CUDA C++ Programming Guide, "Texture and Surface Memory"; CUDA Runtime API, "Texture Object Management".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from math import isfinite
from struct import pack, unpack
from typing import TYPE_CHECKING, Final

from zcuda_async.errors import CudaError, Status
from zcuda_async.jit.texture_header import CONVERSIONS, HEADER_SIZE, MOST_LEVELS, SURFACE, TEXTURE, Level, pack_header
from zcuda_async.memory.buffer import Buffer, BufferView

if TYPE_CHECKING:
    from zcuda_async.memory.heap import Heap

__all__ = (
    "AddressMode",
    "Array",
    "ArrayShape",
    "ChannelFormat",
    "FilterMode",
    "Handle",
    "ReadMode",
    "Surface",
    "Texture",
    "TextureOptions",
    "make_array",
    "make_surface",
    "make_texture",
    "texture_of_array",
)


class AddressMode(IntEnum):
    """What lies beyond an image's edges (``cudaTextureAddressMode``)."""

    WRAP = 0
    """The image again; only with normalized coordinates, else as CLAMP."""
    CLAMP = 1
    """The texels at the edge."""
    MIRROR = 2
    """The image, mirrored; only with normalized coordinates, else as CLAMP."""
    BORDER = 3
    """The border's colour."""


class FilterMode(IntEnum):
    """What is read between texels (``cudaTextureFilterMode``)."""

    POINT = 0
    LINEAR = 1


class ReadMode(IntEnum):
    """What becomes of integers (``cudaTextureReadMode``)."""

    ELEMENT_TYPE = 0
    NORMALIZED_FLOAT = 1
    """Those of 8 and 16 bits become floats from 0 (signed: -1) to 1."""


_KINDS: Final = {"uint": "unsigned", "int": "signed", "float": "float"}
_BITS: Final = {"unsigned": (8, 16, 32), "signed": (8, 16, 32), "float": (16, 32)}
_DATA_TYPES: Final = {
    ("signed", 8): 0x10D7,
    ("signed", 16): 0x10D8,
    ("signed", 32): 0x10D9,
    ("unsigned", 8): 0x10DA,
    ("unsigned", 16): 0x10DB,
    ("unsigned", 32): 0x10DC,
    ("float", 16): 0x10DD,
    ("float", 32): 0x10DE,
}
_NORMALIZED_TYPES: Final = {
    ("signed", 8): 0x10D0,
    ("signed", 16): 0x10D1,
    ("unsigned", 8): 0x10D2,
    ("unsigned", 16): 0x10D3,
}
_ORDERS: Final = {1: 0x10B0, 2: 0x10B2, 4: 0x10B5}
_ASKED_MODES: Final = {AddressMode.WRAP: 0, AddressMode.MIRROR: 1, AddressMode.CLAMP: 3, AddressMode.BORDER: 4}
"""How PTX numbers address modes (PTX ISA 5.3, "Texture Sampler and Surface Types")."""


@dataclass(frozen=True, slots=True)
class ChannelFormat:
    """What a texel is (``cudaChannelFormatDesc``): `channels` numbers of `bits` bits.

    Args:
        kind: ``"unsigned"``, ``"signed"`` or ``"float"``.
        bits: 8, 16 or 32; 16 or 32 for floats.
        channels: 1, 2 or 4.

    Raises:
        CudaError: `cudaErrorInvalidChannelDescriptor` for any other.
    """

    kind: str
    bits: int
    channels: int = 1

    def __post_init__(self) -> None:
        """Check the format."""
        if self.kind not in _BITS or self.bits not in _BITS[self.kind] or self.channels not in _ORDERS:
            raise CudaError(
                Status.cudaErrorInvalidChannelDescriptor,
                f"there is no format of {self.channels} {self.kind} channels of {self.bits} bits; use 1, 2 or 4"
                " channels, unsigned or signed of 8, 16 or 32 bits, or float of 16 or 32",
            )

    @staticmethod
    def of(dtype: object, channels: int = 1) -> ChannelFormat:
        """The format of `channels` numbers of a numpy dtype or its name, e.g. ``ChannelFormat.of("uint8", 4)``."""
        name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", None) or getattr(dtype, "name", "")
        stem = str(name).rstrip("0123456789")
        digits = str(name)[len(stem) :]
        if stem not in _KINDS or not digits:
            raise TypeError(f"a channel is a numpy dtype such as 'uint8' or numpy.float32, got {dtype!r}")
        return ChannelFormat(_KINDS[stem], int(digits), channels)

    @property
    def texel_bytes(self) -> int:
        """Bytes of a texel."""
        return self.bits // 8 * self.channels


@dataclass(frozen=True, slots=True, kw_only=True)
class TextureOptions:
    """How a texture is read (``cudaTextureDesc``).

    Args:
        address_mode: one mode, or one for each axis.
        filter_mode: what is read between texels; LINEAR takes a texture that gives floats.
        read_mode: what becomes of integers.
        normalized_coords: whether coordinates go from 0 to 1 (exclusive) instead of to the number of texels.
        border_color: what BORDER gives, for each channel.
        srgb: whether bytes are in the sRGB curve and become linear; takes NORMALIZED_FLOAT of unsigned bytes.
        mipmap_filter_mode: what is read between levels.
        mipmap_level_bias: added to the level that is asked for.
        min_mipmap_level_clamp: no lower level is read.
        max_mipmap_level_clamp: no higher one; None for all there are.
    """

    address_mode: AddressMode | Sequence[AddressMode] = AddressMode.CLAMP
    filter_mode: FilterMode = FilterMode.POINT
    read_mode: ReadMode = ReadMode.ELEMENT_TYPE
    normalized_coords: bool = False
    border_color: Sequence[float] = (0.0, 0.0, 0.0, 0.0)
    srgb: bool = False
    mipmap_filter_mode: FilterMode = FilterMode.POINT
    mipmap_level_bias: float = 0.0
    min_mipmap_level_clamp: float = 0.0
    max_mipmap_level_clamp: float | None = None

    def __post_init__(self) -> None:
        """Check the modes."""
        modes = self.address_modes
        if len(self.border_color) != 4:
            raise _invalid(f"border_color has 4 channels, got {len(self.border_color)}")
        if len(modes) != 3:
            raise _invalid(f"address_mode is one mode or three, got {len(modes)}")

    @property
    def address_modes(self) -> tuple[AddressMode, ...]:
        """The mode of each axis."""
        if isinstance(self.address_mode, Sequence):
            given = tuple(AddressMode(mode) for mode in self.address_mode)
            return (*given, *(AddressMode.CLAMP,) * (3 - len(given)))
        return (AddressMode(self.address_mode),) * 3


@dataclass(frozen=True, slots=True)
class ArrayShape:
    """How large an image is, in texels: `height` and `depth` are 0 where it has no such axis; `layers` likewise.

    A cubemap has six square layers for each cube, in the order +x, -x, +y, -y, +z, -z.
    """

    width: int
    height: int = 0
    depth: int = 0
    layers: int = 0
    is_cubemap: bool = False
    levels: int = 1

    def __post_init__(self) -> None:
        """Check that there is such an image."""
        sizes = (self.width, self.height, self.depth)
        if any(isinstance(size, bool) or not isinstance(size, int) for size in (*sizes, self.layers, self.levels)):
            raise TypeError(f"an array's sizes are ints, got {self!r}")
        limits = _LIMITS[self._kind()]
        for name, size, limit in zip(("width", "height", "depth"), sizes, limits, strict=True):
            if not 0 <= size <= limit or (name == "width" and size == 0):
                raise _invalid(f"an array of this kind has a {name} of at most {limit}, got {size}")
        if not 0 <= self.layers <= _MOST_LAYERS:
            raise _invalid(f"an array has at most {_MOST_LAYERS} layers, got {self.layers}")
        if (self.depth and not self.height) or (self.depth and self.layers):
            raise _invalid("an array with a depth has a height, and no layers")
        if self.is_cubemap and (self.width != self.height or not self.layers or self.layers % 6):
            raise _invalid("a cubemap is square and has six layers for each cube")
        most = max(sizes).bit_length()
        if not 1 <= self.levels <= min(most, MOST_LEVELS):
            raise _invalid(f"an array of this size has 1 to {min(most, MOST_LEVELS)} levels, got {self.levels}")

    def _kind(self) -> str:
        if self.depth:
            return "3d"
        name = "2d" if self.height else "1d"
        return name + (" layered" if self.layers else "")

    def level(self, number: int) -> tuple[int, int, int]:
        """(width, height, depth) of a level; what has no such axis counts 1."""
        return (
            max(1, self.width >> number),
            max(1, self.height >> number),
            max(1, self.depth >> number),
        )


_LIMITS: Final = {
    "1d": (131072, 0, 0),
    "2d": (131072, 65536, 0),
    "3d": (16384, 16384, 16384),
    "1d layered": (32768, 0, 0),
    "2d layered": (32768, 32768, 0),
}
"""CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"."""
_MOST_LAYERS: Final = 2048 * 6
_LINEAR_LIMIT: Final = 1 << 28


def _invalid(message: str) -> CudaError:
    return CudaError(Status.cudaErrorInvalidValue, message)


@dataclass(frozen=True, slots=True)
class _Layout:
    """Where the levels of an array start, and its size, in bytes."""

    format: ChannelFormat
    shape: ArrayShape
    starts: tuple[int, ...]
    size: int


def _layout(format_: ChannelFormat, shape: ArrayShape) -> _Layout:
    starts, size = [], 0
    for number in range(shape.levels):
        starts.append(size)
        width, height, depth = shape.level(number)
        size += width * height * depth * max(1, shape.layers) * format_.texel_bytes
        size = -(-size // _LEVEL_ALIGNMENT) * _LEVEL_ALIGNMENT
    return _Layout(format_, shape, tuple(starts), size)


class Array(Buffer):
    """An image in device memory, made by `Device.create_array` (``cudaMallocArray``, ``cudaMalloc3DArray``).

    `view` is the memory of one of its levels, to be copied from and to.
    """

    __slots__ = ("format", "has_surface", "shape", "starts")

    def __init__(self, heap: Heap, handle: int, layout: _Layout, *, has_surface: bool) -> None:
        self.format = layout.format
        self.shape = layout.shape
        self.has_surface = has_surface
        self.starts = layout.starts
        super().__init__(heap, handle, layout.size)

    def view(self, level: int = 0) -> BufferView:
        """The bytes of a level: texel by texel, row by row, plane by plane or layer by layer, without gaps.

        A C-contiguous numpy array of shape ([layers or depth,] [height,] width[, channels]) has the same layout.
        """
        if not 0 <= level < self.shape.levels:
            raise _invalid(f"{self!r} has levels 0 to {self.shape.levels - 1}, not {level}")
        width, height, depth = self.shape.level(level)
        size = width * height * depth * max(1, self.shape.layers) * self.format.texel_bytes
        return self[self.starts[level] : self.starts[level] + size]

    def levels(self) -> list[Level]:
        """Where its levels are, for a header."""
        found = []
        for number, start in enumerate(self.starts):
            width, height, depth = self.shape.level(number)
            pitch = width * self.format.texel_bytes
            found.append(Level(self.handle + start, pitch * height, pitch, width, height, depth))
        return found


_LEVEL_ALIGNMENT: Final = 256


class Handle(Buffer):
    """What a kernel gets for a texture or surface: the address of its header in device memory."""

    __slots__ = ("resource",)

    def __init__(self, heap: Heap, handle: int, resource: Buffer) -> None:
        self.resource = resource
        """What it reads (a surface: also writes)."""
        super().__init__(heap, handle, HEADER_SIZE)

    def retain(self) -> None:
        """Note that an operation uses it, and so what it reads."""
        self.resource.retain()
        try:
            super().retain()
        except BaseException:
            self.resource.drop()
            raise

    def drop(self) -> None:
        """Note that an operation that used it ended."""
        super().drop()
        self.resource.drop()

    def __getitem__(self, part: slice) -> BufferView:
        """Refuse: a handle is no memory."""
        raise TypeError(f"{self!r} is a handle, not memory; use its resource")

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.handle:#x} of {self.resource!r}>"


class Texture(Handle):
    """A texture object, made by `Device.create_texture`; pass it to a launch.  `close` it when nobody needs it."""

    __slots__ = ()


class Surface(Handle):
    """A surface object, made by `Device.create_surface`; pass it to a launch."""

    __slots__ = ()


def make_array(heap: Heap, format_: ChannelFormat, shape: ArrayShape, *, has_surface: bool) -> Array:
    """What `Device.create_array` makes."""
    if not isinstance(format_, ChannelFormat):
        raise TypeError(f"an array takes a ChannelFormat, got {type(format_).__name__}")
    layout = _layout(format_, shape)
    return Array(heap, heap.reserve(layout.size), layout, has_surface=has_surface)


def _make_texture(heap: Heap, resource: Buffer, header: bytes) -> Texture:
    return Texture(heap, _place(heap, header), resource)


def _place(heap: Heap, header: bytes) -> int:
    """The address of a copy of a header."""
    handle = heap.reserve(HEADER_SIZE)
    heap.view(handle, HEADER_SIZE)[:] = header
    return handle


def make_surface(heap: Heap, array: Array, level: int = 0) -> Surface:
    """What `Device.create_surface` makes."""
    if not isinstance(array, Array):
        raise TypeError(f"create_surface takes an Array, got {type(array).__name__}")
    if not 0 <= level < array.shape.levels:
        raise _invalid(f"{array!r} has levels 0 to {array.shape.levels - 1}, not {level}")
    if not array.has_surface:
        raise _invalid(f"{array!r} was made without surface=True, so there is no surface of it")
    fields = _format_fields(array.format, ReadMode.ELEMENT_TYPE, srgb=False) | {
        "kind": SURFACE,
        "layers": array.shape.layers,
        "array_size": array.shape.layers,
        "levels": 1,
    }
    return Surface(heap, _place(heap, pack_header(fields, array.levels()[level : level + 1])), array)


def make_texture(
    heap: Heap,
    resource: Array | Buffer,
    options: TextureOptions | None,
    format_: ChannelFormat | None,
    size: int | tuple[int, int] | None,
    pitch_bytes: int,
) -> Texture:
    """What `Device.create_texture` makes."""
    options = TextureOptions() if options is None else options
    if not isinstance(options, TextureOptions):
        raise TypeError(f"create_texture takes TextureOptions, got {type(options).__name__}")
    if isinstance(resource, Handle) or not hasattr(resource, "retain"):
        raise TypeError(f"create_texture takes an Array or a Buffer, got {type(resource).__name__}")
    if resource.heap is not heap:
        raise _invalid(f"{resource!r} is not this device's own memory")
    if isinstance(resource, Array):
        if format_ is not None or size is not None or pitch_bytes:
            raise TypeError("an array has its own format and size; leave format, size and pitch_bytes out")
        return texture_of_array(heap, resource, options)
    if format_ is None:
        raise TypeError("a texture of a buffer needs format=ChannelFormat(...)")
    if size is None:
        size = resource.size // format_.texel_bytes
    shape = size if isinstance(size, int) else ArrayShape(*size)
    return texture_of_buffer(heap, resource, format_, shape, pitch_bytes, options)


def texture_of_array(heap: Heap, array: Array, options: TextureOptions) -> Texture:
    """A texture of an image.

    Raises:
        CudaError: `cudaErrorInvalidFilterSetting`, `cudaErrorInvalidNormSetting` or `cudaErrorInvalidValue`.
    """
    shape = array.shape
    if shape.levels > 1 and not options.normalized_coords:
        raise _invalid("a texture with several levels takes normalized_coords=True")
    fields = _fields(array.format, options, is_normalized=options.normalized_coords or shape.is_cubemap)
    if shape.is_cubemap:
        fields |= dict.fromkeys(("address_x", "address_y"), AddressMode.CLAMP)
    fields |= {
        "layers": shape.layers,
        "array_size": shape.layers // (6 if shape.is_cubemap else 1),
        "levels": shape.levels,
    }
    most = options.max_mipmap_level_clamp
    fields["level_most"] = shape.levels - 1 if most is None else most
    return _make_texture(heap, array, pack_header(fields, array.levels()))


def texture_of_buffer(
    heap: Heap, buffer: Buffer, format_: ChannelFormat, shape: ArrayShape | int, pitch: int, options: TextureOptions
) -> Texture:
    """A texture of plain memory: a row of texels (`shape` is their number), or rows `pitch` bytes apart.

    A row is read by whole numbers (``tex1Dfetch``), and is 0 beyond its ends.

    Raises:
        CudaError: as `texture_of_array`; `cudaErrorInvalidValue` also where the buffer is too small.
    """
    if isinstance(shape, int):
        if not 1 <= shape <= _LINEAR_LIMIT:
            raise _invalid(f"a texture of a row has 1 to {_LINEAR_LIMIT} texels, got {shape}")
        size, level = shape * format_.texel_bytes, Level(buffer.handle, 0, 0, shape, 1, 1)
        if options.filter_mode is FilterMode.LINEAR or options.normalized_coords:
            raise _invalid("a texture of a row of texels has no filter and no normalized coordinates; use an array")
    else:
        pitch = pitch or shape.width * format_.texel_bytes
        if pitch < shape.width * format_.texel_bytes or pitch % format_.texel_bytes:
            raise _invalid(
                f"rows of {shape.width} texels need a pitch that is a multiple of {format_.texel_bytes}"
                f" bytes and at least {shape.width * format_.texel_bytes}, got {pitch}"
            )
        size = pitch * (shape.height - 1) + shape.width * format_.texel_bytes
        level = Level(buffer.handle, 0, pitch, shape.width, shape.height, 1)
    if size > buffer.size:
        raise _invalid(f"the texture's {size} bytes are more than {buffer!r} has")
    fields = _fields(format_, options, is_normalized=options.normalized_coords) | {"levels": 1}
    if isinstance(shape, int):
        fields |= {"address_x": AddressMode.BORDER, **{f"border_{index}": 0 for index in range(4)}}
    return _make_texture(heap, buffer, pack_header(fields, [level]))


def _gives_floats(format_: ChannelFormat, read_mode: ReadMode) -> bool:
    return format_.kind == "float" or read_mode is ReadMode.NORMALIZED_FLOAT


def _fields(format_: ChannelFormat, options: TextureOptions, *, is_normalized: bool) -> dict[str, int | float]:
    """The fields of a header that do not depend on sizes."""
    gives_floats = _gives_floats(format_, options.read_mode)
    if options.read_mode is ReadMode.NORMALIZED_FLOAT and format_.kind != "float" and format_.bits == 32:
        raise CudaError(Status.cudaErrorInvalidNormSetting, "channels of 32 bits cannot be read as normalized floats")
    if FilterMode.LINEAR in (options.filter_mode, options.mipmap_filter_mode) and not gives_floats:
        raise CudaError(
            Status.cudaErrorInvalidFilterSetting,
            "linear filtering takes a texture that gives floats; use a float format or ReadMode.NORMALIZED_FLOAT",
        )
    if options.srgb and (format_.kind, format_.bits, options.read_mode) != ("unsigned", 8, ReadMode.NORMALIZED_FLOAT):
        raise _invalid("srgb takes unsigned channels of 8 bits and ReadMode.NORMALIZED_FLOAT")
    fields = _format_fields(format_, options.read_mode, srgb=options.srgb)
    for name, mode in zip("xyz", options.address_modes, strict=True):
        repeats = mode in (AddressMode.WRAP, AddressMode.MIRROR)
        fields[f"address_{name}"] = AddressMode.CLAMP if repeats and not is_normalized else mode
    for index, mode in enumerate(options.address_modes):
        fields[f"asked_mode_{index}"] = _ASKED_MODES[mode]
    for index, value in enumerate(options.border_color):
        fields[f"border_{index}"] = _border(value, format_, gives_floats=gives_floats)
    return fields | {
        "kind": TEXTURE,
        "is_normalized": is_normalized,
        "is_unnormalized": not is_normalized,
        "is_linear": options.filter_mode is FilterMode.LINEAR,
        "is_level_linear": options.mipmap_filter_mode is FilterMode.LINEAR,
        "level_bias": options.mipmap_level_bias,
        "level_least": options.min_mipmap_level_clamp,
    }


def _format_fields(format_: ChannelFormat, read_mode: ReadMode, *, srgb: bool) -> dict[str, int | float]:
    key = (format_.kind, format_.bits)
    gives_floats = _gives_floats(format_, read_mode)
    if format_.kind == "float":
        conversion = "half" if format_.bits == 16 else "raw"
    elif gives_floats:
        conversion = "srgb" if srgb else "snorm" if format_.kind == "signed" else "unorm"
    else:
        conversion = "signed" if format_.kind == "signed" and format_.bits < 32 else "raw"
    types = _DATA_TYPES if format_.kind == "float" or not gives_floats else _NORMALIZED_TYPES
    return {
        "texel_bytes": format_.texel_bytes,
        "channel_bits": format_.bits,
        "channels": format_.channels,
        "conversion": CONVERSIONS.index(conversion),
        "alpha": 0x3F800000 if gives_floats else 1,
        "channel_data_type": types[key],
        "channel_order": _ORDERS[format_.channels],
    }


def _border(value: float, format_: ChannelFormat, *, gives_floats: bool) -> int:
    """A channel of the border's colour, as the texture gives it."""
    if gives_floats:
        return int(unpack("<I", pack("<f", value))[0])
    if not isfinite(value):
        raise _invalid(f"the border of a texture of integers is a number, got {value!r}")
    span = 1 << format_.bits
    low = -(span >> 1) if format_.kind == "signed" else 0
    return min(max(int(value), low), low + span - 1) & 0xFFFFFFFF
