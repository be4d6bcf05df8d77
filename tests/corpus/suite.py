"""More algorithms, in the spirit of the benchmark suites: graphs, images, linear algebra, hashing, learning."""

from __future__ import annotations

import hashlib
import zlib

import numpy as np

from corpus.cases import Array, In, Out, Run, case, f32, f64, i32, rng, u32, u64


@case("fft of 1024 points")
async def fft(run: Run) -> None:
    x = (rng.random((3, 1024)) + 1j * rng.random((3, 1024))).astype(np.complex64)
    (got,) = await run("fft", 3, 128, [In(x), Out(np.zeros_like(x))])
    np.testing.assert_allclose(got, np.fft.fft(x), rtol=1e-3, atol=2e-3)


def _sparse(rows: int, columns: int) -> tuple[Array, Array, Array, Array]:
    """(start, column, value) in CSR form, and the dense matrix."""
    dense = np.where(rng.random((rows, columns)) < 0.1, rng.random((rows, columns)), 0.0)
    start = np.concatenate([[0], np.cumsum((dense != 0).sum(1))]).astype(i32)
    return start, np.nonzero(dense)[1].astype(i32), dense[dense != 0], dense


@case("sparse matrix times vector, CSR")
async def spmv_csr(run: Run) -> None:
    start, column, value, dense = _sparse(77, 130)
    x = rng.random(130)
    arguments = [77, In(start), In(column), In(value), In(x), Out(np.zeros(77))]
    (y,) = await run("spmv", 20, 128, arguments, kernel="spmv_csr")
    np.testing.assert_allclose(y, dense @ x, rtol=1e-12)


@case("sparse matrix times vector, ELLPACK")
async def spmv_ell(run: Run) -> None:
    start, column, value, dense = _sparse(100, 90)
    width = int(np.diff(start).max())
    columns, values = np.full((width, 100), -1, i32), np.zeros((width, 100))
    for row in range(100):
        for i, at in enumerate(range(start[row], start[row + 1])):
            columns[i, row], values[i, row] = column[at], value[at]
    x = rng.random(90)
    arguments = [100, width, In(columns), In(values), In(x), Out(np.zeros(100))]
    (y,) = await run("spmv", 4, 32, arguments, kernel="spmv_ell")
    np.testing.assert_allclose(y, dense @ x, rtol=1e-12)


@case("breadth-first search, level by level")
async def bfs(run: Run) -> None:
    start, target, _, dense = _sparse(200, 200)
    want, frontier = np.full(200, -1, i32), np.array([3], i32)
    distance = want.copy()
    want[3] = distance[3] = 0
    level = 0
    while frontier.size:
        level += 1
        arguments = [frontier.size, In(frontier), In(start), In(target), Out(distance), level]
        distance, following, count = await run(
            "bfs", -(-frontier.size // 64), 64, [*arguments, Out(np.zeros(200, i32)), Out(np.zeros(1, i32))]
        )
        reached = np.unique(np.nonzero(dense[frontier])[1])
        want[reached[want[reached] < 0]] = level
        np.testing.assert_array_equal(distance, want)
        frontier = following[: count[0]].copy()


@case("Floyd-Warshall with a grid-wide barrier")
async def floyd_warshall(run: Run) -> None:
    n = 40
    distance = np.where(rng.random((n, n)) < 0.2, rng.integers(1, 100, (n, n)), 10**6).astype(i32)
    want = distance.copy()
    for k in range(n):
        want = np.minimum(want, want[:, k : k + 1] + want[k : k + 1])
    (got,) = await run("floyd_warshall", 4, 128, [n, Out(distance)], cooperative=True)
    np.testing.assert_array_equal(got, want)


@case("k-means assignment and sums")
async def kmeans(run: Run) -> None:
    n, k = 1000, 7
    points, centres = rng.random((3, n)).astype(f32), rng.random((k, 3)).astype(f32)
    outputs = [Out(np.zeros(n, i32)), Out(np.zeros((k, 3), f32)), Out(np.zeros(k, i32))]
    label, sums, counts = await run("kmeans", 8, 128, [n, k, In(points), In(centres), *outputs], shared=k * 12)
    square = (points.T[:, None, :] - centres) ** 2
    want = np.argmin(square[..., 0] + square[..., 1] + square[..., 2], 1)
    np.testing.assert_array_equal(label, want)
    np.testing.assert_array_equal(counts, np.bincount(want, minlength=k))
    np.testing.assert_allclose(sums, [points[:, want == j].sum(1) for j in range(k)], rtol=1e-4)


@case("Needleman-Wunsch by anti-diagonals")
async def needleman_wunsch(run: Run) -> None:
    a, b = (rng.integers(65, 69, size).astype(np.int8) for size in (45, 61))
    want = np.zeros((46, 62), i32)
    want[:, 0], want[0] = -np.arange(46), -np.arange(62)
    for i in range(1, 46):
        for j in range(1, 62):
            match = want[i - 1, j - 1] + (2 if a[i - 1] == b[j - 1] else -1)
            want[i, j] = max(match, want[i - 1, j] - 1, want[i, j - 1] - 1)
    (got,) = await run("needleman_wunsch", 1, 64, [45, 61, In(a), In(b), Out(np.zeros((46, 62), i32))])
    np.testing.assert_array_equal(got, want)


@case("CRC-32 by table")
async def crc32(run: Run) -> None:
    messages = [rng.bytes(int(size)) for size in rng.integers(0, 90, 70)]
    start = np.concatenate([[0], np.cumsum([len(message) for message in messages])]).astype(i32)
    table = np.arange(256, dtype=u32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ u32(0xEDB88320), table >> 1)
    data = np.frombuffer(b"".join(messages), np.uint8)
    (got,) = await run("crc32", 3, 32, [In(data), In(start), Out(np.zeros(70, u32)), 70], sym={"table": table})
    np.testing.assert_array_equal(got, [zlib.crc32(message) for message in messages])


def _round_constants() -> Array:
    """The fractional parts of the cube roots of the first 64 primes, as SHA-256 has them."""
    primes = [p for p in range(2, 312) if all(p % d for d in range(2, p))]
    roots = []
    for prime in primes:
        low, high = 0, prime << 32
        while low < high:  # the largest r with r**3 <= prime * 2**96
            middle = (low + high + 1) // 2
            low, high = (middle, high) if middle**3 <= prime << 96 else (low, middle - 1)
        roots.append(low & 0xFFFFFFFF)
    return np.array(roots, u32)


@case("SHA-256 of short messages")
async def sha256(run: Run) -> None:
    messages = [rng.bytes(int(size)) for size in rng.integers(0, 55, 40)]
    padded = b"".join(m + b"\x80" + bytes(55 - len(m)) + (8 * len(m)).to_bytes(8, "big") for m in messages)
    blocks = np.frombuffer(padded, u32)
    (got,) = await run("sha256", 2, 32, [In(blocks), Out(np.zeros((40, 8), u32)), 40], sym={"K": _round_constants()})
    want = [np.frombuffer(hashlib.sha256(m).digest(), ">u4") for m in messages]
    np.testing.assert_array_equal(got, want)


def _neighbours(image: Array) -> Array:
    padded = np.pad(image.astype(i32), 1, mode="edge")
    height, width = image.shape
    return np.stack([padded[y : y + height, x : x + width] for y in range(3) for x in range(3)])


@case("Sobel edges")
async def sobel(run: Run) -> None:
    image = rng.integers(0, 256, (37, 53)).astype(np.uint8)
    (got,) = await run("image_filters", (7, 5), (8, 8), [In(image), Out(image * 0), 53, 37], kernel="sobel")
    v = _neighbours(image)
    across = v[2] + 2 * v[5] + v[8] - v[0] - 2 * v[3] - v[6]
    down = v[6] + 2 * v[7] + v[8] - v[0] - 2 * v[1] - v[2]
    np.testing.assert_array_equal(got, np.minimum(255, abs(across) + abs(down)))


@case("median of 3x3")
async def median(run: Run) -> None:
    image = rng.integers(0, 256, (37, 53)).astype(np.uint8)
    (got,) = await run("image_filters", (4, 5), (16, 8), [In(image), Out(image * 0), 53, 37], kernel="median")
    np.testing.assert_array_equal(got, np.median(_neighbours(image), 0))


@case("8x8 cosine transform")
async def dct8x8(run: Run) -> None:
    image = rng.random((24, 40)).astype(f32)
    k, x = np.mgrid[:8, :8]
    basis = np.where(k, 0.5, 0.125**0.5) * np.cos((2 * x + 1) * k * np.pi / 16)
    tiles = image.reshape(3, 8, 5, 8).transpose(0, 2, 1, 3).astype(f64)
    want = (basis @ tiles @ basis.T).transpose(0, 2, 1, 3).reshape(24, 40)
    (got,) = await run("dct8x8", (5, 3), (8, 8), [In(image), Out(image * 0), 40])
    np.testing.assert_allclose(got, want, atol=1e-5)


@case("Haar wavelets")
async def haar(run: Run) -> None:
    signal = rng.integers(0, 64, (2, 256)).astype(f32)
    (got,) = await run("haar", 2, 128, [In(signal), Out(signal * 0)], shared=1024)
    want, rest = np.zeros_like(signal), signal
    while rest.shape[1] > 1:
        half = rest.shape[1] // 2
        want[:, half : 2 * half] = (rest[:, ::2] - rest[:, 1::2]) / 2
        rest = (rest[:, ::2] + rest[:, 1::2]) / 2
    want[:, :1] = rest
    np.testing.assert_array_equal(got, want)


@case("Gaussian elimination with pivoting")
async def gauss(run: Run) -> None:
    systems, n = 5, 13
    a = rng.random((systems, n, n + 1)) - 0.5
    _, x = await run("gauss", systems, 32, [n, Out(a), Out(np.zeros((systems, n)))])
    want = np.linalg.solve(a[:, :, :n], a[:, :, n:])[..., 0]
    np.testing.assert_allclose(x, want, rtol=1e-8)


@case("path through a grid, rows at a time")
async def pathfinder(run: Run) -> None:
    rows, width = 10, 700
    wall, cost = rng.integers(0, 10, (rows, width)).astype(i32), rng.integers(0, 10, width).astype(i32)
    blocks = -(-width // (256 - 2 * rows))
    (got,) = await run("pathfinder", blocks, 256, [width, rows, In(wall), In(cost), Out(cost * 0)])
    want = cost
    for row in wall:
        edge = np.pad(want, 1, mode="edge")
        want = np.minimum(np.minimum(edge[:-2], edge[2:]), want) + row
    np.testing.assert_array_equal(got, want)


@case("scan with decoupled look-back")
async def lookback_scan(run: Run) -> None:
    n, block = 3000, 128
    values, blocks = rng.integers(-50, 50, n).astype(i32), -(-n // block)
    flags = [Out(np.zeros(blocks, i32)) for _ in range(3)]
    got, *_ = await run(
        "lookback_scan", blocks, block, [n, In(values), Out(np.zeros(n, i32)), Out(np.zeros(1, i32)), *flags]
    )
    np.testing.assert_array_equal(got, np.cumsum(values))


@case("hash table with open addressing")
async def hash_table(run: Run) -> None:
    keys = rng.integers(0, 300, 1000).astype(u32)
    empty = np.full(509, 0xFFFFFFFF, u32)
    table, counts = await run(
        "hash_table", 8, 128, [1000, In(keys), Out(empty), Out(np.zeros(509, u32)), 509], kernel="hash_insert"
    )
    asked = np.arange(400, dtype=u32)
    (found,) = await run(
        "hash_table",
        4,
        100,
        [400, In(asked), In(table), In(counts), 509, Out(np.zeros(400, u32))],
        kernel="hash_lookup",
    )
    np.testing.assert_array_equal(found, np.bincount(keys, minlength=400))


@case("float maximum and double sum by compare-and-swap")
async def float_atomics(run: Run) -> None:
    values = (rng.random(700) * 100).astype(f32)
    most, total = await run("float_atomics", 6, 128, [700, In(values), Out(np.zeros(1, f32)), Out(np.zeros(1))])
    assert most[0] == values.max()
    np.testing.assert_allclose(total[0], values.astype(f64).sum(), rtol=1e-12)


@case("connected components of an image")
async def components(run: Run) -> None:
    image = (rng.random((17, 23)) < 0.55).astype(np.uint8)
    label = np.where(image.ravel() > 0, np.arange(image.size), -1).reshape(image.shape)
    while True:
        edge = np.pad(np.where(label < 0, 10**6, label), 1, constant_values=10**6)
        least = np.minimum.reduce([edge[1:-1, 1:-1], edge[:-2, 1:-1], edge[2:, 1:-1], edge[1:-1, :-2], edge[1:-1, 2:]])
        following = np.where(label < 0, -1, least)
        if (following == label).all():
            break
        label = following
    got, _ = await run(
        "components",
        3,
        64,
        [23, 17, In(image), Out(np.zeros(image.shape, i32)), Out(np.zeros(1, i32))],
        cooperative=True,
    )
    np.testing.assert_array_equal(got, label)


@case("softmax of rows")
async def softmax(run: Run) -> None:
    x = (rng.random((4, 300)) * 20).astype(f32)
    (got,) = await run("neural", 4, 96, [300, In(x), Out(x * 0)], kernel="softmax")
    e = np.exp(x.astype(f64) - x.max(1, keepdims=True))
    np.testing.assert_allclose(got, e / e.sum(1, keepdims=True), rtol=1e-4)


@case("layer normalisation in half precision")
async def layernorm(run: Run) -> None:
    x, gain = (rng.random((5, 256)) * 4).astype(np.float16), rng.random(256).astype(np.float16)
    (got,) = await run("neural", 5, 64, [128, In(x), In(gain), Out(x * 0)], kernel="layernorm")
    wide = x.astype(f64)
    want = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5) * gain
    np.testing.assert_allclose(got.astype(f64), want, atol=6e-3)


def _philox(counter: Array, key: tuple[int, int]) -> Array:
    x, y, z, w = (counter[:, i].astype(u64) for i in range(4))
    k0, k1 = key
    for _ in range(10):
        a, b = x * u64(0xD2511F53), z * u64(0xCD9E8D57)
        x, y, z, w = b >> u64(32) ^ y ^ u64(k0), b & u64(0xFFFFFFFF), a >> u64(32) ^ w ^ u64(k1), a & u64(0xFFFFFFFF)
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return np.stack([x, y, z, w], 1).astype(u32)


@case("Philox random numbers")
async def philox_bits(run: Run) -> None:
    (got,) = await run("philox", 4, 64, [Out(np.zeros((256, 4), u32)), 99], kernel="philox_bits")
    counter = np.zeros((256, 4), u32)
    counter[:, 0], counter[:, 2] = np.arange(256), 7
    np.testing.assert_array_equal(got, _philox(counter, (99, 0)))


@case("Monte Carlo estimate of pi")
async def pi(run: Run) -> None:
    rounds = 8
    (got,) = await run("philox", 4, 64, [rounds, 5, Out(np.zeros(1, u64))], kernel="pi")
    counter = np.zeros((256 * rounds, 4), u32)
    counter[:, 0], counter[:, 1] = np.repeat(np.arange(256), rounds), np.tile(np.arange(rounds), 256)
    u = _philox(counter, (5, 1)).astype(f32) * f32(2.0**-32)
    square = u.astype(f64) ** 2
    inside = (square[:, 0] + square[:, 1] < 1).sum() + (square[:, 2] + square[:, 3] < 1).sum()
    assert abs(int(got[0]) - int(inside)) <= 2  # sums that round to 1 exactly


@case("half-precision matrix product in pairs")
async def matmul_half2(run: Run) -> None:
    n = 48
    a, b = (rng.random((n, n)).astype(np.float16) for _ in range(2))
    (got,) = await run("matmul_half2", (3, 3), (8, 8), [n, In(a), In(b.T), Out(np.zeros((n, n), f32))])
    np.testing.assert_allclose(got, a.astype(f64) @ b.astype(f64), rtol=1e-2)


@case("compaction by ballots")
async def compact(run: Run) -> None:
    values = rng.integers(0, 100, 500).astype(i32)
    got, count = await run(
        "compaction", 4, 128, [500, In(values), Out(np.zeros(500, i32)), Out(np.zeros(1, i32))], kernel="compact"
    )
    kept = values[values % 3 == 0]
    assert count[0] == len(kept)
    np.testing.assert_array_equal(np.sort(got[: count[0]]), np.sort(kept))


@case("starts of runs, counted by a voting barrier")
async def run_starts(run: Run) -> None:
    values = rng.integers(0, 3, 500).astype(i32)
    starts, count = await run(
        "compaction", 4, 128, [500, In(values), Out(np.zeros(500, i32)), Out(np.zeros(1, i32))], kernel="run_starts"
    )
    want = np.concatenate([[1], (np.diff(values) != 0).astype(i32)])
    np.testing.assert_array_equal(starts, want)
    assert count[0] == want.sum()


@case("products of 256-bit integers")
async def big_multiply(run: Run) -> None:
    a, b = (rng.integers(0, 2**32, (64, 8), dtype=u32) for _ in range(2))
    (got,) = await run("big_integers", 2, 32, [In(a), In(b), Out(np.zeros((64, 16), u32))], kernel="big_multiply")
    for x, y, z in zip(a, b, got, strict=True):
        assert int.from_bytes(x.tobytes(), "little") * int.from_bytes(y.tobytes(), "little") == int.from_bytes(
            z.tobytes(), "little"
        )


@case("sums of 128-bit integers by a carry chain")
async def big_add(run: Run) -> None:
    a, b = (rng.integers(2**30, 2**32, (64, 4), dtype=u32) for _ in range(2))
    a[:20] = 0xFFFFFFFF
    (got,) = await run("big_integers", 2, 32, [In(a), In(b), Out(np.zeros((64, 5), u32))], kernel="big_add")
    for x, y, z in zip(a, b, got, strict=True):
        total = int.from_bytes(x.tobytes(), "little") + int.from_bytes(y.tobytes(), "little")
        assert total == int.from_bytes(z.tobytes(), "little")


@case("odd-even merge sort")
async def odd_even_merge(run: Run) -> None:
    pairs = rng.integers(0, 2**63, (2, 512)).astype(u64)
    (got,) = await run("odd_even_merge", 2, 256, [Out(pairs)])
    np.testing.assert_array_equal(got, np.sort(pairs, 1))


def _cast(origin: Array, direction: Array, spheres: Array) -> tuple[Array, Array]:
    best, which = np.full(len(origin), 1e30), np.full(len(origin), -1)
    for i, (x, y, z, r) in enumerate(spheres.astype(f64)):
        to = np.array([x, y, z]) - origin
        b = (to * direction).sum(1)
        q = b * b - ((to * to).sum(1) - r * r)
        t = b - np.sqrt(np.maximum(q, 0))
        hit = (q >= 0) & (t > 1e-3) & (t < best)
        best[hit], which[hit] = t[hit], i
    return best, which


@case("ray tracing of spheres")
async def ray_spheres(run: Run) -> None:
    w, h = 40, 30
    spheres = np.concatenate([rng.random((9, 3)) * 4 - [2, 2, -3], rng.random((9, 1)) + 0.2], 1).astype(f32)
    (got,) = await run("ray_spheres", (5, 4), (8, 8), [w, h, In(spheres), 9, Out(np.zeros((h, w), i32))])
    y, x = np.mgrid[:h, :w]
    direction = np.stack([(x + 0.5) / w * 2 - 1, (y + 0.5) / h * 2 - 1, np.ones((h, w))], -1).reshape(-1, 3)
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    t, which = _cast(np.zeros((w * h, 3)), direction, spheres)
    point = np.where(which[:, None] >= 0, direction * t[:, None], 1e9)
    _, shadow = _cast(point, np.tile([0.0, -1.0, 0.0], (w * h, 1)), spheres)
    want = which + 100 * ((which >= 0) & (shadow >= 0))
    assert (got.ravel() != want).mean() < 0.01  # pixels on an edge


@case("Jacobi iterations until a vote says enough")
async def jacobi(run: Run) -> None:
    n = 64
    b = rng.random(n)
    x, rounds = await run("jacobi", 1, n, [n, In(b), Out(np.zeros(n)), Out(np.zeros(1, i32))], shared=8 * n)
    matrix = 4 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1)
    np.testing.assert_allclose(x, np.linalg.solve(matrix, b), rtol=1e-7)
    assert 10 < rounds[0] < 100


@case("matrix product on tensor cores, wmma")
async def gemm_wmma(run: Run) -> None:
    n = 64
    a, b = (rng.random((n, n)).astype(np.float16) for _ in range(2))
    (got,) = await run("tensor", (1, 2), (128, 2), [n, In(a), In(b), Out(np.zeros((n, n), f32))], kernel="gemm_wmma")
    np.testing.assert_allclose(got, a.astype(f64) @ b.astype(f64) / 2, rtol=1e-5)


@case("matrix product on tensor cores, mma with a pipeline")
async def gemm_mma(run: Run) -> None:
    n = 128
    a, b = (rng.random((n, n)).astype(np.float16) for _ in range(2))
    (got,) = await run("tensor", (2, 2), 128, [n, In(a), In(b), Out(np.zeros((n, n), f32))], kernel="gemm_mma")
    np.testing.assert_allclose(got, a.astype(f64) @ b.astype(f64), rtol=1e-5)
