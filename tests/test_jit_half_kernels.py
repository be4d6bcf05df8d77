"""Half precision, bfloat16 and bytes as CUDA C++ uses them: kernels compiled by nvcc, checked with numpy.

``ptx/half.cu`` is the source.  For sm_75 nvcc writes out in integer instructions what sm_90 has instructions for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from jit_harness import Array, Case, run_jit

FOLDER = Path(__file__).parent / "ptx"
BUILDS = ("half.ptx", "half_75.ptx")
TARGETS = ("host", "sse2")
N = 200


@cache
def text(build: str) -> str:
    return (FOLDER / build).read_text()


def run(build: str, kernel: str, target: str, *args: Array | int, threads: int = N) -> list[Array]:
    """Blocks of 64 threads; what the arrays are afterwards."""
    return run_jit(Case(text(build), args, kernel=kernel, grid=(-(-threads // 64), 1, 1), block=(64, 1, 1)), target)


def halves(count: int, seed: int = 1, scale: float = 1.0) -> npt.NDArray[np.float16]:
    return (np.random.default_rng(seed).normal(size=count) * scale).astype(np.float16)


def brain(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Rounded to bfloat16, kept as f32."""
    bits = values.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=BUILDS)
def build(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_products_are_summed_in_half_precision_as_written(build: str, target: str) -> None:
    rows, pairs = 70, 48
    a, x = halves(rows * pairs * 2), halves(pairs * 2, 2)
    want = np.zeros(rows, np.float32)
    for start in range(0, pairs, 32):
        total = np.zeros((rows, 2), np.float16)
        for k in range(start, min(start + 32, pairs)):
            factors = a.reshape(rows, pairs, 2)[:, k].astype(np.float64) * x.reshape(pairs, 2)[k].astype(np.float64)
            total = (factors + total).astype(np.float16)  # exact in f64, so rounded once
        want += total[:, 0].astype(np.float32) + total[:, 1].astype(np.float32)
    got = run(build, "gemv", target, rows, pairs, a, x, np.zeros(rows, np.float32), threads=rows)[2]
    assert (got == want).all()


def test_four_bit_weights_are_scaled(build: str, target: str) -> None:
    words = np.random.default_rng(3).integers(0, 1 << 32, N, dtype=np.uint32)
    scale = halves(N // 4, 4, 0.1)
    nibbles = (words[:, None] >> np.arange(0, 32, 4, dtype=np.uint32) & 15).astype(np.int32) - 8
    want = (nibbles.astype(np.float16) * np.repeat(scale, 4)[:, None]).reshape(-1)
    got = run(build, "dequantise", target, N, words, scale, np.zeros(8 * N, np.float16))[2]
    assert (got == want).all()


def test_softmax_of_bfloats(build: str, target: str) -> None:
    x = brain(np.random.default_rng(5).normal(size=(3, 128)).astype(np.float32) * np.float32(4))
    bits = (x.view(np.uint32) >> 16).astype(np.uint16)
    case = Case(text(build), [bits, np.zeros_like(bits)], kernel="softmax", grid=(3, 1, 1), block=(128, 1, 1))
    got = (run_jit(case, target)[1].astype(np.uint32) << 16).view(np.float32)
    e = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    np.testing.assert_allclose(got, e / e.sum(axis=1, keepdims=True), rtol=2.0**-8 + 1e-5, atol=1e-38)


def test_atomics_and_comparisons_of_pairs(build: str, target: str) -> None:
    """Small multiples of 1/8, so that sums are exact in any order."""
    values = (np.random.default_rng(6).integers(-20, 21, (N, 2)) / 8).astype(np.float16)
    bounded = np.clip(values, -2, 2)
    sums = np.array([bounded[start::4].astype(np.float64).sum(axis=0) for start in range(4)])
    single = np.array([bounded[start::2, 0].astype(np.float64).sum() for start in range(2)])
    arrays = [
        values,
        np.zeros((4, 2), np.float16),
        np.zeros((4, 2), np.uint16),
        np.zeros(2, np.float16),
        np.zeros(3, np.int32),
    ]
    got = run(build, "reduce", target, N, *arrays)
    assert (got[1] == sums).all()
    # bfloat16 has 8 bits only: sums up to 16 of multiples of 1/8 are exact, larger ones within a few roundings.
    np.testing.assert_allclose((got[2].astype(np.uint32) << 16).view(np.float32), sums, atol=4)
    assert (got[3] == single).all()
    counts = [(values > 0).all(axis=1).sum(), (values[:, 0] >= values[:, 1]).sum(), (values > 1).sum()]
    assert list(got[4]) == counts


def test_functions_of_halves(build: str, target: str) -> None:
    x = np.concatenate([halves(N - 8, 7, 3.0), np.array([0.5, 1, 2.5, -0.5, -3.5, 1e-4, 100, -8], np.float16)])
    got = run(build, "functions", target, N, x, np.zeros((10, N), np.float16))[1].astype(np.float64)
    wide = x.astype(np.float64)
    exact: dict[int, Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]] = {
        1: lambda v: np.sqrt(np.abs(v)), 4: np.floor, 5: np.rint, 6: np.trunc,
    }  # fmt: skip
    for row, function in exact.items():
        assert (got[row] == function(wide).astype(np.float16)).all(), row
    assert (got[7] == -np.clip((x * x).astype(np.float64), 0, 1)).all()
    with np.errstate(all="ignore"):
        close = {0: np.exp2(wide), 2: 1 / wide, 3: np.tanh(wide), 8: np.exp(wide), 9: np.log(np.abs(wide))}
        for row, want in close.items():
            limited = np.where(np.abs(want) > 65520, np.sign(want) * np.inf, want)
            np.testing.assert_allclose(got[row], limited, rtol=2.0**-9.5, atol=2.0**-10, err_msg=str(row))


def lanes(words: npt.NDArray[np.uint32], kind: str) -> npt.NDArray[np.int64]:
    return words.view(kind).reshape(len(words), -1).astype(np.int64)


def joined(values: npt.NDArray[np.int64], kind: str) -> npt.NDArray[np.uint32]:
    return values.astype(kind).reshape(-1).view(np.uint32)


def test_bytes_in_words(build: str, target: str) -> None:
    rng = np.random.default_rng(8)
    x, y = (rng.integers(0, 1 << 32, N, dtype=np.uint32) for _ in range(2))
    got = run(build, "bytes", target, N, x, y, np.zeros((11, N), np.uint32))[2]
    a, b = lanes(x, "u1"), lanes(y, "u1")
    difference = np.abs(a - b)
    want = [
        difference.sum(axis=1), joined(np.minimum(a + b, 255), "u1"), joined(difference, "u1"),
        joined(np.maximum(lanes(x, "i2"), lanes(y, "i2")), "i2"), joined(np.where(a > b, 255, 0), "u1"),
        joined((a + b + 1) >> 1, "u1"), (a * b).sum(axis=1) + 7, (lanes(x, "i1") * lanes(y, "i1")).sum(axis=1) - 7,
        lanes(x, "u2")[:, 0] * b[:, 0] + lanes(x, "u2")[:, 1] * b[:, 1] + 1, difference.sum(axis=1) + 5,
        lanes(x, "i1")[:, 1] + lanes(y, "u2")[:, 1],
    ]  # fmt: skip
    for row, wanted in enumerate(want):
        assert (got[row] == wanted.astype(np.int64).astype(np.uint32)).all(), row


def test_8_bit_floats_there_and_back(build: str, target: str) -> None:
    rng = np.random.default_rng(9)
    x = (rng.normal(size=(N, 2)) * 2.0 ** rng.integers(-12, 12, (N, 2))).astype(np.float32)
    x[:4] = [[448, -449], [np.inf, -np.inf], [57344, 1e9], [2.0**-9, -(2.0**-10)]]
    codes, back = run(build, "eight", target, N, x, np.zeros((2, N), np.uint16), np.zeros((2, N, 2), np.float32))[1:]
    for kind, (fraction, smallest, largest) in enumerate([(3, -6, 448.0), (2, -14, 57344.0)]):
        size = np.minimum(np.abs(x.astype(np.float64)), largest)
        unit = 2.0 ** (np.maximum(np.floor(np.log2(np.maximum(size, 2.0**-40))), smallest) - fraction)
        want = np.copysign(np.minimum(np.rint(size / unit) * unit, largest), x)
        assert (back[kind] == want).all()
        assert (codes[kind] >> 15 == (x[:, 1] < 0)).all()
