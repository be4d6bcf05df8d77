"""The eight benchmark kernels in numpy: what the device must compute, with the tolerance each allows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
PTX = Path(__file__).parent / "ptx" / "kernels.ptx"


def fused(a: Any, b: Any, c: Any) -> Floats:
    """A float32 fused multiply-add: the product is exact in float64."""
    return (np.asarray(a, np.float64) * np.asarray(b, np.float64) + np.asarray(c, np.float64)).astype(np.float32)


def saxpy(a: float, x: Floats, y: Floats) -> Floats:
    return fused(np.float32(a), x, y)


def black_scholes(
    spot: Floats, strike: Floats, years: Floats, rate: float, volatility: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Call and put prices with the exact normal distribution; the kernel's polynomial is good to 1e-6."""
    s, x, t = (values.astype(np.float64) for values in (spot, strike, years))
    spread = volatility * np.sqrt(t)
    d1 = (np.log(s / x) + (rate + 0.5 * volatility**2) * t) / spread
    discounted = x * np.exp(-rate * t)
    call = s * _normal(d1) - discounted * _normal(d1 - spread)
    return call, call - s + discounted


def _normal(d: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The cumulative normal distribution by Abramowitz and Stegun 26.2.17, as the kernel has it."""
    k = 1 / (1 + 0.2316419 * np.abs(d))
    series = k * (0.31938153 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
    tail = np.exp(-0.5 * d * d) * 0.39894228040143267794 * series
    return np.where(d > 0, 1 - tail, tail)


def mandelbrot(
    width: int, height: int, x0: float, y0: float, dx: float, dy: float, limit: int
) -> npt.NDArray[np.int32]:
    """Iteration counts, rounded step by step like the kernel."""
    column, row = np.meshgrid(np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32))
    cx, cy = fused(column, np.float32(dx), np.float32(x0)), fused(row, np.float32(dy), np.float32(y0))
    zx, zy = np.zeros_like(cx), np.zeros_like(cx)
    xx, yy = np.zeros_like(cx), np.zeros_like(cx)
    count = np.zeros((height, width), np.int32)
    active = np.full((height, width), fill_value=limit > 0)
    for _ in range(limit):
        new_x, new_y = cx + (xx - yy), fused(zx + zx, zy, cy)
        zx, zy = np.where(active, new_x, zx), np.where(active, new_y, zy)
        count += active
        xx, yy = zx * zx, zy * zy
        active &= xx + yy < 4
    return count


def nbody(position: Floats, softening: float) -> npt.NDArray[np.float64]:
    """Accelerations, the fourth component zero."""
    exact = position.astype(np.float64)
    offset = exact[None, :, :3] - exact[:, None, :3]
    distance = (offset**2).sum(-1) + np.float32(softening)
    result = np.zeros_like(exact)
    result[:, :3] = (offset * (exact[None, :, 3] / distance**1.5)[..., None]).sum(1)
    return result


def heat2d(field: npt.NDArray[np.float64], k: float) -> npt.NDArray[np.float64]:
    """One explicit step; the edges repeat their own value."""
    padded = np.pad(field, 1, mode="edge")
    around = padded[1:-1, :-2] + padded[1:-1, 2:] + padded[:-2, 1:-1] + padded[2:, 1:-1]
    return field + k * (around - 4 * field)
