"""Arithmetic as CUDA has it: mathematical functions, integers of all widths, half precision, conversions."""

from __future__ import annotations

import numpy as np

from corpus.cases import In, Out, Run, case, f32, f64, i32, i64, rng, u32, u64


@case("math functions float")
async def math_functions_float(run: Run) -> None:
    src = "math_functions_float"
    import math

    x = np.concatenate(
        [rng.uniform(-100, 100, 290), [0, 100000.0, -100000.0, 30000000.0, 1e-20, -0.0, 1, -1, 0.5, 1e30]]
    ).astype(f32)
    n = len(x)
    (o,) = await run(src, 3, 128, [In(x), Out(np.zeros((n, 16), f32)), n])
    X = x.astype(f64)
    with np.errstate(all="ignore"):
        e = [
            np.sin(X),
            np.cos(X),
            np.exp((x * f32(0.01)).astype(f64)),
            np.log((np.abs(x) + f32(0.001)).astype(f64)),
            np.sqrt(abs(X)),
            np.tanh(X),
            abs(X) ** f64(f32(1.7)),
            np.arctan2(X, 2),
            np.floor(X),
            np.rint(X),
            np.fmod(X, 3),
            np.cbrt(X),
            [math.erf(t) for t in (x * f32(0.01)).astype(f64)],
            1 / np.sqrt(abs(x) + f32(1), dtype=f64),
            np.hypot(X, 3),
            np.log1p(abs(X)),
        ]
        for j, ee in enumerate(e):
            ee = np.array(ee).astype(f32)
            assert np.allclose(o[:, j], ee, rtol=4e-06, atol=1e-07), (
                j,
                [
                    (float(x[q]), float(o[q, j]), float(ee[q]))
                    for q in range(n)
                    if not np.isclose(o[q, j], ee[q], rtol=4e-06, atol=1e-07)
                ][:4],
            )


@case("math functions double")
async def math_functions_double(run: Run) -> None:
    src = "math_functions_double"
    import math

    x = np.concatenate(
        [rng.uniform(-100, 100, 290), [100000.0, -100000.0, 30000000.0, 1e-20, 1, -1, 0.5, 1e30, -7, 1e300]]
    )
    n = len(x)
    (o,) = await run(src, 3, 128, [In(x), Out(np.zeros((n, 10))), n])
    with np.errstate(all="ignore"):
        e = [
            np.sin(x),
            np.cos(x),
            np.exp(x * 0.01),
            np.log(abs(x) + 0.001),
            np.sqrt(abs(x)),
            np.tanh(x),
            abs(x) ** 1.7,
            1 / x,
            [math.lgamma(abs(t) + 1) for t in x],
            x / 3,
        ]
        for j, ee in enumerate(e):
            assert np.allclose(o[:, j], ee, rtol=1e-13, atol=1e-14, equal_nan=True), (
                j,
                [(x[q], o[q, j], ee[q]) for q in range(n) if not np.isclose(o[q, j], ee[q], rtol=1e-13, atol=1e-14)][
                    :4
                ],
            )
        assert (o[:, 4] == e[4]).all()
        assert (o[:, 7] == e[7]).all()
        assert (o[:, 9] == e[9]).all()


@case("fast intrinsics __expf __sinf __fdividef")
async def fast_intrinsics_expf_sinf(run: Run) -> None:
    src = "fast_intrinsics_expf_sinf"
    x = rng.uniform(0.1, 3, 64).astype(f32)
    (o,) = await run(src, 1, 64, [In(x), Out(np.zeros((64, 6), f32))])
    X = x.astype(f64)
    assert np.allclose(
        o, np.stack([np.exp(X), np.sin(X), X / 3, np.log(X), X**2, np.clip(X, 0, 1)], 1), rtol=0.0001, atol=1e-05
    )


@case("int64 divide/modulo/shift/signed")
async def int64_divide_modulo_shift(run: Run) -> None:
    src = "int64_divide_modulo_shift"
    a = rng.integers(-(2**63), 2**63 - 1, 128)
    b = rng.integers(-(2**40), 2**40, 128)
    b[b == 0] = 1
    (o,) = await run(src, 1, 128, [In(a), In(b), Out(np.zeros((128, 8), i64))])

    def W(v):
        return (v + 2**63) % 2**64 - 2**63

    for i in range(128):
        x, y = (int(a[i]), int(b[i]))

        def U(v):
            return v % 2**64

        q = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        e = [
            q,
            x - q * y,
            W(U(x) // U(y)),
            x >> (y & 63),
            W(U(x) >> (y & 63)),
            W(x * y),
            x * y >> 64,
            (64 - U(x).bit_length()) * 100 + bin(U(y)).count("1"),
        ]
        assert list(map(int, o[i])) == e, (x, y, o[i], e)


@case("int8/int16 arithmetic, sign conversions, char4/short2")
async def int8_int16_arithmetic_sign(run: Run) -> None:
    src = "int8_int16_arithmetic_sign"
    a = rng.integers(-128, 128, (64, 4)).astype(np.int8)
    b = rng.integers(-(2**15), 2**15, (64, 2)).astype(np.int16)
    (o,) = await run(src, 1, 64, [In(a), In(b), Out(np.zeros((64, 6), i32))])
    A = a.astype(int)
    bb = b.view(np.int8).reshape(64, 4).astype(int)
    by = np.concatenate([a.view(np.uint8), b.view(np.uint8).reshape(64, 4)], 1)
    bp = (
        by[:, 0].astype(u32) | by[:, 7].astype(u32) << 8 | by[:, 1].astype(u32) << 16 | by[:, 5].astype(u32) << 24
    ).view(i32)
    with np.errstate(all="ignore"):
        e = np.stack(
            [
                (a[:, 0] + a[:, 1]).astype(np.int8),
                (A[:, 2] * A[:, 3]).astype(np.uint8),
                b[:, 0] * b[:, 1],
                (b[:, 0] - b[:, 1]).view(np.uint16).astype(i32),
                (A * bb).sum(1) + 5,
                bp,
            ],
            1,
        )
    assert (o == e).all(), (o[0], e[0])


@case("half precision __half add/fma")
async def half_precision_half_add_fma(run: Run) -> None:
    src = "half_precision_half_add_fma"
    a = rng.random(64).astype(np.float16)
    b = rng.random(64).astype(np.float16)
    (o,) = await run(src, 1, 64, [In(a), In(b), Out(np.zeros(64, np.float16))])
    assert np.allclose(o, a * b + 1, rtol=0.01)


@case("half storage only (float2half/half2float)")
async def half_storage_only_float2half(run: Run) -> None:
    src = "half_storage_only_float2half"
    a = rng.random(64).astype(np.float16)
    (o,) = await run(src, 1, 64, [In(a), Out(np.zeros(64, np.float16))])
    assert (o == (a.astype(f32) * 3).astype(np.float16)).all()


@case("bf16 storage")
async def bf16_storage(run: Run) -> None:
    src = "bf16_storage"
    a = (rng.random(64).astype(f32).view(u32) >> 16).astype(np.uint16)
    (o,) = await run(src, 1, 64, [In(a), Out(np.zeros(64, np.uint16))])
    v = (a.astype(u32) << 16).view(f32) * 3
    e = (v.view(u32) + 32767 + (v.view(u32) >> 16 & 1) >> 16).astype(np.uint16)
    assert (o == e).all()


@case("bool/predicates & ternaries & goto")
async def bool_predicates_ternaries_goto(run: Run) -> None:
    src = "bool_predicates_ternaries_goto"
    n = 50
    (o,) = await run(src, 1, 256, [Out(np.zeros(256, i32)), n])
    for i in range(256):
        s = 0
        j = i
        while True:
            s += j & 3
            j = 3 * j + 1 if j & 1 else j // 2
            if s > n:
                break
            if j > 1:
                continue
            s += 1000
            break
        assert o[i] == s * 10 + (j == 1), i


@case("surprising: uint index wrap, negative modulo, shift >=32")
async def surprising_uint_index_wrap(run: Run) -> None:
    src = "surprising_uint_index_wrap"
    x = rng.integers(0, 2**32, 64, dtype=u32)
    sh = rng.integers(0, 40, 64).astype(i32)
    (o,) = await run(src, 1, 64, [In(x), In(sh), Out(np.zeros((64, 4), i32))])
    for i in range(64):
        v, s = (int(x[i]), int(sh[i]))
        sv = v - 2**32 if v >> 31 else v
        n = ~v % 2**32
        f = ((n << 32 | v) << (s & 31) >> 32) % 2**32
        assert [int(q) % 2**32 for q in o[i]] == [
            (v << s) % 2**32 if s < 32 else 0,
            v >> s if s < 32 else 0,
            (sv >> min(s, 31)) % 2**32,
            f,
        ], (v, s, o[i])


@case("float->int conversions saturate, nan")
async def float_int_conversions_saturate(run: Run) -> None:
    src = "float_int_conversions_saturate"
    x = np.array([0, 1.5, -1.5, 2.5, 1e20, -1e20, np.nan, np.inf, -np.inf, 255.9, 3000000000.0], f32)
    n = len(x)
    o, l = await run(src, 1, n, [In(x), Out(np.zeros((n, 4), i32)), Out(np.zeros(n, i64))])

    def c(v, lo, hi, r=np.trunc):
        return (
            0
            if v != v and lo < 0 and (hi < 2**60)
            else 0
            if v != v
            else int(min(max(float(r(v)) if np.isfinite(v) else v, lo), hi))
        )

    for i in range(n):
        v = float(x[i])
        e = [
            c(v, -(2**31), 2**31 - 1),
            c(v, 0, 2**32 - 1),
            c(v, -(2**31), 2**31 - 1, np.rint),
            c(v, 0, 2**32 - 1) & 255,
        ]
        assert [int(o[i, 0]), int(o[i, 1]) % 2**32, int(o[i, 2]), int(o[i, 3])] == e, (v, o[i], e)
        el = -(2**63) if v != v else -(2**63) if v < -(2**63) else 2**63 - 1 if v > 2**63 else int(v)
        assert int(l[i]) == el, (v, l[i])


@case("denormals, fma exactness, ftz off")
async def denormals_fma_exactness_ftz(run: Run) -> None:
    src = "denormals_fma_exactness_ftz"
    a = (rng.random(64) * 1e-30).astype(f32)
    b = (rng.random(64) * 1e-09).astype(f32)
    (o,) = await run(src, 1, 64, [In(a), In(b), Out(np.zeros((64, 3), f32))])
    assert (o == np.stack([a * b, a * b + a, a / b], 1)).all()


@case("128-bit int (__int128)")
async def int128(run: Run) -> None:
    src = "int128"
    a = rng.integers(0, 2**64, 32, dtype=u64)
    (o,) = await run(src, 1, 32, [In(a), Out(np.zeros((32, 2), u64))])
    for i in range(32):
        v = int(a[i])
        p = (v * v + v + (v << 64)) % 2**128
        assert int(o[i, 0]) == p % 2**64
        assert int(o[i, 1]) == p >> 64
