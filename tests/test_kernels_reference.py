"""The eight benchmark kernels against numpy, through the whole stack, at drawn sizes and shapes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from kernel_references import PTX, black_scholes, heat2d, mandelbrot, nbody, saxpy

import zcuda_async as zc

pytestmark = pytest.mark.anyio

KERNELS = PTX.read_text()
drawn = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

threads = st.one_of(st.sampled_from([1, 32, 100, 256, 1024]), st.integers(1, 1024))
planes = st.sampled_from([(32, 8), (16, 16), (1, 1), (7, 5), (5, 32), (64, 1), (1, 64), (8, 8), (32, 32), (1024, 1)])
lengths = st.one_of(st.sampled_from([0, 1, 15, 16, 17, 255, 256, 257]), st.integers(0, 5000))


@pytest.fixture
async def device() -> AsyncIterator[zc.Device]:
    async with zc.open_device(0, workers=2) as opened:
        yield opened


class Run:
    """Uploads arrays, launches one kernel, and downloads an array again."""

    def __init__(self, device: zc.Device, name: str) -> None:
        self.device = device
        self.name = name
        self.stream = device.create_stream()
        self.buffers: list[zc.Buffer] = []

    def upload(self, values: npt.NDArray[Any]) -> zc.Buffer:
        buffer = self.device.allocate(max(values.nbytes, 1))
        self.buffers.append(buffer)
        if values.nbytes:
            self.stream.memcpy(buffer, values)
        return buffer

    async def launch(self, grid: Any, block: Any, *args: Any) -> None:
        kernel = await self.device.load_ptx(KERNELS, "kernels.ptx").get_kernel(self.name)
        self.stream.launch(kernel, zc.LaunchConfig(grid=grid, block=block), *args)

    async def download(self, buffer: zc.Buffer, like: npt.NDArray[Any]) -> npt.NDArray[Any]:
        result = np.empty_like(like)
        if result.nbytes:
            await self.stream.memcpy(result, buffer)
        else:
            await self.stream.sync()
        for allocated in self.buffers:
            allocated.close()
        self.stream.close()
        return result


def ceil_div(a: int, b: int) -> int:
    return max(1, -(-a // b))


def floats(count: int, low: float = 0.0, high: float = 1.0, seed: int = 0) -> npt.NDArray[np.float32]:
    generator = np.random.default_rng(seed + count)
    return (low + (high - low) * generator.random(count)).astype(np.float32)


@drawn
@given(n=lengths, block=threads)
@example(n=0, block=256)
async def test_saxpy(device: zc.Device, n: int, block: int) -> None:
    run, x, y = Run(device, "saxpy"), floats(n), floats(n + 40, seed=1)
    device_x, device_y = run.upload(x), run.upload(y)
    await run.launch(ceil_div(n, block), block, n, 1.5, device_x, device_y)
    got = await run.download(device_y, y)
    np.testing.assert_array_equal(got[:n], saxpy(1.5, x, y[:n]))
    np.testing.assert_array_equal(got[n:], y[n:])  # nothing beyond n is touched


@drawn
@given(n=lengths, block=threads)
async def test_black_scholes(device: zc.Device, n: int, block: int) -> None:
    run = Run(device, "black_scholes")
    inputs = floats(n, 5, 30), floats(n, 1, 100, 1), floats(n, 0.25, 10, 2)
    buffers = [run.upload(values) for values in inputs]
    call, put = run.upload(np.zeros(n, np.float32)), run.upload(np.zeros(n, np.float32))
    await run.launch(ceil_div(n, block), block, n, *buffers, 0.02, 0.3, call, put)
    got_call = np.empty(n, np.float32)
    if n:
        run.stream.memcpy(got_call, call)
    got_put = await run.download(put, got_call)
    want_call, want_put = black_scholes(*inputs, 0.02, 0.3)
    np.testing.assert_allclose(got_call, want_call, atol=2e-5)
    np.testing.assert_allclose(got_put, want_put, atol=2e-5)


@drawn
@given(width=st.integers(0, 150), height=st.integers(0, 40), block=planes, limit=st.integers(0, 60))
@example(width=0, height=0, block=(16, 16), limit=10)
async def test_mandelbrot(device: zc.Device, width: int, height: int, block: tuple[int, int], limit: int) -> None:
    run, out = Run(device, "mandelbrot"), np.full(width * height + 64, -7, np.int32)
    step = np.float32(2.5 / max(width, 1)), np.float32(2.5 / max(height, 1))
    target = run.upload(out)
    grid = ceil_div(width, block[0]), ceil_div(height, block[1])
    await run.launch(grid, block, width, height, -2.0, -1.25, *step, limit, target)
    got = await run.download(target, out)
    want = mandelbrot(width, height, -2.0, -1.25, float(step[0]), float(step[1]), limit)
    np.testing.assert_array_equal(got[: width * height], want.ravel())
    assert (got[width * height :] == -7).all()


@drawn
@given(blocks=st.integers(0, 3))
async def test_nbody(device: zc.Device, blocks: int) -> None:
    """n is a multiple of the 256 bodies of a tile; with n = 0 its one block loads and stores body 0."""
    n = 256 * blocks
    run, bodies = Run(device, "nbody"), floats(4 * max(n, 256)).reshape(-1, 4)
    position, target = run.upload(bodies), run.upload(np.full_like(bodies, -1))
    await run.launch(max(1, blocks), 256, n, position, target, 1e-3)
    got = await run.download(target, bodies)
    want = nbody(bodies[:n], 1e-3) if n else np.zeros((0, 4))
    np.testing.assert_allclose(got[:n], want, rtol=2e-4, atol=2e-4 * max(1.0, np.abs(want).max(initial=0)))


@drawn
@given(tiles=st.integers(0, 7))
async def test_matmul(device: zc.Device, tiles: int) -> None:
    n = 16 * tiles
    run, a, b = Run(device, "matmul"), floats(n * n), floats(n * n, seed=1)
    device_a, device_b, target = run.upload(a), run.upload(b), run.upload(np.zeros(max(n * n, 256), np.float32))
    await run.launch((max(1, tiles), max(1, tiles)), (16, 16), n, device_a, device_b, target)
    got = await run.download(target, a)
    want = (a.reshape(n, n).astype(np.float64) @ b.reshape(n, n)).ravel()
    np.testing.assert_allclose(got, want, rtol=1e-5)


@drawn
@given(n=st.integers(0, 30_000), warps=st.integers(1, 32), grid=st.integers(1, 9))
@example(n=0, warps=8, grid=2)
async def test_reduce_sum(device: zc.Device, n: int, warps: int, grid: int) -> None:
    run, x = Run(device, "reduce_sum"), floats(n)
    source, target = run.upload(x), run.upload(np.zeros(1, np.float32))
    await run.launch(grid, 32 * warps, n, source, target)
    got = await run.download(target, np.zeros(1, np.float32))
    np.testing.assert_allclose(got[0], x.sum(dtype=np.float64), rtol=1e-4)


@drawn
@given(n=st.integers(0, 30_000), block=threads, grid=st.integers(1, 9))
@example(n=0, block=1, grid=1)
async def test_histogram256(device: zc.Device, n: int, block: int, grid: int) -> None:
    run = Run(device, "histogram256")
    data = np.random.default_rng(n).integers(0, 256, n).astype(np.uint8)
    source, bins = run.upload(data), run.upload(np.zeros(256, np.uint32))
    await run.launch(grid, block, n, source, bins)
    got = await run.download(bins, np.zeros(256, np.uint32))
    np.testing.assert_array_equal(got, np.bincount(data, minlength=256))


@drawn
@given(width=st.integers(0, 150), height=st.integers(0, 40), block=planes)
@example(width=0, height=0, block=(32, 8))
@example(width=1, height=1, block=(32, 8))
async def test_heat2d(device: zc.Device, width: int, height: int, block: tuple[int, int]) -> None:
    run = Run(device, "heat2d")
    field = np.random.default_rng(width).random((height, width))
    source, target = run.upload(field), run.upload(np.full(field.size + 64, -1.0))
    grid = ceil_div(width, block[0]), ceil_div(height, block[1])
    await run.launch(grid, block, width, height, source, target, 0.1)
    got = await run.download(target, np.empty(field.size + 64))
    want = heat2d(field, 0.1).ravel() if field.size else np.empty(0)
    np.testing.assert_allclose(got[: field.size], want, rtol=1e-13, atol=1e-13)
    assert (got[field.size :] == -1).all()


@pytest.mark.parametrize("block", [(8, 4, 2), (3, 5, 7), (1, 1, 64), (16, 8, 8), (10, 10, 10)])
async def test_a_three_dimensional_block_runs_every_thread(device: zc.Device, block: tuple[int, int, int]) -> None:
    """saxpy looks at the x axis only: each of the y and z threads of a column does the same to y."""
    n = block[0]
    run, x, y = Run(device, "saxpy"), floats(n), np.zeros(n, np.float32)
    device_x, device_y = run.upload(x), run.upload(y)
    await run.launch(1, block, n, 0.0, device_x, device_y)
    np.testing.assert_array_equal(await run.download(device_y, y), y)
