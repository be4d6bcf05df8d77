"""numba: plain loops with ``prange`` and ``fastmath``."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import numba
import numpy as np
from numba import prange

from benchmarks.peers.base import Run
from benchmarks.problems import KERNELS, Problem

__all__ = ("open_peer",)

f32 = np.float32
_parallel = numba.njit(parallel=True, fastmath=True)


@numba.njit(fastmath=True, inline="always")
def _cnd(d):
    k = f32(1) / (f32(1) + f32(0.2316419) * abs(d))
    tail = f32(1.781477937) + k * (f32(-1.821255978) + k * f32(1.330274429))
    c = f32(0.39894228) * math.exp(f32(-0.5) * d * d) * (k * (f32(0.31938153) + k * (f32(-0.356563782) + k * tail)))
    return f32(1) - c if d > 0 else c


@_parallel
def _saxpy(n, a, x, y):
    for i in prange(n):
        y[i] = a * x[i] + y[i]


@_parallel
def _black_scholes(n, S, X, T, r, v, call, put):
    for i in prange(n):
        sq = math.sqrt(T[i])
        d1 = (math.log(S[i] / X[i]) + (r + f32(0.5) * v * v) * T[i]) / (v * sq)
        d2 = d1 - v * sq
        c1, c2, e = _cnd(d1), _cnd(d2), math.exp(-r * T[i])
        call[i] = S[i] * c1 - X[i] * e * c2
        put[i] = X[i] * e * (f32(1) - c2) - S[i] * (f32(1) - c1)


@_parallel
def _mandelbrot(w, h, x0, y0, dx, dy, limit, out):
    two, four = f32(2), f32(4)
    for py in prange(h):
        for px in range(w):
            cx, cy = x0 + f32(px) * dx, y0 + f32(py) * dy
            zx = zy = f32(0)
            k = 0
            while k < limit and zx * zx + zy * zy < four:
                t = zx * zx - zy * zy + cx
                zy = two * zx * zy + cy
                zx = t
                k += 1
            out[py * w + px] = k


@_parallel
def _nbody(n, pos, acc, eps2):
    one = f32(1)
    for i in prange(n):
        mx, my, mz = pos[i, 0], pos[i, 1], pos[i, 2]
        ax = ay = az = f32(0)
        for j in range(n):
            rx, ry, rz = pos[j, 0] - mx, pos[j, 1] - my, pos[j, 2] - mz
            inv = one / math.sqrt(rx * rx + ry * ry + rz * rz + eps2)
            s = pos[j, 3] * inv * inv * inv
            ax += rx * s
            ay += ry * s
            az += rz * s
        acc[i, 0], acc[i, 1], acc[i, 2] = ax, ay, az


@_parallel
def _matmul(n, A, B, C):
    for i in prange(n):
        for j in range(n):
            C[i * n + j] = 0
        for k in range(n):
            a = A[i * n + k]
            for j in range(n):
                C[i * n + j] += a * B[k * n + j]


@_parallel
def _reduce_sum(n, x, out):
    s = f32(0)
    for i in prange(n):
        s += x[i]
    out[0] = s


@_parallel
def _histogram256(n, data, bins):
    parts = 8
    local = np.zeros((parts, 256), np.uint32)
    step = n // parts
    for part in prange(parts):
        for i in range(part * step, (part + 1) * step):
            local[part, data[i]] += 1
    bins[:] = local.sum(0)


@_parallel
def _heat2d(w, h, u, v, k):
    for y in prange(h):
        for x in range(w):
            i = y * w + x
            c = u[i]
            left = u[i - 1] if x > 0 else c
            right = u[i + 1] if x < w - 1 else c
            top = u[i - w] if y > 0 else c
            bottom = u[i + w] if y < h - 1 else c
            v[i] = c + k * (left + right + top + bottom - 4.0 * c)


_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "saxpy": _saxpy,
    "black_scholes": _black_scholes,
    "mandelbrot": _mandelbrot,
    "nbody": _nbody,
    "matmul": _matmul,
    "reduce_sum": _reduce_sum,
    "histogram256": _histogram256,
    "heat2d": _heat2d,
}


class _Numba:
    async def prepare(self, problem: Problem) -> Run | None:
        if problem.kernel not in KERNELS:
            return None
        function = _FUNCTIONS[problem.kernel]
        arguments = list(problem.arguments.values())

        async def launch() -> None:
            function(*arguments)

        return Run(launch)


@asynccontextmanager
async def open_peer() -> AsyncIterator[_Numba]:
    """Nothing to start: functions are compiled at their first call."""
    yield _Numba()
