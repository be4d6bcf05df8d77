"""Instruction rows: floating point of all widths (PTX ISA 9.7.3, 9.7.4, 9.7.5)."""

from __future__ import annotations

from typing import Final

from zcuda_async.ptx.table_syntax import Row, row

__all__ = ("FLOAT_ROWS",)

_ROUND: Final = "rn rz rm rp"
_HALF: Final = "f16 f16x2"
_BRAIN: Final = "bf16 bf16x2"
_CLASSES: Final = "finite infinite number notanumber normal subnormal"


def _add_like(opcode: str, see: str) -> tuple[Row, ...]:
    """``add``, ``sub`` and ``mul``, which have the same forms."""
    return (
        row(opcode + "{.rnd}{.ftz}{.sat}.f32 d, a, b", rnd=_ROUND, see=see),
        row(opcode + "{.rnd}.f64 d, a, b", rnd=_ROUND, see=see),
        row(opcode + "{.rn}{.ftz}{.sat}.type d, a, b", type=_HALF, see="9.7.4"),
        row(opcode + "{.rn}.type d, a, b", type=_BRAIN, see="9.7.4"),
    )


def _min_like(opcode: str, see: str) -> tuple[Row, ...]:
    return (
        row(opcode + "{.ftz}{.NaN}.f32 d, a, b", see=see),
        row(opcode + "{.ftz}{.NaN}.xorsign.abs.f32 d, a, b", see=see),
        row(opcode + ".f64 d, a, b", see=see),
        row(opcode + "{.ftz}{.NaN}.type d, a, b", type=_HALF, see="9.7.4"),
        row(opcode + "{.ftz}{.NaN}.xorsign.abs.type d, a, b", type=_HALF, see="9.7.4"),
        row(opcode + "{.NaN}.type d, a, b", type=_BRAIN, see="9.7.4"),
        row(opcode + "{.NaN}.xorsign.abs.type d, a, b", type=_BRAIN, see="9.7.4"),
    )


def _sign_like(opcode: str, see: str) -> tuple[Row, ...]:
    """``abs`` and ``neg``."""
    return (
        row(opcode + "{.ftz}.f32 d, a", see=see),
        row(opcode + ".f64 d, a", see=see),
        row(opcode + "{.ftz}.type d, a", type=_HALF, see="9.7.4"),
        row(opcode + ".type d, a", type=_BRAIN, see="9.7.4"),
    )


def _root_like(opcode: str, see: str) -> tuple[Row, ...]:
    """``rcp`` and ``sqrt``."""
    return (
        row(opcode + ".approx{.ftz}.f32 d, a", see=see),
        row(opcode + ".rnd{.ftz}.f32 d, a", rnd=_ROUND, see=see),
        row(opcode + ".rnd.f64 d, a", rnd=_ROUND, see=see),
    )


_MULTIPLY_ADD: Final = (
    row("fma.rnd{.ftz}{.sat}.f32 d, a, b, c", rnd=_ROUND, see="9.7.3.6"),
    row("fma.rnd.f64 d, a, b, c", rnd=_ROUND, see="9.7.3.6"),
    row("fma.rn{.ftz}{.sat}.type d, a, b, c", type=_HALF, see="9.7.4.4"),
    row("fma.rn{.ftz}.relu.type d, a, b, c", type=_HALF, see="9.7.4.4"),
    row("fma.rn{.relu}.type d, a, b, c", type=_BRAIN, see="9.7.4.4"),
    row("fma.rn.oob{.relu}.type d, a, b, c", type=_HALF + " " + _BRAIN, see="9.7.4.4"),
    row("mad.rnd{.ftz}{.sat}.f32 d, a, b, c", rnd=_ROUND, see="9.7.3.7"),
    row("mad.rnd.f64 d, a, b, c", rnd=_ROUND, see="9.7.3.7"),
)

_DIVIDE: Final = (
    row("div.approx{.ftz}.f32 d, a, b", see="9.7.3.8"),
    row("div.full{.ftz}.f32 d, a, b", see="9.7.3.8"),
    row("div.rnd{.ftz}.f32 d, a, b", rnd=_ROUND, see="9.7.3.8"),
    row("div.rnd.f64 d, a, b", rnd=_ROUND, see="9.7.3.8"),
    row("rcp.approx.ftz.f64 d, a", see="9.7.3.14"),
    row("rsqrt.approx{.ftz}.type d, a", type="f32 f64", see="9.7.3.17"),
)

_TRANSCENDENTAL: Final = (
    row("sin.approx{.ftz}.f32 d, a", see="9.7.3.18"),
    row("cos.approx{.ftz}.f32 d, a", see="9.7.3.19"),
    row("lg2.approx{.ftz}.f32 d, a", see="9.7.3.20"),
    row("ex2.approx{.ftz}.f32 d, a", see="9.7.3.21"),
    row("ex2.approx.type d, a", type=_HALF, see="9.7.4.10"),
    row("ex2.approx.ftz.type d, a", type=_BRAIN, see="9.7.4.10"),
    row("tanh.approx.type d, a", type="f32 " + _HALF + " " + _BRAIN, see="9.7.3.22"),
)

_CLASSIFY: Final = (
    row("testp.kind.type p, a", kind=_CLASSES, type="f32 f64", see="9.7.3.1"),
    row("copysign.type d, a, b", type="f32 f64", see="9.7.3.2"),
)

FLOAT_ROWS: Final[tuple[Row, ...]] = (
    *_add_like("add", "9.7.3.3"),
    *_add_like("sub", "9.7.3.4"),
    *_add_like("mul", "9.7.3.5"),
    *_MULTIPLY_ADD,
    *_DIVIDE,
    *_sign_like("abs", "9.7.3.9"),
    *_sign_like("neg", "9.7.3.10"),
    *_min_like("min", "9.7.3.11"),
    *_min_like("max", "9.7.3.12"),
    *_root_like("rcp", "9.7.3.13"),
    *_root_like("sqrt", "9.7.3.15"),
    *_TRANSCENDENTAL,
    *_CLASSIFY,
)
