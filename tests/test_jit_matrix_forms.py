"""The less usual products of matrices: four of halves at once, wmma of less than 8 bits, wmma made finite."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from jit_harness import TARGETS, Case, differences, run_interpreter, run_jit
from matrix_tools import BITS, HEAD, Array, codes_of, kernel_of, run_fragments, run_product, values_of

from zcuda_async.ptx import PtxError, parse

# ---------------------------------------------------------------------- mma.m8n8k4 of halves

Place = Callable[[int, int], tuple[int, int]]
"""(lane, index) → (row, column), as the manual's section on mma.m8n8k4 has it."""


def high(lane: int) -> int:
    return 4 if lane >= 16 else 0


PLACES: dict[str, Place] = {
    "a.row": lambda lane, i: (lane % 4 + high(lane), i),
    "a.col": lambda lane, i: (i % 4 + high(lane), lane % 4),
    "b.row": lambda lane, i: (lane % 4, i + high(lane)),
    "b.col": lambda lane, i: (i, lane % 4 + high(lane)),
    "f16": lambda lane, i: (lane % 4 + high(lane), i),
    "f32": lambda lane, i: ((lane & 1) + (i & 2) + high(lane), (i & 4) + (lane & 2) + (i & 1)),
}
COMPUTATIONS = [[*range(4 * q, 4 * q + 4), *range(16 + 4 * q, 20 + 4 * q)] for q in range(4)]
"""The lanes of each of the four products."""


def words_of(matrices: Array, kind: str, place: Place) -> Array:
    """[register][lane] of four matrices of codes."""
    each = 32 // BITS[kind]
    words = np.zeros((matrices[0].size // (8 * each), 32), np.uint32)
    for matrix, lanes in zip(matrices, COMPUTATIONS, strict=True):
        for register, lane, element in np.ndindex(len(words), 8, each):
            code = int(matrix[place(lanes[lane], register * each + element)])
            words[register, lanes[lane]] |= code << element * BITS[kind]
    return words


def matrices_of(words: Array, kind: str) -> Array:
    each, codes = 32 // BITS[kind], np.zeros((4, 8, 8), np.uint64)
    for q, lanes in enumerate(COMPUTATIONS):
        for register, lane, element in np.ndindex(len(words), 8, each):
            word = int(words[register, lanes[lane]])
            codes[q][PLACES[kind](lanes[lane], register * each + element)] = word >> element * BITS[kind] & (
                (1 << BITS[kind]) - 1
            )
    return codes


def run_quads(kinds: tuple[str, str], layouts: tuple[str, str], a: Array, b: Array, c: Array) -> Array:
    d_kind, c_kind = kinds
    sources = {
        "a": words_of(a, "f16", PLACES[f"a.{layouts[0]}"]),
        "b": words_of(b, "f16", PLACES[f"b.{layouts[1]}"]),
        "c": words_of(c, c_kind, PLACES[c_kind]),
    }
    name = f"mma.sync.aligned.m8n8k4.{'.'.join(layouts)}.{d_kind}.f16.f16.{c_kind}"
    d = np.zeros((BITS[d_kind] // 4, 32), np.uint32)
    return matrices_of(run_fragments(name, d_kind, d, sources), d_kind)


KINDS = [("f32", "f32"), ("f32", "f16"), ("f16", "f16")]
LAYOUTS = [(a, b) for a in ("row", "col") for b in ("row", "col")]


@pytest.mark.parametrize("layouts", LAYOUTS, ids=".".join)
@pytest.mark.parametrize("kinds", KINDS, ids=".".join)
def test_four_products_at_once(kinds: tuple[str, str], layouts: tuple[str, str]) -> None:
    rng = np.random.default_rng(4)
    a, b = (np.stack([codes_of("f16", size, rng) for _ in range(4)]) for size in ((8, 4), (4, 8)))
    c = np.stack([codes_of(kinds[1], (8, 8), rng) for _ in range(4)])
    got = values_of(run_quads(kinds, layouts, a, b, c), kinds[0])
    left, right, start = values_of(a, "f16"), values_of(b, "f16"), values_of(c, kinds[1])
    error = {"f32": 1e-5, "f16": 2e-3}[kinds[0]]
    np.testing.assert_allclose(got, left @ right + start, rtol=error, atol=error * 10)


@pytest.mark.parametrize("kinds", KINDS, ids=".".join)
def test_any_halves_are_multiplied_alike(kinds: tuple[str, str]) -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.integers(0, 1 << 16, (4, *size), dtype=np.uint64) for size in ((8, 4), (4, 8)))
    c = rng.integers(0, 1 << BITS[kinds[1]], (4, 8, 8), dtype=np.uint64)
    run_quads(kinds, ("row", "col"), a, b, c)


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f32 %r0, %r0, %r0, %r0;", "no such combination"),
        ("mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f16 %r0, %r0, %r0, %r0;", "vectors of 8, 2, 2, 4 registers"),
        ("wmma.mma.sync.aligned.row.col.m8n8k32.s32.s4.u4.s32 %r0, %r0, %r0, %r0;", "no such combination"),
        ("wmma.mma.sync.aligned.col.col.m8n8k32.s32.s4.s4.s32 %r0, %r0, %r0, %r0;", "no such combination"),
        ("wmma.load.b.sync.aligned.row.m8n8k32.s4 {%r0}, [%d];", "no such combination"),
        ("wmma.load.a.sync.aligned.row.m8n8k128.b1 {%r0, %r1}, [%d];", "vectors of 1 registers, got 2"),
    ],
)
def test_what_does_not_fit_is_refused(instruction: str, message: str) -> None:
    with pytest.raises(PtxError, match=message):
        parse(f"{HEAD}.visible .entry k() {{ .reg .b32 %r<4>; .reg .b64 %d;\n{instruction}\nret; }}", "<test>")


# ---------------------------------------------------------------------- warps apart

PREFIX = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"


@pytest.mark.parametrize(
    ("instruction", "counts", "tail"),
    [
        (PREFIX, {"d": 4, "a": 4, "b": 4, "c": 4, "e": 0}, ", 1"),
        ("mma.sync.aligned.m8n8k4.col.row.f16.f16.f16.f16", {"d": 4, "a": 2, "b": 2, "c": 4}, ""),
    ],
)
@pytest.mark.parametrize("guard", ["@%q", "@!%q"])
def test_one_warp_of_two_multiplies(instruction: str, counts: dict[str, int], tail: str, guard: str) -> None:
    """The other warp keeps what its registers held, which is nothing but zero."""
    text = kernel_of(f"{guard} {instruction}", counts, wide=False, tail=tail).replace(
        "mov.u32 %t, %tid.x;",
        """.reg .pred %q; .reg .b32 %w; .reg .b64 %x; mov.u32 %t, %tid.x; setp.lt.u32 %q, %t, 32;
        shr.u32 %w, %t, 5; mul.lo.u32 %w, %w, 512; cvt.u64.u32 %x, %w; and.b32 %t, %t, 31;""",
    )
    text = text.replace("add.u64 %p0, %p0, %o;", "add.u64 %p0, %p0, %o; add.u64 %p0, %p0, %x;")
    text = text.replace(f"{guard} mma", "\n".join([*(f"mov.b32 %d{i}, 0;" for i in range(4)), f"{guard} mma"]))
    rng = np.random.default_rng(9)
    arrays = [rng.integers(0, 1 << 32, (max(count, 1), 32), dtype=np.uint64) for count in list(counts.values())[1:]]
    halves = [(array & 0xBFFFBFFF).astype(np.uint32) for array in arrays]  # no NaNs
    case = Case(text, [np.ones((2, 4, 32), np.uint32), *halves], block=(64, 1, 1))
    slow = run_interpreter(case)
    first, second = slow[0].reshape(2, 128)
    assert (first.any(), second.any()) == ((True, False) if guard == "@%q" else (False, True))
    for target in TARGETS:
        assert not differences(run_jit(case, target), slow)


# ---------------------------------------------------------------------- wmma of less than 8 bits

SMALL = (Path(__file__).parent / "ptx" / "wmma_small.ptx").read_text()


def packed(codes: Array, bits: int, stride: int) -> Array:
    """Lines of codes, the first in the lowest bits; lines begin `stride` elements apart."""
    lines = np.zeros((len(codes), stride), np.uint8)
    lines[:, : codes.shape[1]] = codes
    ones = np.unpackbits(lines[..., None], axis=-1, count=bits, bitorder="little")
    return np.packbits(ones.reshape(-1), bitorder="little")


@pytest.mark.parametrize(("lda", "ldb", "ldd"), [(0, 0, 8), (128, 256, 12)])
@pytest.mark.parametrize("name", ["s4", "u4", "bx", "ba"])
def test_wmma_of_small_integers(name: str, lda: int, ldb: int, ldd: int) -> None:
    kind, k = (name, 32) if name[1] == "4" else ("b1", 128)
    rng = np.random.default_rng(k)
    a, b = codes_of(kind, (8, k), rng), codes_of(kind, (8, k), rng)  # both with k along a line
    c = rng.integers(-1000, 1000, (8, 8), dtype=np.int32)
    c[0, :4], c[1, :4] = 2**31 - 1, -(2**31)
    stored = np.zeros((8, ldd), np.int32)
    by_column = name in ("u4", "ba")
    stored[:, :8] = c.T if by_column else c
    strides = lda or k, ldb or k
    case = Case(
        SMALL,
        [packed(a, BITS[kind], strides[0]), packed(b, BITS[kind], strides[1]), stored, *strides, ldd],
        kernel=name,
    )
    left, right = (values_of(codes, kind).astype(np.int64) for codes in (a, b))
    products = {"bx": left[:, None] ^ right, "ba": left[:, None] & right}.get(name, left[:, None] * right)
    want = products.sum(-1) + c
    want = np.clip(want, -(2**31), 2**31 - 1) if name == "u4" else want
    want = (want & 0xFFFFFFFF).astype(np.uint32).view(np.int32)
    slow = run_interpreter(case)
    got = slow[2].reshape(8, ldd)[:, :8]
    np.testing.assert_array_equal(got.T if by_column else got, want)
    for target in TARGETS:
        assert not differences(run_jit(case, target), slow)


# ---------------------------------------------------------------------- rounding modes of f64


def exact_product(a: Array, b: Array, c: Array) -> list[list[Fraction]]:
    rows, columns = ([[Fraction(float(x)) for x in line] for line in lines] for lines in (a, b.T))
    return [
        [
            sum((x * y for x, y in zip(row, column, strict=True)), Fraction(float(c[i, j])))
            for j, column in enumerate(columns)
        ]
        for i, row in enumerate(rows)
    ]


@pytest.mark.parametrize(("m", "k"), [(8, 4), (16, 8)])
def test_directed_products_of_doubles_bound_the_exact_ones(m: int, k: int) -> None:
    rng = np.random.default_rng(8)
    kinds = ("f64", "f64", "f64", "f64")
    codes = tuple(codes_of("f64", size, rng) for size in ((m, k), (k, 8), (m, 8)))
    spelling = f"mma.sync.aligned.m{m}n8k{k}.row.col{{}}.f64.f64.f64.f64"
    got = {
        mode: values_of(run_product(spelling.format(mode), (m, 8, k), kinds, codes), "f64")
        for mode in ("", ".rn", ".rz", ".rm", ".rp")
    }
    np.testing.assert_array_equal(got[""], got[".rn"])
    assert (got[".rm"] < got[".rp"]).all()
    for i, row in enumerate(exact_product(*(values_of(each, "f64") for each in codes))):
        for j, exact in enumerate(row):
            assert Fraction(got[".rm"][i, j]) < exact < Fraction(got[".rp"][i, j])
    # A chain that is cut at each step is no bound of the sum: it is between the two others.
    assert (got[".rm"] <= got[".rz"]).all()
    assert (got[".rz"] <= got[".rp"]).all()


def test_wmma_of_doubles_is_rounded_as_asked() -> None:
    registers = "{%d0, %d1}, {%a}, {%b}, {%c0, %c1}"
    results = []
    for mode in ("", ".rn", ".rz", ".rm", ".rp"):
        body = f"""{HEAD}.visible .entry k(.param .u64 o) {{ .reg .f64 %a, %b, %c<2>, %d<2>; .reg .b64 %p, %q;
        .reg .b32 %t; mov.u32 %t, %tid.x; mul.wide.u32 %q, %t, 16; ld.param.u64 %p, [o]; add.u64 %p, %p, %q;
        mov.f64 %a, 0d3FB999999999999A; mov.f64 %b, 0d3FD5555555555555; mov.f64 %c0, 0d3FF0000000000000;
        mov.f64 %c1, 0dBFF0000000000000;
        wmma.mma.sync.aligned.row.col.m8n8k4{mode}.f64.f64.f64.f64 {registers};
        st.global.v2.f64 [%p], {{%d0, %d1}}; ret; }}"""
        case = Case(body, [np.zeros(64)])
        slow = run_interpreter(case)
        for target in TARGETS:
            assert not differences(run_jit(case, target), slow)
        results.append(slow[0][:2].tolist())
    plain, nearest, zero, down, up = results
    assert plain == nearest
    assert down[0] == zero[0] < up[0]
    assert down[1] < zero[1] == up[1]


# ---------------------------------------------------------------------- wmma made finite

FINITE = """
.version 6.4
.target sm_70
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d) {
.reg .b64 %p<4>; .reg .b32 %a<8>, %b<8>, %c<8>;
ld.param.u64 %p0, [a]; ld.param.u64 %p1, [b]; ld.param.u64 %p2, [c]; ld.param.u64 %p3, [d];
wmma.load.a.sync.aligned.row.m16n16k16.f16 A, [%p0];
wmma.load.b.sync.aligned.row.m16n16k16.f16 B, [%p1];
wmma.load.c.sync.aligned.row.m16n16k16.FROM C, [%p2];
wmma.mma.sync.aligned.row.row.m16n16k16.TO.FROM.satfinite D, A, B, C;
wmma.store.d.sync.aligned.row.m16n16k16.TO [%p3], D;
ret; }
"""


@pytest.mark.parametrize(("to", "source"), [("f32", "f32"), ("f16", "f16"), ("f16", "f32"), ("f32", "f16")])
def test_wmma_makes_sums_finite(to: str, source: str) -> None:
    text = FINITE.replace("TO", to).replace("FROM", source)
    for name, kind in (("A", "f16"), ("B", "f16"), ("C", source), ("D", to)):
        letter, count = name.lower().replace("d", "c"), 8 if kind == "f32" or name in "AB" else 4
        vector = "{" + ", ".join(f"%{letter}{i}" for i in range(count)) + "}"
        text = text.replace(f" {name},", f" {vector},").replace(f" {name};", f" {vector};")
    rng = np.random.default_rng(6)
    numpy_type = {"f16": np.float16, "f32": np.float32}
    a, b = rng.uniform(-2, 2, (16, 16)).astype(np.float16), rng.uniform(-2, 2, (16, 16)).astype(np.float16)
    c = rng.uniform(-2, 2, (16, 16)).astype(numpy_type[source])
    a[0, 0], a[1, 0], a[2, 0], b[0, :8], b[0, 8:] = np.inf, np.nan, 60000, 3, -3
    c[3, :3] = np.inf, -np.inf, np.nan
    c[4, :2] = np.finfo(c.dtype).max, -np.finfo(c.dtype).max
    case = Case(text, [a, b, c, np.zeros((16, 16), numpy_type[to])])
    slow = run_interpreter(case)
    got = slow[3].reshape(16, 16)
    with np.errstate(invalid="ignore", over="ignore"):
        want = (a.astype(np.float64) @ b.astype(np.float64) + c).astype(numpy_type[to])
    largest = float(np.finfo(numpy_type[to]).max)
    want = np.nan_to_num(want, nan=0.0, posinf=largest, neginf=-largest)
    assert np.isfinite(got).all()
    error = {"f32": 1e-5, "f16": 2e-3}[to]
    np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=error, atol=10 * error)
    for target in TARGETS:
        assert not differences(run_jit(case, target), slow)
