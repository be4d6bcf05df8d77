"""Apply instructions to rows of operands, by machine code and by the interpreter; and exact references.

Operands and results are bit patterns in 64-bit words, so that one table serves all types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final
from zlib import crc32

import numpy as np
import numpy.typing as npt
from jit_harness import TARGETS, Case, run_interpreter, run_jit

from zcuda_async.ptx.table import Expected, resolve
from zcuda_async.ptx.table_syntax import TYPE_WIDTHS

__all__ = (
    "BF16",
    "E4M3",
    "E5M2",
    "F16",
    "F32",
    "F64",
    "INFINITY",
    "NAN",
    "TF32",
    "Form",
    "Number",
    "check_spelling",
    "kernel_text",
    "product",
    "total",
)

Words = npt.NDArray[np.uint64]

NAN: Final = float("nan")
INFINITY: Final = float("inf")
Number = Fraction | float
"""An exact number, or one of the infinities, NaN, and -0.0."""


@dataclass(frozen=True)
class Form:
    """A binary float: bits to exact numbers and back."""

    exponent: int
    fraction: int

    @property
    def width(self) -> int:
        return 1 + self.exponent + self.fraction

    @property
    def infinity(self) -> int:
        return ((1 << self.exponent) - 1) << self.fraction

    def is_nan(self, bits: int) -> bool:
        return bits & ((1 << (self.width - 1)) - 1) > self.infinity

    def value(self, bits: int) -> Number:
        negative, size = bits >> (self.width - 1) & 1, bits & ((1 << (self.width - 1)) - 1)
        if size >= self.infinity:
            return NAN if size > self.infinity else -INFINITY if negative else INFINITY
        if size == 0:
            return -0.0 if negative else Fraction(0)
        power, rest = size >> self.fraction, size & ((1 << self.fraction) - 1)
        whole = rest | (1 << self.fraction) if power else rest
        scale = Fraction(2) ** (max(power, 1) - ((1 << (self.exponent - 1)) - 1) - self.fraction)
        return (-whole if negative else whole) * scale

    def bits(self, value: Number, mode: str = "rn") -> int:
        """The bit pattern that a number is rounded to."""
        return _rounded(
            self, value, mode, negative_zero=value == 0 and isinstance(value, float) and str(value)[0] == "-"
        )

    def rounded(self, value: Number, mode: str) -> int:
        """The nearest bit pattern by counting: the patterns of one sign are ordered like their numbers."""
        sign = 1 << (self.width - 1)
        if isinstance(value, float):
            if value != value:
                return sign - 1
            return (sign if str(value)[0] == "-" else 0) | (self.infinity if abs(value) == INFINITY else 0)
        size, negative = abs(value), value < 0
        low, high = 0, self.infinity  # value(low) <= size < value(high)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._size(middle) <= size else (low, middle)
        below, above = self._size(low), self._size(high)
        if size == below or mode == "rz" or mode == ("rp" if negative else "rm"):
            chosen = low
        elif mode in ("rp", "rm"):
            chosen = high
        else:
            up = 2 * size > below + above or (2 * size == below + above and (mode == "rna" or low % 2 == 1))
            chosen = high if up else low
        return (sign if negative else 0) | chosen

    def _size(self, bits: int) -> Fraction:
        """The number of a pattern; of infinity's, the power of two that would come next."""
        if bits == self.infinity:
            return Fraction(2) ** (1 << (self.exponent - 1))
        value = self.value(bits)
        assert isinstance(value, Fraction)
        return value

    def interesting(self, rng: np.random.Generator, extra: int) -> list[int]:
        """Zeros, subnormal numbers, neighbours of powers of two, the largest, infinities, NaNs, and random ones."""
        one = ((1 << (self.exponent - 1)) - 1) << self.fraction
        unit = 1 << self.fraction
        sizes = [0, 1, 2, 3, unit // 2, unit - 1, unit, unit + 1, 2 * unit - 1, one - unit, one - 1, one, one + 1]
        sizes += [one + unit // 2, one + unit, one + unit + 1, one + 2 * unit, self.infinity - unit]
        sizes += [self.infinity - 1, self.infinity - 2, self.infinity, self.infinity + 1, self.infinity + unit // 2]
        half = 1 << (self.width - 1)
        near = rng.integers(max(0, one - 8 * unit), one + 8 * unit, extra)
        patterns = [*sizes, *(size | half for size in sizes), *map(int, rng.integers(0, 2 * half, extra, np.uint64))]
        return [*patterns, *(int(size) | (half if at % 2 else 0) for at, size in enumerate(near))]


F16, BF16, F32, F64 = Form(5, 10), Form(8, 7), Form(8, 23), Form(11, 52)
TF32, E5M2, E4M3 = Form(8, 10), Form(5, 2), Form(4, 3)


def product(a: Number, b: Number) -> Number:
    """The exact product."""
    if isinstance(a, float) or isinstance(b, float):
        if any(x != x for x in (a, b)) or {0, INFINITY} <= {abs(a), abs(b)}:
            return NAN
        negative = str(a).startswith("-") != str(b).startswith("-")
        if INFINITY in (abs(a), abs(b)):
            return -INFINITY if negative else INFINITY
        return -0.0 if negative else Fraction(0)
    negative = (a < 0) != (b < 0)
    return -0.0 if negative and a * b == 0 else a * b


def total(a: Number, b: Number) -> Number:
    """The exact sum; x - x is +0."""
    if isinstance(a, float) or isinstance(b, float):
        if a != a or b != b or (abs(a) == abs(b) == INFINITY and a != b):
            return NAN
        if INFINITY in (abs(a), abs(b)):
            return a if abs(a) == INFINITY else b
        if a == b == 0:
            return -0.0 if str(a) == str(b) == "-0.0" else Fraction(0)
    return Fraction(a) + Fraction(b)


@lru_cache(maxsize=1 << 16)
def _rounded(form: Form, value: Number, mode: str, *, negative_zero: bool) -> int:
    """Remembered: searching is slow.  -0.0 and 0 would be the same key."""
    return form.rounded(-0.0 if negative_zero else value, mode)


def _register(expected: Expected, *, widest: bool = False) -> str:
    if expected.type == "pred":
        return "pred"
    widths = sorted({TYPE_WIDTHS[name] for name in expected.registers if name[0] == "b" and name != "b128"})
    widths = [width for width in widths if width >= 16]
    return f"b{widths[1] if widest and len(widths) > 1 else widths[0]}"


def kernel_text(spellings: Sequence[str], count: int, constant: str = "150", *, uniform: bool = False) -> str:
    """A kernel that applies each spelling to `count` rows: operand j of row i is word j * count + i of the input.

    Result s of row i is word 2 s count + i of the output; a second destination's is `count` words later.
    `constant` is the operand that must be one.  With `uniform` a block's threads all work on the row of its index.
    """
    found = resolve(spellings[0])
    assert found is not None, spellings[0]
    operands = found.by_count[max(found.by_count)]
    sources = [entry for entry in operands[1:] if entry.kind != "constant"]
    lines = [
        ".version 8.7", ".target sm_90", ".address_size 64",
        ".visible .entry k(.param .u64 in, .param .u64 out)", "{",
        ".reg .pred %p<9>;", ".reg .b32 %i<9>;", ".reg .b64 %a<9>;",
        "mov.u32 %i1, %ctaid.x;", "mov.u32 %i2, %ntid.x;", "mov.u32 %i3, %tid.x;",
        "mov.u32 %i0, %i1;" if uniform else "mad.lo.s32 %i0, %i1, %i2, %i3;",
        f"setp.ge.s32 %p0, %i0, {count};", "@%p0 bra done;",
        "ld.param.u64 %a0, [in];", "ld.param.u64 %a1, [out];",
        "mul.wide.s32 %a2, %i0, 8;", "add.s64 %a3, %a0, %a2;", "add.s64 %a4, %a1, %a2;",
    ]  # fmt: skip
    for at, source in enumerate(sources):
        kind, where = _register(source), f"[%a3+{at * count * 8}]"
        lines.append(f".reg .{kind} %s{at};")
        if kind == "pred":
            lines += [f"ld.global.u32 %i5, {where};", f"setp.ne.u32 %s{at}, %i5, 0;"]
        else:
            lines.append(f"ld.global.{kind} %s{at}, {where};")
    places = iter(range(len(sources)))
    names = [constant if entry.kind == "constant" else f"%s{next(places)}" for entry in operands[1:]]
    for at, spelling in enumerate(spellings):
        form = resolve(spelling)
        assert form is not None, spelling
        lines += _statement(spelling, form.by_count[max(form.by_count)][0], at, count, names, wide=form.row.relaxed)
    return "\n".join([*lines, "done:", "ret;", "}", ""])


def _statement(
    spelling: str, first: Expected, at: int, count: int, names: Sequence[str], *, wide: bool
) -> Iterable[str]:
    kind = _register(first, widest=wide)
    yield f".reg .{kind} %d{at};"
    pair = first.slot.second
    if pair:
        yield f".reg .pred %e{at};"
    yield f"{spelling} {f'%d{at}|%e{at}' if pair else f'%d{at}'}, {', '.join(names)};"
    where = 16 * at * count
    if kind == "pred":
        yield f"selp.u32 %i6, 1, 0, %d{at}; st.global.u32 [%a4+{where}], %i6;"
    else:
        yield f"st.global.{kind} [%a4+{where}], %d{at};"
    if pair:
        yield f"selp.u32 %i7, 1, 0, %e{at}; st.global.u32 [%a4+{where + 8 * count}], %i7;"


def agree(got: Words, want: Words, nan: Callable[[Words], npt.NDArray[np.bool_]] | None) -> npt.NDArray[np.bool_]:
    """Where results are equal, or both NaN."""
    equal = got == want
    return equal if nan is None else equal | (nan(got) & nan(want))


def nan_test(ptx_type: str) -> Callable[[Words], npt.NDArray[np.bool_]] | None:
    """Whether words are NaNs of a type."""
    form = {"f16": F16, "bf16": BF16, "f32": F32, "tf32": F32, "f64": F64}.get(ptx_type)
    if form is None:
        return None
    ones, infinity = np.uint64((1 << (form.width - 1)) - 1), np.uint64(form.infinity)
    return lambda words: np.asarray((words & ones) > infinity)


def _masked_nans(words: Words, ptx_type: str) -> Words:
    """Words with every NaN made the same, also in the halves of a pair."""
    if not ptx_type.endswith("x2") or ptx_type[0] in "eus":
        return words
    test = nan_test(ptx_type.removesuffix("x2"))
    assert test is not None
    low, high = words & np.uint64(0xFFFF), words >> np.uint64(16)
    low, high = (np.where(test(half), np.uint64(0x7FFF), half) for half in (low, high))
    return np.asarray(low | high << np.uint64(16), np.uint64)


def check_spelling(
    spellings: Sequence[str],
    rows: Sequence[Sequence[int]],
    reference: Callable[..., int] | Sequence[Callable[..., int]] | None = None,
    *,
    targets: Sequence[str] = (),
    constant: str = "150",
    interpreter: bool = True,
    uniform: bool = False,
) -> None:
    """Machine code, interpreter and `reference` (of the rows' operands; one, or one per spelling) agree bit for bit."""
    count = len(rows)
    arrays = [np.array(rows, np.uint64).T.copy(), np.zeros((2 * len(spellings), count), np.uint64)]
    text = kernel_text(spellings, count, constant, uniform=uniform)
    grid = (count, 1, 1) if uniform else (-(-count // 96), 1, 1)
    case = Case(text, arrays, grid=grid, block=(1, 1, 1) if uniform else (96, 1, 1))
    # Without `targets`: this processor, and of the older ones, for which LLVM only has fewer instructions, one a case.
    targets = targets or ("host", TARGETS[1 + crc32(text.encode()) % 2])
    results: dict[str, Words] = {name: run_jit(case, name)[1] for name in targets}
    if interpreter:
        results["interpreter"] = run_interpreter(case)[1]
    for at, spelling in enumerate(spellings):
        form = resolve(spelling)
        assert form is not None
        kind = form.by_count[max(form.by_count)][0].type
        if reference is None:
            want = results["interpreter"][2 * at]
        else:
            function = reference if callable(reference) else reference[at]
            want = np.array([function(*row) for row in rows], np.uint64)
        second = results[next(iter(results))][2 * at + 1]
        for name, words in results.items():
            got, wanted = (_masked_nans(each, kind) for each in (words[2 * at], want))
            right = agree(got, wanted, nan_test(kind)) & (words[2 * at + 1] == second)
            wrong = np.flatnonzero(~right)
            shown = [f"({', '.join(map(hex, rows[i]))}): {words[2 * at][i]:#x}, want {want[i]:#x}" for i in wrong[:4]]
            assert not len(wrong), f"{name}: {spelling} {'; '.join(shown)} ({len(wrong)} of {count} differ)"
