"""Instruction rows: textures and surfaces, by handles in 64-bit registers."""

from __future__ import annotations

from typing import Final

from zcuda_async.ptx.table_syntax import Row, relaxed_row, row

__all__ = ("TEXTURE_OPCODES", "TEXTURE_ROWS")

TEXTURE_OPCODES: Final = frozenset({"tex", "tld4", "suld", "sust", "sured"})
"""Opcodes whose address is a handle and coordinates: ``[a, {x, y}]``."""

_TEXTURES: Final = "Texture Instructions"
_SURFACES: Final = "Surface Instructions"
_GEOMETRY: Final = "1d 2d 3d a1d a2d cube acube"
_FLAT: Final = "1d 2d 3d a1d a2d"
_CLAMP: Final = "trap clamp zero"
_SIZES: Final = "width height depth"


def _tex(
    mode: str, operands: str = "", *, geometry: str = _GEOMETRY, vec: str = "v4", dtype: str = "u32 s32 f16 f32"
) -> Row:
    return row(
        f"tex{mode}.geom.{vec}.dtype.ctype d[|p], [a, c:coords]{operands}{{, e:coords}}",
        geom=geometry,
        dtype=dtype,
        ctype="f32" if mode == ".grad" else "s32 f32",
        see=_TEXTURES,
    )


_FETCHES: Final = tuple(
    _tex(mode, operands, geometry=geometry, vec=vec, dtype=dtype)
    for vec, dtype in (("v4", "u32 s32 f16 f32"), ("v2", "f16x2"))
    for mode, operands, geometry in (
        ("{.base}", "", _GEOMETRY),
        (".level", ", lod:coords", _GEOMETRY),
        (".grad", ", dx:coords, dy:coords", _FLAT),
    )
)

_SURFACE_SETS: Final = {"geom": _FLAT, "vec": "v2 v4", "type": "b8 b16 b32 b64", "clamp": _CLAMP, "see": _SURFACES}

_REDUCTIONS: Final = (("add", "u32 s32 u64"), ("min max", "u32 s32 u64 s64"), ("and or", "b32 b64"))

TEXTURE_ROWS: Final[tuple[Row, ...]] = (
    *_FETCHES,
    row(
        "tld4.comp.geom.v4.dtype.f32 d[|p], [a, c:coords]{, e:coords}",
        comp="r g b a",
        geom="2d a2d cube acube",
        dtype="u32 s32 f32",
        see=_TEXTURES,
    ),
    row(
        "txq.query.b32 d, [a]",
        query=f"{_SIZES} channel_data_type channel_order normalized_coords array_size num_mipmap_levels num_samples"
        " force_unnormalized_coords filter_mode addr_mode_0 addr_mode_1 addr_mode_2",
        see=_TEXTURES,
    ),
    row("txq.level.query.b32 d, [a], lod:b32", query=_SIZES, see=_TEXTURES),
    row("istypep.kind p, a:u64", kind="texref samplerref surfref", see=_TEXTURES),
    relaxed_row("suld.b.geom{.cop}{.vec}.type{.clamp} d, [a, b:coords]", cop="ca cg cs cv", **_SURFACE_SETS),
    relaxed_row("sust.b.geom{.cop}{.vec}.type{.clamp} [a, b:coords], c", cop="wb cg cs wt", **_SURFACE_SETS),
    row("sust.p.geom{.vec}.type{.clamp} [a, b:coords], c", **{**_SURFACE_SETS, "type": "b32"}),
    *(
        row(
            "sured.b.operation.geom.type.clamp [a, b:coords], c",
            operation=operation,
            geom=_FLAT,
            type=types,
            clamp=_CLAMP,
            see=_SURFACES,
        )
        for operation, types in _REDUCTIONS
    ),
    *(
        row(
            "sured.p.operation.geom.type.clamp [a, b:coords], c",
            operation=operation,
            geom=_FLAT,
            type="b32 b64",
            clamp=_CLAMP,
            see=_SURFACES,
        )
        for operation, _ in _REDUCTIONS
    ),
    row(
        "suq.query.b32 d, [a]",
        query=f"{_SIZES} channel_data_type channel_order array_size memory_layout",
        see=_SURFACES,
    ),
)
