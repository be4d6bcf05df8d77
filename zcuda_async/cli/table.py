"""The table of all instructions and whether they are supported, made by trying each of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from zcuda_async.ptx.errors import PtxError
from zcuda_async.ptx.ir import Immediate, Instruction, Span
from zcuda_async.ptx.matrix import register_counts
from zcuda_async.ptx.table import TABLE, Expected, resolve
from zcuda_async.ptx.table_explain import NOT_SUPPORTED
from zcuda_async.ptx.table_syntax import TYPE_WIDTHS, Row
from zcuda_async.ptx.table_texture import TEXTURE_OPCODES
from zcuda_async.ptx.texture import texture_vectors

__all__ = ("coverage_table", "sample_kernel")

_HEAD: Final = """\
# PTX coverage

Which instructions of the PTX ISA run, form by form. This page is made by `zcuda coverage --table`, which compiles an
instance of every row of the instruction tables; a test keeps it so. *Compiled* is the code generator, *interpreted*
the reference interpreter that it is checked against. `{.x}` may be left out; the operands are written as in the manual.
To know about one file, use `zcuda coverage FILE.ptx`.
"""


def coverage_table() -> str:
    """The page, as Markdown."""
    rows = [(row.see, row) for group in TABLE.values() for row in group]
    lines = [_HEAD]
    for section, entries in groupby(sorted(rows, key=lambda entry: entry[0]), key=lambda entry: entry[0]):
        lines += [f"## {section}\n", "| form | compiled | interpreted | note |", "|---|---|---|---|"]
        lines += [_line(row) for _, row in entries]
        lines.append("")
    names = ", ".join(f"`{name}`" for name in sorted(NOT_SUPPORTED))
    lines += ["## Not known at all\n", f"Refused when a file is read, with the line: {names}.\n"]
    return "\n".join(lines)


def _line(row: Row) -> str:
    from zcuda_async.interpreter import supports
    from zcuda_async.jit.compile import generate_ir
    from zcuda_async.jit.host import host_target
    from zcuda_async.ptx import parse

    text = sample_kernel(row)
    note = ""
    try:
        generate_ir(text, "<row>", "k", (64, 1, 1), target=host_target())
        compiled = "yes"
    except PtxError as error:
        compiled, note = "no", error.message
    body = parse(text, "<row>").functions[-1].body
    found = [item for item in body if isinstance(item, Instruction) and item.opcode == row.opcode]
    interpreted = "yes" if found and all(map(supports, found)) else "no"
    syntax = row.syntax.replace("|", "\\|")
    sets = "; ".join(f"{slot.name}: {' '.join(slot.options)}" for slot in row.slots if slot.options != (slot.name,))
    detail = f" <br> <small>{sets}</small>" if sets else ""
    return f"| `{syntax}`{detail} | {compiled} | {interpreted} | {note} |"


def sample_kernel(row: Row) -> str:
    """A kernel with one instance of a row: what must be chosen is the first choice, the rest left out."""
    spelling = ".".join((row.opcode, *(slot.options[0] for slot in row.slots if slot.required)))
    form = resolve(spelling)
    assert form is not None
    operands = form.by_count[min(form.by_count)]
    setup: list[str] = []
    fragments = iter(_fragments(row, form.modifiers, form.types))
    vectors = _vectors(row, form.modifiers, form.types, len(operands))
    texts = [
        _vector(at, next(fragments), "f64" in form.types, setup)
        if entry.kind == "fragment"
        else _vector(at, vectors[at][1], False, setup)
        if at in vectors
        else _operand(row, at, entry, setup)
        for at, entry in enumerate(operands)
    ]
    if vectors:  # a handle and its coordinates share brackets
        at = min(vectors)
        texts[at - 1 : at + 1] = [f"[%a, {texts[at]}]"]
    written = ", ".join(texts)
    before = ""
    if row.opcode == "brx":
        setup.append("LIST: .branchtargets L, L;")
    if row.opcode == "call":
        before = ".func nothing() { ret; }"
        written = "nothing"
    body = f"{spelling} {written};" if written else f"{spelling};"
    return "\n".join(
        [
            ".version 9.0\n.target sm_90\n.address_size 64",
            before,
            ".visible .entry k(.param .u64 p) {",
            ".reg .b64 %a; .shared .align 16 .b8 s[64]; .reg .b32 %s; ld.param.u64 %a, [p]; mov.u32 %s, s;",
            *setup,
            body,
            "L: ret;\n}",
        ]
    )


def _fragments(row: Row, modifiers: tuple[str, ...], types: tuple[str, ...]) -> list[int]:
    """How many registers the fragments of a matrix instruction have."""
    if row.opcode not in ("mma", "wmma", "ldmatrix", "stmatrix"):
        return []
    return register_counts(Instruction(row.opcode, modifiers, types, (), Span(1, 1)))


def _vectors(row: Row, modifiers: tuple[str, ...], types: tuple[str, ...], count: int) -> dict[int, tuple[str, int]]:
    """The coordinates and other vectors of an instruction on textures."""
    if row.opcode not in TEXTURE_OPCODES:
        return {}
    operands = (Immediate(0),) * count
    return texture_vectors(Instruction(row.opcode, modifiers, types, operands, Span(1, 1)))


def _vector(at: int, count: int, is_wide: bool, setup: list[str]) -> str:
    names = [f"%x{at}_{index}" for index in range(count)]
    kind = "b64" if is_wide else "b32"
    setup += [f".reg .{kind} {name}; mov.{kind} {name}, 0;" for name in names]
    return "{" + ", ".join(names) + "}"


def _operand(row: Row, at: int, entry: Expected, setup: list[str]) -> str:
    if entry.kind == "address":
        shared = row.opcode in ("mbarrier", "ldmatrix", "stmatrix")
        shared = shared or any("shared" in slot.options[0] for slot in row.slots if slot.required)
        is_target = row.opcode == "cp" and at == 0
        return "[%s]" if (shared and row.opcode != "cp") or is_target else "[%a]"
    if entry.kind == "constant":
        return str(entry.slot.range[0] if entry.slot.range else 0)
    if entry.kind in ("label", "labels"):
        return "LIST" if entry.kind == "labels" else "L"
    if entry.kind in ("list", "callee", "name"):
        return ""
    names = [_register(f"%x{at}_{lane}", entry, setup) for lane in range(max(1, entry.lanes))]
    value = "{" + ", ".join(names) + "}" if entry.lanes else names[0]
    if entry.slot.second_required:
        setup.append(f".reg .pred %second{at};")
        value += f"|%second{at}"
    return value


def _register(name: str, entry: Expected, setup: list[str]) -> str:
    kinds: Iterator[str] = (kind for kind in sorted(entry.registers) if kind[0] == "b" and kind in TYPE_WIDTHS)
    kind = "pred" if entry.type == "pred" else min(kinds, key=lambda each: TYPE_WIDTHS[each], default="b32")
    kind = "b16" if kind == "b8" else kind
    setup.append(f".reg .{kind} {name};")
    if not entry.is_destination:
        setup.append(_set(kind, name))
    return name


def _set(kind: str, name: str) -> str:
    if kind == "pred":
        return f"setp.eq.u32 {name}, %s, 0;"
    if kind == "b128":
        return f"mov.b128 {name}, {{%a, %a}};"
    return f"mov.b{TYPE_WIDTHS[kind]} {name}, 1;"
