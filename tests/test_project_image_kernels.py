"""The example kernels against numpy, on sizes that are no multiple of a block."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import zcuda_async as zc

pytestmark = [pytest.mark.anyio, pytest.mark.pool]

KERNELS = Path(__file__).parent.parent / "examples" / "kernels"
PTX = (KERNELS / "image.ptx").read_text()
SIZES = [(1, 1), (37, 3), (70, 45)]

Pixels = npt.NDArray[np.uint8]


@pytest.fixture
async def device() -> AsyncIterator[zc.Device]:
    async with zc.open_device(0) as device:
        yield device


@pytest.fixture(params=SIZES, ids=str)
def image(request: pytest.FixtureRequest) -> Pixels:
    width, height = request.param
    pixels = np.random.default_rng(1).integers(0, 256, (height, width, 4), dtype=np.uint8)
    pixels[..., 3] = 255
    return pixels


async def run(device: zc.Device, name: str, image: Pixels, output: npt.NDArray[np.generic]) -> None:
    """Filter `image` into `output`."""
    height, width, _ = image.shape
    kernel = await device.load_ptx(PTX, "image.ptx").get_kernel(name)
    stream = device.create_stream()
    with device.allocate(image.nbytes) as source, device.allocate(output.nbytes) as target:
        stream.memcpy(source, image)
        stream.launch(
            kernel, zc.LaunchConfig((-(-width // 32), -(-height // 8)), (32, 8)), width, height, source, target
        )
        await stream.memcpy(output, target)


def luminance(image: Pixels) -> npt.NDArray[np.int64]:
    red, green, blue = (image[..., channel].astype(np.int64) for channel in range(3))
    return (77 * red + 150 * green + 29 * blue) >> 8


def neighbours(plane: npt.NDArray[np.int64], reach: int) -> npt.NDArray[np.int64]:
    """Index [dy, dx, y, x]; beyond the edge the nearest value."""
    height, width = plane.shape
    padded = np.pad(plane, reach, mode="edge")
    side = range(2 * reach + 1)
    return np.array([[padded[dy : dy + height, dx : dx + width] for dx in side] for dy in side])


async def test_grayscale(device: zc.Device, image: Pixels) -> None:
    gray = np.zeros(image.shape[:2], np.uint8)
    await run(device, "grayscale", image, gray)
    np.testing.assert_array_equal(gray, luminance(image))


async def test_blur(device: zc.Device, image: Pixels) -> None:
    blurred = np.zeros_like(image)
    await run(device, "blur", image, blurred)
    weights = np.array([1, 4, 6, 4, 1])
    for channel in range(3):
        around = neighbours(image[..., channel].astype(np.int64), 2)
        expected = (np.einsum("i,j,ijyx->yx", weights, weights, around) + 128) >> 8
        np.testing.assert_array_equal(blurred[..., channel], expected)
    assert (blurred[..., 3] == 255).all()


async def test_sobel(device: zc.Device, image: Pixels) -> None:
    edges = np.zeros_like(image)
    await run(device, "sobel", image, edges)
    around = neighbours(luminance(image), 1)
    smooth, difference = np.array([1, 2, 1]), np.array([-1, 0, 1])
    across = np.einsum("i,j,ijyx->yx", smooth, difference, around)
    down = np.einsum("i,j,ijyx->yx", difference, smooth, around)
    length = np.sqrt((across * across + down * down).astype(np.float32))
    expected = np.minimum((length + np.float32(0.5)).astype(np.int64), 255)
    for channel in range(3):
        np.testing.assert_array_equal(edges[..., channel], expected)


@pytest.mark.parametrize(("grid", "block"), [(1, 1), (3, 100), (2, 256)])
async def test_histogram(device: zc.Device, image: Pixels, grid: int, block: int) -> None:
    bins = np.zeros(256, np.uint32)
    kernel = await device.load_ptx(PTX, "image.ptx").get_kernel("histogram")
    stream = device.create_stream()
    with device.allocate(image.nbytes) as source, device.allocate(bins.nbytes) as target:
        stream.memcpy(source, image)
        stream.memset(target, 0)
        stream.launch(kernel, zc.LaunchConfig(grid, block), image.shape[0] * image.shape[1], source, target)
        await stream.memcpy(bins, target)
    np.testing.assert_array_equal(bins, np.bincount(luminance(image).ravel(), minlength=256))
