"""NVIDIA Warp's CPU device, which has no shared memory and no barriers: plain loops, six of the eight kernels."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any

import numpy as np
import warp

from benchmarks.peers.base import Run
from benchmarks.problems import Problem

__all__ = ("open_peer",)


class _Warp:
    def __init__(self, kernels: ModuleType) -> None:
        self._kernels = kernels

    async def prepare(self, problem: Problem) -> Run | None:
        kernel = getattr(self._kernels, problem.kernel, None)
        if kernel is None:
            return None
        arrays = {
            name: warp.from_numpy(value, dtype=_dtype(value), device="cpu")
            for name, value in problem.arguments.items()
            if isinstance(value, np.ndarray)
        }
        inputs = [arrays.get(name, value) for name, value in problem.arguments.items()]

        async def launch() -> None:
            warp.launch(kernel, dim=_dimensions(problem), inputs=inputs, device="cpu")

        async def fetch() -> None:
            for name, array in arrays.items():
                target = problem.arguments[name]
                np.copyto(target, array.numpy().reshape(target.shape))

        return Run(launch, fetch)


def _dtype(array: np.ndarray[Any, Any]) -> Any:
    if array.ndim == 2:
        return warp.vec4
    return {"f": float, "d": warp.float64, "i": int}[array.dtype.char]


def _dimensions(problem: Problem) -> int | tuple[int, int]:
    arguments = problem.arguments
    if "w" in arguments:
        return arguments["h"], arguments["w"]
    return (arguments["n"], arguments["n"]) if problem.kernel == "matmul" else arguments["n"]


@asynccontextmanager
async def open_peer() -> AsyncIterator[_Warp]:
    """Start Warp; kernels are compiled at their first launch."""
    if hasattr(warp.config, "log_level"):  # before the kernels are declared, which starts Warp
        warp.config.log_level = warp.LOG_WARNING
    else:
        warp.config.quiet = True
    from benchmarks.peers import warp_kernels

    yield _Warp(warp_kernels)
