"""Headers of textures for kernels that run without a device: arrays of bytes whose addresses are filled in later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from jit_harness import Case, kernel

from zcuda_async.jit.texture_header import HEADER_SIZE, LEVEL_SIZE, LEVELS_OFFSET
from zcuda_async.texture import (
    ArrayShape,
    ChannelFormat,
    TextureOptions,
    make_array,
    make_surface,
    texture_of_array,
)

Array = npt.NDArray[Any]


class FakeHeap:
    """A heap whose addresses start at 0, and that keeps what is written to it."""

    device_name = "test"
    is_closed = False

    def __init__(self) -> None:
        self.memory = bytearray()

    def reserve(self, size: int) -> int:
        """Room after everything there is; the first address is 0."""
        start = len(self.memory)
        self.memory += bytes(size)
        return start

    def register(self, _: object) -> int:
        return 0

    def release(self, *_: object) -> None:
        """Nothing to give back."""

    release_later = release

    def view(self, address: int, size: int) -> memoryview:
        return memoryview(self.memory)[address : address + size]


@dataclass(frozen=True)
class Image:
    """A texture or surface: its header, with addresses relative to its texels."""

    header: Array
    texels: Array
    format: ChannelFormat
    shape: ArrayShape
    is_surface: bool = False


def image(
    format_: ChannelFormat,
    shape: ArrayShape,
    options: TextureOptions | None = None,
    *,
    seed: int = 1,
    is_surface: bool = False,
    texels: Array | None = None,
) -> Image:
    """A texture (a surface) of random texels, or of those given."""
    heap: Any = FakeHeap()
    array = make_array(heap, format_, shape, has_surface=is_surface)
    handle = make_surface(heap, array) if is_surface else texture_of_array(heap, array, options or TextureOptions())
    header = np.frombuffer(bytes(heap.view(handle.handle, HEADER_SIZE)), np.uint8).copy()
    made = random_texels(format_, array.size, seed) if texels is None else texels
    return Image(header, made, format_, shape, is_surface)


def random_texels(format_: ChannelFormat, size: int, seed: int) -> Array:
    """`size` bytes that make numbers in the format."""
    rng = np.random.default_rng(seed)
    if format_.kind != "float":
        return rng.integers(0, 256, size, dtype=np.uint8)
    kind = np.float16 if format_.bits == 16 else np.float32
    return (rng.random(size // np.dtype(kind).itemsize) * 8 - 3).astype(kind).view(np.uint8)


INPUT: Any = np.dtype([("f", np.float32, 8), ("r", np.int32, 8)])
"""What a thread of `fetch_case` reads: %f0 to %f7 and %r10 to %r17."""

SPECIAL = np.float32(
    [0, -0.0, 0.5, 1, -1, 2, 3.5, -0.5, 1e9, -1e9, np.inf, -np.inf, np.nan, 1e-30, 0.99999994, 4.9999995]
)


def inputs(count: int, *, low: float, high: float, seed: int = 5, special: bool = True) -> Array:
    """Coordinates in a range, a few of them at the edges of what numbers there are."""
    rng = np.random.default_rng(seed)
    found = np.zeros(count, INPUT)
    found["f"] = (rng.random((count, 8)) * (high - low) + low).astype(np.float32)
    found["r"] = rng.integers(int(low) - 2, int(high) + 3, (count, 8))
    if special:
        places = rng.random((count, 8)) < 0.15
        found["f"][places] = rng.choice(SPECIAL, int(places.sum()))
        extremes = np.int32([0, -1, 2**31 - 1, -(2**31), 7])
        found["r"][places] = rng.choice(extremes, int(places.sum()))
    return found


def fetch_case(instruction: str, images: list[Image], values: Array, *, before: str = "") -> Case:
    """A kernel whose threads execute an instruction on their own `inputs`.

    Results are in %f10 to %f13, or %r20 to %r23 (then `instruction` moves them to the former).  Handles are in %d12,
    %d13…
    """
    count = len(values)
    extra = len(images)
    names = [f"u64 t{index}" for index in range(extra)] + [f"u64 x{index}" for index in range(extra)]
    loads = " ".join(f"ld.param.u64 %d{12 + index}, [t{index}];" for index in range(extra))
    links = [
        (2 + index, LEVELS_OFFSET + level * LEVEL_SIZE, 2 + extra + index)
        for index, each in enumerate(images)
        for level in range(each.shape.levels if not each.is_surface else 1)
    ]
    body = f"""{loads}
mul.wide.u32 %d4, %r7, 64; add.s64 %d4, %d0, %d4;
ld.global.v4.f32 {{%f0,%f1,%f2,%f3}}, [%d4]; ld.global.v4.f32 {{%f4,%f5,%f6,%f7}}, [%d4+16];
ld.global.v4.u32 {{%r10,%r11,%r12,%r13}}, [%d4+32]; ld.global.v4.u32 {{%r14,%r15,%r16,%r17}}, [%d4+48];
mov.b32 %f10, 0; mov.b32 %f11, 0; mov.b32 %f12, 0; mov.b32 %f13, 0;
{before}
{instruction}
mul.wide.u32 %d5, %r7, 16; add.s64 %d5, %d1, %d5;
st.global.v4.f32 [%d5], {{%f10,%f11,%f12,%f13}};
exit;
"""
    arrays = [each.header for each in images] + [each.texels for each in images]
    out = np.zeros((count, 4), np.float32)
    return Case(kernel(body, *names), [values.view(np.uint8), out, *arrays], block=(count, 1, 1), links=links)
