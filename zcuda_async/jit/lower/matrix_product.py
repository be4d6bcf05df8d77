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
from zcuda_async.jit.lower.directed import directed
from zcuda_async.jit.lower.half import narrow, widen
from zcuda_async.jit.lower.matrix_elements import INTEGERS, element, word
from zcuda_async.jit.lower.matrix_quads import multiply_quads
from zcuda_async.jit.lower.matrix_sparse import lay_out_places
from zcuda_async.ptx.matrix import Fragment, Product

__all__ = ("Options", "product_function")

_WARP: Final = 32
_WORDS: Final = Type("i32", _WARP)


@dataclass(frozen=True, slots=True)
class Options:
    """What an instruction's modifiers and constants say.

    Attributes:
        saturates: Integer sums are clamped; sums of floats are made finite, NaN +0.
        popc: For products of bits: ``xor`` or ``and``.
        layouts: Of a and b, for ``mma.m8n8k4`` of halves: ``row`` or ``col``.
        selector: The sparsity selector.
        mode: How each step is rounded, if not to nearest: ``rz``, ``rm`` or ``rp``.
    """

    saturates: bool = False
    popc: str = ""
    layouts: tuple[str, ...] = ()
    selector: int = 0
    mode: str = ""


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the converted factors are: a[i][k] at ``i * a_row + k * a_step``, row k of b at ``k * n``.

    Where a is sparse, `rows_of_b` has where row i's k-th element finds its row of b, at ``k * m + i``.
    """

    a_row: int
    a_step: int
    rows_of_b: str = ""


def product_function(name: str, product: Product, features: str, options: Options) -> tuple[str, set[str]]:
    """Text of ``void @name(ptr a, ptr b, ptr c, ptr d)`` (of a sparse a, ``ptr e`` too), and what it declares.

    Args:
        name: The function's name.
        product: Its matrices.
        features: What the processor has (see `Builder`).
        options: What else decides how they are multiplied.
    """
    b = Builder(features)
    if options.popc:
        _bits(b, product, options.popc)
    elif product.count > 1:
        multiply_quads(b, product, options.layouts)
    else:
        _numbers(b, product, options)
    names = "abcde" if product.is_sparse else "abcd"
    head = f"define internal void @{name}({', '.join(f'ptr noalias %{each}' for each in names)}) #0 {{"
    body = [line.replace("%v", "%m") for line in (*b.entry_allocas, *b.lines)]
    return "\n".join([head, "entry:", *body, "  ret void", "}"]), b.declarations


# ---------------------------------------------------------------------- numbers


def _numbers(b: Builder, product: Product, options: Options) -> None:
    elem = "double" if product.d.type == "f64" else "float"
    factors, places = _factors(b, product, elem, options.selector)
    row = Type(elem, product.n)
    is_whole = product.a.type in INTEGERS
    start = [row.const(0.0)] * product.m if is_whole else _rows_of(b, product.c, "%c", row)
    sums = [b.alloca(str(row)) for _ in range(product.m)]
    for slot, value in zip(sums, start, strict=True):
        b.line(f"store {row} {value}, ptr {slot}")
    _multiply(b, product, row, places, factors, sums, options.mode)
    values = [b.op(f"load {row}, ptr {slot}") for slot in sums]
    if is_whole:
        _add_integers(b, product, row, values, saturates=options.saturates)
        return
    if options.saturates:
        values = [_made_finite(b, row, value, product.d.type) for value in values]
    _store_rows(b, product.d, "%d", row, values)


def _factors(b: Builder, product: Product, elem: str, selector: int) -> tuple[tuple[str, str], _Places]:
    """Both factors, laid out in memory."""
    m, n = product.m, product.n
    a_at, b_at = (b.alloca(f"[{part.rows * part.columns} x {elem}]") for part in (product.a, product.b))
    if product.a.is_linear:
        _lay_out_linear(b, product.a, "%a", a_at, elem)
        _lay_out_linear(b, product.b, "%b", b_at, elem)
        return (a_at, b_at), _Places(product.k, 1)
    _lay_out(b, product.a, "%a", a_at, elem, m, is_a=True)
    _lay_out(b, product.b, "%b", b_at, elem, n, is_a=False)
    rows_of_b = ""
    if product.is_sparse:
        rows_of_b = b.alloca(f"[{m * product.a.columns} x i32]")
        lay_out_places(b, product, selector, rows_of_b)
    return (a_at, b_at), _Places(1, m, rows_of_b)


def _made_finite(b: Builder, row: Type, value: str, kind: str) -> str:
    """The nearest number that is finite in the type of d; +0 for NaN."""
    largest = {"f16": 65504.0, "f32": float(2**128 - 2**104)}[kind]
    is_nan = b.compare("fcmp uno", row, value, value)
    value = b.select(row, is_nan, row.const(0.0), value)
    value = b.intrinsic("minnum", row, value, row.const(largest))
    return b.intrinsic("maxnum", row, value, row.const(-largest))


def _multiply(
    b: Builder, product: Product, row: Type, places: _Places, factors: tuple[str, str], sums: list[str], mode: str
) -> None:
    """The loop over k; LLVM keeps the sums in registers."""
    a_at, b_at = factors
    counter = b.alloca("i32", 4)
    b.line(f"store i32 0, ptr {counter}")
    b.line("br label %step")
    b.label("step")
    k = b.op(f"load i32, ptr {counter}")
    factor = "" if places.rows_of_b else _row_of_b(b, row, b_at, b.op(f"mul i32 {k}, {product.n}"))
    column = b.op(f"getelementptr {row.elem}, ptr {a_at}, i32 {b.op(f'mul i32 {k}, {places.a_step}')}")
    for i, slot in enumerate(sums):
        at = b.op(f"getelementptr {row.elem}, ptr {column}, i32 {i * places.a_row}")
        one = b.splat(row, b.op(f"load {row.elem}, ptr {at}, align 4"))
        if places.rows_of_b:
            of_row = b.op(f"getelementptr i32, ptr {places.rows_of_b}, i32 {b.op(f'mul i32 {k}, {product.m}')}")
            of_row = b.op(f"getelementptr i32, ptr {of_row}, i32 {i}")
            factor = _row_of_b(b, row, b_at, b.op(f"load i32, ptr {of_row}, align 4"))
        old = b.op(f"load {row}, ptr {slot}")
        terms = (one, factor, old)
        total = directed(b, "fma", mode, row, terms) if mode else b.intrinsic("fma", row, *terms)
        b.line(f"store {row} {total}, ptr {slot}")
    following = b.op(f"add i32 {k}, 1")
    b.line(f"store i32 {following}, ptr {counter}")
    b.line(f"br i1 {b.op(f'icmp ult i32 {following}, {product.a.columns}')}, label %step, label %multiplied")
    b.label("multiplied")


def _row_of_b(b: Builder, row: Type, b_at: str, place: str) -> str:
    at = b.op(f"getelementptr {row.elem}, ptr {b_at}, i32 {place}")
    return b.op(f"load {row}, ptr {at}, align 4")


def _lay_out(b: Builder, fragment: Fragment, source: str, to: str, elem: str, size: int, *, is_a: bool) -> None:
    """Write a factor of ``mma`` so that what belongs to one k is together: `size` elements each.

    Lane 4g + t holds row g (of b: column g) and, of each run of 4E places along k, the E places from tE on.
    """
    places = fragment.per_register
    halves = size // 8 if is_a else 1
    row = Type(elem, 8)
    for register in range(fragment.registers):
        words = word(b, source, fragment, register)
        block, half = divmod(register, halves)
        for index in range(places):
            values = element(b, fragment, words, index, elem)
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
        words = word(b, source, fragment, register)
        parts = [element(b, fragment, words, index, elem) for index in range(places)]
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


def _rows_of(b: Builder, fragment: Fragment, source: str, row: Type) -> list[str]:
    """The rows of c as vectors of the sum's type."""
    return [_row_of(b, fragment, source, row, i) for i in range(fragment.rows)]


def _row_of(b: Builder, fragment: Fragment, source: str, row: Type, i: int) -> str:
    stored = Type({"f16": "half", "s32": "i32"}.get(fragment.type, row.elem), row.lanes)
    if fragment.is_linear:
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


def _store_rows(b: Builder, fragment: Fragment, to: str, row: Type, values: list[str]) -> None:
    stored = Type("half", row.lanes) if fragment.type == "f16" else row
    for i, each in enumerate(values):
        value = narrow(b, row, each, stored, "rn", finite=False) if fragment.type == "f16" else each
        if fragment.is_linear:
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


def _add_integers(b: Builder, product: Product, row: Type, values: list[str], *, saturates: bool) -> None:
    whole = Type("i32", row.lanes)
    sums = []
    for value, old in zip(values, _rows_of(b, product.c, "%c", whole), strict=True):
        exact = b.cast("fptosi", row, value, whole)
        sums.append(b.intrinsic("sadd.sat", whole, old, exact) if saturates else b.binary("add", whole, old, exact))
    _store_rows(b, product.d, "%d", whole, sums)


# ---------------------------------------------------------------------- bits


def _bits(b: Builder, product: Product, popc: str) -> None:
    """Products of bits: what is counted in a[i] op b[j], word by word."""
    row = Type("i32", 8)
    halves = product.m // 8
    columns = []
    for register in range(product.b.registers):
        words = word(b, "%b", product.b, register)
        columns += [b.shuffle(_WORDS, words, "poison", range(t, _WARP, 4)) for t in range(4)]
    rows = _rows_of(b, product.c, "%c", row)
    sums = []
    for i, value in enumerate(rows):
        for number, column in enumerate(columns):
            register, t = number // 4 * halves + i // 8, number % 4
            at = b.op(f"getelementptr i32, ptr %a, i32 {register * _WARP + i % 8 * 4 + t}")
            one = b.splat(row, b.op(f"load i32, ptr {at}, align 4"))
            counted = b.intrinsic("ctpop", row, b.binary(popc, row, one, column))
            value = b.binary("add", row, value, counted)  # noqa: PLW2901
        sums.append(value)
    _store_rows(b, product.d, "%d", row, sums)
