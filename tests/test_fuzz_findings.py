"""What mutated PTX has brought to light (see tests/fuzz): each test is for the whole kind."""

from __future__ import annotations

from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest
from jit_harness import TARGETS, Case, check, kernel, run_jit, target

import zcuda_async as zc
from zcuda_async.jit.compile import generate_ir, inspect_module
from zcuda_async.jit.info import ModuleInfo
from zcuda_async.module import decode_ptx
from zcuda_async.ptx import PtxError
from zcuda_async.ptx.linker import join_texts, split_texts

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
HUGE = 1 << 40


# ---------------------------------------------------------------------- registers that nothing has written


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize(
    "body",
    [
        "shl.b32 %r20, 7, %r50; add.u32 %r20, %r20, %r51;",
        "prmt.b32 %r20, 7, 0, %r50; and.b32 %r20, %r20, 255;",
        "add.u32 %r20, %r50, 7;",
        "selp.u32 %r20, 8, 7, %p9;",
        "mov.u32 %r20, 7; @%p9 bra AWAY; bra STAY; AWAY: mov.u32 %r20, 8; STAY:",
        "mov.u32 %r20, 7; @%p9 mov.u32 %r20, 8;",
        "cvt.rzi.u32.f32 %r20, %f9; add.u32 %r20, %r20, 7;",
        "mov.b64 {%r20, %r21}, %d50; add.u32 %r20, %r20, 7;",
    ],
)
def test_a_register_written_nowhere_is_zero(body: str, name: str) -> None:
    text = kernel(f"{body} cvt.u64.u32 %d10, %r20;")
    assert (run_jit(Case(text, [np.zeros(8, np.uint64), np.zeros(32, np.uint64)]), name)[1] == 7).all()


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("varies", ["%r2", "%r0"])
def test_a_register_written_on_another_path_only_is_zero(varies: str, name: str) -> None:
    """LLVM would take a branch on an unwritten value for one that cannot be reached, and drop what follows."""
    body = f"""
        setp.gt.u32 %p1, {varies}, 40; @%p1 bra SET; bra READ;
        SET: setp.eq.u32 %p2, {varies}, 41; mov.u32 %r20, {varies};
        READ: @%p2 bra AWAY; add.u32 %r21, %r20, 7; bra STAY; AWAY: mov.u32 %r21, 9; STAY: cvt.u64.u32 %d10, %r21;
    """
    case = Case(kernel(body), [np.zeros(8, np.uint64), np.zeros(32, np.uint64)])
    assert (run_jit(case, name)[1] == 7).all()


# ---------------------------------------------------------------------- integers in registers for floats


@pytest.mark.parametrize(
    "body",
    [
        "mov.b32 %f1, %r0; mov.b32 %r20, %f1; cvt.u64.u32 %d10, %r20;",
        "mov.b32 %f1, %r0; mul.f32 %f2, %f1, 0f4B800000; mov.b32 %r20, %f2; cvt.u64.u32 %d10, %r20;",
        "mov.b32 %f1, %r0; setp.lt.u32 %p1, %r0, 9; @%p1 mov.f32 %f1, 0f3F800000; mov.b32 %r20, %f1;"
        " cvt.u64.u32 %d10, %r20;",
        "cvt.u64.u32 %d20, %r0; mov.b64 %e1, %d20; setp.lt.u32 %p1, %r0, 9; selp.f64 %e2, %e1, 0d3FF0000000000000, %p1;"
        " mov.b64 %d10, %e2;",
        "cvt.u64.u32 %d20, %r0; mul.lo.u64 %d20, %d20, 4503599627370496; mov.b64 %e1, %d20; sqrt.rn.f64 %e2, %e1;"
        " mov.b64 %d10, %e2;",
    ],
)
def test_thread_numbers_as_floats(body: str) -> None:
    check(Case(kernel(body), [np.zeros(8, np.uint64), np.zeros(64, np.uint64)], block=(64, 1, 1)))


# ---------------------------------------------------------------------- loops that wait for another thread


@pytest.mark.parametrize("wait", ["ld.volatile.global.u32 %r20, [%d0];", "atom.global.or.b32 %r20, [%d0], 0;"])
@pytest.mark.parametrize(
    "after",
    [
        "",
        "setp.lt.u32 %p2, %r0, 7; @%p2 bra L1; add.u32 %r21, %r21, 1; L1:",
        "bar.sync 0;",
        "bar.sync 1, 64;",
        "bar.warp.sync -1;",
        "L2: ld.volatile.global.u32 %r20, [%d0+8]; setp.eq.u32 %p1, %r20, 0; @%p1 bra L2;",
        "bar.sync 0; L3: ld.volatile.global.u32 %r20, [%d20]; setp.eq.u32 %p1, %r20, 0; @%p1 bra L3;",
    ],
)
def test_all_lanes_wait_for_one_word(wait: str, after: str) -> None:
    body = f"""
        mov.u32 %r21, 5; add.u64 %d20, %d0, %d2;
        AGAIN: {wait} setp.eq.u32 %p1, %r20, 0; @%p1 bra AGAIN;
        {after} cvt.u64.u32 %d10, %r21;
    """
    check(Case(kernel(body), [np.ones(64, np.uint64), np.zeros(64, np.uint64)], block=(64, 1, 1)), parts=(None, 1))


# ---------------------------------------------------------------------- code that not every warp runs

_DIVERGENT_MATRIX = """
    mul.wide.u32 %d20, %r0, 0; add.s64 %d20, %d20, %d0;
    ld.global.u32 %r30, [%d0+1024]; setp.lt.u32 %p1, %r0, %r30; @!%p1 bra OUT;
    {load}
    {load}
    mov.b32 %r40, %r30;
    OUT: cvt.u64.u32 %d10, %r40;
"""


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize(
    "load",
    [
        "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%x0,%x1,%x2,%x3,%x4,%x5,%x6,%x7}, [%d20], %r30;",
        "wmma.load.c.sync.aligned.row.m16n16k16.global.f16 {%x0,%x1,%x2,%x3}, [%d20], %r30;",
        "wmma.store.d.sync.aligned.row.m16n16k16.global.f16 [%d20], {%x0,%x1,%x2,%x3}, %r30;",
    ],
)
def test_what_a_skipped_matrix_operation_read_is_read_again(load: str, name: str) -> None:
    text = kernel(_DIVERGENT_MATRIX.format(load=load), registers=".reg .b32 %x<8>;")
    for parts in (None, 1, 2):
        count = None if parts is None else max(parts, 32 // target(name).lanes)
        ir, _, _ = generate_ir(text, "<test>", "k", (64, 1, 1), target=target(name), parts=count)
        llvm.parse_assembly(ir).verify()


# ---------------------------------------------------------------------- variables larger than memory


def test_the_image_ends_with_the_last_initial_value() -> None:
    info = inspect_module(HEADER + f".global .b8 a[{HUGE}]; .global .u32 b = 5; .const .b8 c[3] = {{1}};")
    assert (len(info.globals_image), info.memory_size) == (8, HUGE + 8)
    assert {v.name: (v.offset, v.size) for v in info.variables} == {"a": (8, HUGE), "b": (4, 4), "c": (0, 3)}
    assert info.globals_image == b"\1\0\0\0\5\0\0\0"
    assert ModuleInfo.from_bytes(info.to_bytes()) == info


def test_a_large_variable_with_a_few_initial_values_costs_nothing() -> None:
    info = inspect_module(HEADER + f".global .b8 a[{HUGE}] = {{1, 2}}; .global .u32 b = 5;")
    assert info.globals_image == b"\5\0\0\0\1\2"


def test_two_of_them_are_refused() -> None:
    text = HEADER + f".global .b8 a[{HUGE}] = {{1}};\n.global .b8 b[{HUGE}] = {{1}};"
    with pytest.raises(PtxError, match=r"<ptx>:5:.* variables that take more than 1073741824 bytes are not supported"):
        inspect_module(text)


@pytest.mark.pool
@pytest.mark.anyio
async def test_variables_beyond_the_image_are_zero(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZCUDA_CACHE_DIR", str(tmp_path))
    text = HEADER + ".visible .global .b8 a[3000000]; .visible .global .u32 b = 5; .visible .entry k() { ret; }"
    async with zc.open_device(0, workers=1) as device, device.create_stream() as stream:
        with device.allocate(4 << 20) as used:
            await stream.memset(used, 0xFF)
        module = device.load_ptx(text)
        got = np.ones(3_000_000, np.uint8), np.ones(1, np.uint32)
        for name, array in zip(("a", "b"), got, strict=True):
            address, size = await module.get_global(name)
            await stream.memcpy(array, address, size)
        assert not got[0].any()
        assert got[1][0] == 5
        with pytest.raises(zc.CudaError, match="cudaErrorMemoryAllocation"):
            await device.load_ptx(text.replace("3000000", str(HUGE))).get_kernel("k")


# ---------------------------------------------------------------------- what is no text

KERNEL = ".visible .entry k() { ret; }"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\0linked\0a", r"x\.ptx is not text: there is a NUL in line 1"),
        (b"\0linked\0a\0b", r"x\.ptx is not text: there is a NUL in line 1"),
        (f"{HEADER}\0{KERNEL}", r"x\.ptx is not text: there is a NUL in line 4"),
        (f"{HEADER}// \ud800\n{KERNEL}", r"x\.ptx is not text: 'utf-8' codec can't encode character '\\ud800' .*"),
        (b"\xff", r"x\.ptx is not text: 'utf-8' codec can't decode byte 0xff .*"),
    ],
)
def test_what_is_no_text_is_said_at_once(text: str | bytes, message: str) -> None:
    with pytest.raises(zc.CompileError, match=rf"^cudaErrorInvalidPtx \(218\): {message}$"):
        decode_ptx(text, "x.ptx")


def test_final_nuls_are_cut_off() -> None:
    assert decode_ptx(b"a\0\0", "x.ptx") == decode_ptx("a\0", "x.ptx") == "a"


def test_file_names_with_nuls_do_not_move_texts() -> None:
    linked = join_texts({"a\0b": HEADER + KERNEL, "c": HEADER})
    assert split_texts(linked, "<linked>") == [(r"a\0b", HEADER + KERNEL), ("c", HEADER)]
    assert [kernel.name for kernel in inspect_module(linked).kernels] == ["k"]
