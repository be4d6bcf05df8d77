"""Parallel patterns and whole algorithms: scans, sorts, stencils, products, searches."""

from __future__ import annotations

import numpy as np

from corpus.cases import In, Out, Run, case, f32, f64, i32, rng, u32, u64


@case("blelloch scan")
async def blelloch_scan(run: Run) -> None:
    for blk in (32, 256, 1024):
        n = 2 * blk - 3
        a = rng.integers(-100, 100, n).astype(i32)
        (o,) = await run("blelloch_scan", 1, blk, [In(a), Out(np.zeros(n, i32)), n], shared=8 * blk, kernel="scan")
        assert (o == np.concatenate([[0], np.cumsum(a)[:-1]])).all(), blk


@case("warp-shuffle scan with block totals")
async def warp_shuffle_scan_with_block(run: Run) -> None:
    src = "warp_shuffle_scan_with_block"
    for blk in (32, 96, 128, 512, 1024):
        n = blk * 5 - 7
        a = rng.integers(-1000, 1000, n).astype(i32)
        (o,) = await run(src, 5, blk, [In(a), Out(np.zeros(n, i32)), n])
        e = np.concatenate([np.cumsum(a[i : i + blk]) for i in range(0, n, blk)])
        assert (o == e).all(), blk


@case("transpose tiled")
async def transpose_tiled(run: Run) -> None:
    src = "transpose_tiled"
    a = rng.random((77, 131)).astype(f32)
    (o,) = await run(src, (5, 3), (32, 8), [In(a), Out(np.zeros((131, 77), f32)), 131, 77])
    assert (o == a.T).all()


@case("bitonic sort shared")
async def bitonic_sort_shared(run: Run) -> None:
    src = "bitonic_sort_shared"
    for blk in (64, 512, 1024):
        a = rng.integers(0, 2**32, (4, blk), dtype=u32)
        (o,) = await run(src, 4, blk, [Out(a)])
        assert (o == np.sort(a, 1)).all(), blk


@case("3d stencil 7pt double, 3d grid")
async def stencil_3d(run: Run) -> None:
    src = "stencil_3d"
    X, Y, Z = (37, 21, 13)
    a = rng.random((Z, Y, X))
    (o,) = await run(src, (5, 6, 4), (8, 4, 4), [In(a), Out(np.zeros_like(a)), X, Y, Z, -6.0, 0.5])
    e = np.zeros_like(a)
    c = a[1:-1, 1:-1, 1:-1]
    s = a[1:-1, 1:-1, :-2] + a[1:-1, 1:-1, 2:]
    s = s + a[1:-1, :-2, 1:-1]
    s = s + a[1:-1, 2:, 1:-1]
    s = s + a[:-2, 1:-1, 1:-1]
    s = s + a[2:, 1:-1, 1:-1]
    e[1:-1, 1:-1, 1:-1] = -6.0 * c + 0.5 * s
    assert (o == e).all()


@case("dot product shuffles + atomicAdd float/double")
async def dot_product_shuffles_atomicadd(run: Run) -> None:
    src = "dot_product_shuffles_atomicadd"
    a = rng.random(100003).astype(f32)
    b = rng.random(100003).astype(f32)
    (o,) = await run(src, 13, 256, [In(a), In(b), Out(np.zeros(1)), 100003])
    assert np.allclose(o[0], a.astype(f64) @ b.astype(f64), rtol=1e-12)


@case("convolution constant memory")
async def convolution_constant_memory(run: Run) -> None:
    src = "convolution_constant_memory"
    a = rng.random(1000).astype(f32)
    w = rng.random(9).astype(f32)
    (o,) = await run(src, 4, 256, [In(a), Out(np.zeros(1000, f32)), 1000], sym={"w": w})
    assert np.allclose(o, np.correlate(a, w, "same"), rtol=1e-05)


@case("histogram shared + global atomics")
async def histogram_shared_global(run: Run) -> None:
    src = "histogram_shared_global"
    d = rng.integers(0, 256, 123457).astype(np.uint8)
    for blk in (64, 100, 256, 1000):
        (o,) = await run(src, 9, blk, [In(d), Out(np.zeros(256, u32)), len(d)])
        assert (o == np.bincount(d, minlength=256)).all(), blk


@case("matvec warp per row")
async def matvec_warp_per_row(run: Run) -> None:
    src = "matvec_warp_per_row"
    A = rng.random((37, 400)).astype(f32)
    x = rng.random(400).astype(f32)
    (o,) = await run(src, 10, 128, [In(A), In(x), Out(np.zeros(37, f32)), 37, 100])
    assert np.allclose(o, A @ x, rtol=0.0001)


@case("game of life torus uint8")
async def game_of_life_torus_uint8(run: Run) -> None:
    src = "game_of_life_torus_uint8"
    a = (rng.random((45, 67)) < 0.4).astype(np.uint8)
    (o,) = await run(src, (5, 3), (16, 16), [In(a), Out(np.zeros_like(a)), 67, 45])
    c = sum(np.roll(a, (dy, dx), (0, 1)).astype(int) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dx or dy)
    assert (o == (c == 3) | (c == 2) & (a == 1)).all()


@case("xorshift64* and LCG rng, 64-bit mul")
async def xorshift64_and_lcg_rng_64_bit(run: Run) -> None:
    src = "xorshift64_and_lcg_rng_64_bit"
    n = 300
    o, l = await run(src, 3, 100, [Out(np.zeros(n, u64)), Out(np.zeros(n, u32)), 2**63 + 12345, 17])
    M = 2**64
    for i in range(n):
        s = (2**63 + 12345 + i * 11400714819323198485) % M
        c = i
        for _j in range(17):
            s ^= s >> 12
            s ^= (s << 25) % M
            s ^= s >> 27
            c = (c * 1664525 + 1013904223) % 2**32
        assert o[i] == s * 2685821657736338717 % M, i
        assert l[i] == c ^ s * 11400714819323198485 >> 64 & 4294967295, i


@case("string search (bytes, early break)")
async def string_search_bytes_early(run: Run) -> None:
    src = "string_search_bytes_early"
    t = bytes(rng.choice(list(b"abAB"), 5000).tolist())
    p = b"abA"
    pos, cnt = await run(
        src,
        20,
        256,
        [
            In(np.frombuffer(t, np.uint8)),
            5000,
            In(np.frombuffer(p, np.uint8)),
            3,
            Out(np.zeros(5000, i32)),
            Out(np.zeros(1, i32)),
        ],
    )
    e = [i for i in range(5000 - 2) if t[i : i + 3] == p]
    assert cnt[0] == len(e)
    assert sorted(pos[: len(e)]) == e


@case("use_fast_math nbody")
async def use_fast_math_nbody(run: Run) -> None:
    src = "use_fast_math_nbody"
    n = 300
    p = rng.random((n, 4)).astype(f32)
    (o,) = await run(src, 5, 64, [In(p), Out(np.zeros((n, 3), f32)), n], shared=64 * 16)
    P = p.astype(f64)
    d = P[None, :, :3] - P[:, None, :3]
    r = (d**2).sum(2) + 0.01
    e = (d * (P[None, :, 3] * r ** (-1.5))[..., None]).sum(1)
    assert np.allclose(o, e, rtol=0.001, atol=0.01)


@case("threadfence last block reduction, volatile")
async def threadfence_last_block(run: Run) -> None:
    src = "threadfence_last_block"
    d = np.ones(10000, f32)
    (o,) = await run(src, 40, 128, [In(d), Out(np.zeros(1, f32)), 10000])
    assert o[0] == 10000


@case("mandelbrot (divergent loop) double")
async def mandelbrot_divergent_loop(run: Run) -> None:
    src = "mandelbrot_divergent_loop"
    w, h, m = (70, 50, 200)
    (o,) = await run(src, (9, 13), (8, 4), [Out(np.zeros((h, w), i32)), w, h, m])
    y, x = np.mgrid[:h, :w]
    cr = -2 + 3.0 * x / w
    ci = -1.5 + 3.0 * y / h
    a = np.zeros((h, w))
    b = a.copy()
    r = np.full((h, w), m)
    done = np.zeros((h, w), bool)
    with np.errstate(all="ignore"):
        for i in range(m):
            aa = a * a
            bb = b * b
            e = (aa + bb > 4) & ~done
            r[e] = i
            done |= e
            b = 2 * a * b + ci
            a = aa - bb + cr
    assert (o != r).mean() < 0.005, (o != r).sum()


@case("tree reduction, block not multiple of 32")
async def tree_reduction_block_not(run: Run) -> None:
    src = "tree_reduction_block_not"
    for blk in (1, 7, 33, 100, 257, 1000):
        n = blk * 3 - 1 if blk > 1 else 3
        d = rng.integers(-9999, 9999, n).astype(i32)
        (o,) = await run(src, 3, blk, [In(d), Out(np.zeros(3, i32)), n])
        assert (o == [d[i * blk : (i + 1) * blk].sum() for i in range(3)]).all(), blk


@case("matmul tiled 16 float non-multiple")
async def matmul_tiled_16_float_non(run: Run) -> None:
    src = "matmul_tiled_16_float_non"
    M, N, K = (45, 61, 77)
    A = rng.random((M, K)).astype(f32)
    B = rng.random((K, N)).astype(f32)
    (o,) = await run(src, (4, 3), (16, 16), [In(A), In(B), Out(np.zeros((M, N), f32)), M, N, K])
    assert np.allclose(o, A @ B, rtol=1e-05)


@case("radix sort pass (count, ballot rank)")
async def radix_sort_pass_count_ballot(run: Run) -> None:
    src = "radix_sort_pass_count_ballot"
    n = 500
    d = rng.integers(0, 2**32, n, dtype=u32)
    (o,) = await run(src, 1, 512, [In(d), Out(np.zeros(n, u32)), n])
    assert (o == np.sort(d)).all()


@case("cub BlockReduce/BlockScan")
async def cub_blockreduce_blockscan(run: Run) -> None:
    src = "cub_blockreduce_blockscan"
    d = rng.integers(0, 99, 128).astype(i32)
    (o,) = await run(src, 1, 128, [In(d), Out(np.zeros(129, i32))])
    assert (o[:128] == np.cumsum(d)).all()
    assert o[128] == d.sum()
