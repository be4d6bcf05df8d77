"""Products with a sparse factor (mma.sp): against dense numpy products, and machine code against the interpreter."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from jit_harness import TARGETS
from matrix_tools import (
    BITS,
    HEAD,
    Array,
    codes_of,
    collect,
    place_in_a,
    place_in_b,
    place_in_c,
    run_fragments,
    spread,
    values_of,
)

from zcuda_async.ptx import PtxError, parse

M, N = 16, 8


@dataclass(frozen=True)
class Form:
    """One shape and its types; `selectors` is how many sparsity selectors there are."""

    k: int
    kinds: tuple[str, str, str, str]
    selectors: int

    @property
    def spelling(self) -> str:
        return f"m{M}n{N}k{self.k}.row.col{{}}.{'.'.join(self.kinds)}"

    @property
    def chunk(self) -> int:
        return {"tf32": 2, "s4": 8, "u4": 8}.get(self.kinds[1], 4)


FORMS = [
    *(Form(k, (d, "f16", "f16", d), s) for k, s in ((16, 4), (32, 2)) for d in ("f16", "f32")),
    *(Form(k, ("f32", "bf16", "bf16", "f32"), s) for k, s in ((16, 4), (32, 2))),
    *(Form(k, ("f32", "tf32", "tf32", "f32"), s) for k, s in ((8, 4), (16, 2))),
    *(Form(64, ("f32", a, b, "f32"), 1) for a, b in (("e4m3", "e5m2"), ("e5m2", "e5m2"))),
    *(Form(k, ("s32", a, b, "s32"), s) for k, s in ((32, 2), (64, 1)) for a, b in (("s8", "u8"), ("u8", "s8"))),
    *(Form(k, ("s32", a, b, "s32"), s) for k, s in ((64, 2), (128, 1)) for a, b in (("s4", "s4"), ("u4", "s4"))),
]


# ---------------------------------------------------------------------- metadata


def choose(form: Form, rng: np.random.Generator, *, ordered: bool) -> Array:
    """Four bits for each chunk of each row; place 0 of the first chunk is left out of every row."""
    pairs = np.array([(a, b) for a in range(4) for b in range(4) if (a < b if ordered else a != b)])
    if form.kinds[1] == "tf32":
        pairs = np.array([(0, 1), (2, 3)])  # 0b0100 and 0b1110: the first or the second
    picked = pairs[rng.integers(0, len(pairs), (M, form.k // form.chunk))]
    without = pairs[(pairs > 0).all(1)]
    picked[:, 0] = without[rng.integers(0, len(without), M)]
    return picked[..., 0] | picked[..., 1] << 2


def columns_of(form: Form, bits: Array) -> Array:
    """The column of each stored element: [row][stored]."""
    low, high = bits & 3, bits >> 2
    if form.chunk == 2:
        inside = (low >> 1)[..., None]
    elif form.chunk == 4:
        inside = np.stack([low, high], -1)
    else:
        inside = np.stack([2 * low, 2 * low + 1, 2 * high, 2 * high + 1], -1)
    first = np.arange(0, form.k, form.chunk)
    return (inside + first[None, :, None]).reshape(M, -1)


def metadata_of(form: Form, bits: Array, selector: int, rng: np.random.Generator) -> Array:
    """The lanes' words; what the selector does not choose is noise."""
    words = rng.integers(0, 1 << 32, 32, dtype=np.uint64)
    chosen: dict[int, int] = {}
    for row, chunk in np.ndindex(bits.shape):
        group, half = row % 8, row // 8
        if BITS[form.kinds[1]] >= 16:  # four chunks of row g below four chunks of row g + 8
            lanes_used = bits.shape[1] // 4
            lane, shift = 4 * group + selector * lanes_used + chunk // 4, 16 * half + 4 * (chunk % 4)
        else:  # eight chunks of row g, and of row g + 8 in the next lane
            lane, shift = 4 * group + 2 * selector + 2 * (chunk // 8) + half, 4 * (chunk % 8)
        chosen[lane] = chosen.get(lane, 0) | int(bits[row, chunk]) << shift
    for lane, word in chosen.items():
        words[lane] = word
    return words.astype(np.uint32)


# ---------------------------------------------------------------------- products


def run(form: Form, name: str, codes: tuple[Array, Array, Array], metadata: Array, selector: int) -> Array:
    """The codes of d.  Both variants compile to the same code, so they share the processors."""
    targets = TARGETS[1:2] if "ordered" in name else (TARGETS[0], TARGETS[-1])
    d_kind, a_kind, b_kind, c_kind = form.kinds
    sources = {
        "a": spread(codes[0], a_kind, lambda *at: place_in_a(*at, a_kind, M)),
        "b": spread(codes[1], b_kind, lambda *at: place_in_b(*at, b_kind)),
        "c": spread(codes[2], c_kind, lambda *at: place_in_c(*at, c_kind)),
        "e": metadata,
    }
    d = np.zeros((M * N * BITS[d_kind] // 1024, 32), np.uint32)
    return collect(run_fragments(name, d_kind, d, sources, f", {selector}", targets), d_kind, (M, N))


def dense(form: Form, codes: Array, columns: Array) -> Array:
    """Factor a with what was left out."""
    full = np.zeros((M, form.k))
    np.put_along_axis(full, columns, values_of(codes, form.kinds[1]), 1)
    return full


def drawn(form: Form, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    _, a_kind, b_kind, c_kind = form.kinds
    return codes_of(a_kind, (M, form.k // 2), rng), codes_of(b_kind, (form.k, N), rng), codes_of(c_kind, (M, N), rng)


NOT_A_NUMBER = {"f16": 0x7E00, "bf16": 0x7FC0, "tf32": 0x7FC00000, "e4m3": 0x7F, "e5m2": 0x7E}


@pytest.mark.parametrize("variant", ["sp", "sp::ordered_metadata"])
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.spelling.format(""))
def test_sparse_products(form: Form, variant: str) -> None:
    rng = np.random.default_rng(form.k)
    selector = int(rng.integers(form.selectors)) if variant == "sp" else form.selectors - 1
    codes = drawn(form, rng)
    bits = choose(form, rng, ordered=variant != "sp")
    a = dense(form, codes[0], columns_of(form, bits))
    b, c = values_of(codes[1], form.kinds[2]), values_of(codes[2], form.kinds[3])
    if form.kinds[2] in NOT_A_NUMBER:  # the row of b that no row of a meets
        codes[1][0] = NOT_A_NUMBER[form.kinds[2]]
        b[0] = 0
    name = f"mma.{variant}.sync.aligned.{form.spelling.format('')}"
    got = run(form, name, codes, metadata_of(form, bits, selector, rng), selector)
    if form.kinds[0] == "s32":
        np.testing.assert_array_equal(got, ((a @ b + c).astype(np.int64) & 0xFFFFFFFF).astype(np.uint64))
        return
    error = {"f32": 1e-5, "f16": 2e-3}[form.kinds[0]]
    np.testing.assert_allclose(
        values_of(got, form.kinds[0]), a @ b + c, rtol=error, atol=error * (abs(a) @ abs(b) + 1).max()
    )


@pytest.mark.parametrize("form", [form for form in FORMS if form.kinds[0] == "s32"][::3], ids=lambda form: form.k)
def test_sums_of_sparse_products_are_clamped(form: Form) -> None:
    rng = np.random.default_rng(form.k)
    codes = drawn(form, rng)
    codes[2][:4], codes[2][4:8] = 0x7FFFFFFF, 0x80000000
    bits = choose(form, rng, ordered=True)
    a = dense(form, codes[0], columns_of(form, bits))
    want = a @ values_of(codes[1], form.kinds[2]) + values_of(codes[2], "s32")
    name = f"mma.sp::ordered_metadata.sync.aligned.{form.spelling.format('.satfinite')}"
    got = run(form, name, codes, metadata_of(form, bits, 0, rng), 0)
    clamped = np.clip(want, -(2**31), 2**31 - 1).astype(np.int64)
    np.testing.assert_array_equal(got, (clamped & 0xFFFFFFFF).astype(np.uint64))


@pytest.mark.parametrize(
    "form", [form for form in FORMS if form.kinds[1] in NOT_A_NUMBER][::2], ids=lambda form: form.spelling.format("")
)
def test_any_bits_are_multiplied_alike(form: Form) -> None:
    """Infinities, NaNs, subnormal numbers, and metadata that means nothing: the compiler and the interpreter agree."""
    rng = np.random.default_rng(7)
    sizes = ((M, form.k // 2), (form.k, N), (M, N))
    codes = [
        rng.integers(0, 1 << BITS[kind], size, dtype=np.uint64)
        for kind, size in zip(form.kinds[1:], sizes, strict=True)
    ]
    metadata = rng.integers(0, 1 << 32, 32, dtype=np.uint64).astype(np.uint32)
    name = f"mma.sp.sync.aligned.{form.spelling.format('')}"
    run(form, name, (codes[0], codes[1], codes[2]), metadata, form.selectors - 1)


@pytest.mark.parametrize(
    ("k", "kinds", "selector", "last"),
    [
        (16, "f32.f16.f16.f32", 4, 3),
        (32, "f32.f16.f16.f32", 2, 1),
        (8, "f32.tf32.tf32.f32", 4, 3),
        (16, "f32.tf32.tf32.f32", 2, 1),
        (64, "f32.e4m3.e4m3.f32", 1, 0),
        (32, "s32.s8.s8.s32", 2, 1),
        (64, "s32.s8.s8.s32", 1, 0),
        (64, "s32.s4.s4.s32", 2, 1),
        (128, "s32.u4.u4.s32", 1, 0),
    ],
)
def test_selectors_beyond_the_last_are_refused(k: int, kinds: str, selector: int, last: int) -> None:
    instruction = f"mma.sp.sync.aligned.m16n8k{k}.row.col.{kinds} %r0, %r0, %r0, %r0, %r1, {selector};"
    with pytest.raises(PtxError, match=f"operand f must be a constant from 0 to {last}, got {selector}"):
        parse(f"{HEAD}.visible .entry k() {{ .reg .b32 %r<4>;\n{instruction}\nret; }}", "<test>")


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        ("m16n8k16.row.col.f32.f16.f16.f32 {%r0, %r0, %r0, %r0}, {%r0, %r0}, {%r0, %r0}, {%r0, %r0, %r0, %r0}, %r1, %r2;",
         "operand f must be a constant from 0 to 3"),
        ("m16n8k16.row.col.f32.f16.f16.f32 %r0, %r0, %r0, %r0, %r1, 0;", "vectors of 4, 2, 2, 4 registers"),
        ("m16n8k16.row.col.f32.f16.f16.f32 %r0, %r0, %r0, %r0;", "takes 6 operands"),
        ("m16n8k64.row.col.f32.f16.f16.f32 %r0, %r0, %r0, %r0, %r1, 0;", "no such combination"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(instruction: str, message: str) -> None:
    with pytest.raises(PtxError, match=message):
        parse(f"{HEAD}.visible .entry k() {{ .reg .b32 %r<4>;\nmma.sp.sync.aligned.{instruction}\nret; }}", "<test>")
