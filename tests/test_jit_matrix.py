"""Matrix instructions of a warp: layouts as the manual draws them, values against numpy, machine code against interpreter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from jit_harness import TARGETS, Case, differences, run_interpreter, run_jit
from matrix_tools import HEAD, Array, codes_of, run_product, values_of

from zcuda_async.ptx import PtxError, parse

FOLDER = Path(__file__).parent / "ptx"


FLOATS = [
    *(((16, 8, k), kinds) for k in (8, 16) for kinds in (("f32", "f16", "f16", "f32"), ("f16", "f16", "f16", "f16"))),
    *(((16, 8, k), ("f32", "bf16", "bf16", "f32")) for k in (8, 16)),
    *(((16, 8, k), ("f32", "tf32", "tf32", "f32")) for k in (4, 8)),
    *(((16, 8, k), ("f32", a, b, "f32")) for k in (16, 32) for a, b in (("e4m3", "e5m2"), ("e5m2", "e4m3"))),
    *(((16, 8, k), ("f16", a, b, "f16")) for k in (16, 32) for a, b in (("e4m3", "e4m3"), ("e5m2", "e4m3"))),
    ((8, 8, 4), ("f64", "f64", "f64", "f64")),
    *(((16, 8, k), ("f64", "f64", "f64", "f64")) for k in (4, 8, 16)),
]


@pytest.mark.parametrize(("shape", "kinds"), FLOATS, ids=str)
def test_products_of_floats(shape: tuple[int, int, int], kinds: tuple[str, str, str, str]) -> None:
    m, n, k = shape
    rng = np.random.default_rng(k)
    codes = codes_of(kinds[1], (m, k), rng), codes_of(kinds[2], (k, n), rng), codes_of(kinds[3], (m, n), rng)
    spelling = f"mma.sync.aligned.m{m}n{n}k{k}.row.col.{'.'.join(kinds)}"
    got = values_of(run_product(spelling, shape, kinds, codes), kinds[0])
    a, b, c = (values_of(code, kind) for code, kind in zip(codes, kinds[1:], strict=True))
    error = {"f64": 1e-14, "f32": 1e-5, "f16": 2e-3}[kinds[0]]
    np.testing.assert_allclose(got, a @ b + c, rtol=error, atol=error * (abs(a) @ abs(b) + 1).max())


INTEGERS = [
    *(((8, 8, 16), (a, b)) for a, b in (("s8", "s8"), ("u8", "s8"))),
    *(((16, 8, k), (a, b)) for k in (16, 32) for a, b in (("s8", "u8"), ("u8", "u8"))),
    *(((m, 8, k), ("s4", "u4")) for m, k in ((8, 32), (16, 32), (16, 64))),
]


@pytest.mark.parametrize("satfinite", ["", ".satfinite"])
@pytest.mark.parametrize(("shape", "factors"), INTEGERS, ids=str)
def test_products_of_integers_are_exact(shape: tuple[int, int, int], factors: tuple[str, str], satfinite: str) -> None:
    m, n, k = shape
    rng = np.random.default_rng(m * k)
    kinds = ("s32", *factors, "s32")
    codes = codes_of(factors[0], (m, k), rng), codes_of(factors[1], (k, n), rng), codes_of("s32", (m, n), rng)
    codes[2][0, :2] = 0x7FFFFFFF
    codes[2][1, :2] = 0x80000000
    got = run_product(f"mma.sync.aligned.m{m}n{n}k{k}.row.col{satfinite}.{'.'.join(kinds)}", shape, kinds, codes)
    a, b, c = (values_of(code, kind).astype(np.int64) for code, kind in zip(codes, kinds[1:], strict=True))
    want = a @ b + c
    want = np.clip(want, -(2**31), 2**31 - 1) if satfinite else want
    np.testing.assert_array_equal(got, (want & 0xFFFFFFFF).astype(np.uint64))


@pytest.mark.parametrize("operation", ["xor", "and"])
@pytest.mark.parametrize("shape", [(8, 8, 128), (16, 8, 128), (16, 8, 256)], ids=str)
def test_products_of_bits_count_them(shape: tuple[int, int, int], operation: str) -> None:
    m, n, k = shape
    rng = np.random.default_rng(k)
    kinds = ("s32", "b1", "b1", "s32")
    codes = codes_of("b1", (m, k), rng), codes_of("b1", (k, n), rng), codes_of("s32", (m, n), rng)
    spelling = f"mma.sync.aligned.m{m}n{n}k{k}.row.col.{'.'.join(kinds)}.{operation}.popc"
    got = run_product(spelling, shape, kinds, codes)
    a, b = codes[0].astype(bool), codes[1].astype(bool)
    pairs = a[:, :, None] ^ b[None] if operation == "xor" else a[:, :, None] & b[None]
    want = pairs.sum(1) + codes[2].astype(np.int64)
    np.testing.assert_array_equal(got, (want & 0xFFFFFFFF).astype(np.uint64))


# ---------------------------------------------------------------------- matrices of 16-bit elements


def moving_kernel(body: str) -> str:
    return f"""{HEAD}.visible .entry k(.param .u64 in, .param .u64 out) {{
.reg .b64 %i, %o, %l; .reg .b32 %t, %s, %w, %r<4>, %lane; .reg .pred %p; .shared .align 16 .b8 s[1024];
mov.u32 %t, %tid.x; and.b32 %lane, %t, 31; mul.wide.u32 %l, %t, 16; mov.u32 %s, s;
ld.param.u64 %i, [in]; ld.param.u64 %o, [out]; add.u64 %i, %i, %l; add.u64 %o, %o, %l;
shl.b32 %w, %t, 4; add.u32 %s, %s, %w;
{body}
ret;
}}
"""


def check_moving(body: str, want: Array, block: int = 64) -> None:
    values = np.arange(block * 8, dtype=np.uint16) * 7
    case = Case(moving_kernel(body), [values, np.zeros(block * 4, np.uint32)], block=(block, 1, 1))
    slow = run_interpreter(case)
    np.testing.assert_array_equal(slow[1].reshape(block, 4).view(np.uint16), want)
    for target in TARGETS:
        assert not differences(run_jit(case, target), slow)


def matrices(block: int = 64) -> Array:
    """[warp][matrix][row][column] of what the lanes write to shared memory: lane 8j + r has row r of matrix j."""
    return (np.arange(block * 8, dtype=np.uint16) * 7).reshape(block // 32, 4, 8, 8)


def fragments(given: Array) -> Array:
    """[lane of all][register * 2 + element] of matrices [warp][matrix][row][column]."""
    flat = given.reshape(given.shape[0], 4, 32, 2)
    return flat.transpose(0, 2, 1, 3).reshape(-1, 8)


STAGE = "ld.global.v4.u32 {%r0, %r1, %r2, %r3}, [%i]; st.shared.v4.u32 [%s], {%r0, %r1, %r2, %r3}; bar.sync 0;"
OUT = "st.global.v4.u32 [%o], {%r0, %r1, %r2, %r3};"


@pytest.mark.parametrize("trans", ["", ".trans"])
def test_ldmatrix_spreads_rows_over_lanes(trans: str) -> None:
    given = matrices().swapaxes(2, 3) if trans else matrices()
    body = f"{STAGE}\nldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%r0, %r1, %r2, %r3}}, [%s];\n{OUT}"
    check_moving(body, fragments(np.ascontiguousarray(given)))


@pytest.mark.parametrize("trans", ["", ".trans"])
def test_stmatrix_is_the_reverse(trans: str) -> None:
    body = f"""{STAGE} bar.sync 0;
    stmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 [%s], {{%r0, %r1, %r2, %r3}};
    bar.sync 0; ld.shared.v4.u32 {{%r0, %r1, %r2, %r3}}, [%s];\n{OUT}"""
    words = matrices().reshape(2, 32, 4, 2)  # lane l gives register j's two elements of row l / 4
    given = words.transpose(0, 2, 1, 3).reshape(2, 4, 8, 8)
    given = given.swapaxes(2, 3) if trans else given
    check_moving(body, given.reshape(64, 8))


def test_movmatrix_transposes() -> None:
    body = f"{STAGE}\nmovmatrix.sync.aligned.m8n8.trans.b16 %r0, %r0;\nmov.b32 %r2, %r0;\n{OUT}"
    lanes = matrices().reshape(2, 32, 4, 2)
    moved = lanes[:, :, 0].reshape(2, 8, 8).swapaxes(1, 2).reshape(2, 32, 2)
    want = lanes.copy()
    want[:, :, 0] = want[:, :, 2] = moved
    check_moving(body, want.reshape(64, 8))


def test_one_warp_of_two_loads_a_matrix() -> None:
    body = f"""{STAGE}
    setp.lt.u32 %p, %t, 32; @!%p bra OUT;
    ldmatrix.sync.aligned.m8n8.x1.b16 {{%r0}}, [%i];
OUT: {OUT}"""
    given, want = matrices(), matrices().reshape(64, 8).copy()
    want[:32, :2] = given[0, 0].reshape(32, 2)
    check_moving(body, want)


# ---------------------------------------------------------------------- wmma


WMMA = (FOLDER / "wmma.ptx").read_text()


@pytest.mark.parametrize(
    ("name", "shape", "kinds", "layouts", "start"),
    [
        ("wm", (16, 16, 16), (np.float16, np.float16, np.float32), "rcr", 1),
        ("wi", (16, 16, 16), (np.int8, np.int8, np.int32), "rcc", None),
        ("wt", (16, 16, 8), (np.float32, np.float32, np.float32), "rrr", 0),
        ("wd", (8, 8, 4), (np.float64, np.float64, np.float64), "rcr", 0),
        ("wh", (32, 8, 16), (np.float16, np.float16, np.float16), "rcr", None),
        ("wb", (8, 32, 16), (np.uint16, np.uint16, np.float32), "rcr", 0),
    ],
)
def test_wmma_of_nvcc(name: str, shape: Any, kinds: Any, layouts: str, start: int | None) -> None:
    m, n, k = shape
    rng = np.random.default_rng(m + k)
    a, b = rng.integers(-8, 8, (m, k)).astype(np.float64), rng.integers(-8, 8, (k, n)).astype(np.float64)
    c = rng.integers(-50, 50, (m, n)).astype(np.float64)

    def stored(matrix: Array, kind: Any, layout: str) -> Array:
        if kind is np.uint16:  # bfloat16
            matrix = (matrix.astype(np.float32).view(np.uint32) >> 16).astype(np.float64)
        return np.ascontiguousarray((matrix.T if layout == "c" else matrix).astype(kind))

    out = stored(c, kinds[2], "r")
    case = Case(WMMA, [stored(a, kinds[0], layouts[0]), stored(b, kinds[1], layouts[1]), out], kernel=name)
    want = a @ b + (c if start is None else start)
    slow = run_interpreter(case)
    np.testing.assert_array_equal(slow[2].reshape(n, m).T if layouts[2] == "c" else slow[2], want.astype(kinds[2]))
    for target in TARGETS:
        assert not differences(run_jit(case, target), slow)


# ---------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r0}, {%r0}, {%r0}, {%r0};", "vectors of 4, 4, 2, 4"),
        ("mma.sync.aligned.m16n8k16.col.col.f32.f16.f16.f32 {%r0}, {%r0}, {%r0}, {%r0};", "no such combination"),
        ("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r0}, [%r1];", "vectors of 2 registers, got 1"),
        ("wgmma.fence.sync.aligned;", "not supported"),
    ],
)
def test_what_does_not_fit_is_refused(instruction: str, message: str) -> None:
    with pytest.raises(PtxError, match=message):
        parse(f"{HEAD}.visible .entry k() {{ .reg .b32 %r<4>;\n{instruction}\nret; }}", "<test>")
