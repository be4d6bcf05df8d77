"""The eight problems of the first set: inputs, launch shapes, and where the answer is; and all twenty by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.more_problems import MORE_KERNELS, MORE_PTX, make_more_problem
from benchmarks.problem import Problem

__all__ = ("ALL_KERNELS", "KERNELS", "KERNELS_PTX", "MORE_KERNELS", "MORE_PTX", "Problem", "make_problem")

KERNELS_PTX: Final = Path(__file__).with_name("kernels.ptx")

KERNELS: Final = (
    "saxpy",
    "black_scholes",
    "mandelbrot",
    "nbody",
    "matmul",
    "reduce_sum",
    "histogram256",
    "heat2d",
)

ALL_KERNELS: Final = (*KERNELS, *MORE_KERNELS)

_ANSWERS: Final = {
    "saxpy": "y",
    "black_scholes": "call",
    "mandelbrot": "out",
    "nbody": "acc",
    "matmul": "C",
    "reduce_sum": "out",
    "histogram256": "bins",
    "heat2d": "v",
}


def make_problem(kernel: str, scale: float = 1.0) -> Problem:
    """Return the same inputs at each call; `scale` shrinks the sizes (down to a few blocks) for trials."""
    if kernel in MORE_KERNELS:
        return make_more_problem(kernel, scale)
    random = np.random.default_rng(7)

    def floats(count: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        return random.random(count, dtype=np.float32)

    def size(full: int, multiple: int = 1) -> int:
        return max(multiple, int(full * scale) // multiple * multiple)

    arguments: dict[str, Any]
    match kernel:
        case "saxpy":
            n = size(1 << 24)
            arguments = {"n": n, "a": np.float32(1.5), "x": floats(n), "y": floats(n)}
        case "black_scholes":
            n = size(1 << 22)
            arguments = {
                "n": n,
                "S": 5 + 25 * floats(n),
                "X": 1 + 99 * floats(n),
                "T": np.float32(0.25) + np.float32(9.75) * floats(n),
                "r": np.float32(0.02),
                "v": np.float32(0.30),
                "call": np.zeros(n, np.float32),
                "put": np.zeros(n, np.float32),
            }
        case "mandelbrot":
            width, height = size(2048, 32), size(2048, 8)
            arguments = {
                "w": width,
                "h": height,
                "x0": np.float32(-2),
                "y0": np.float32(-1.25),
                "dx": np.float32(2.5 / width),
                "dy": np.float32(2.5 / height),
                "limit": 256,
                "out": np.zeros(width * height, np.int32),
            }
        case "nbody":
            n = size(1 << 14, 256)
            positions = floats(4 * n).reshape(n, 4)
            arguments = {"n": n, "pos": positions, "acc": np.zeros_like(positions), "eps2": np.float32(1e-3)}
        case "matmul":
            n = size(768, 32)
            arguments = {"n": n, "A": floats(n * n), "B": floats(n * n), "C": np.zeros(n * n, np.float32)}
        case "reduce_sum":
            n = size(1 << 24)
            arguments = {"n": n, "x": floats(n), "out": np.zeros(1, np.float32)}
        case "histogram256":
            n = size(1 << 25, 64)
            data = random.integers(0, 256, n, dtype=np.uint8)
            arguments = {"n": n, "data": data, "bins": np.zeros(256, np.uint32)}
        case "heat2d":
            width, height = size(4096), size(4096)
            arguments = {
                "w": width,
                "h": height,
                "u": random.random(width * height),
                "v": np.zeros(width * height),
                "k": 0.1,
            }
        case _:
            raise ValueError(f"no such kernel: {kernel!r}; choose from {', '.join(ALL_KERNELS)}")
    grid, block = _launch_shape(kernel, arguments)
    return Problem(kernel, arguments, grid, block, _ANSWERS[kernel])


def _launch_shape(kernel: str, arguments: dict[str, Any]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    match kernel:
        case "mandelbrot" | "heat2d":
            return (-(-arguments["w"] // 32), -(-arguments["h"] // 8)), (32, 8)
        case "matmul":
            return (arguments["n"] // 16, arguments["n"] // 16), (16, 16)
        case "reduce_sum" | "histogram256":
            return (256,), (256,)
        case _:
            return (-(-arguments["n"] // 256),), (256,)
