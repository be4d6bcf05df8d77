"""This project: the PTX that nvcc makes of kernels.cu, through the async runtime."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np

import zcuda_async as zc
from benchmarks.peers.base import Run
from benchmarks.problems import KERNELS_PTX, MORE_KERNELS, MORE_PTX, Problem

__all__ = ("open_peer",)


class _Zcuda:
    def __init__(self, device: zc.Device) -> None:
        self._device = device
        self._module = device.load_ptx(KERNELS_PTX.read_text(), "kernels.ptx")
        self._more = device.load_ptx(MORE_PTX.read_text(), "more.ptx")
        self._stream = device.create_stream()

    async def prepare(self, problem: Problem) -> Run:
        device, stream = self._device, self._stream
        buffers: dict[str, zc.Buffer] = {}
        for name, value in problem.arguments.items():
            if isinstance(value, np.ndarray):
                buffers[name] = device.allocate(value.nbytes)
                await stream.memcpy(buffers[name], value)
        module = self._more if problem.kernel in MORE_KERNELS else self._module
        kernel = await module.get_kernel(problem.kernel)
        config = zc.LaunchConfig(grid=problem.grid, block=problem.block)
        arguments = [buffers.get(name, value) for name, value in problem.arguments.items()]

        async def launch() -> None:
            stream.launch(kernel, config, *arguments)
            await stream.sync()

        async def fetch() -> None:
            for name, buffer in buffers.items():
                await stream.memcpy(problem.arguments[name], buffer)

        def close() -> None:
            for buffer in buffers.values():
                buffer.close()

        return Run(launch, fetch, close)


@asynccontextmanager
async def open_peer() -> AsyncIterator[_Zcuda]:
    """Open the device once for all kernels."""
    async with zc.open_device(0) as device:
        yield _Zcuda(device)
