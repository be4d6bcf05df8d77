"""A kernel of any number of instructions, for measuring the compiler: straight stretches, loops, lanes that part."""

from __future__ import annotations

import random
from typing import Final

__all__ = ("BLOCK", "KERNEL", "count_instructions", "long_kernel")

KERNEL: Final = "long_kernel"
BLOCK: Final = (256, 1, 1)
_FLOATS: Final = 12
_WORDS: Final = 12
_STRETCH: Final = 60
"""Instructions in a row before the next loop or branch."""

_HEAD: Final = f"""\
.version 8.0
.target sm_80
.address_size 64
.visible .entry {KERNEL}(.param .u64 data, .param .u32 count)
{{
.reg .pred %p<4>; .reg .b32 %r<{_WORDS + 6}>; .reg .b64 %rd<4>; .reg .f32 %f<{_FLOATS}>;
"""

_FLOAT_STEPS: Final = (
    "fma.rn.f32 %f{a}, %f{b}, %f{c}, %f{a};",
    "add.f32 %f{a}, %f{b}, %f{c};",
    "mul.f32 %f{a}, %f{b}, %f{c};",
    "min.f32 %f{a}, %f{b}, %f{c};",
    "sqrt.approx.f32 %f{a}, %f{b};",
    "cvt.rn.f32.s32 %f{a}, %r{b};",
    "ld.global.f32 %f{a}, [%rd2+{offset}];",
    "st.global.f32 [%rd2+{offset}], %f{b};",
)
_WORD_STEPS: Final = (
    "add.s32 %r{a}, %r{b}, %r{c};",
    "mad.lo.s32 %r{a}, %r{b}, %r{c}, %r{a};",
    "xor.b32 %r{a}, %r{b}, %r{c};",
    "shf.l.wrap.b32 %r{a}, %r{b}, %r{b}, 7;",
    "max.s32 %r{a}, %r{b}, %r{c};",
    "lop3.b32 %r{a}, %r{b}, %r{c}, %r{a}, 0x96;",
)


def long_kernel(instructions: int, seed: int = 7) -> str:
    """Return PTX with the entry `KERNEL` of exactly `instructions` instructions, the same for the same seed.

    Each thread works on twelve floats and twelve words, some of them from memory; every other stretch is a
    loop of four rounds (each third of those with a trip count from memory), every fourth is for some lanes only.
    """
    chosen = random.Random(seed)
    lines = _prologue()
    tail = [*(f"add.f32 %f0, %f0, %f{i};" for i in range(1, _FLOATS)), "st.global.f32 [%rd2], %f0;", "ret;"]
    stretch = 0
    while (room := instructions - len(lines) - len(tail)) > 0:
        body = [_step(chosen) for _ in range(min(_STRETCH, room))]
        if room > _STRETCH + 8:
            body = _wrapped(body, stretch)
        lines += body
        stretch += 1
    return _HEAD + "\n".join(line for group in (lines, tail) for line in group) + "\n}\n"


def count_instructions(text: str) -> int:
    """How many instructions the kernel of such a text has."""
    return text[len(_HEAD) :].count(";")


def _prologue() -> list[str]:
    """Load what each thread works on; a line is an instruction."""
    index, limit = f"%r{_WORDS}", f"%r{_WORDS + 2}"
    lines = [
        "ld.param.u64 %rd0, [data];",
        f"ld.param.u32 {limit}, [count];",
        f"mov.u32 {index}, %tid.x;",
        f"mul.wide.u32 %rd1, {index}, 4;",
        "add.s64 %rd2, %rd0, %rd1;",
    ]
    lines += [f"ld.global.f32 %f{i}, [%rd2+{1024 * i}];" for i in range(_FLOATS)]
    return lines + [f"add.s32 %r{i}, {index}, {i};" for i in range(_WORDS)]


def _step(chosen: random.Random) -> str:
    pattern = chosen.choice(chosen.choice((_FLOAT_STEPS, _WORD_STEPS)))
    a, b, c = (chosen.randrange(_FLOATS) for _ in range(3))
    return pattern.format(a=a, b=b, c=c, offset=1024 * chosen.randrange(_FLOATS))


def _wrapped(body: list[str], stretch: int) -> list[str]:
    """A stretch as it is, in a loop, or for some lanes only; labels share a line with their instruction."""
    counter, limit = f"%r{_WORDS + 1}", f"%r{_WORDS + 2}"
    match stretch % 4:
        case 1 | 3:
            bound = limit if stretch % 3 == 0 else "4"
            head = [f"mov.u32 {counter}, 0;", f"LOOP{stretch}: add.u32 {counter}, {counter}, 1;"]
            return [*head, *body, f"setp.lt.u32 %p0, {counter}, {bound};", f"@%p0 bra LOOP{stretch};"]
        case 2:
            split = [f"setp.lt.s32 %p1, %r{stretch % _WORDS}, {limit};", f"@%p1 bra PAST{stretch};"]
            return [*split, *body, f"PAST{stretch}: mov.u32 {counter}, 0;"]
        case _:
            return body
