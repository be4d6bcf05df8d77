"""Matrix instructions of a warp: layouts as the manual draws them, values against numpy, machine code against interpreter."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from jit_harness import TARGETS, Case, differences, run_interpreter, run_jit

from zcuda_async.ptx import PtxError, parse

Array = npt.NDArray[Any]
FOLDER = Path(__file__).parent / "ptx"

BITS = {"f64": 64, "f32": 32, "s32": 32, "tf32": 32, "f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8}
BITS |= {"s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}
HEAD = ".version 9.0\n.target sm_90\n.address_size 64\n"


# ---------------------------------------------------------------------- elements as bits


def values_of(codes: Array, kind: str) -> Array:
    """What unsigned codes of a type mean, as float64."""
    codes = codes.astype(np.uint64)
    if kind == "f64":
        return codes.view(np.float64)
    if kind in ("f32", "tf32"):
        masked = codes & np.uint64(0xFFFFE000 if kind == "tf32" else 0xFFFFFFFF)
        return masked.astype(np.uint32).view(np.float32).astype(np.float64)
    if kind == "f16":
        return codes.astype(np.uint16).view(np.float16).astype(np.float64)
    if kind == "bf16":
        return (codes.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    if kind in ("e4m3", "e5m2"):
        return np.array([small_float(int(code), kind) for code in codes.ravel()]).reshape(codes.shape)
    bits = BITS[kind]
    if kind[0] == "s":
        return np.where(codes >> np.uint64(bits - 1), codes.astype(np.float64) - 2.0**bits, codes.astype(np.float64))
    return codes.astype(np.float64)


def small_float(code: int, kind: str) -> float:
    exponent_bits, fraction_bits = (4, 3) if kind == "e4m3" else (5, 2)
    sign, exponent = -1.0 if code >> 7 else 1.0, code >> fraction_bits & ((1 << exponent_bits) - 1)
    fraction, bias = code & ((1 << fraction_bits) - 1), (1 << (exponent_bits - 1)) - 1
    if kind == "e4m3" and code & 0x7F == 0x7F:
        return float("nan")
    if kind == "e5m2" and exponent == 31:
        return float("nan") if fraction else sign * float("inf")
    if exponent == 0:
        return sign * fraction * 2.0 ** (1 - bias - fraction_bits)
    return sign * (1 + fraction / 2**fraction_bits) * 2.0 ** (exponent - bias)


def codes_of(kind: str, shape: tuple[int, int], rng: np.random.Generator) -> Array:
    """Random codes whose sums stay in range."""
    bits = BITS[kind]
    if kind == "f64":
        return rng.uniform(-2, 2, shape).view(np.uint64)
    if kind in ("f32", "tf32"):
        return rng.uniform(-2, 2, shape).astype(np.float32).view(np.uint32).astype(np.uint64)
    if kind == "f16":
        return rng.uniform(-2, 2, shape).astype(np.float16).view(np.uint16).astype(np.uint64)
    if kind == "bf16":
        return rng.uniform(-2, 2, shape).astype(np.float32).view(np.uint32).astype(np.uint64) >> np.uint64(16)
    if kind in ("e4m3", "e5m2"):
        codes = rng.integers(0, 256, shape).astype(np.uint64)
        return codes & np.uint64(0xBF)  # small enough
    if kind == "s32":
        return (rng.integers(-1000, 1000, shape) & 0xFFFFFFFF).astype(np.uint64)
    return rng.integers(0, 1 << bits, shape).astype(np.uint64)


# ---------------------------------------------------------------------- fragments as the manual draws them


def place_in_a(lane: int, register: int, element: int, kind: str, m: int) -> tuple[int, int]:
    each = 1 if kind == "f64" else 32 // BITS[kind]
    group, thread = lane >> 2, lane & 3
    if m == 8:
        return group, register * 4 * each + thread * each + element
    return group + 8 * (register & 1), (register >> 1) * 4 * each + thread * each + element


def place_in_b(lane: int, register: int, element: int, kind: str) -> tuple[int, int]:
    each = 1 if kind == "f64" else 32 // BITS[kind]
    return register * 4 * each + (lane & 3) * each + element, lane >> 2


def place_in_c(lane: int, register: int, element: int, kind: str) -> tuple[int, int]:
    index = register * 2 + element if kind == "f16" else register
    return (lane >> 2) + 8 * (index >> 1), (lane & 3) * 2 + (index & 1)


def spread(codes: Array, kind: str, place: Any) -> Array:
    """The registers [register][lane] that hold a matrix."""
    width = 64 if kind == "f64" else 32
    each = width // BITS[kind]
    words = np.zeros((codes.size // (each * 32), 32), np.uint64)
    for register, lane, element in np.ndindex(words.shape[0], 32, each):
        words[register, lane] |= codes[place(lane, register, element)] << np.uint64(element * BITS[kind])
    return words.astype(np.uint64 if width == 64 else np.uint32)


def collect(words: Array, kind: str, shape: tuple[int, int]) -> Array:
    """The codes of a result from its registers."""
    codes, each = np.zeros(shape, np.uint64), (64 if kind == "f64" else 32) // BITS[kind]
    for register, lane, element in np.ndindex(words.shape[0], 32, each):
        code = int(words[register, lane]) >> element * BITS[kind] & ((1 << BITS[kind]) - 1)
        codes[place_in_c(lane, register, element, kind)] = code
    return codes


def kernel_of(instruction: str, counts: tuple[int, int, int, int], *, wide: bool) -> str:
    """A kernel that loads a, b and c registers, and stores d registers, each [register][lane]."""
    kind, size = ("b64", 8) if wide else ("b32", 4)
    names = {name: [f"%{name}{i}" for i in range(count)] for name, count in zip("dabc", counts, strict=True)}
    lines = [f".reg .{kind} {register};" for registers in names.values() for register in registers]
    for name, pointer in (("a", "%p1"), ("b", "%p2"), ("c", "%p3")):
        for i, register in enumerate(names[name]):
            lines.append(f"ld.global.{kind} {register}, [{pointer}+{i * 32 * size}];")
    vectors = ", ".join("{" + ", ".join(names[name]) + "}" for name in "dabc")
    lines.append(f"{instruction} {vectors};")
    lines += [f"st.global.{kind} [%p0+{i * 32 * size}], {register};" for i, register in enumerate(names["d"])]
    loads = "\n".join(
        f"ld.param.u64 %p{i}, [{name}]; add.u64 %p{i}, %p{i}, %o;" for i, name in enumerate(("d", "a", "b", "c"))
    )
    body = "\n".join(lines)
    return f"""{HEAD}.visible .entry k(.param .u64 d, .param .u64 a, .param .u64 b, .param .u64 c) {{
.reg .b64 %p<4>, %o; .reg .b32 %t;
mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, {size};
{loads}
{body}
ret;
}}
"""


def run_product(
    instruction: str, shape: tuple[int, int, int], kinds: tuple[str, str, str, str], codes: tuple[Array, Array, Array]
) -> Array:
    """The codes of d, the same from machine code for every processor and from the interpreter."""
    m, n, _ = shape
    d_kind, a_kind, b_kind, c_kind = kinds
    a = spread(codes[0], a_kind, lambda *at: place_in_a(*at, a_kind, m))
    b = spread(codes[1], b_kind, lambda *at: place_in_b(*at, b_kind))
    c = spread(codes[2], c_kind, lambda *at: place_in_c(*at, c_kind))
    wide = d_kind == "f64"
    d = np.zeros((m * n * BITS[d_kind] // ((64 if wide else 32) * 32), 32), np.uint64 if wide else np.uint32)
    text = kernel_of(instruction, (len(d), len(a), len(b), len(c)), wide=wide)
    case = Case(text, [d, a, b, c])
    slow = run_interpreter(case)
    for target in TARGETS:
        difference = differences(run_jit(case, target), slow)
        assert not difference, f"{target}: {difference}"
    return collect(slow[0], d_kind, (m, n))


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
