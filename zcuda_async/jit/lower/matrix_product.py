"""Products of small matrices as functions of their own, one for each kind (PTX ISA 9.7.14: mma, wmma.mma).

A product works on memory: each fragment is an array ``[register][lane]`` of 32-bit words (64 for f64).
The factors are converted to the type of the sum and laid out so that, for each k, the function takes a
row of b as one vector and the elements of a's column one after the other:

    for k:  for i:  sum[i] = fma(a[i][k], b[k], sum[i])

so every element of d is a chain of fused multiply-adds in the order of k, starting from c.  Products
of integers are exact in f32 and are added to c at the end; sums in f16 are kept in f32 and rounded once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zcuda_async.jit.builder import Builder, Type
from zcuda_async.jit.lower.half import narrow, widen
from zcuda_async.ptx.matrix import Fragment, Product

__all__ = ("product_function",)

_WARP: Final = 32
_WORDS: Final = Type("i32", _WARP)
_INTEGERS: Final = frozenset({"s8", "u8", "s4", "u4"})


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the converted factors are: a[i][k] at ``i * a_row + k * a_step``, row k of b at ``k * n``."""

    a_row: int
    a_step: int


def product_function(
    name: str, product: Product, features: str, *, is_linear: bool, saturates: bool, popc: str
) -> tuple[str, set[str]]:
    """Text of ``void @name(ptr a, ptr b, ptr c, ptr d)``, and what it declares.

    Args:
        name: The function's name.
        product: Its matrices.
        features: What the processor has (see `Builder`).
        is_linear: Whether fragments hold their elements in row-major order (``wmma``), else as ``mma`` has them.
        saturates: Whether integer sums are clamped.
        popc: For products of bits: ``xor`` or ``and``.
    """
    b = Builder(features)
    if popc:
        _bits(b, product, popc)
    else:
        _numbers(b, product, is_linear=is_linear, saturates=saturates)
    head = f"define internal void @{name}(ptr noalias %a, ptr noalias %b, ptr noalias %c, ptr noalias %d) #0 {{"
    body = [line.replace("%v", "%m") for line in (*b.entry_allocas, *b.lines)]
    return "\n".join([head, "entry:", *body, "  ret void", "}"]), b.declarations


# ---------------------------------------------------------------------- numbers


def _numbers(b: Builder, product: Product, *, is_linear: bool, saturates: bool) -> None:
    m, n, k = product.m, product.n, product.k
    elem = "double" if product.d.type == "f64" else "float"
    a_at, b_at = (b.alloca(f"[{size} x {elem}]") for size in (m * k, k * n))
    if is_linear:
        _lay_out_linear(b, product.a, "%a", a_at, elem)
        _lay_out_linear(b, product.b, "%b", b_at, elem)
        places = _Places(k, 1)
    else:
        _lay_out(b, product.a, "%a", a_at, elem, m, is_a=True)
        _lay_out(b, product.b, "%b", b_at, elem, n, is_a=False)
        places = _Places(1, m)
    row = Type(elem, n)
    start = [row.const(0.0)] * m if product.a.type in _INTEGERS else _rows_of(b, product.c, "%c", row, is_linear)
    sums = [b.alloca(str(row)) for _ in range(m)]
    for slot, value in zip(sums, start, strict=True):
        b.line(f"store {row} {value}, ptr {slot}")
    _multiply(b, product, row, places, (a_at, b_at), sums)
    values = [b.op(f"load {row}, ptr {slot}") for slot in sums]
    if product.a.type in _INTEGERS:
        _add_integers(b, product, row, values, is_linear=is_linear, saturates=saturates)
    else:
        _store_rows(b, product.d, "%d", row, values, is_linear)


def _multiply(
    b: Builder, product: Product, row: Type, places: _Places, factors: tuple[str, str], sums: list[str]
) -> None:
    """The loop over k; LLVM keeps the sums in registers."""
    a_at, b_at = factors
    counter = b.alloca("i32", 4)
    b.line(f"store i32 0, ptr {counter}")
    b.line("br label %step")
    b.label("step")
    k = b.op(f"load i32, ptr {counter}")
    b_row = b.op(f"getelementptr {row.elem}, ptr {b_at}, i32 {b.op(f'mul i32 {k}, {product.n}')}")
    factor = b.op(f"load {row}, ptr {b_row}, align 4")
    column = b.op(f"getelementptr {row.elem}, ptr {a_at}, i32 {b.op(f'mul i32 {k}, {places.a_step}')}")
    for i, slot in enumerate(sums):
        at = b.op(f"getelementptr {row.elem}, ptr {column}, i32 {i * places.a_row}")
        one = b.splat(row, b.op(f"load {row.elem}, ptr {at}, align 4"))
        old = b.op(f"load {row}, ptr {slot}")
        b.line(f"store {row} {b.intrinsic('fma', row, one, factor, old)}, ptr {slot}")
    following = b.op(f"add i32 {k}, 1")
    b.line(f"store i32 {following}, ptr {counter}")
    b.line(f"br i1 {b.op(f'icmp ult i32 {following}, {product.k}')}, label %step, label %multiplied")
    b.label("multiplied")


def _word(b: Builder, pointer: str, fragment: Fragment, register: int) -> str:
    """One register of all lanes."""
    kind = Type("i64" if fragment.type == "f64" else "i32", _WARP)
    at = b.op(f"getelementptr {kind}, ptr {pointer}, i32 {register}")
    return b.op(f"load {kind}, ptr {at}, align 64")


def _element(b: Builder, fragment: Fragment, words: str, index: int, elem: str) -> str:
    """The elements of place `index` in each lane's register, as the type of the sum."""
    to = Type(elem, _WARP)
    kind = fragment.type
    if kind == "f64":
        return b.cast("bitcast", Type("i64", _WARP), words, to)
    if kind in ("f32", "tf32"):
        masked = b.binary("and", _WORDS, words, _WORDS.const(-(1 << 13))) if kind == "tf32" else words
        return b.cast("bitcast", _WORDS, masked, to)
    bits = 32 // fragment.per_register
    if kind == "bf16":  # the upper half of an f32
        moved = b.binary("shl", _WORDS, words, _WORDS.const(16)) if index == 0 else words
        return b.cast("bitcast", _WORDS, b.binary("and", _WORDS, moved, _WORDS.const(-(1 << 16))), to)
    shifted = b.binary("shl", _WORDS, words, _WORDS.const(32 - bits * (index + 1)))
    if kind in _INTEGERS:
        signed = kind[0] == "s"
        small = b.binary("ashr" if signed else "lshr", _WORDS, shifted, _WORDS.const(32 - bits))
        return b.cast("sitofp", _WORDS, small, to)
    return _small_float(b, fragment.type, b.binary("lshr", _WORDS, shifted, _WORDS.const(32 - bits)), to)


def _small_float(b: Builder, kind: str, bits: str, to: Type) -> str:
    """f16 and the 8-bit floats, from the low bits of words."""
    half, short = Type("half", _WARP), Type("i16", _WARP)
    if kind == "e4m3":
        # Seven bits as the top of a half's exponent and fraction are the value divided by 256.
        sign = b.binary("shl", _WORDS, b.binary("and", _WORDS, bits, _WORDS.const(0x80)), _WORDS.const(8))
        rest = b.binary("shl", _WORDS, b.binary("and", _WORDS, bits, _WORDS.const(0x7F)), _WORDS.const(7))
        joined = b.cast("trunc", _WORDS, b.binary("or", _WORDS, sign, rest), short)
        _, value = widen(b, half, b.cast("bitcast", short, joined, half))
        value = b.binary("fmul", to, value, to.const(256.0))
        low = b.binary("and", _WORDS, bits, _WORDS.const(0x7F))
        is_nan = b.compare("icmp eq", _WORDS, low, _WORDS.const(0x7F))
        return b.select(to, is_nan, f"splat ({to.elem} 0x7FF8000000000000)", value)
    if kind == "e5m2":
        bits = b.binary("shl", _WORDS, bits, _WORDS.const(8))
    return widen(b, half, b.cast("bitcast", short, b.cast("trunc", _WORDS, bits, short), half))[1]


def _lay_out(b: Builder, fragment: Fragment, source: str, to: str, elem: str, size: int, *, is_a: bool) -> None:
    """Write a factor of ``mma`` so that what belongs to one k is together: `size` elements each.

    Lane 4g + t holds row g (of b: column g) and, of each run of 4E places along k, the E places from tE on.
    """
    places = fragment.per_register
    halves = size // 8 if is_a else 1
    row = Type(elem, 8)
    for register in range(fragment.registers):
        words = _word(b, source, fragment, register)
        block, half = divmod(register, halves)
        for index in range(places):
            values = _element(b, fragment, words, index, elem)
            for t in range(4):
                k = block * 4 * places + t * places + index
                picked = b.shuffle(Type(elem, _WARP), values, "poison", range(t, _WARP, 4))
                at = b.op(f"getelementptr {elem}, ptr {to}, i32 {k * size + half * 8}")
                b.line(f"store {row} {picked}, ptr {at}, align 4")


def _lay_out_linear(b: Builder, fragment: Fragment, source: str, to: str, elem: str) -> None:
    """Write a factor of ``wmma`` in row-major order, which its registers have already."""
    places = fragment.per_register
    count = fragment.rows * fragment.columns
    for register in range(-(-count // (places * _WARP))):
        words = _word(b, source, fragment, register)
        parts = [_element(b, fragment, words, index, elem) for index in range(places)]
        for index, values in enumerate(parts):
            _scatter(b, Type(elem, _WARP), values, to, register * places * _WARP + index, places)


def _scatter(b: Builder, kind: Type, values: str, to: str, start: int, step: int) -> None:
    """Store lanes at every `step`-th place."""
    if step == 1:
        at = b.op(f"getelementptr {kind.elem}, ptr {to}, i32 {start}")
        b.line(f"store {kind} {values}, ptr {at}, align 4")
        return
    for lane in range(_WARP):
        at = b.op(f"getelementptr {kind.elem}, ptr {to}, i32 {start + lane * step}")
        b.line(f"store {kind.elem} {b.op(f'extractelement {kind} {values}, i32 {lane}')}, ptr {at}, align 4")


# ---------------------------------------------------------------------- sums


def _rows_of(b: Builder, fragment: Fragment, source: str, row: Type, is_linear: bool) -> list[str]:
    """The rows of c as vectors of the sum's type."""
    return [_row_of(b, fragment, source, row, i, is_linear) for i in range(fragment.rows)]


def _row_of(b: Builder, fragment: Fragment, source: str, row: Type, i: int, is_linear: bool) -> str:
    stored = Type({"f16": "half", "s32": "i32"}.get(fragment.type, row.elem), row.lanes)
    if is_linear:
        at = b.op(f"getelementptr {stored.elem}, ptr {source}, i32 {i * row.lanes}")
        value = b.op(f"load {stored}, ptr {at}, align {min(4, stored.bits // 8)}")
    elif fragment.type == "f16":  # register i / 8, lanes 4 (i % 8) on: eight halves in order
        at = b.op(f"getelementptr i32, ptr {source}, i32 {i // 8 * _WARP + i % 8 * 4}")
        value = b.op(f"load {stored}, ptr {at}, align 4")
    else:
        four = Type(stored.elem, 4)
        pair = []
        for e in range(2):
            at = b.op(f"getelementptr {stored.elem}, ptr {source}, i32 {(i // 8 * 2 + e) * _WARP + i % 8 * 4}")
            pair.append(b.op(f"load {four}, ptr {at}, align 4"))
        value = b.shuffle(four, pair[0], pair[1], (0, 4, 1, 5, 2, 6, 3, 7))
    return widen(b, stored, value)[1]


def _store_rows(b: Builder, fragment: Fragment, to: str, row: Type, values: list[str], is_linear: bool) -> None:
    stored = Type("half", row.lanes) if fragment.type == "f16" else row
    for i, each in enumerate(values):
        value = narrow(b, row, each, stored, "rn", finite=False) if fragment.type == "f16" else each
        if is_linear:
            at = b.op(f"getelementptr {stored.elem}, ptr {to}, i32 {i * row.lanes}")
            b.line(f"store {stored} {value}, ptr {at}, align {min(4, stored.bits // 8)}")
        elif fragment.type == "f16":
            at = b.op(f"getelementptr i32, ptr {to}, i32 {i // 8 * _WARP + i % 8 * 4}")
            b.line(f"store {stored} {value}, ptr {at}, align 4")
        else:
            for e in range(2):
                half = b.shuffle(stored, value, "poison", range(e, 8, 2))
                at = b.op(f"getelementptr {stored.elem}, ptr {to}, i32 {(i // 8 * 2 + e) * _WARP + i % 8 * 4}")
                b.line(f"store {Type(stored.elem, 4)} {half}, ptr {at}, align 4")


def _add_integers(
    b: Builder, product: Product, row: Type, values: list[str], *, is_linear: bool, saturates: bool
) -> None:
    whole = Type("i32", row.lanes)
    sums = []
    for value, old in zip(values, _rows_of(b, product.c, "%c", whole, is_linear), strict=True):
        exact = b.cast("fptosi", row, value, whole)
        sums.append(b.intrinsic("sadd.sat", whole, old, exact) if saturates else b.binary("add", whole, old, exact))
    _store_rows(b, product.d, "%d", whole, sums, is_linear)


# ---------------------------------------------------------------------- bits


def _bits(b: Builder, product: Product, popc: str) -> None:
    """Products of bits: what is counted in a[i] op b[j], word by word."""
    row = Type("i32", 8)
    halves = product.m // 8
    columns = []
    for register in range(product.b.registers):
        words = _word(b, "%b", product.b, register)
        columns += [b.shuffle(_WORDS, words, "poison", range(t, _WARP, 4)) for t in range(4)]
    rows = _rows_of(b, product.c, "%c", row, is_linear=False)
    sums = []
    for i, value in enumerate(rows):
        for word, column in enumerate(columns):
            register, t = word // 4 * halves + i // 8, word % 4
            at = b.op(f"getelementptr i32, ptr %a, i32 {register * _WARP + i % 8 * 4 + t}")
            one = b.splat(row, b.op(f"load i32, ptr {at}, align 4"))
            counted = b.intrinsic("ctpop", row, b.binary(popc, row, one, column))
            value = b.binary("add", row, value, counted)  # noqa: PLW2901
        sums.append(value)
    _store_rows(b, product.d, "%d", row, sums, is_linear=False)
