"""Words with one left out between two of them: read without reading beyond the last, written without touching the others."""

from __future__ import annotations

import numpy as np
import pytest
from jit_harness import Case, check, kernel, target

from zcuda_async.jit.compile import generate_ir

IN = "mad.wide.u32 %d12, %r7, {stride}, %d0;"
KEEP = "ld.global.u64 %d10, [%d3];"
"""What is in the thread's own word of the output becomes its result: lanes must not have written to each other's."""

BODIES = {
    "32 bits": (IN + "ld.global.u32 %r10, [%d12]; cvt.u64.u32 %d10, %r10;", 8),
    "floats": (IN + "ld.global.f32 %f1, [%d12]; mov.b32 %r10, %f1; cvt.u64.u32 %d10, %r10;", 8),
    "64 bits": (IN + "ld.global.u64 %d10, [%d12];", 16),
    "doubles": (IN + "ld.global.f64 %e1, [%d12]; mov.b64 %d10, %e1;", 16),
    "16 bits": (IN + "ld.global.u16 %h1, [%d12]; cvt.u64.u16 %d10, %h1;", 4),
    "bytes of words": (IN + "ld.global.u8 %h1, [%d12]; cvt.u64.u16 %d10, %h1;", 8),
    "some lanes": (
        IN + "setp.ne.u32 %p1, %r0, 5; mov.u32 %r10, 7; @%p1 ld.global.u32 %r10, [%d12]; cvt.u64.u32 %d10, %r10;",
        8,
    ),
    "backwards": (
        "sub.s32 %r11, %r8, %r7; mad.wide.s32 %d12, %r11, {stride}, %d0; ld.global.u32 %r10, [%d12+-8]; cvt.u64.u32 %d10, %r10;",
        8,
    ),
    "stored": ("st.global.u32 [%d3+4], %r7;" + KEEP, 8),
    "stored first halves": ("st.global.u32 [%d3], %r7;" + KEEP, 8),
    "stored by some": ("and.b32 %r10, %r7, 5; setp.ne.u32 %p1, %r10, 1; @%p1 st.global.u32 [%d3+4], %r7;" + KEEP, 8),
    "stored behind a branch": (
        "setp.gt.u32 %p1, %r0, 9; @%p1 bra OVER; mul.lo.u32 %r10, %r7, 3; st.global.u32 [%d3], %r10; OVER:" + KEEP,
        8,
    ),
    "stored floats": ("cvt.rn.f32.u32 %f1, %r7; st.global.f32 [%d3+4], %f1;" + KEEP, 8),
    "one value for all": ("st.global.u32 [%d3+4], 77;" + KEEP, 8),
    "shared memory": (
        "mov.u32 %r10, tile; mad.lo.u32 %r11, %r6, 8, %r10; mad.lo.u32 %r12, %r6, 4, %r10; st.shared.u32 [%r11], %r6;"
        "st.shared.u32 [%r11+4], %r7; bar.sync 0; ld.shared.u32 %r13, [%r11]; ld.shared.u32 %r14, [%r11+4]; bar.sync 0;"
        "setp.gt.u32 %p1, %r13, 20; @%p1 st.shared.u32 [%r11+4], 5; @!%p1 st.shared.u32 [%r11], %r14; bar.sync 0;"
        "ld.shared.u32 %r15, [%r12]; mad.lo.u32 %r13, %r13, 1000, %r14; xor.b32 %r13, %r13, %r15; cvt.u64.u32 %d10, %r13;",
        8,
    ),
}


@pytest.mark.parametrize("block", [(64, 1, 1), (37, 1, 1), (16, 4, 1), (8, 8, 1)])
@pytest.mark.parametrize("name", BODIES)
def test_every_other_word(name: str, block: tuple[int, int, int]) -> None:
    body, stride = BODIES[name]
    threads = block[0] * block[1] * block[2]
    size = {"u64": 8, "f64": 8, "u16": 2, "u8": 1}.get(body.partition("ld.global.")[2][:3].rstrip(" %"), 4)
    values = np.random.default_rng(3).integers(1, 255, (threads - 1) * stride + size).astype(np.uint8)
    text = kernel(body.format(stride=stride), before=".shared .align 16 .b8 tile[1024];")
    check(Case(text, [values, np.arange(threads, dtype=np.uint64) << np.uint64(20)], block=block), parts=(None, 1, 4))


def test_no_gather_and_no_scatter() -> None:
    body = BODIES["32 bits"][0].format(stride=8) + "st.global.u32 [%d3+4], %r10;"
    ir, _, _ = generate_ir(kernel(body), "<test>", "k", (64, 1, 1), target=target("host"))
    assert "gather" not in ir
    assert "scatter" not in ir
