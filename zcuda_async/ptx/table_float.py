"""Instruction rows: floating point of all widths."""

from __future__ import annotations

from typing import Final

from zcuda_async.ptx.table_syntax import Row, row

__all__ = ("FLOAT_ROWS",)

# Sections of the PTX ISA manual; by title, because their numbers change between versions.
_HALF_SECTION: Final = "Half Precision Floating-Point"
_FLOAT_SECTION: Final = "Floating-Point"

_ROUND: Final = "rn rz rm rp"
_HALF: Final = "f16 f16x2"
_BRAIN: Final = "bf16 bf16x2"
_CLASSES: Final = "finite infinite number notanumber normal subnormal"


def _add_like(opcode: str, see: str) -> tuple[Row, ...]:
    """``add``, ``sub`` and ``mul``, which have the same forms."""
    return (
        row(opcode + "{.rnd}{.ftz}{.sat}.f32 d, a, b", rnd=_ROUND, see=see),
        row(opcode + "{.rnd}.f64 d, a, b", rnd=_ROUND, see=see),
        row(opcode + "{.rn}{.ftz}{.sat}.type d, a, b", type=_HALF, see=_HALF_SECTION),
        row(opcode + "{.rn}.type d, a, b", type=_BRAIN, see=_HALF_SECTION),
    )


def _min_like(opcode: str, see: str) -> tuple[Row, ...]:
    return (
        row(opcode + "{.ftz}{.NaN}.f32 d, a, b", see=see),
        row(opcode + "{.ftz}{.NaN}.xorsign.abs.f32 d, a, b", see=see),
        row(opcode + ".f64 d, a, b", see=see),
        row(opcode + "{.ftz}{.NaN}.type d, a, b", type=_HALF, see=_HALF_SECTION),
        row(opcode + "{.ftz}{.NaN}.xorsign.abs.type d, a, b", type=_HALF, see=_HALF_SECTION),
        row(opcode + "{.NaN}.type d, a, b", type=_BRAIN, see=_HALF_SECTION),
        row(opcode + "{.NaN}.xorsign.abs.type d, a, b", type=_BRAIN, see=_HALF_SECTION),
    )


def _sign_like(opcode: str, see: str) -> tuple[Row, ...]:
    """``abs`` and ``neg``."""
    return (
        row(opcode + "{.ftz}.f32 d, a", see=see),
        row(opcode + ".f64 d, a", see=see),
        row(opcode + "{.ftz}.type d, a", type=_HALF, see=_HALF_SECTION),
        row(opcode + ".type d, a", type=_BRAIN, see=_HALF_SECTION),
    )


def _root_like(opcode: str, see: str) -> tuple[Row, ...]:
    """``rcp`` and ``sqrt``."""
    return (
        row(opcode + ".approx{.ftz}.f32 d, a", see=see),
        row(opcode + ".rnd{.ftz}.f32 d, a", rnd=_ROUND, see=see),
        row(opcode + ".rnd.f64 d, a", rnd=_ROUND, see=see),
    )


_MULTIPLY_ADD: Final = (
    row("fma.rnd{.ftz}{.sat}.f32 d, a, b, c", rnd=_ROUND, see=_FLOAT_SECTION),
    row("fma.rnd.f64 d, a, b, c", rnd=_ROUND, see=_FLOAT_SECTION),
    row("fma.rn{.ftz}{.sat}.type d, a, b, c", type=_HALF, see=_HALF_SECTION),
    row("fma.rn{.ftz}.relu.type d, a, b, c", type=_HALF, see=_HALF_SECTION),
    row("fma.rn{.relu}.type d, a, b, c", type=_BRAIN, see=_HALF_SECTION),
    row("fma.rn.oob{.relu}.type d, a, b, c", type=_HALF + " " + _BRAIN, see=_HALF_SECTION),
    row("mad.rnd{.ftz}{.sat}.f32 d, a, b, c", rnd=_ROUND, see=_FLOAT_SECTION),
    row("mad.rnd.f64 d, a, b, c", rnd=_ROUND, see=_FLOAT_SECTION),
)

_DIVIDE: Final = (
    row("div.approx{.ftz}.f32 d, a, b", see=_FLOAT_SECTION),
    row("div.full{.ftz}.f32 d, a, b", see=_FLOAT_SECTION),
    row("div.rnd{.ftz}.f32 d, a, b", rnd=_ROUND, see=_FLOAT_SECTION),
    row("div.rnd.f64 d, a, b", rnd=_ROUND, see=_FLOAT_SECTION),
    row("rcp.approx.ftz.f64 d, a", see=_FLOAT_SECTION),
    row("rsqrt.approx{.ftz}.type d, a", type="f32 f64", see=_FLOAT_SECTION),
)

_TRANSCENDENTAL: Final = (
    row("sin.approx{.ftz}.f32 d, a", see=_FLOAT_SECTION),
    row("cos.approx{.ftz}.f32 d, a", see=_FLOAT_SECTION),
    row("lg2.approx{.ftz}.f32 d, a", see=_FLOAT_SECTION),
    row("ex2.approx{.ftz}.f32 d, a", see=_FLOAT_SECTION),
    row("ex2.approx.type d, a", type=_HALF, see=_HALF_SECTION),
    row("ex2.approx.ftz.type d, a", type=_BRAIN, see=_HALF_SECTION),
    row("tanh.approx.type d, a", type="f32 " + _HALF + " " + _BRAIN, see=_FLOAT_SECTION),
)

_CLASSIFY: Final = (
    row("testp.kind.type p, a", kind=_CLASSES, type="f32 f64", see=_FLOAT_SECTION),
    row("copysign.type d, a, b", type="f32 f64", see=_FLOAT_SECTION),
)

FLOAT_ROWS: Final[tuple[Row, ...]] = (
    *_add_like("add", _FLOAT_SECTION),
    *_add_like("sub", _FLOAT_SECTION),
    *_add_like("mul", _FLOAT_SECTION),
    *_MULTIPLY_ADD,
    *_DIVIDE,
    *_sign_like("abs", _FLOAT_SECTION),
    *_sign_like("neg", _FLOAT_SECTION),
    *_min_like("min", _FLOAT_SECTION),
    *_min_like("max", _FLOAT_SECTION),
    *_root_like("rcp", _FLOAT_SECTION),
    *_root_like("sqrt", _FLOAT_SECTION),
    *_TRANSCENDENTAL,
    *_CLASSIFY,
)
