"""Accesses by which threads meet: what the processor is told, and 128 bits of them."""

from __future__ import annotations

import re

import numpy as np
import pytest
from jit_harness import TARGETS, Case, check, kernel, object_code, target

from zcuda_async.jit.compile import generate_ir
from zcuda_async.jit.pipeline import optimise
from zcuda_async.ptx import PtxError

PLACES = {"one place": "%d0", "in a row": "%d30", "here and there": "%d31"}
ADDRESSES = """
mad.wide.u32 %d30, %r6, 16, %d0; mul.lo.u32 %r30, %r6, 7; and.b32 %r30, %r30, 63; mad.wide.u32 %d31, %r30, 16, %d0;
"""


def case(body: str, *, before: str = "") -> Case:
    text = kernel(ADDRESSES + body, before=before, registers=".reg .b128 %q<2>;")
    return Case(text, [np.arange(256, dtype=np.uint64), np.zeros(64, np.uint64)], block=(40, 1, 1))


def arm_code(body: str) -> str:
    ir, suspends, _ = generate_ir(case(body).text, "<test>", "k", (40, 1, 1), target=target("arm"))
    module, machine = optimise(ir, target("arm"), suspends=suspends)
    return str(machine.emit_assembly(module))


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize(
    "spelling", ["st.release.gpu.global", "st.volatile.global", "st.relaxed.sys", "st.mmio.relaxed.sys"]
)
@pytest.mark.parametrize("ptx_type", ["u32", "f32"])
def test_stores_release_on_arm(where: str, spelling: str, ptx_type: str) -> None:
    constant = "0f3F800000" if ptx_type == "f32" else "77"
    code = arm_code(f"{spelling}.{ptx_type} [{PLACES[where]}], {constant};")
    assert re.search(r"\bstlr\s+w", code)


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("spelling", ["ld.acquire.gpu.global", "ld.volatile.global", "ld.relaxed.sys"])
def test_loads_acquire_on_arm(where: str, spelling: str) -> None:
    code = arm_code(f"{spelling}.u32 %r20, [{PLACES[where]}]; cvt.u64.u32 %d10, %r20;")
    assert re.search(r"\bldar\s+w", code)


@pytest.mark.parametrize("spelling", ["fence.acq_rel.gpu", "fence.sc.cta", "membar.gl"])
def test_fences_are_fences_on_arm(spelling: str) -> None:
    assert re.search(r"\bdmb\s+ish\b", arm_code(f"{spelling};"))


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("access", ["st.volatile.global.b128 [{}], %q0;", "ld.acquire.gpu.b128 %q1, [{}];"])
def test_processors_without_wide_atomics_refuse_them(where: str, access: str) -> None:
    body = "mov.b128 %q0, {%d2, %d2}; " + access.format(PLACES[where])
    with pytest.raises(PtxError, match=r"error: (st|ld): this processor cannot access 128 bits atomically\n"):
        object_code(case(body), "sse2")


@pytest.mark.parametrize("where", ["one place", "in a row"])
def test_shared_memory_has_wide_ordered_accesses_everywhere(where: str) -> None:
    address = {"one place": "%d20", "in a row": "%d21"}[where]
    body = f"""
    mov.u64 %d20, words; mad.wide.u32 %d21, %r6, 16, %d20; add.s64 %d22, %d2, 5; mov.u64 %d23, 9; mov.u64 %d24, 8;
    mov.b128 %q0, {{{"%d22, %d2" if where == "in a row" else "%d23, %d24"}}}; st.volatile.shared.b128 [{address}], %q0;
    ld.volatile.shared.b128 %q1, [{address}]; mov.b128 {{%d11, %d12}}, %q1; mad.lo.s64 %d10, %d11, 1000, %d12;
    """
    check(case(body, before=".shared .align 16 .b8 words[640];"), targets=TARGETS, parts=(1, 4))


@pytest.mark.parametrize("where", PLACES)
def test_wide_ordered_accesses_agree_where_there_are_any(where: str) -> None:
    body = f"""
    ld.relaxed.gpu.global.b128 %q1, [{PLACES["one place"]}+1024]; mov.b128 {{%d11, %d12}}, %q1;
    mov.b128 %q0, {{%d11, %d12}}; st.relaxed.gpu.global.b128 [{PLACES[where]}], %q0; add.s64 %d10, %d11, %d12;
    """
    check(case(body), targets=[name for name in TARGETS if target(name).has_wide_atomics], parts=(1,))
