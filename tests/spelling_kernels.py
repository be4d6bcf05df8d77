"""A kernel with one instance of an instruction, made from its spelling alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from zcuda_async.ptx.table import Expected, resolve
from zcuda_async.ptx.table_syntax import TYPE_WIDTHS

__all__ = ("kernel_of_spellings", "statement")

_SHARED: Final = ("shared", "shared::cta")


def _register(expected: Expected, number: int) -> str:
    """A register of the kernel below that fits an operand."""
    if expected.type == "pred":
        return f"%p{number}"
    if expected.type in ("f32", "f64"):
        return f"%{expected.type}_{number}"
    width = max(16, TYPE_WIDTHS[expected.type])
    return f"%b{width}_{number}"


def _operand(expected: Expected, number: int, parts: Iterable[str]) -> str:
    slot = expected.slot
    if expected.kind == "address":
        return "[buffer]" if any(part in _SHARED for part in parts) else "[%b64_1]"
    if expected.kind == "constant":
        assert slot.range is not None
        return str(slot.range[1])
    if expected.lanes:
        return "{" + ", ".join(_register(expected, number + lane) for lane in range(expected.lanes)) + "}"
    text = _register(expected, number)
    if slot.second:
        return f"{text}|%p{number + 1}"
    return text


def statement(spelling: str) -> str:
    """One instruction of that spelling with registers (and constants where there must be) as operands.

    Raises:
        LookupError: No row of the instruction table takes the spelling.
    """
    form = resolve(spelling)
    if form is None:
        raise LookupError(spelling)
    expected = form.by_count[min(form.by_count)]
    parts = spelling.split(".")
    return f"{spelling} {', '.join(_operand(entry, 4 * at, parts) for at, entry in enumerate(expected))};"


def kernel_of_spellings(spellings: Iterable[str]) -> str:
    """A kernel ``k`` with one instance of each; every result is stored, so nothing is left out as unused."""
    lines = []
    for spelling in spellings:
        lines.append(statement(spelling))
        form = resolve(spelling)
        assert form is not None
        first = form.by_count[min(form.by_count)][0] if form.by_count[min(form.by_count)] else None
        if form.row.destinations and first is not None:
            lines += _stores(first)
    return _KERNEL.replace("BODY", "\n".join(lines))


def _stores(first: Expected) -> list[str]:
    names = [_register(first, number) for number in range(max(1, first.lanes))]
    lines = []
    for at, name in enumerate([*names, *(["%p1"] if first.slot.second else [])]):
        if name.startswith("%p"):
            lines.append(f"selp.b32 %b32_60, 1, 0, {name}; st.global.b32 [%b64_1+{16 * at}], %b32_60;")
        else:
            width = {"%f32": "f32", "%f64": "f64"}.get(name.partition("_")[0], name[1:].partition("_")[0])
            lines.append(f"st.global.{width} [%b64_1+{16 * at}], {name};")
    return lines


_LOADED: Final = 20
_REGISTERS: Final = " ".join(
    f".reg .{kind} %{name}<64>;"
    for kind, name in [
        ("pred", "p"), ("b16", "b16_"), ("b32", "b32_"), ("b64", "b64_"), ("b128", "b128_"),
        ("f32", "f32_"), ("f64", "f64_"),
    ]
)  # fmt: skip
_LOADS: Final = "\n".join(
    f"ld.global.{kind} %{kind}_{number}, [%b64_1+{16 * number}];"
    for number in range(2, _LOADED)
    for kind in ("b16", "b32", "f32", "f64", "b64")
) + "\n".join(f"setp.ne.b32 %p{number}, %b32_{number}, 0;" for number in range(2, _LOADED))

_KERNEL: Final = f"""\
.version 8.7
.target sm_90
.address_size 64
.visible .entry k(.param .u64 data)
{{
.shared .align 16 .b8 buffer[4096];
{_REGISTERS}
ld.param.u64 %b64_0, [data]; mov.u32 %b32_0, %tid.x; mul.wide.u32 %b64_2, %b32_0, 1024; add.s64 %b64_1, %b64_0, %b64_2;
{_LOADS}
BODY
ret;
}}
"""
