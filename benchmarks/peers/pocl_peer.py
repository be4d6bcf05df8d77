"""PoCL: the same kernels in OpenCL C, on the CPU device of the Portable Computing Language."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.peers.base import PeerMissingError, Run
from benchmarks.problems import KERNELS, Problem

__all__ = ("open_peer",)

_SOURCE: Final = Path(__file__).with_name("kernels.cl")
_SYSTEM_DRIVERS: Final = Path("/etc/OpenCL/vendors")


class _Pocl:
    def __init__(self, opencl: Any, program: Any) -> None:
        self._opencl = opencl
        self._program = program
        self._queue = opencl.CommandQueue(program.context)

    async def prepare(self, problem: Problem) -> Run | None:
        opencl, queue = self._opencl, self._queue
        flags = opencl.mem_flags.READ_WRITE | opencl.mem_flags.USE_HOST_PTR
        buffers = {
            name: opencl.Buffer(self._program.context, flags, hostbuf=value)
            for name, value in problem.arguments.items()
            if isinstance(value, np.ndarray)
        }
        if problem.kernel not in KERNELS:
            return None
        kernel = opencl.Kernel(self._program, problem.kernel)
        kernel.set_args(*(buffers.get(name) or _scalar(value) for name, value in problem.arguments.items()))
        threads = tuple(blocks * size for blocks, size in zip(problem.grid, problem.block, strict=True))

        async def launch() -> None:
            opencl.enqueue_nd_range_kernel(queue, kernel, threads, problem.block).wait()

        async def fetch() -> None:
            for name, buffer in buffers.items():
                opencl.enqueue_copy(queue, problem.arguments[name], buffer).wait()

        return Run(launch, fetch)


def _scalar(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value
    return np.float64(value) if isinstance(value, float) else np.int32(value)


@asynccontextmanager
async def open_peer() -> AsyncIterator[_Pocl]:
    """Build the program on the first PoCL that knows this processor."""
    if _SYSTEM_DRIVERS.is_dir():  # pyopencl's own loader finds only the PyPI build otherwise
        os.environ.setdefault("OCL_ICD_VENDORS", str(_SYSTEM_DRIVERS))
    import pyopencl

    yield _Pocl(pyopencl, _build(pyopencl))


def _build(opencl: Any) -> Any:
    problem = "no PoCL driver; pip install pocl-binary-distribution, or install pocl-opencl-icd"
    try:
        platforms = opencl.get_platforms()
    except opencl.LogicError:
        raise PeerMissingError(problem) from None
    for platform in platforms:
        if "Portable" not in platform.name:
            continue
        for device in platform.get_devices():
            try:
                return opencl.Program(opencl.Context([device]), _SOURCE.read_text()).build(["-cl-fast-relaxed-math"])
            except opencl.RuntimeError as exc:
                errors = [line for line in str(exc).splitlines() if line.startswith("error:")]
                problem = f"{platform.version} cannot compile here ({'; '.join(errors)}); a newer PoCL may"
    raise PeerMissingError(problem)
