"""Dense and sparse linear algebra."""

from __future__ import annotations

import numpy as np

from corpus.cases import Array
from corpus.problems import Launch, Problem, Rng, Want, ceil_div, floats, problem


@problem(((16, 16), 33, 21, 45), ((32, 1), 1, 1, 1), ((5, 3), 100, 77, 130))
def matmul_naive(rng: Rng, block: tuple[int, int], m: int, n: int, k: int) -> Problem:
    a, b, c = rng.random((m, k)), rng.random((k, n)), np.zeros((m, n))
    launch = Launch("matmul_naive", (ceil_div(n, block[0]), ceil_div(m, block[1])), block, (a, b, c, m, n, k))
    return Problem([launch], [Want(c, a @ b, rtol=1e-13)])


def _square_product(rng: Rng, name: str, n: int, tile: int) -> Problem:
    a, b, c = floats(rng, n, n), floats(rng, n, n), np.zeros((n, n), np.float32)
    launch = Launch(name, (n // tile, n // tile), (16, 16), (a, b, c, n))
    return Problem([launch], [Want(c, a.astype(np.float64) @ b.astype(np.float64), rtol=1e-5)])


@problem(64, 128, 256)
def matmul_registers(rng: Rng, n: int) -> Problem:
    return _square_product(rng, "matmul_registers", n, 64)


@problem(48, 16, 160)
def matmul_double_buffered(rng: Rng, n: int) -> Problem:
    return _square_product(rng, "matmul_double_buffered", n, 16)


@problem((64, 8), (32, 1), (256, 32))
def transpose_swizzled(rng: Rng, n: int, rows: int) -> Problem:
    data, out = rng.integers(0, 99, (n, n)).astype(np.int32), np.zeros((n, n), np.int32)
    return Problem([Launch("transpose_swizzled", (n // 32, n // 32), (32, rows), (data, out, n))], [Want(out, data.T)])


@problem(20, 1, 70)
def lu_decomposition(rng: Rng, n: int) -> Problem:
    a = rng.random((n, n)) + n * np.eye(n)
    want = a.copy()
    launches = []
    for k in range(n - 1):
        want[k + 1 :, k] /= want[k, k]
        want[k + 1 :, k + 1 :] -= np.outer(want[k + 1 :, k], want[k, k + 1 :])
        rest = n - 1 - k
        launches.append(Launch("lu_column", ceil_div(rest, 64), 64, (a, n, k)))
        launches.append(Launch("lu_update", (ceil_div(rest, 16), ceil_div(rest, 8)), (16, 8), (a, n, k)))
    launches = launches or [Launch("lu_column", 1, 1, (a, n, 0))]
    return Problem(launches, [Want(a, want, rtol=1e-12)])


@problem((32, 16, 5), (24, 24, 1), (64, 1, 3))
def cholesky(rng: Rng, block: int, n: int, count: int) -> Problem:
    root = floats(rng, count, n, n)
    matrices = (root @ root.transpose(0, 2, 1) + n * np.eye(n, dtype=np.float32)).astype(np.float32)
    want = np.linalg.cholesky(matrices.astype(np.float64))
    return Problem([Launch("cholesky", count, block, (matrices, n))], [Want(matrices, want, rtol=1e-4, atol=1e-4)])


def _sparse(rng: Rng, rows: int, columns: int, density: float) -> tuple[Array, Array, Array]:
    """Row starts, columns and the matrix itself."""
    matrix = np.where(rng.random((rows, columns)) < density, rng.uniform(-1, 1, (rows, columns)), 0)
    starts = np.concatenate([[0], np.cumsum((matrix != 0).sum(1))]).astype(np.int32)
    return starts, np.nonzero(matrix)[1].astype(np.int32), matrix


@problem((70, 90, 0.3), (1, 1, 1.0), (500, 700, 0.05))
def spmv_csr_vector(rng: Rng, rows: int, columns: int, density: float) -> Problem:
    starts, places, matrix = _sparse(rng, rows, columns, density)
    values, x, y = matrix[matrix != 0].astype(np.float32), floats(rng, columns), np.zeros(rows, np.float32)
    launch = Launch("spmv_csr_vector", ceil_div(rows, 4), 128, (starts, places, values, x, y, rows))
    return Problem([launch], [Want(y, matrix @ x, rtol=1e-4, atol=1e-5)])


@problem((70, 90, 0.3), (500, 700, 0.05))
def spmv_coo(rng: Rng, rows: int, columns: int, density: float) -> Problem:
    _, places, matrix = _sparse(rng, rows, columns, density)
    where = np.nonzero(matrix)[0].astype(np.int32)
    values, x, y = matrix[matrix != 0], rng.random(columns), np.zeros(rows)
    launch = Launch("spmv_coo", 3, 96, (where, places, values, x, y, values.size))
    return Problem([launch], [Want(y, matrix @ x, rtol=1e-12, atol=1e-13)])


def _triangle(rng: Rng, n: int) -> tuple[Array, Array, Array, Array, Array]:
    matrix = np.tril(np.where(rng.random((n, n)) < 4 / n, rng.uniform(-1, 1, (n, n)), 0), -1) + 2 * np.eye(n)
    starts = np.concatenate([[0], np.cumsum((matrix != 0).sum(1))]).astype(np.int32)
    b = rng.random(n)
    return starts, np.nonzero(matrix)[1].astype(np.int32), matrix[matrix != 0], b, np.linalg.solve(matrix, b)


@problem(200, 1, 1500)
def triangular_level(rng: Rng, n: int) -> Problem:
    starts, columns, values, b, want = _triangle(rng, n)
    level = np.zeros(n, np.int32)
    for row in range(n):
        level[row] = max((level[c] + 1 for c in columns[starts[row] : starts[row + 1] - 1]), default=0)
    order, x = np.argsort(level, kind="stable").astype(np.int32), np.zeros(n)
    firsts = np.searchsorted(level[order], np.arange(level.max() + 2))
    launches = [
        Launch(
            "triangular_level",
            ceil_div(end - first, 64),
            64,
            (starts, columns, values, b, x, order, first, end - first),
        )
        for first, end in zip(firsts[:-1].tolist(), firsts[1:].tolist(), strict=True)
    ]
    return Problem(launches, [Want(x, want, rtol=1e-9)])


@problem(200, 1, 1500)
def triangular_waiting(rng: Rng, n: int) -> Problem:
    starts, columns, values, b, want = _triangle(rng, n)
    x, solved = np.zeros(n), np.zeros(n, np.int32)
    launch = Launch("triangular_waiting", ceil_div(n, 64), 64, (starts, columns, values, b, x, solved, n))
    return Problem([launch], [Want(x, want, rtol=1e-9), Want(solved, 1)])


@problem((64, 100), (256, 1), (128, 300))
def conjugate_gradient(rng: Rng, block: int, n: int) -> Problem:
    b = rng.random(n)
    x, r, p, ap, iterations = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(1, np.int32)
    want = np.linalg.solve(2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1), b)
    launch = Launch("conjugate_gradient", 1, block, (b, x, r, p, ap, n, 4 * n, 1e-18, iterations))
    few = Want(iterations, lambda got: bool(1 <= got[0] <= 2 * n))
    return Problem([launch], [Want(x, want, rtol=1e-8, atol=1e-8), few])


@problem((30, 100), (1, 1), (200, 500))
def tridiagonal(rng: Rng, n: int, count: int) -> Problem:
    lower, upper, right = (floats(rng, n, count) for _ in range(3))
    diagonal = floats(rng, n, count, low=3, high=4)
    want = np.empty((n, count))
    for s in range(count):
        full = np.diag(diagonal[:, s]) + np.diag(lower[1:, s], -1) + np.diag(upper[:-1, s], 1)
        want[:, s] = np.linalg.solve(full.astype(np.float64), right[:, s])
    launch = Launch("tridiagonal", ceil_div(count, 64), 64, (lower, diagonal, upper, right, n, count))
    return Problem([launch], [Want(right, want, rtol=1e-4, atol=1e-5)])


@problem((20, 33, 8), (1, 1, 1), (100, 70, 64))
def matmul_dp4a(rng: Rng, m: int, n: int, k4: int) -> Problem:
    a, b = (rng.integers(-128, 128, (rows, 4 * k4)).astype(np.int8) for rows in (m, n))
    scale = floats(rng, m)
    sums, out = np.zeros((m, n), np.int32), np.zeros((m, n), np.float32)
    want = a.astype(np.int32) @ b.astype(np.int32).T
    launch = Launch("matmul_dp4a", (ceil_div(n, 16), ceil_div(m, 16)), (16, 16), (a, b, sums, scale, out, m, n, k4))
    return Problem([launch], [Want(sums, want), Want(out, want.astype(np.float32) * scale[:, None])])
