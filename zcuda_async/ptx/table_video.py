"""Instruction rows: video instructions, on bytes and half-words of 32-bit registers.

Their register operands carry selectors (``%r1.b0``), which are not in the rows: see `SELECTORS`.
"""

from __future__ import annotations

import re
from typing import Final

from zcuda_async.ptx.table_syntax import Row, row

__all__ = ("SELECTORS", "VIDEO_ROWS", "is_selector")

_SCALAR_SECTION: Final = "Scalar Video Instructions"
_SIMD_SECTION: Final = "SIMD Video Instructions"

_TYPES: Final = {"dtype": "u32 s32", "atype": "u32 s32", "btype": "u32 s32"}
_SECOND: Final = "add min max"
_COMPARE: Final = "eq ne lt le gt ge"

_SCALAR: Final = (
    *(
        row(
            f"{opcode}.dtype.atype.btype{{.sat}}{{.op2}} d, a:1, b:2{{, c:0}}",
            op2=_SECOND,
            see=_SCALAR_SECTION,
            **_TYPES,
        )
        for opcode in ("vadd", "vsub", "vabsdiff", "vmin", "vmax")
    ),
    *(
        row(
            f"{opcode}.dtype.atype.u32{{.sat}}.mode{{.op2}} d, a:1, b:u32{{, c:0}}",
            mode="clamp wrap",
            op2=_SECOND,
            see=_SCALAR_SECTION,
            dtype="u32 s32",
            atype="u32 s32",
        )
        for opcode in ("vshl", "vshr")
    ),
    row(
        "vmad.dtype.atype.btype{.po}{.sat}{.scale} d, a:1, b:2, c:0",
        scale="shr7 shr15",
        see=_SCALAR_SECTION,
        **_TYPES,
    ),
    row(
        "vset.atype.btype.cmp{.op2} d:u32, a:0, b:1{, c:u32}",
        cmp=_COMPARE,
        op2=_SECOND,
        see=_SCALAR_SECTION,
        atype="u32 s32",
        btype="u32 s32",
    ),
)

_SIMD: Final = (
    *(
        row(f"{opcode}{size}.dtype.atype.btype{tail} d, a:1, b:2, c:0", see=_SIMD_SECTION, **_TYPES)
        for opcode in ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax")
        for size in (2, 4)
        for tail in ("{.sat}", ".add")
    ),
    *(
        row(
            f"vset{size}.atype.btype.cmp{{.add}} d:u32, a:0, b:1, c:u32",
            cmp=_COMPARE,
            see=_SIMD_SECTION,
            atype="u32 s32",
            btype="u32 s32",
        )
        for size in (2, 4)
    ),
)

VIDEO_ROWS: Final[tuple[Row, ...]] = _SCALAR + _SIMD

_PART: Final = re.compile(r"b[0-3]|h[01]")
_MASKS: Final = {2: re.compile(r"h(?:0|1|10)"), 4: re.compile(r"b(?=[0-3])3?2?1?0?")}
_PICKS: Final = {2: re.compile(r"h[0-3]{2}"), 4: re.compile(r"b[0-7]{4}")}

SELECTORS: Final = frozenset(entry.opcode for entry in VIDEO_ROWS)
"""Opcodes whose register operands may carry selectors."""


def is_selector(opcode: str, index: int, text: str) -> bool:
    """Whether operand `index` of a video instruction may carry the selector `text` (without the dot).

    Scalar instructions take one byte or half-word of d, a and b; SIMD ones a mask of d, and for each part of a
    and b the part of the pair {b, a} that it comes from, the highest first.
    """
    if index > 2 or (opcode == "vmad" and index == 0):
        return False
    size = int(opcode[-1]) if opcode[-1].isdigit() else 0
    if not size:
        return _PART.fullmatch(text) is not None
    return (_MASKS if index == 0 else _PICKS)[size].fullmatch(text) is not None
