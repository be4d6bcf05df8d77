"""Pieces of neural networks in f32, f16 and bf16."""

from __future__ import annotations

import math

import numpy as np

from corpus.cases import Array
from corpus.problems import Launch, Problem, Rng, Want, ceil_div, floats, problem


@problem((50, 40, 1), (1, 1, 0), (200, 128, 0))
def attention(rng: Rng, n: int, d: int, causal: int) -> Problem:
    q, k, v = (floats(rng, n, d, low=-1) for _ in range(3))
    out, scale = np.zeros((n, d), np.float32), 1 / math.sqrt(d)
    scores = q.astype(np.float64) @ k.astype(np.float64).T * scale
    if causal:
        scores = np.where(np.tri(n) > 0, scores, -np.inf)
    weights = np.exp(scores - scores.max(1, keepdims=True))
    want = weights / weights.sum(1, keepdims=True) @ v
    launch = Launch("attention", ceil_div(n, 2), 64, (q, k, v, out, n, d, scale, causal))
    return Problem([launch], [Want(out, want, rtol=1e-4, atol=1e-5)])


def _halves(rng: Rng, *shape: int) -> Array:
    return rng.uniform(-2, 2, shape).astype(np.float16)


def _to_bf16(values: Array) -> Array:
    """The upper halves of float32 numbers, rounded to nearest even."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def _from_bf16(bits: Array) -> Array:
    return (bits.astype(np.uint32) << 16).view(np.float32)


@problem((64, 5, 100), (32, 1, 1), (256, 20, 1000))
def rms_norm_half(rng: Rng, block: int, rows: int, pairs: int) -> Problem:
    data, gain, out = _halves(rng, rows, 2 * pairs), _halves(rng, 2 * pairs), np.zeros((rows, 2 * pairs), np.float16)
    wide = data.astype(np.float64)
    want = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5) * gain
    launch = Launch("rms_norm_half", rows, block, (data, gain, out, pairs, 1e-5))
    return Problem([launch], [Want(out, want.astype(np.float16), rtol=3e-3, atol=1e-6)])


@problem(700, 1, 10000)
def gelu_bf16(rng: Rng, n: int) -> Problem:
    data, out = _to_bf16(rng.uniform(-4, 4, n)), np.zeros(n, np.uint16)
    x = _from_bf16(data).astype(np.float64)
    want = 0.5 * x * (1 + np.array([math.erf(v / math.sqrt(2)) for v in x]))
    close = Want(out, lambda got: bool(np.allclose(_from_bf16(got), want, rtol=2**-8, atol=1e-6)))
    return Problem([Launch("gelu_bf16", ceil_div(n, 128), 128, (data, out, n))], [close])


@problem((64, 5, 200), (32, 1, 1), (1024, 30, 3000))
def softmax_half(rng: Rng, block: int, rows: int, width: int) -> Problem:
    data, out = _halves(rng, rows, width), np.zeros((rows, width), np.float16)
    weights = np.exp(data.astype(np.float64) - data.max(1, keepdims=True))
    want = weights / weights.sum(1, keepdims=True)
    launch = Launch("softmax_half", rows, block, (data, out, width))
    return Problem([launch], [Want(out, want, rtol=1e-3, atol=1e-7)])


@problem(300, 5000)
def half_intrinsics(rng: Rng, n: int) -> Problem:
    a, b = _halves(rng, n, 2), _halves(rng, n, 2)
    b[::5] = a[::5]
    out, truths = np.zeros((n, 8, 2), np.float16), np.zeros(n, np.int32)
    x, y = a.astype(np.float64), b.astype(np.float64)
    results = [x + y, x - y, x * y, x * y + x, np.maximum(x, y), np.minimum(x, y), np.abs(x)]
    results.append(np.clip(x + y, 0, 1)[:, ::-1])
    want = np.stack(results, 1).astype(np.float16)
    flags = (x < y).all(1) | 1 << 1 | (x[:, 0] >= y[:, 1]) << 2 | np.rint(x[:, 0]).astype(np.int64) << 8
    launch = Launch("half_intrinsics", ceil_div(n, 96), 96, (a, b, out, truths, n))
    return Problem([launch], [Want(out, want), Want(truths, flags)])


@problem(300, 5000)
def bf16_intrinsics(rng: Rng, n: int) -> Problem:
    a, b, out = (
        _to_bf16(rng.uniform(-2, 2, (n, 2))),
        _to_bf16(rng.uniform(-2, 2, (n, 2))),
        np.zeros((n, 5, 2), np.uint16),
    )
    x, y = _from_bf16(a), _from_bf16(b)
    results = [x + y, x * y, x.astype(np.float64) * y + x, np.maximum(x, y), -y]
    # The exact sum of the fused operation fits a double; rounding that to float32 and then to bfloat16 may round twice.
    fused = [abs(_from_bf16(_to_bf16(value.astype(np.float32)))) for value in results]
    want = np.stack([_to_bf16(value.astype(np.float32)) for value in results], 1)

    def close(got: Array) -> bool:
        exact = got == want
        near = np.abs(_from_bf16(got) - _from_bf16(want)) <= np.stack(fused, 1) * 2**-7
        exact[:, 2] |= near[:, 2]
        return bool(exact.all())

    return Problem([Launch("bf16_intrinsics", ceil_div(n, 96), 96, (a, b, out, n))], [Want(out, close)])


@problem((4, 64, 1000, 3), (1, 32, 1, 1), (9, 256, 50000, 5))
def adam(rng: Rng, blocks: int, block: int, n: int, steps: int) -> Problem:
    weights, gradients, first, second = (
        floats(rng, n),
        floats(rng, n, low=-1),
        np.zeros(n, np.float32),
        np.zeros(n, np.float32),
    )
    w, m, v = weights.astype(np.float64), np.zeros(n), np.zeros(n)
    launches = []
    for step in range(1, steps + 1):
        c1, c2 = 1 - 0.9**step, 1 - 0.999**step
        m, v = 0.9 * m + 0.1 * gradients, 0.999 * v + 0.001 * gradients.astype(np.float64) ** 2
        w = w - 0.01 * (m / c1) / (np.sqrt(v / c2) + 1e-8)
        args = (weights, gradients, first, second, n, 0.01, 0.9, 0.999, c1, c2)
        launches.append(Launch("adam", blocks, block, args))
    return Problem(launches, [Want(weights, w, atol=1e-5), Want(first, m, atol=1e-6), Want(second, v, rtol=1e-3)])


@problem((3, 14, 4), (1, 4, 1), (8, 34, 16))
def conv_relu_pool(rng: Rng, channels: int, size: int, filters: int) -> Problem:
    image, weights = floats(rng, channels, size, size, low=-1), floats(rng, filters, channels, 9, low=-1)
    bias, half = floats(rng, filters, low=-1), (size - 2) // 2
    out, exact = np.zeros((filters, half, half), np.float32), image.astype(np.float64)
    inner = np.zeros((filters, size - 2, size - 2)) + bias[:, None, None]
    for j in range(9):
        patch = exact[:, j // 3 : j // 3 + size - 2, j % 3 : j % 3 + size - 2]
        inner += np.einsum("fc,cyx->fyx", weights[:, :, j], patch)
    pooled = inner[:, : 2 * half, : 2 * half].reshape(filters, half, 2, half, 2).max((2, 4))
    launch = Launch("conv_relu_pool", filters, (16, 16), (image, weights, bias, out, channels, size))
    return Problem([launch], [Want(out, np.maximum(pooled, 0), rtol=1e-4, atol=1e-4)])
