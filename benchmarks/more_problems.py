"""The twelve more problems (see more.cu): inputs, launch shapes, and where the answer is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.problem import Problem, blocks

__all__ = ("MORE_KERNELS", "MORE_PTX", "make_more_problem")

MORE_PTX: Final = Path(__file__).with_name("more.ptx")


class _Inputs:
    """Reproducible inputs at a scale."""

    def __init__(self, scale: float) -> None:
        self._scale = scale
        self.random = np.random.default_rng(7)

    def size(self, full: int, multiple: int = 1) -> int:
        return max(multiple, int(full * self._scale) // multiple * multiple)

    def floats(self, *shape: int) -> np.ndarray[Any, np.dtype[np.float32]]:
        return self.random.random(shape, dtype=np.float32)


def _scan(inputs: _Inputs) -> Problem:
    n = inputs.size(1 << 23)
    values = inputs.random.integers(-9, 9, n, dtype=np.int32)
    return Problem(
        "scan_blocks", {"n": n, "in": values, "out": np.zeros_like(values)}, (blocks(n, 1024),), (1024,), "out"
    )


def _transpose(inputs: _Inputs) -> Problem:
    w, h = inputs.size(3000, 32), inputs.size(2000, 32)
    source = inputs.floats(w * h)
    grid = (blocks(w, 32), blocks(h, 32))
    return Problem("transpose", {"w": w, "h": h, "in": source, "out": np.zeros_like(source)}, grid, (32, 8), "out")


def _convolve(inputs: _Inputs) -> Problem:
    w, h = inputs.size(2048, 32), inputs.size(1024, 8)
    source = inputs.floats(w * h)
    arguments = {"w": w, "h": h, "in": source, "f": inputs.floats(25), "out": np.zeros_like(source)}
    return Problem("convolve5", arguments, (blocks(w, 32), blocks(h, 8)), (32, 8), "out")


def _spmv(inputs: _Inputs) -> Problem:
    rows = inputs.size(50_000, 8)
    start = np.concatenate([[0], np.cumsum(inputs.random.integers(10, 90, rows))]).astype(np.int32)
    column = inputs.random.integers(0, rows, start[-1], dtype=np.int32)
    arguments = {
        "rows": rows,
        "start": start,
        "column": column,
        "value": inputs.floats(len(column)),
        "x": inputs.floats(rows),
        "y": np.zeros(rows, np.float32),
    }
    return Problem("spmv", arguments, (blocks(rows, 8),), (256,), "y")


def _stencil(inputs: _Inputs) -> Problem:
    nx, ny, nz = (inputs.size(size, 16) for size in (256, 192, 128))
    source = inputs.floats(nx * ny * nz)
    arguments = {"nx": nx, "ny": ny, "nz": nz, "u": source, "v": np.zeros_like(source), "k": np.float32(0.1)}
    return Problem("stencil7", arguments, (blocks(nx, 32), blocks(ny, 8)), (32, 8), "v")


def _bitonic(inputs: _Inputs) -> Problem:
    segments = inputs.size(2000)
    data = inputs.random.integers(0, 1 << 32, segments * 1024, dtype=np.uint32)
    return Problem("bitonic", {"data": data}, (segments,), (512,), "data", segments)


def _softmax(inputs: _Inputs) -> Problem:
    rows, n = inputs.size(2000), 1500
    source = inputs.floats(rows * n)
    arguments = {"n": n, "in": source, "out": np.zeros_like(source)}
    return Problem("softmax", arguments, (rows,), (256,), "out", rows)


def _nearest(inputs: _Inputs) -> Problem:
    n, k = inputs.size(1 << 19, 64), 50
    arguments = {
        "n": n,
        "k": k,
        "points": inputs.floats(3 * n),
        "centres": inputs.floats(3 * k),
        "label": np.zeros(n, np.int32),
    }
    return Problem("nearest", arguments, (blocks(n, 256),), (256,), "label")


def _fft(inputs: _Inputs) -> Problem:
    count = inputs.size(2000)
    source = inputs.floats(count, 1024, 2)
    angles = -np.pi * np.arange(512) / 512
    roots = np.stack([np.cos(angles), np.sin(angles)], 1).astype(np.float32)
    return Problem("fft1024", {"in": source, "out": source * 0, "roots": roots}, (count,), (128,), "out", count)


def _gemm(inputs: _Inputs) -> Problem:
    n = inputs.size(768, 64)
    a, b = (inputs.random.integers(-128, 128, (n, n), dtype=np.int8) for _ in range(2))
    arguments = {"n": n, "a": a, "bt": b, "c": np.zeros((n, n), np.int32)}
    return Problem("gemm_i8", arguments, (n // 16, n // 16), (16, 16), "c")


def _mix(inputs: _Inputs) -> Problem:
    n = inputs.size(1 << 20, 64)
    source = inputs.random.integers(0, 1 << 32, n, dtype=np.uint32)
    return Problem("mix", {"n": n, "in": source, "out": np.zeros_like(source)}, (blocks(n, 256),), (256,), "out")


def _pi(inputs: _Inputs) -> Problem:
    n = inputs.size(1 << 16, 256)
    arguments = {"rounds": 32, "seed": 5, "inside": np.zeros(n, np.uint32)}
    return Problem("pi_philox", arguments, (n // 256,), (256,), "inside", n)


_MAKERS: Final[dict[str, Callable[[_Inputs], Problem]]] = {
    "scan_blocks": _scan,
    "transpose": _transpose,
    "convolve5": _convolve,
    "spmv": _spmv,
    "stencil7": _stencil,
    "bitonic": _bitonic,
    "softmax": _softmax,
    "nearest": _nearest,
    "fft1024": _fft,
    "gemm_i8": _gemm,
    "mix": _mix,
    "pi_philox": _pi,
}

MORE_KERNELS: Final = tuple(_MAKERS)


def make_more_problem(kernel: str, scale: float = 1.0) -> Problem:
    """Return the same inputs at each call; `scale` shrinks the sizes for trials."""
    return _MAKERS[kernel](_Inputs(scale))
