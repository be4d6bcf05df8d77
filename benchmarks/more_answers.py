"""What the twelve more kernels must answer, by numpy: plain formulas, none of the kernels' own ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from benchmarks.problem import Problem

__all__ = ("more_answer", "philox")

_Array = np.ndarray[Any, Any]
_Arguments = dict[str, Any]


def _scan(a: _Arguments) -> _Array:
    n = a["n"]
    padded = np.zeros(-(-n // 1024) * 1024, np.int32)
    padded[:n] = a["in"]
    return padded.reshape(-1, 1024).cumsum(1).ravel()[:n]


def _transpose(a: _Arguments) -> _Array:
    return np.asarray(a["in"].reshape(a["h"], a["w"]).T)


def _convolve(a: _Arguments) -> _Array:
    w, h = a["w"], a["h"]
    padded = np.pad(a["in"].reshape(h, w), 2, mode="edge")
    taps = a["f"].reshape(5, 5)
    return np.asarray(sum(taps[j, i] * padded[j : j + h, i : i + w] for j in range(5) for i in range(5)))


def _spmv(a: _Arguments) -> _Array:
    return np.add.reduceat(a["value"].astype(np.float64) * a["x"][a["column"]], a["start"][:-1])


def _stencil(a: _Arguments) -> _Array:
    u = a["u"].reshape(a["nz"], a["ny"], a["nx"])
    v = a["v"].reshape(u.shape).copy()
    inner = slice(1, -1)
    here = u[inner, inner, inner]
    around = sum(np.roll(u, shift, axis)[inner, inner, inner] for axis in range(3) for shift in (1, -1))
    v[inner, inner, inner] = here + a["k"] * (around - 6 * here)
    return np.asarray(v)


def _bitonic(a: _Arguments) -> _Array:
    return np.sort(a["data"].reshape(-1, 1024), 1)


def _softmax(a: _Arguments) -> _Array:
    rows = a["in"].reshape(-1, a["n"]).astype(np.float64)
    powers = np.exp(rows - rows.max(1, keepdims=True))
    return np.asarray(powers / powers.sum(1, keepdims=True))


def _nearest(a: _Arguments) -> _Array:
    points, centres = a["points"].reshape(3, -1), a["centres"].reshape(-1, 3)
    best, label = np.full(a["n"], np.inf, np.float32), np.zeros(a["n"], np.int32)
    for index, centre in enumerate(centres):
        distance = ((points - centre[:, None]) ** 2).sum(0)
        label[distance < best] = index
        best = np.minimum(best, distance)
    return label


def _fft(a: _Arguments) -> _Array:
    transformed = np.fft.fft(a["in"][..., 0] + 1j * a["in"][..., 1])
    return np.stack([transformed.real, transformed.imag], -1)


def _gemm(a: _Arguments) -> _Array:
    return np.asarray(a["a"].astype(np.float64) @ a["bt"].astype(np.float64).T)  # exact: sums stay below 2**53


def _rotated(value: _Array, by: int) -> _Array:
    return np.asarray(value << np.uint32(by) | value >> np.uint32(32 - by))


def _mix(arguments: _Arguments) -> _Array:
    a = arguments["in"]
    b, c, d = a ^ np.uint32(0x61707865), np.arange(len(a), dtype=np.uint32), np.full_like(a, 0x3320646E)
    for _ in range(40):
        for left, right in ((16, 12), (8, 7)):
            a = a + b
            d = _rotated(d ^ a, left)
            c = c + d
            b = _rotated(b ^ c, right)
    return np.asarray(a ^ b ^ c ^ d)


def philox(counter: list[_Array], key: list[int]) -> list[_Array]:
    """Return the numbers of Philox 4x32-10 for counters of four words (32 bits each, held in 64)."""
    x, y, z, w = counter
    low = np.uint64(0xFFFFFFFF)
    for turn in range(10):
        steps = zip(key, (0x9E3779B9, 0xBB67AE85), strict=True)
        keys = [np.uint64((start + turn * step) & 0xFFFFFFFF) for start, step in steps]
        p, q = x * np.uint64(0xD2511F53), z * np.uint64(0xCD9E8D57)
        x, y, z, w = q >> np.uint64(32) ^ y ^ keys[0], q & low, p >> np.uint64(32) ^ w ^ keys[1], p & low
    return [x, y, z, w]


def _pi(a: _Arguments) -> _Array:
    threads = np.arange(len(a["inside"]), dtype=np.uint64)
    zero, hits = np.zeros_like(threads), np.zeros(len(threads), np.uint32)
    for turn in range(a["rounds"]):
        words = philox([threads, zero + turn, zero, zero], [a["seed"], 1])
        x, y, z, w = (word.astype(np.float64) * 2.0**-32 for word in words)
        hits += (x * x + y * y < 1).astype(np.uint32) + (z * z + w * w < 1)
    return hits


_ANSWERS: Final[dict[str, Callable[[_Arguments], _Array]]] = {
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


def more_answer(problem: Problem) -> np.ndarray[Any, np.dtype[np.float64]] | None:
    """Return what the problem's answer must be, before any launch; None for the kernels of the first set."""
    answer = _ANSWERS.get(problem.kernel)
    return None if answer is None else np.asarray(answer(problem.arguments), dtype=np.float64).ravel()
