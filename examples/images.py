"""What the examples share: photographs as arrays, the image kernels, and the same filters in numpy.

A picture is an array of shape (height, width, 4) of uint8: red, green, blue, alpha.  In device memory it is
the same bytes, which the kernels of kernels/image.cu read as one 32-bit number per pixel.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from PIL import Image

import zcuda_async as zc

__all__ = (
    "BLOCK",
    "HISTOGRAM_CONFIG",
    "ImageKernels",
    "Pixels",
    "blur_reference",
    "edges_reference",
    "grid_over",
    "histogram_reference",
    "load_photo",
    "sample_photo",
)

Pixels = npt.NDArray[np.uint8]
Plane = npt.NDArray[np.int32]

BLOCK: Final = (32, 8)
"""Threads per block of the kernels that have a thread for each pixel."""
HISTOGRAM_CONFIG: Final = zc.LaunchConfig(grid=32, block=256)
"""The histogram kernel has each thread count many pixels, so its launch does not depend on the size."""

_PTX: Final = Path(__file__).parent / "kernels" / "image.ptx"


def sample_photo() -> Path:
    """A photograph that comes with matplotlib: Grace Hopper, 512 by 600 pixels."""
    import matplotlib

    return Path(matplotlib.get_data_path()) / "sample_data" / "grace_hopper.jpg"


def load_photo(path: Path, enlarge: int = 1) -> Pixels:
    """The picture in a file, each side `enlarge` times as long."""
    with Image.open(path) as file:
        photo = file.convert("RGB")
    if enlarge > 1:
        photo = photo.resize((photo.width * enlarge, photo.height * enlarge), Image.Resampling.BICUBIC)
    return np.array(photo.convert("RGBA"))


def grid_over(width: int, height: int) -> zc.LaunchConfig:
    """Enough blocks to give each pixel a thread."""
    columns, rows = BLOCK
    return zc.LaunchConfig(grid=(-(-width // columns), -(-height // rows)), block=BLOCK)


@dataclass(frozen=True, slots=True)
class ImageKernels:
    """The kernels of kernels/image.cu on one device."""

    blur: zc.Kernel
    sobel: zc.Kernel
    histogram: zc.Kernel

    @classmethod
    async def load(cls, device: zc.Device) -> ImageKernels:
        """Load them, compiled already for the blocks they are launched with here."""
        module = device.load_ptx(_PTX.read_text(), _PTX.name)
        kernels = cls(*[await module.get_kernel(name) for name in ("blur", "sobel", "histogram")])
        await kernels.blur.compile(BLOCK)
        await kernels.sobel.compile(BLOCK)
        await kernels.histogram.compile(HISTOGRAM_CONFIG.block_shape)
        return kernels


# -- the same in numpy, to check results -----------------------------------------------------------------


def blur_reference(image: Pixels) -> Pixels:
    """What the kernel `blur` computes: a 5x5 binomial filter."""
    blurred = image.copy()
    for channel in range(3):
        rows = _weighted(image[..., channel].astype(np.int32), (1, 4, 6, 4, 1), axis=1)
        blurred[..., channel] = (_weighted(rows, (1, 4, 6, 4, 1), axis=0) + 128) >> 8
    return blurred


def edges_reference(image: Pixels) -> Pixels:
    """What the kernel `sobel` computes: the length of the gradient of the luminance, as gray."""
    gray = _luminance(image)
    across = _weighted(_weighted(gray, (-1, 0, 1), axis=1), (1, 2, 1), axis=0)
    down = _weighted(_weighted(gray, (1, 2, 1), axis=1), (-1, 0, 1), axis=0)
    length = np.sqrt((across * across + down * down).astype(np.float32))
    edges = np.full_like(image, 255)
    edges[..., :3] = np.minimum(length + np.float32(0.5), 255).astype(np.uint8)[..., None]
    return edges


def histogram_reference(image: Pixels) -> npt.NDArray[np.uint32]:
    """What the kernel `histogram` computes: how often each of 256 luminances occurs."""
    return np.bincount(_luminance(image).ravel(), minlength=256).astype(np.uint32)


def _luminance(image: Pixels) -> Plane:
    red, green, blue = (image[..., channel].astype(np.int32) for channel in range(3))
    return (77 * red + 150 * green + 29 * blue) >> 8


def _weighted(plane: Plane, weights: tuple[int, ...], axis: int) -> Plane:
    """Each value replaced by the weighted sum of its neighbours along `axis`; the edge values repeat."""
    reach, size = len(weights) // 2, plane.shape[axis]
    places = np.arange(size)
    total = np.zeros_like(plane)
    for offset, weight in enumerate(weights, -reach):
        if weight:
            total += weight * np.take(plane, np.clip(places + offset, 0, size - 1), axis=axis)
    return total
