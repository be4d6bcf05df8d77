"""Threads that work together or wait for each other: atomics, warp votes, groups, locks, barriers."""

from __future__ import annotations

import numpy as np

from corpus.cases import In, Out, Run, case, f32, i32, i64, rng, u32, u64


@case("atomics min/max/cas/exch/and/or/xor/inc/dec, 64-bit")
async def atomics_min_max_cas_exch_and(run: Run) -> None:
    src = "atomics_min_max_cas_exch_and"
    n = 777
    d = rng.integers(-(2**31), 2**31, n).astype(i32)
    r, q, fm, inc = await run(
        src,
        4,
        256,
        [
            In(d),
            n,
            Out(np.array([2**31 - 1, -(2**31), -1, 0, 0, 0], i32)),
            Out(np.zeros(4, u64)),
            Out(np.array([-1e30, 0], f32)),
            Out(np.array([0, 0, 0, 5], u32)),
        ],
    )
    L = d.astype(i64)
    e = [
        d.min(),
        d.max(),
        np.bitwise_and.reduce(d),
        np.bitwise_or.reduce(d),
        np.bitwise_xor.reduce(d),
        (-L.sum() + 2**31) % 2**32 - 2**31,
    ]
    assert list(map(int, r)) == list(map(int, e)), (r, e)
    assert q[0] == L.astype(u64).max()
    assert q[1].astype(i64) == min(0, (L * 1000000007).min())
    assert q[2] == np.uint64(int(L.sum()) % 2**64)
    assert q[3] == 3 * n
    assert fm[0] == (d.astype(f32) * f32(0.5)).max()
    assert fm[1] == n
    x = 0
    for _ in range(n):
        x = 0 if False else 50 if x == 0 or x > 50 else x - 1
    assert list(inc[:4]) == [n % 100, x, 5, 777]


@case("ballot/any/all/match/activemask/reduce divergent")
async def ballot_any_all_match(run: Run) -> None:
    src = "ballot_any_all_match"
    src = src.replace("if(v&1){ unsigned m=__ballot_sync(b&0,0)*0; }", "")
    d = rng.integers(-4, 7, 256).astype(i32)
    (o,) = await run(src, 2, 128, [In(d), Out(np.zeros((256, 4), u32))])
    for w in range(8):
        v = d[32 * w : 32 * w + 32]
        b = sum(1 << j for j in range(32) if v[j] > 0)
        act = [j for j in range(32) if v[j] & 1]
        for j in range(32):
            g = o[32 * w + j]
            assert g[0] == b
            assert g[1] == 2 * int((v == 5).any()) + int((v > -3).all())
            assert g[2] == bin(b & (1 << j) - 1).count("1")
            e = 0 if not v[j] & 1 else (int(v[act[0]]) + 1000 * len(act)) % 2**32
            assert g[3] == e, (w, j, g, e)


@case("match_any / reduce_add sync (sm80)")
async def match_any_reduce_add_sync_sm80(run: Run) -> None:
    src = "match_any_reduce_add_sync_sm80"
    d = rng.integers(0, 4, 64).astype(i32)
    (o,) = await run(src, 1, 64, [In(d), Out(np.zeros(64, u32))])
    assert (o == [sum(1 << j for j in range(32) if d[i // 32 * 32 + j] == d[i]) for i in range(64)]).all()


@case("__reduce_add_sync / max / or")
async def reduce_add_sync_max_or(run: Run) -> None:
    src = "reduce_add_sync_max_or"
    d = rng.integers(0, 2**32, 64).astype(u32)
    (o,) = await run(src, 1, 64, [In(d), Out(np.zeros((64, 3), u32))])
    for i in range(64):
        v = d[i // 32 * 32 :][:32]
        assert list(map(int, o[i])) == [
            int(v.astype(u64).sum()) % 2**32,
            int(v.view(i32).max()) % 2**32,
            int(np.bitwise_or.reduce(v)),
        ]


@case("cooperative groups tiled partition reduce")
async def cooperative_groups_tiled(run: Run) -> None:
    src = "cooperative_groups_tiled"
    d = rng.integers(0, 100, 128).astype(i32)
    (o,) = await run(src, 1, 128, [In(d), Out(np.zeros(16, i32))])
    assert (o == d.reshape(16, 8).sum(1)).all()


@case("cg::reduce + labeled coalesced")
async def cg_reduce_labeled_coalesced(run: Run) -> None:
    src = "cg_reduce_labeled_coalesced"
    d = rng.integers(0, 100, 128).astype(i32)
    (o,) = await run(src, 1, 128, [In(d), Out(np.zeros(5, i32))])
    assert (o[1:] == d.reshape(4, 32).sum(1)).all()
    assert o[0] == (d & 1).sum()


@case("spin lock per block atomicCAS")
async def spin_lock_per_block_atomiccas(run: Run) -> None:
    src = "spin_lock_per_block_atomiccas"
    _l, c = await run(src, 200, 32, [Out(np.zeros(1, i32)), Out(np.zeros(1, i32))])
    assert c[0] == 200


@case("spin lock per thread (Volta style)")
async def spin_lock_per_thread_volta(run: Run) -> None:
    src = "spin_lock_per_thread_volta"
    _l, c = await run(src, 4, 64, [Out(np.zeros(1, i32)), Out(np.zeros(1, i32))])
    assert c[0] == 256


@case("producer/consumer between blocks (flag spin)")
async def producer_consumer_between(run: Run) -> None:
    src = "producer_consumer_between"
    _f, d = await run(src, 4, 32, [Out(np.zeros(1, i32)), Out(np.zeros(4, i32))])
    assert (d == 42).all()


@case("clock, smid, laneid, warpid special regs")
async def clock_smid_laneid_warpid(run: Run) -> None:
    src = "clock_smid_laneid_warpid"
    (o,) = await run(src, 1, 96, [Out(np.zeros((96, 2), u32))])
    assert (o[:, 0] == np.arange(96) % 32).all()
    assert (o[:, 1] == np.arange(96) // 32).all()


@case("nested divergence with barrier in uniform loop, early exit of some threads")
async def nested_divergence_with_barrier(run: Run) -> None:
    src = "nested_divergence_with_barrier"
    for n in (50, 100, 128):
        (o,) = await run(src, 1, 128, [Out(np.full(128, -1, i32)), n])
        s = list(range(n))
        for _r in range(5):
            v = [s[(t + 1) % n] for t in range(n)]
            s = [x + sum(range(x % 5)) if x & 1 else x for x in v]

            def f(x):
                if x & 1:
                    j = 0
                    while j < x % 5:
                        x += j
                        j += 1
                return x

            s = [f(x) for x in v]
        assert list(o) == s + [-1] * (128 - n), n


@case("__syncthreads_count/and/or")
async def syncthreads_count_and_or(run: Run) -> None:
    src = "syncthreads_count_and_or"
    d = rng.integers(-4, 4, 100).astype(i32)
    (o,) = await run(src, 1, 100, [In(d), Out(np.zeros(100, i32))])
    assert (o == (d > 0).sum() * 100 + 10 + int((d == 3).any())).all()


@case("grid 1e6 tiny blocks")
async def grid_1e6_tiny_blocks(run: Run) -> None:
    (o,) = await run("grid_1e6_tiny_blocks", 300000, 4, [Out(np.zeros(1, u32))])
    assert o[0] == 300000


@case("warp-specialized producer/consumer w/ shared volatile + syncwarp")
async def warp_specialized_producer(run: Run) -> None:
    src = "warp_specialized_producer"
    (o,) = await run(src, 1, 64, [Out(np.zeros(64, i32))])
    assert list(o) == [(31 - t ^ 1) * 2 for t in range(32)] + [-t for t in range(32, 64)]


@case("named barrier asm bar.sync 1,64")
async def named_barrier_asm_bar_sync_1(run: Run) -> None:
    src = "named_barrier_asm_bar_sync_1"
    (o,) = await run(src, 1, 128, [Out(np.zeros(128, i32))])
    assert (o == np.arange(128) ^ 33).all()


@case("texture-free: float atomicMax trick, __int_as_float, isnan")
async def texture_free_float_atomicmax(run: Run) -> None:
    src = "texture_free_float_atomicmax"
    x = rng.normal(size=256).astype(f32)
    x[3] = np.nan
    x[7] = np.inf
    x[9] = -np.inf
    x[11] = -0.0
    c, m = await run(src, 2, 128, [In(x), Out(np.zeros(3, i32)), Out(np.zeros(1, f32))])
    f = x[np.isfinite(x)]
    assert list(c) == [1, 2, np.signbit(x).sum()]
    assert m[0] == f.max()
