"""Matrices as codes of their elements, and as the registers of fragments, laid out as the manual draws them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from jit_harness import TARGETS, Case, run_interpreter, run_jit

__all__ = (
    "BITS",
    "HEAD",
    "Array",
    "codes_of",
    "collect",
    "kernel_of",
    "place_in_a",
    "place_in_b",
    "place_in_c",
    "run_fragments",
    "run_product",
    "spread",
    "values_of",
)

Array = npt.NDArray[Any]

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


def kernel_of(instruction: str, counts: dict[str, int], *, wide: bool, tail: str = "") -> str:
    """A kernel that loads the registers of all operands but d, and stores those of d, each [register][lane].

    `counts` has d and the sources in order; that of 0 registers stands for a scalar (the metadata of a sparse factor).
    """
    kind, size = ("b64", 8) if wide else ("b32", 4)
    names = {name: [f"%{name}{i}" for i in range(max(count, 1))] for name, count in counts.items()}
    lines = [f".reg .{kind} {register};" for registers in names.values() for register in registers]
    for at, name in enumerate(names):
        if name != "d":
            for i, register in enumerate(names[name]):
                lines.append(f"ld.global.{kind} {register}, [%p{at}+{i * 32 * size}];")
    operands = [("{" + ", ".join(names[name]) + "}") if count else names[name][0] for name, count in counts.items()]
    lines.append(f"{instruction} {', '.join(operands)}{tail};")
    lines += [f"st.global.{kind} [%p0+{i * 32 * size}], {register};" for i, register in enumerate(names["d"])]
    loads = "\n".join(f"ld.param.u64 %p{i}, [{name}]; add.u64 %p{i}, %p{i}, %o;" for i, name in enumerate(counts))
    body = "\n".join(lines)
    return f"""{HEAD}.visible .entry k({", ".join(f".param .u64 {name}" for name in counts)}) {{
.reg .b64 %p<{len(counts)}>, %o; .reg .b32 %t;
mov.u32 %t, %tid.x; mul.wide.u32 %o, %t, {size};
{loads}
{body}
ret;
}}
"""


def without_payloads(words: Array, kind: str) -> Array:
    """The registers of d with one and the same NaN for every NaN in them."""
    if kind == "f16":
        halves = words.view(np.uint16)
        return np.where((halves & 0x7FFF) > 0x7C00, np.uint16(0x7FFF), halves)
    return np.where(np.isnan(words.view(np.float32)), np.uint32(0x7FFFFFFF), words) if kind == "f32" else words


def run_fragments(
    instruction: str,
    kind: str,
    d: Array,
    sources: dict[str, Array],
    tail: str = "",
    targets: Sequence[str] = TARGETS,
) -> Array:
    """The registers of d, of type `kind`, the same from machine code for all of `targets` and from the interpreter."""
    counts = {"d": len(d), **{name: len(words) if words.ndim == 2 else 0 for name, words in sources.items()}}
    text = kernel_of(instruction, counts, wide=d.dtype == np.uint64, tail=tail)
    case = Case(text, [d, *sources.values()])
    slow = run_interpreter(case)[0]
    for target in targets:
        fast = run_jit(case, target)[0]
        np.testing.assert_array_equal(without_payloads(fast, kind), without_payloads(slow, kind), target)
    return slow


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
    return collect(run_fragments(instruction, d_kind, d, {"a": a, "b": b, "c": c}), d_kind, (m, n))
