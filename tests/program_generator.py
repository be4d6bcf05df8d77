"""Random PTX kernels that have one right answer: no races, no undefined values, always an end.

A program is a tree of statements (`program_tree`), so that a failing one can be made smaller, and every
choice goes through a `Chooser`, so that hypothesis or a seed can make it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

import numpy as np
from jit_harness import Case
from program_tree import If, Labels, Line, Loop, Statement, Tangle, render

__all__ = ("Chooser", "Program", "SeededChooser", "make_program")

T = TypeVar("T")
Triple = tuple[int, int, int]

WORDS: Final = 2048
"""Words of the input array; a power of two."""

SLOTS: Final = 24
"""64-bit words of output that each thread owns."""

CELLS: Final = 8
"""Cells per atomic operation that threads share."""

SHAPES: Final[tuple[Triple, ...]] = (
    (32, 1, 1), (64, 1, 1), (1, 1, 1), (7, 1, 1), (33, 1, 1), (16, 4, 1), (8, 8, 1), (5, 3, 2), (4, 4, 4), (100, 1, 1),
    (2, 16, 2), (16, 3, 1), (32, 2, 1), (1, 40, 1), (3, 1, 20), (96, 1, 1), (48, 2, 1),
)  # fmt: skip


class Chooser(Protocol):
    """Where decisions come from."""

    def integer(self, low: int, high: int) -> int:
        """A number in [low, high]."""


@dataclass
class SeededChooser:
    """Decisions from a seed."""

    seed: int

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def integer(self, low: int, high: int) -> int:
        """A number in [low, high]."""
        return self._random.randint(low, high)


# ---------------------------------------------------------------------- programs


@dataclass(frozen=True)
class Program:
    """A kernel, its launch and its data."""

    statements: tuple[Statement, ...]
    grid: Triple
    block: Triple
    n: int
    seed: int

    @property
    def text(self) -> str:
        """The PTX module."""
        body = list(render(self.statements, Labels(), None))
        return "\n".join([*_PROLOGUE.strip().split("\n"), *body, *_EPILOGUE.strip().split("\n"), ""])

    @property
    def case(self) -> Case:
        """The launch."""
        rng = np.random.default_rng(self.seed)
        words = rng.integers(0, 1 << 32, WORDS, dtype=np.uint64).astype(np.uint32)
        words[::3] &= 0xFF
        threads = int(np.prod(self.grid) * np.prod(self.block))
        out = np.zeros((threads * SLOTS,), np.uint64)
        floats = np.zeros((threads, 4), np.float32)
        doubles = np.zeros((threads, 2), np.float64)
        cells = np.zeros((6, CELLS), np.uint32)
        return Case(self.text, [words, out, floats, doubles, cells, self.n], grid=self.grid, block=self.block)


_PROLOGUE: Final = f"""
.version 8.0
.target sm_90
.address_size 64
.func (.param .b32 result) mix(.param .b32 first, .param .b32 second)
{{
.reg .b32 %r<6>; .reg .pred %p<2>;
ld.param.b32 %r0, [first]; ld.param.b32 %r1, [second]; and.b32 %r2, %r1, 3; mov.u32 %r3, 7;
setp.lt.s32 %p0, %r0, 100; @%p0 bra SMALL;
xor.b32 %r3, %r0, %r1; st.param.b32 [result], %r3; ret;
SMALL: setp.eq.u32 %p1, %r2, 0; @%p1 bra OUT; mad.lo.u32 %r3, %r3, 5, %r0; sub.u32 %r2, %r2, 1; bra SMALL;
OUT: st.param.b32 [result], %r3; ret;
}}
.visible .entry k(.param .u64 in, .param .u64 out, .param .u64 floats, .param .u64 doubles, .param .u64 cells,
                  .param .u32 n)
{{
.reg .pred %p<8>; .reg .pred %t<4>; .reg .pred %k<4>;
.reg .b16 %h<8>; .reg .b32 %r<12>; .reg .b32 %s<24>; .reg .b32 %c<200>; .reg .b32 %x<20>;
.reg .b64 %d<6>; .reg .b64 %a<20>; .reg .f32 %f<6>; .reg .f64 %e<4>;
.shared .align 16 .b8 exchange[8192];
.shared .align 16 .b8 own[8192];
.local .align 16 .b8 frame[64];
ld.param.u64 %a0, [in]; ld.param.u64 %a1, [out]; ld.param.u64 %a2, [floats]; ld.param.u64 %a3, [doubles];
ld.param.u64 %a4, [cells]; ld.param.u32 %x0, [n];
mov.u32 %x1, %tid.x; mov.u32 %x2, %tid.y; mov.u32 %x3, %tid.z; mov.u32 %x4, %ctaid.x; mov.u32 %x5, %ntid.x;
mov.u32 %x6, %ntid.y; mov.u32 %x7, %ntid.z;
mad.lo.s32 %x8, %x3, %x6, %x2; mad.lo.s32 %x8, %x8, %x5, %x1;
mul.lo.s32 %x9, %x5, %x6; mul.lo.s32 %x9, %x9, %x7;
mad.lo.s32 %x10, %x4, %x9, %x8; mov.u32 %x11, %nctaid.x; mul.lo.s32 %x12, %x11, %x9;
mul.wide.u32 %a5, %x10, {SLOTS * 8}; add.s64 %a5, %a1, %a5;
mul.wide.u32 %a6, %x10, 8; add.s64 %a6, %a1, %a6; mul.wide.u32 %a7, %x12, 8;
mul.wide.u32 %a8, %x10, 16; add.s64 %a9, %a3, %a8; add.s64 %a8, %a2, %a8;
mov.u64 %a10, exchange; mov.u64 %a11, own; mul.wide.u32 %a12, %x8, 4; add.s64 %a12, %a11, %a12;
mul.wide.u32 %a13, %x10, 4; add.s64 %a13, %a0, %a13; mov.u64 %a14, frame;
mov.u32 %r0, %x8; mov.u32 %r1, %x1; mov.u32 %r2, %x2; mov.u32 %r3, %x4; mov.u32 %r4, %x0;
ld.global.u32 %r5, [%a13]; mad.lo.u32 %r6, %x8, 4, 7; neg.s32 %r7, %x8; and.b32 %r8, %r5, 15; mov.u32 %r9, 12345;
cvt.u64.u32 %d0, %x8; mul.wide.u32 %d1, %r5, %r6; mov.u64 %d2, 0x123456789ABCDEF; cvt.s64.s32 %d3, %r7;
cvt.rn.f32.s32 %f0, %r7; cvt.rn.f32.u32 %f1, %r5; mov.f32 %f2, 0f3FC00000; cvt.rn.f32.u32 %f3, %r8;
cvt.rn.f64.s32 %e0, %r6; cvt.rn.f64.u32 %e1, %r5;
cvt.u16.u32 %h0, %r5; cvt.u16.u32 %h1, %r0; mov.u16 %h2, 40000;
setp.lt.u32 %p0, %r8, 7; setp.eq.u32 %p1, %r4, 3; setp.gt.s32 %p2, %r1, 4; setp.ne.u32 %p3, %r2, 0;
and.b32 %s0, %r5, 64; setp.ne.u32 %p4, %s0, 0; setp.lt.u32 %p5, %r0, 9;
st.shared.u32 [%a12], %r5; st.shared.u32 [%a12+4096], %r0;
mul.wide.u32 %a16, %x8, 4; add.s64 %a16, %a10, %a16; st.shared.u32 [%a16], 0;
mov.u32 %s0, 0; mov.u32 %s1, 0; mov.u32 %s2, 0; mov.u32 %s3, 0;
st.local.v4.u32 [%a14], {{%r5, %r6, %r7, %r8}}; st.local.v4.u32 [%a14+16], {{%r0, %r1, %r2, %r3}};
"""

_EPILOGUE: Final = """
st.global.u32 [%a5], %r0; st.global.u32 [%a5+4], %r1; st.global.v2.u32 [%a5+8], {%r2, %r3};
st.global.v4.u32 [%a5+16], {%r4, %r5, %r6, %r7}; st.global.u32 [%a5+32], %r8; st.global.u32 [%a5+36], %r9;
st.global.u64 [%a5+40], %d0; st.global.v2.u64 [%a5+48], {%d1, %d2}; st.global.u64 [%a5+64], %d3;
st.global.u16 [%a5+72], %h0; st.global.u16 [%a5+74], %h1; st.global.u16 [%a5+76], %h2;
selp.u32 %s0, 1, 0, %p0; selp.u32 %s1, 2, 0, %p1; selp.u32 %s2, 4, 0, %p2; selp.u32 %s3, 8, 0, %p3;
or.b32 %s0, %s0, %s1; or.b32 %s2, %s2, %s3; or.b32 %s0, %s0, %s2;
selp.u32 %s1, 16, 0, %p4; selp.u32 %s2, 32, 0, %p5; or.b32 %s0, %s0, %s1; or.b32 %s0, %s0, %s2;
st.global.u8 [%a5+78], %s0;
ld.local.u32 %s4, [%a14+4]; st.global.u32 [%a5+80], %s4;
st.global.v4.f32 [%a8], {%f0, %f1, %f2, %f3}; st.global.v2.f64 [%a9], {%e0, %e1};
DONE:
ret;
}
"""
OWN_START: Final = 96
"""Byte offset, in a thread's output, of the words that stores inside of programs use."""


@dataclass
class _Maker:
    """Builds statements; `depth` is how deep they may nest."""

    chooser: Chooser
    barriers: str  # none, uniform, divergent, warp
    returns: bool
    warps: bool
    block: Triple
    counters: int = 0
    kinds: list[Callable[[bool], Statement]] = field(default_factory=list)

    def pick(self, options: Sequence[T]) -> T:
        return options[self.chooser.integer(0, len(options) - 1)]

    def chance(self, percent: int) -> bool:
        return self.chooser.integer(1, 100) <= percent

    # -------------------------------------------------------------- registers

    def word(self) -> str:
        """A 32-bit source."""
        if self.chance(12):
            return str(self.pick((0, 1, 2, 3, 7, 31, 32, 255, 65535, 0x7FFFFFFF, 0xFFFFFFFF, 0xFFFFFFF0)))
        return (
            f"%r{self.chooser.integer(0, 9)}" if self.chance(80) else f"%x{self.pick((0, 1, 2, 3, 4, 5, 8, 9, 10, 11))}"
        )

    def register(self) -> str:
        return f"%r{self.chooser.integer(0, 9)}"

    def predicate(self) -> str:
        return f"%p{self.chooser.integer(0, 5)}"

    def truth(self) -> str:
        """A predicate, perhaps negated."""
        return ("!" if self.chance(40) else "") + self.predicate()

    def test(self, to: str) -> str:
        """Instructions that set predicate `to`: varying, uniform, the same in a row of lanes, …"""
        kind = self.chooser.integer(0, 7)
        name = self.pick(("lt", "le", "gt", "ge", "eq", "ne"))
        constant = self.pick((0, 1, 2, 3, 5, 8, 13, 16, 20, 31, 40))
        if kind == 0:
            return f"setp.{name}.u32 {to}, %x{self.pick((0, 4))}, {self.pick((0, 1, 2, 3))};"
        if kind == 1:
            return f"setp.{name}.u32 {to}, %x{self.pick((1, 2, 3, 8))}, {constant};"
        if kind == 2:
            return f"and.b32 %s9, %x8, {self.pick((1, 2, 3, 4, 7, 16, 48))}; setp.{name}.u32 {to}, %s9, {self.pick((0, 1, 2))};"
        if kind == 3:
            return f"setp.{name}.f32 {to}, %f{self.chooser.integer(0, 3)}, %f{self.chooser.integer(0, 3)};"
        if kind == 4:
            return f"setp.{name}.and.s32 {to}, {self.register()}, {self.word()}, {self.truth()};"
        if kind == 5:
            return f"setp.{name}.u64 {to}, %d{self.chooser.integer(0, 3)}, %d{self.chooser.integer(0, 3)};"
        return f"setp.{name}.{self.pick(('u32', 's32'))} {to}, {self.register()}, {self.word()};"

    # -------------------------------------------------------------- straight lines

    def line(self, uniform: bool) -> Statement:
        """One computation, load, store or exchange."""
        makers: list[Callable[[], str]] = [self.integers] * 5
        makers += [self.longs, self.longs, self.floats, self.floats, self.doubles, self.halves, self.conversion]
        makers += [self.predicates, self.selection, self.load, self.load, self.load, self.store, self.own_shared]
        makers += [self.local, self.reduction, self.own_atomic, self.call]
        if self.barriers == "divergent" or (self.barriers == "uniform" and uniform):
            makers += [lambda: "bar.sync 0;"] * 2
        if self.barriers == "warp":
            makers += [lambda: "bar.warp.sync 0xffffffff;"] * 2
        if uniform and self.barriers == "uniform":
            makers += [self.exchange] * 3
        if uniform and self.warps:
            makers += [self.warp] * 4
        return Line(self.pick(makers)())

    def guard(self, text: str) -> str:
        """The instruction, perhaps under a guard."""
        return f"@{self.truth()} {text}" if self.chance(25) else text

    def integers(self) -> str:
        d, a, b, c = self.register(), self.word(), self.word(), self.word()
        choices = (
            f"add.u32 {d}, {a}, {b};", f"add.s32 {d}, {a}, {b};", f"sub.u32 {d}, {a}, {b};", f"mul.lo.s32 {d}, {a}, {b};",
            f"mul.lo.u32 {d}, {a}, {self.pick((2, 3, 4, 5, 8, -1))};", f"add.u32 {d}, {a}, {self.pick((1, 4, -1, 16))};",
            f"mad.lo.u32 {d}, {a}, {self.pick((1, 2, 4))}, {c};", f"mad.lo.s32 {d}, {a}, {b}, {c};",
            f"mul.hi.u32 {d}, {a}, {b};", f"div.u32 {d}, {a}, {b};", f"rem.s32 {d}, {a}, {b};", f"and.b32 {d}, {a}, {b};",
            f"or.b32 {d}, {a}, {b};", f"xor.b32 {d}, {a}, {b};", f"not.b32 {d}, {self.register()};",
            f"shl.b32 {d}, {a}, {self.pick((0, 1, 2, 3, 5, 31, 32))};", f"shl.b32 {d}, {a}, {b};", f"shr.u32 {d}, {a}, {b};",
            f"shr.s32 {d}, {a}, {self.pick((1, 4, 31))};", f"min.s32 {d}, {a}, {b};", f"max.u32 {d}, {a}, {b};",
            f"neg.s32 {d}, {self.register()};", f"abs.s32 {d}, {self.register()};", f"mov.u32 {d}, {a};",
            f"mov.b32 {d}, {b};", f"popc.b32 {d}, {self.register()};", f"bfe.u32 {d}, {a}, 3, 9;",
            f"bfi.b32 {d}, {a}, {b}, 5, 8;", f"prmt.b32 {d}, {a}, {b}, 0x{self.chooser.integer(0, 0xFFFF):x};",
            f"lop3.b32 {d}, {a}, {b}, {c}, {self.chooser.integer(0, 255)};", f"shf.l.wrap.b32 {d}, {a}, {b}, {c};",
            f"clz.b32 {d}, {self.register()};", f"set.lt.u32.s32 {d}, {a}, {b};",
        )  # fmt: skip
        return self.guard(self.pick(choices))

    def longs(self) -> str:
        d = f"%d{self.chooser.integer(0, 3)}"
        a, b = f"%d{self.chooser.integer(0, 3)}", f"%d{self.chooser.integer(0, 3)}"
        x, y = self.word(), self.register()
        choices = (
            f"add.s64 {d}, {a}, {b};", f"sub.s64 {d}, {a}, {b};", f"mul.lo.s64 {d}, {a}, {b};", f"cvt.u64.u32 {d}, {y};",
            f"mul.wide.u32 {d}, {x}, {y};", f"mul.wide.u32 {d}, {y}, 4;", f"mad.wide.u32 {d}, {x}, {y}, {a};",
            f"shl.b64 {d}, {a}, {self.pick((1, 2, 4, 40, 63))};", f"shr.u64 {d}, {a}, {y};", f"xor.b64 {d}, {a}, {b};",
            f"min.u64 {d}, {a}, {b};", f"mov.b64 {d}, {{{y}, {self.register()}}};", f"mov.u64 {d}, {a};",
            f"mad.lo.u64 {d}, {a}, {self.pick((2, 3, 8))}, {b};", f"div.s64 {d}, {a}, {b};", f"cvt.u64.u16 {d}, %h1;",
        )  # fmt: skip
        return self.guard(self.pick(choices))

    def floats(self) -> str:
        d, a, b, c = (f"%f{self.chooser.integer(0, 3)}" for _ in range(4))
        mode = self.pick(("rn", "rn", "rn", "rz", "rm", "rp"))
        tail = self.pick(("", "", ".ftz", ".sat"))
        choices = (
            f"add.{mode}{tail}.f32 {d}, {a}, {b};", f"sub.{mode}{tail}.f32 {d}, {a}, {b};",
            f"mul.{mode}{tail}.f32 {d}, {a}, {b};", f"fma.{mode}{tail}.f32 {d}, {a}, {b}, {c};",
            f"min.f32 {d}, {a}, {b};", f"max.f32 {d}, {a}, {b};", f"neg.f32 {d}, {a};", f"abs.f32 {d}, {a};",
            f"div.rn.f32 {d}, {a}, {b};", f"sqrt.rn.f32 {d}, {a};", f"rcp.rn.f32 {d}, {a};", f"mov.f32 {d}, {a};",
            f"add.f32 {d}, {a}, 0f3F000000;", f"mul.f32 {d}, {a}, 0f40400000;", f"copysign.f32 {d}, {a}, {b};",
        )  # fmt: skip
        return self.guard(self.pick(choices))

    def doubles(self) -> str:
        d, a, b = (f"%e{self.chooser.integer(0, 1)}" for _ in range(3))
        choices = (
            f"add.f64 {d}, {a}, {b};", f"mul.f64 {d}, {a}, {b};", f"fma.rn.f64 {d}, {a}, {b}, {a};",
            f"sub.f64 {d}, {a}, 0d3FF8000000000000;", f"max.f64 {d}, {a}, {b};", f"div.rn.f64 {d}, {a}, {b};",
        )  # fmt: skip
        return self.guard(self.pick(choices))

    def halves(self) -> str:
        d, a, b = (f"%h{self.chooser.integer(0, 2)}" for _ in range(3))
        choices = (
            f"add.u16 {d}, {a}, {b};", f"mul.lo.u16 {d}, {a}, {b};", f"shr.s16 {d}, {a}, 3;", f"sub.s16 {d}, {a}, 7;",
            f"max.s16 {d}, {a}, {b};", f"mul.wide.u16 {self.register()}, {a}, {b};", f"xor.b16 {d}, {a}, {b};",
            f"mul.wide.s16 {self.register()}, {a}, 4;", f"mov.u16 {d}, {a};",
        )  # fmt: skip
        return self.guard(self.pick(choices))

    def conversion(self) -> str:
        r, f, d, h = self.register(), self.chooser.integer(0, 3), self.chooser.integer(0, 3), self.chooser.integer(0, 2)
        choices = (
            f"cvt.rn.f32.s32 %f{f}, {r};", f"cvt.rn.f32.u32 %f{f}, {r};", f"cvt.rzi.s32.f32 {r}, %f{f};",
            f"cvt.rni.u32.f32 {r}, %f{f};", f"cvt.u32.u64 {r}, %d{d};", f"cvt.s64.s16 %d{d}, %h{h};",
            f"cvt.u16.u32 %h{h}, {r};", f"cvt.s32.s16 {r}, %h{h};", f"cvt.s32.s8 {r}, {r};", f"cvt.sat.u8.s32 {r}, {r};",
            f"cvt.rn.f64.u64 %e{d % 2}, %d{d};", f"cvt.rzi.u64.f64 %d{d}, %e{d % 2};", f"cvt.f64.f32 %e{d % 2}, %f{f};",
            f"cvt.rn.f32.f64 %f{f}, %e{d % 2};", f"cvt.u32.u16 {r}, %h{h};",
        )  # fmt: skip
        return self.guard(self.pick(choices))

    def predicates(self) -> str:
        if self.chance(50):
            return self.guard(
                f"{self.pick(('and', 'or', 'xor'))}.pred {self.predicate()}, {self.predicate()}, {self.predicate()};"
            )
        return self.test(self.predicate())

    def selection(self) -> str:
        choices = (
            f"selp.b32 {self.register()}, {self.word()}, {self.word()}, {self.predicate()};",
            f"selp.f32 %f{self.chooser.integer(0, 3)}, %f0, %f1, {self.predicate()};",
            f"slct.u32.s32 {self.register()}, {self.word()}, {self.word()}, {self.register()};",
            f"selp.b64 %d0, %d1, %d2, {self.predicate()};",
        )
        return self.guard(self.pick(choices))

    # -------------------------------------------------------------- memory

    def load(self) -> str:
        """From the input: consecutive, strided, backwards, anywhere; of several widths."""
        kind = self.chooser.integer(0, 6)
        r = self.register()
        if kind == 0:
            return self.guard(f"ld.global.u32 {r}, [%a13+{4 * self.pick((0, 1, 3, 16, 100))}];")
        if kind == 1:  # base + stride * linear index
            stride, base = self.pick(((2, 0), (3, 5), (4, 0), (1, 700), (-1, 1900), (-2, 2000)))
            return (
                f"mad.lo.s32 %s4, %x10, {stride}, {base}; mul.wide.s32 %a15, %s4, 4; add.s64 %a15, %a0, %a15;"
                + self.guard(f"ld.global.u32 {r}, [%a15];")
            )
        if kind == 2:
            size, register = self.pick((("v2", "{%r0, %r5}"), ("v4", "{%r1, %r2, %r3, %r6}")))
            scale = 8 if size == "v2" else 16
            index = self.pick(("%x10", "%x8", "%x1", "%x2"))
            return f"and.b32 %s4, {index}, 127; mul.wide.u32 %a15, %s4, {scale}; add.s64 %a15, %a0, %a15;" + self.guard(
                f"ld.global.{size}.u32 {register}, [%a15];"
            )
        if kind == 3:
            suffix, scale = self.pick((("u8", 1), ("s8", 1), ("u16", 2), ("s16", 2)))
            index = self.pick(("%x10", r, "%x2"))
            return (
                f"and.b32 %s4, {index}, {WORDS - 1}; mul.wide.u32 %a15, %s4, {scale}; add.s64 %a15, %a0, %a15;"
                + self.guard(f"ld.global.{suffix} {self.register()}, [%a15];")
            )
        if kind == 4:  # a place that all lanes, or a row of them, share
            index = self.pick(("%x0", "%x4", "%x2", "%x3"))
            return f"and.b32 %s4, {index}, 127; mul.wide.u32 %a15, %s4, 4; add.s64 %a15, %a0, %a15;" + self.guard(
                f"ld.global.u32 {r}, [%a15];"
            )
        if kind == 5:
            return (
                f"and.b32 %s4, {self.register()}, {WORDS // 2 - 1}; mul.wide.u32 %a15, %s4, 8; add.s64 %a15, %a0, %a15;"
                + self.guard(f"ld.global.u64 %d{self.chooser.integer(0, 3)}, [%a15];")
            )
        return (
            f"and.b32 %s4, {self.register()}, {WORDS - 1}; mul.wide.u32 %a15, %s4, 4; add.s64 %a15, %a0, %a15;"
            + self.guard(f"ld.global.u32 {r}, [%a15];")
        )

    def store(self) -> str:
        """To words that the thread owns; and back."""
        at = OWN_START + 8 * self.chooser.integer(0, 11)
        choices = (
            f"st.global.u32 [%a5+{at}], {self.register()};", f"st.global.u64 [%a5+{at}], %d1;",
            f"st.global.u16 [%a5+{at}], %h1;", f"st.global.u8 [%a5+{at + 3}], {self.register()};",
            f"st.global.v2.u32 [%a5+{at}], {{%r1, %r5}};", f"ld.global.u32 {self.register()}, [%a5+{at}];",
            f"ld.global.u8 {self.register()}, [%a5+{at + 1}];", f"ld.global.s16 {self.register()}, [%a5+{at + 2}];",
        )  # fmt: skip
        return self.guard(self.pick(choices))

    def own_shared(self) -> str:
        choices = (
            f"st.shared.u32 [%a12], {self.register()};", f"ld.shared.u32 {self.register()}, [%a12];",
            f"ld.shared.u32 {self.register()}, [%a12+4096];", f"st.shared.u32 [%a12+4096], {self.register()};",
        )  # fmt: skip
        return self.guard(self.pick(choices))

    def local(self) -> str:
        at = 4 * self.chooser.integer(0, 7)
        choices = (
            f"st.local.u32 [%a14+{at}], {self.register()};",
            f"ld.local.u32 {self.register()}, [%a14+{at}];",
            f"and.b32 %s4, {self.register()}, 7; mul.wide.u32 %a15, %s4, 4; add.s64 %a15, %a14, %a15; ld.local.u32 {self.register()}, [%a15];",
            f"and.b32 %s4, {self.register()}, 7; mul.wide.u32 %a15, %s4, 4; add.s64 %a15, %a14, %a15; st.local.u32 [%a15], {self.register()};",
        )
        return self.pick(choices)

    def reduction(self) -> str:
        """On cells that all threads share: one commutative operation for each."""
        operation = self.chooser.integer(0, 5)
        name = ("add.u32", "min.u32", "max.s32", "and.b32", "or.b32", "xor.b32")[operation]
        base = 4 * CELLS * operation
        if self.chance(50):
            return self.guard(
                f"red.global.{name} [%a4+{base + 4 * self.chooser.integer(0, CELLS - 1)}], {self.register()};"
            )
        return (
            f"and.b32 %s4, {self.register()}, {CELLS - 1}; mul.wide.u32 %a15, %s4, 4; add.s64 %a15, %a4, %a15;"
            + self.guard(f"red.global.{name} [%a15+{base}], {self.register()};")
        )

    def call(self) -> str:
        """A device function, with a loop and two ways out of its own."""
        return (
            "{ .param .b32 a; .param .b32 b; .param .b32 c; "
            f"st.param.b32 [a], {self.register()}; st.param.b32 [b], {self.register()}; "
            f"call (c), mix, (a, b); ld.param.b32 {self.register()}, [c]; }}"
        )

    def own_atomic(self) -> str:
        name = self.pick(("add.u32", "exch.b32", "max.u32", "inc.u32", "dec.u32", "xor.b32"))
        where = self.pick(("global", "shared"))
        place = f"[%a5+{OWN_START + 8 * self.chooser.integer(0, 11)}]" if where == "global" else "[%a12]"
        return self.guard(f"atom.{where}.{name} {self.register()}, {place}, {self.register()};")

    # -------------------------------------------------------------- between threads

    def exchange(self) -> str:
        """Everyone writes a word, all wait, everyone reads another's."""
        shift = self.pick((1, 2, 5, 16, 31, 33))
        other = f"add.u32 %s5, %x8, {shift}; rem.u32 %s5, %s5, %x9;"
        if self.chance(30):
            other = "sub.u32 %s5, %x9, %x8; sub.u32 %s5, %s5, 1;"
        return (
            f"mul.wide.u32 %a16, %x8, 4; add.s64 %a16, %a10, %a16; st.shared.u32 [%a16], {self.register()}; bar.sync 0;"
            f"{other} mul.wide.u32 %a17, %s5, 4; add.s64 %a17, %a10, %a17; ld.shared.u32 {self.register()}, [%a17]; bar.sync 0;"
        )

    def warp(self) -> str:
        d, a = self.register(), self.register()
        whole = self.block[0] * self.block[1] * self.block[2] % 32 == 0 and not self.returns
        votes = (
            f"vote.sync.ballot.b32 {d}, {self.truth()}, 0xffffffff;",
            f"vote.sync.{self.pick(('any', 'all', 'uni'))}.pred {self.predicate()}, {self.truth()}, 0xffffffff;",
            f"redux.sync.{self.pick(('add.u32', 'min.s32', 'max.u32', 'xor.b32', 'and.b32', 'or.b32'))} {d}, {a}, 0xffffffff;",
            f"vote.sync.ballot.b32 %s6, {(p := self.predicate())}, 0xffffffff; @!{p} bra SKIP; "
            f"vote.sync.any.pred %t0, {self.predicate()}, %s6; selp.b32 {d}, 1, {a}, %t0; SKIP:",
        )
        if not whole:
            return self.pick(votes)
        mode = self.pick(("up", "down", "bfly", "idx"))
        clamp = self.pick(("0", "31", "0x1f", "0x181f", "0x1c1f", "0x1c00"))
        lane = self.pick((str(self.chooser.integer(0, 31)), self.register()))
        second = self.pick(("", "|" + self.predicate()))
        return self.pick((*votes, *[f"shfl.sync.{mode}.b32 {d}{second}, {a}, {lane}, {clamp}, 0xffffffff;"] * 4))

    # -------------------------------------------------------------- control flow

    def block_of(self, size: int, depth: int, *, uniform: bool, in_loop: bool) -> tuple[Statement, ...]:
        return tuple(
            self.statement(depth, uniform=uniform, in_loop=in_loop) for _ in range(self.chooser.integer(0, size))
        )

    def statement(self, depth: int, *, uniform: bool, in_loop: bool) -> Statement:
        kind = self.chooser.integer(0, 99)
        if kind < 60 or depth == 0:
            return self.line(uniform)
        if kind < 76:
            return self.branch(depth, uniform=uniform, in_loop=in_loop)
        if kind < 90:
            return self.loop(depth, uniform=uniform)
        if kind < 93 and self.returns:
            return Line(f"@{self.truth()} bra DONE;" if self.chance(50) else f"@{self.truth()} ret;")
        if kind < 97 and in_loop and not uniform:
            return Line(f"@{self.truth()} bra {self.pick(('BREAK', 'NEXT'))};")
        return self.tangle(depth) if self.chance(50) else self.line(uniform)

    def branch(self, depth: int, *, uniform: bool, in_loop: bool) -> Statement:
        stays = uniform and self.chance(40)
        self.counters += 1
        predicate = "%t1" if stays else self.predicate()
        setup = ""
        if stays:
            setup = f"setp.{self.pick(('lt', 'eq', 'ge'))}.u32 %t1, %x{self.pick((0, 4))}, {self.pick((0, 1, 2, 3))};"
        elif self.chance(60):
            setup = self.test(predicate)
        condition = ("!" if self.chance(30) else "") + predicate
        then = self.block_of(5, depth - 1, uniform=stays, in_loop=in_loop)
        otherwise = self.block_of(4, depth - 1, uniform=stays, in_loop=in_loop) if self.chance(60) else ()
        return If(setup, condition, then, otherwise)

    def loop(self, depth: int, *, uniform: bool) -> Statement:
        stays = uniform and self.chance(50)
        self.counters += 1
        counter = f"%c{self.counters % 200}"
        source = self.pick(("%x0", "%x4")) if stays else self.pick((self.register(), "%x1", "%x8"))
        setup = f"and.b32 {counter}, {source}, {self.pick((1, 3, 3, 5, 7))};"
        return Loop(setup, counter, self.block_of(5, depth - 1, uniform=stays, in_loop=True))

    def tangle(self, depth: int) -> Statement:
        count = self.chooser.integer(2, 5)
        blocks = []
        for _ in range(count):
            body = tuple(self.line(uniform=False) for _ in range(self.chooser.integer(0, 3)))
            predicate = self.predicate()
            setup = self.test(predicate) if self.chance(70) else ""
            blocks.append((body, setup, predicate, self.chooser.integer(0, count), self.chooser.integer(0, count)))
        fuel = f"and.b32 FUEL, {self.register()}, 7; add.u32 FUEL, FUEL, {self.chooser.integer(0, 6)};"
        return Tangle(fuel, self.chooser.integer(0, count - 1), tuple(blocks))


def make_program(chooser: Chooser, *, size: int = 12, depth: int = 3) -> Program:
    """A program; `size` bounds its outermost statements and `depth` their nesting."""

    def pick(options: Sequence[T]) -> T:
        return options[chooser.integer(0, len(options) - 1)]

    block = pick(SHAPES)
    barriers = pick(("none", "uniform", "uniform", "divergent", "divergent", "warp"))
    returns = chooser.integer(0, 2) == 0
    # Lanes at a block barrier and lanes at a warp-level instruction would wait for each other.
    warps = pick((False, True)) and barriers not in ("divergent", "warp")
    maker = _Maker(chooser, barriers, returns, warps, block)
    statements = tuple(maker.statement(depth, uniform=True, in_loop=False) for _ in range(chooser.integer(1, size)))
    grid = pick(((1, 1, 1), (2, 1, 1), (3, 1, 1)))
    return Program(statements, grid, block, chooser.integer(0, 4), chooser.integer(0, 1 << 16))
