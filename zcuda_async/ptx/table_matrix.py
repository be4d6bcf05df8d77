"""Instruction rows: the matrix instructions of a warp (tensor cores)."""

from __future__ import annotations

from typing import Final

from zcuda_async.ptx.table_syntax import Row, row

__all__ = ("MATRIX_ROWS",)

_SECTION: Final = "Warp Level Matrix Multiply-Accumulate"
_LAYOUTS: Final = "row col"
_ANY_SHARED: Final = "shared shared::cta"
_OPERANDS: Final = "d:fragment, a:fragment, b:fragment, c:fragment"


def _mma(shapes: str, types: str, extra: str = "", **sets: str) -> Row:
    """``types`` is d, a, b and c: words for each, separated by commas."""
    d, a, b, c = (part.strip() for part in types.split(","))
    return row(
        f"mma.sync.aligned.shape.alayout.blayout{extra}.dtype.atype.btype.ctype {_OPERANDS}",
        shape=shapes,
        alayout="row",
        blayout="col",
        dtype=d,
        atype=a,
        btype=b,
        ctype=c,
        see=_SECTION,
        **sets,
    )


def _quads(d: str, c: str) -> Row:
    """Four products at once, of matrices of halves."""
    return row(
        f"mma.sync.aligned.m8n8k4.alayout.blayout.dtype.f16.f16.ctype {_OPERANDS}",
        alayout=_LAYOUTS,
        blayout=_LAYOUTS,
        dtype=d,
        ctype=c,
        see=_SECTION,
    )


def _sparse(shape: str, selectors: int, types: str, extra: str = "") -> Row:
    """``types`` as for `_mma`; `selectors` is how many sparsity selectors there are."""
    d, a, b, c = (part.strip() for part in types.split(","))
    return row(
        f"mma.variant.sync.aligned.{shape}.alayout.blayout{extra}.dtype.atype.btype.ctype "
        f"{_OPERANDS}, e:b32, f:0..{selectors - 1}",
        variant="sp sp::ordered_metadata",
        alayout="row",
        blayout="col",
        dtype=d,
        atype=a,
        btype=b,
        ctype=c,
        see=_SECTION,
    )


_MMA: Final = (
    _mma("m16n8k8 m16n8k16", "f32, f16, f16, f32"),
    _mma("m16n8k8 m16n8k16", "f16, f16, f16, f16"),
    _mma("m16n8k8 m16n8k16", "f32, bf16, bf16, f32"),
    _mma("m16n8k4 m16n8k8", "f32, tf32, tf32, f32"),
    _mma("m16n8k16 m16n8k32", "f32, e4m3 e5m2, e4m3 e5m2, f32"),
    _mma("m16n8k16 m16n8k32", "f16, e4m3 e5m2, e4m3 e5m2, f16"),
    _mma("m8n8k4 m16n8k4 m16n8k8 m16n8k16", "f64, f64, f64, f64", "{.rnd}", rnd="rn rz rm rp"),
    _mma("m8n8k16 m16n8k16 m16n8k32", "s32, s8 u8, s8 u8, s32", "{.satfinite}"),
    _mma("m8n8k32 m16n8k32 m16n8k64", "s32, s4 u4, s4 u4, s32", "{.satfinite}"),
    _quads("f32", "f16 f32"),
    _quads("f16", "f16"),
    row(
        f"mma.sync.aligned.shape.alayout.blayout.s32.b1.b1.s32.operation.popc {_OPERANDS}",
        shape="m8n8k128 m16n8k128 m16n8k256",
        alayout="row",
        blayout="col",
        operation="xor and",
        see=_SECTION,
    ),
)

_SPARSE: Final = (
    _sparse("m16n8k16", 4, "f32, f16, f16, f32"),
    _sparse("m16n8k32", 2, "f32, f16, f16, f32"),
    _sparse("m16n8k16", 4, "f16, f16, f16, f16"),
    _sparse("m16n8k32", 2, "f16, f16, f16, f16"),
    _sparse("m16n8k16", 4, "f32, bf16, bf16, f32"),
    _sparse("m16n8k32", 2, "f32, bf16, bf16, f32"),
    _sparse("m16n8k8", 4, "f32, tf32, tf32, f32"),
    _sparse("m16n8k16", 2, "f32, tf32, tf32, f32"),
    _sparse("m16n8k64", 1, "f32, e4m3 e5m2, e4m3 e5m2, f32"),
    _sparse("m16n8k32", 2, "s32, s8 u8, s8 u8, s32", "{.satfinite}"),
    _sparse("m16n8k64", 1, "s32, s8 u8, s8 u8, s32", "{.satfinite}"),
    _sparse("m16n8k64", 2, "s32, s4 u4, s4 u4, s32", "{.satfinite}"),
    _sparse("m16n8k128", 1, "s32, s4 u4, s4 u4, s32", "{.satfinite}"),
)

_MOVES: Final = (
    row(
        "ldmatrix.sync.aligned.m8n8.count{.trans}{.space}.b16 d:fragment, [a]",
        count="x1 x2 x4",
        space=_ANY_SHARED,
        see=_SECTION,
    ),
    row(
        "stmatrix.sync.aligned.m8n8.count{.trans}{.space}.b16 [a], b:fragment",
        count="x1 x2 x4",
        space=_ANY_SHARED,
        see=_SECTION,
    ),
    row("movmatrix.sync.aligned.m8n8.trans.b16 d:b32, a:b32", see=_SECTION),
)

_WMMA_SPACES: Final = f"global {_ANY_SHARED}"
_WIDE: Final = "m16n16k16 m32n8k16 m8n32k16"
_LOADED: Final = (
    ("a", _WIDE, "f16 bf16 s8 u8"),
    ("b", _WIDE, "f16 bf16 s8 u8"),
    ("c", _WIDE, "f16 f32 s32"),
    ("a", "m16n16k8", "tf32"),
    ("b", "m16n16k8", "tf32"),
    ("c", "m16n16k8", "f32"),
    ("a", "m8n8k4", "f64"),
    ("b", "m8n8k4", "f64"),
    ("c", "m8n8k4", "f64"),
    ("a", "m8n8k32", "s4 u4"),
    ("b", "m8n8k32", "s4 u4"),
    ("c", "m8n8k32", "s32"),
    ("a", "m8n8k128", "b1"),
    ("b", "m8n8k128", "b1"),
    ("c", "m8n8k128", "s32"),
)
_SMALL: Final = ("m8n8k32", "m8n8k128")
_SMALL_LAYOUTS: Final = {"a": "row", "b": "col"}
"""Of factors of less than 8 bits; sums may be either way."""


def _wmma(types: str, *, shapes: str, extra: str = "", **sets: str) -> Row:
    return row(
        f"wmma.mma.sync.aligned.alayout.blayout.shape.{types}{extra} {_OPERANDS}",
        shape=shapes,
        alayout=_LAYOUTS,
        blayout=_LAYOUTS,
        see=_SECTION,
        **sets,
    )


_WMMA: Final = (
    *(
        row(
            f"wmma.load.{name}.sync.aligned.layout.shape{{.space}}.type d:fragment, [p]{{, stride:u32}}",
            layout=_SMALL_LAYOUTS.get(name, _LAYOUTS) if shapes in _SMALL else _LAYOUTS,
            shape=shapes,
            space=_WMMA_SPACES,
            type=types,
            see=_SECTION,
        )
        for name, shapes, types in _LOADED
    ),
    *(
        row(
            "wmma.store.d.sync.aligned.layout.shape{.space}.type [p], b:fragment{, stride:u32}",
            layout=_LAYOUTS,
            shape=shapes,
            space=_WMMA_SPACES,
            type=types,
            see=_SECTION,
        )
        for name, shapes, types in _LOADED
        if name == "c"
    ),
    _wmma("dtype.ctype", shapes=_WIDE, extra="{.satfinite}", dtype="f16 f32", ctype="f16 f32"),
    _wmma("f32.bf16.bf16.f32", shapes=_WIDE),
    _wmma("f32.tf32.tf32.f32", shapes="m16n16k8"),
    _wmma("f64.f64.f64.f64", shapes="m8n8k4", extra="{.rnd}", rnd="rn rz rm rp"),
    *(_wmma(f"s32.{kind}.{kind}.s32", shapes=_WIDE, extra="{.satfinite}") for kind in ("s8", "u8")),
    *(
        row(
            f"wmma.mma.sync.aligned.alayout.blayout.m8n8k32.s32.{kind}.{kind}.s32{{.satfinite}} {_OPERANDS}",
            alayout="row",
            blayout="col",
            see=_SECTION,
        )
        for kind in ("s4", "u4")
    ),
    row(
        f"wmma.mma.operation.popc.sync.aligned.alayout.blayout.m8n8k128.s32.b1.b1.s32 {_OPERANDS}",
        operation="xor and",
        alayout="row",
        blayout="col",
        see=_SECTION,
    ),
)

MATRIX_ROWS: Final[tuple[Row, ...]] = (*_MMA, *_SPARSE, *_MOVES, *_WMMA)
