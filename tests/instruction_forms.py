"""Every spelling of the computing instructions, from the rows of the instruction table, as test kernels."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Final

from zcuda_async.ptx.table import TABLE, Expected, resolve
from zcuda_async.ptx.table_syntax import TYPE_WIDTHS, Row

__all__ = ("COMPUTING", "FormSpec", "grid", "kernel_of", "specs_of", "tuples_of")

COMPUTING: Final = [
    "add",
    "sub",
    "mul",
    "mad",
    "mul24",
    "mad24",
    "sad",
    "div",
    "rem",
    "abs",
    "neg",
    "min",
    "max",
    "popc",
    "clz",
    "bfind",
    "fns",
    "brev",
    "bfe",
    "bfi",
    "szext",
    "bmsk",
    "dp4a",
    "dp2a",
    "and",
    "or",
    "xor",
    "not",
    "cnot",
    "lop3",
    "shf",
    "shl",
    "shr",
    "prmt",
    "fma",
    "rcp",
    "sqrt",
    "rsqrt",
    "sin",
    "cos",
    "lg2",
    "ex2",
    "tanh",
    "testp",
    "copysign",
    "setp",
    "set",
    "selp",
    "slct",
    "cvt",
    "addc",
    "subc",
    "madc",
]
"""Opcodes whose result depends on their operands alone."""


@dataclass(frozen=True)
class FormSpec:
    """One spelling: `sources` and `result` are PTX types (``pred`` among them).

    `result` is wider than the type where the instruction may write a wider register.
    """

    spelling: str
    opcode: str
    sources: tuple[str, ...]
    result: str
    result_type: str
    second: bool
    constants: tuple[tuple[int, tuple[int, int]], ...]

    @property
    def types(self) -> tuple[str, ...]:
        """The type suffixes."""
        return tuple(part for part in self.spelling.split(".")[1:] if part in TYPE_WIDTHS)

    def has(self, modifier: str) -> bool:
        """Whether the spelling has a modifier."""
        return modifier in self.spelling.split(".")


def _spellings(row: Row) -> Iterator[str]:
    choices = [slot.options if slot.required else ("", *slot.options) for slot in row.slots]
    for chosen in product(*choices):
        yield ".".join((row.opcode, *(part for part in chosen if part)))


def _register_type(expected: Expected, *, widest: bool) -> str:
    """A ``.b`` register for an operand; `widest` takes a wider one where that is allowed."""
    if expected.type == "pred":
        return "pred"
    widths = sorted({TYPE_WIDTHS[name] for name in expected.registers if name[0] == "b" and name != "b128"})
    widths = [width for width in widths if width >= 16]
    return f"b{widths[1] if widest and len(widths) > 1 else widths[0]}"


@cache
def specs_of(opcode: str) -> tuple[FormSpec, ...]:
    """Every spelling of an opcode, without repetitions."""
    found: dict[str, FormSpec] = {}
    for row in TABLE[opcode]:
        for spelling in _spellings(row):
            form = resolve(spelling)
            assert form is not None, spelling
            operands = form.by_count[max(form.by_count)]
            constants = tuple(
                (at, entry.slot.range)
                for at, entry in enumerate(operands)
                if entry.kind == "constant" and entry.slot.range
            )
            sources = tuple(
                "constant" if entry.kind == "constant" else _register_type(entry, widest=False)
                for entry in operands[1:]
            )
            found.setdefault(
                spelling,
                FormSpec(
                    spelling,
                    row.opcode,
                    sources,
                    _register_type(operands[0], widest=row.relaxed),
                    operands[0].type,
                    bool(operands[0].slot.second),
                    constants,
                ),
            )
    return tuple(found.values())


# ---------------------------------------------------------------------- values

_INTERESTING_FLOATS: Final = (
    0.0, 1.0, 2.0, 0.5, 1.5, 2.5, 3.0, 0.1, 3.14159274, 1e-3, 1e10, 16777217.0, 8388609.5, 4194304.5,
    127.5, 128.0, 255.5, 256.0, 32767.5, 65535.5, 2147483648.0, 4294967296.0, 9.223372036854776e18,
    1.8446744073709552e19, float("inf"),
)  # fmt: skip


def _float_bits(width: int) -> list[int]:
    exponent, fraction = {16: (5, 10), 32: (8, 23), 64: (11, 52)}[width]
    sign, top = 1 << (width - 1), (1 << exponent) - 1 << fraction
    special = [
        1, 2, (1 << fraction) - 1, 1 << fraction, (1 << fraction) + 1, 3 << (fraction - 1),  # around the smallest
        top - 1, top - (1 << fraction), top | 1 << (fraction - 1), top | 1,  # the largest, and two NaNs
        (top >> 1 & ~((1 << fraction) - 1)) + 1, (top >> 1 & ~((1 << fraction) - 1)) - 1,  # next to 1
    ]  # fmt: skip
    code = {16: "<e", 32: "<f", 64: "<d"}[width]
    for value in _INTERESTING_FLOATS:
        try:
            special.append(int.from_bytes(struct.pack(code, value), "little"))
        except OverflowError:
            continue
    return list(dict.fromkeys(bits ^ flip for bits in special for flip in (0, sign)))


def _integer_bits(width: int) -> list[int]:
    ones = (1 << width) - 1
    values = [0, 1, 2, 3, 5, 7, 10, 31, 32, 33, 63, 64, 65, 255, 256, -1, -2, -3, -10, -255]
    for power in (7, 8, 15, 16, 23, 24, 31, 32, width - 2, width - 1):
        values += [1 << power, (1 << power) - 1, (1 << power) + 1, -(1 << power)]
    values += [0x0123456789ABCDEF, 0xFEDCBA9876543210, 0x5555555555555555]
    return list(dict.fromkeys(value & ones for value in values))


def grid(ptx_type: str, width: int, rng: random.Random, extra: int) -> list[int]:
    """Bit patterns worth trying for an operand of a type in a register of `width` bits."""
    if ptx_type == "pred":
        return [0, 1]
    own = TYPE_WIDTHS[ptx_type]
    is_float = ptx_type in ("f16", "bf16", "f32", "f64")
    bits = _float_bits(own) if is_float and ptx_type != "bf16" else _integer_bits(own)
    if ptx_type == "bf16":
        bits = list(dict.fromkeys(value >> 16 for value in _float_bits(32)))
    bits = bits + [rng.getrandbits(own) for _ in range(extra)]
    if is_float:
        bits += [_near_one(rng, own) for _ in range(extra)]
    # What is above the type in a wider register must not matter.
    return [value | rng.getrandbits(width - own) << own if width > own else value for value in bits]


def _near_one(rng: random.Random, width: int) -> int:
    """A random float of moderate size."""
    value = rng.uniform(-4, 4) * 2.0 ** rng.randint(-12, 12)
    return int.from_bytes(struct.pack({16: "<e", 32: "<f", 64: "<d"}[width], value), "little")


def source_types(spec: FormSpec) -> tuple[str, ...]:
    """The PTX types of the sources, which decide which values are interesting."""
    form = resolve(spec.spelling)
    assert form is not None
    operands = form.by_count[max(form.by_count)]
    return tuple(entry.type or "u32" for entry in operands[1:])


def tuples_of(spec: FormSpec, rng: random.Random, limit: int) -> list[tuple[int, ...]]:
    """Operand tuples: all pairs of a few values where there are too many, and random ones."""
    axes = []
    for ptx_type, register in zip(source_types(spec), spec.sources, strict=True):
        if register == "constant":
            axes.append([0])
            continue
        width = 1 if register == "pred" else TYPE_WIDTHS[register]
        values = grid(ptx_type, width, rng, 8)
        rng.shuffle(values)
        axes.append(values)
    everything = 1
    for axis in axes:
        everything *= len(axis)
    if everything <= limit:
        return list(product(*axes))
    picked = [tuple(rng.choice(axis) for axis in axes) for _ in range(limit)]
    # Every value of every axis at least once.
    for at, axis in enumerate(axes):
        for place, value in enumerate(axis[:limit]):
            row = list(picked[(place * 7 + at) % limit])
            row[at] = value
            picked[(place * 7 + at) % limit] = tuple(row)
    return picked


# ---------------------------------------------------------------------- kernels


def _constant_texts(spec: FormSpec, rng: random.Random) -> str:
    (_, (low, high)) = spec.constants[0]
    return str(rng.randint(low, high))


def kernel_of(
    specs: Sequence[FormSpec],
    count: int,
    *,
    uniform: bool = False,
    seed: int = 0,
    immediates: Sequence[dict[int, str]] = (),
) -> str:
    """A kernel that applies every spec (all with the same sources) to `count` operand tuples.

    Operands are 64-bit words: tuple i's operand j is at ``in + 8 (j count + i)``.  Results are 64-bit words too:
    spec s's at ``out + 8 (2 s count + i)``, its second one `count` words later.  `uniform` takes i from
    %ctaid, so that all values are the same in all lanes.  `immediates` replaces source j of spec s by a constant.
    """
    sources = specs[0].sources
    rng = random.Random(seed)
    lines = [
        ".version 8.0", ".target sm_90", ".address_size 64",
        ".visible .entry k(.param .u64 in, .param .u64 out)", "{",
        ".reg .pred %p<9>;", ".reg .b32 %i<9>;", ".reg .b64 %a<9>;", ".reg .b64 %v<9>;",
        f".reg .b64 %w<{len(specs) * 2 + 1}>;", ".reg .pred %q<9>;",
    ]  # fmt: skip
    if uniform:
        lines += ["mov.u32 %i0, %ctaid.x;"]
    else:
        lines += ["mov.u32 %i1, %ctaid.x;", "mov.u32 %i2, %ntid.x;", "mov.u32 %i3, %tid.x;"]
        lines += ["mad.lo.s32 %i0, %i1, %i2, %i3;"]
    lines += [
        f"setp.ge.s32 %p0, %i0, {count};", "@%p0 bra done;",
        "ld.param.u64 %a0, [in];", "ld.param.u64 %a1, [out];",
        "mul.wide.s32 %a2, %i0, 8;", "add.s64 %a3, %a0, %a2;", "add.s64 %a4, %a1, %a2;",
    ]  # fmt: skip
    names = []
    for at, register in enumerate(sources):
        where = f"[%a3+{at * count * 8}]"
        if register == "constant":
            names.append("constant")
            continue
        if register == "pred":
            lines += [f"ld.global.u32 %i5, {where};", f"setp.ne.u32 %q{at}, %i5, 0;"]
            names.append(f"%q{at}")
            continue
        lines += [f".reg .{register} %s{at};", f"ld.global.{register} %s{at}, {where};"]
        names.append(f"%s{at}")
    for index, spec in enumerate(specs):
        chosen = dict(immediates[index]) if immediates else {}
        operands = [
            chosen.get(at, _constant_texts(spec, rng) if name == "constant" else name) for at, name in enumerate(names)
        ]
        destination = f"%d{index}"
        lines.append(f".reg .{spec.result} %d{index};")
        if spec.second:
            destination += f"|%e{index}"
            lines.append(f".reg .pred %e{index};")
        if spec.opcode in ("addc", "subc", "madc"):  # a carry that differs from lane to lane
            lines.append("add.cc.u32 %i8, %i0, 0xFFFFFFF0;")
        lines.append(f"{spec.spelling} {destination}, {', '.join(operands)};")
        lines += _stores(spec, index, count)
    return "\n".join([*lines, "done:", "ret;", "}", ""])


def _stores(spec: FormSpec, index: int, count: int) -> list[str]:
    at = 16 * index * count
    lines = []
    if spec.result == "pred":
        lines += [f"selp.u32 %i6, 1, 0, %d{index};", f"st.global.u32 [%a4+{at}], %i6;"]
    else:
        lines += [f"st.global.{spec.result} [%a4+{at}], %d{index};"]
    if spec.second:
        lines += [f"selp.u32 %i7, 1, 0, %e{index};", f"st.global.u32 [%a4+{at + 8 * count}], %i7;"]
    return lines
