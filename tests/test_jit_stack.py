"""The stack of calls: CUDA's limit for it, module-scope ``.local`` variables in functions, and ``%gridid``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jit_harness import TARGETS, Case, check, kernel, run_interpreter, run_jit

import zcuda_async as zc

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
RECURSIVE = f"""{HEAD}
.visible .func (.param .b32 result) depth(.param .b32 n)
{{
.local .align 8 .b8 frame[48];
.reg .pred %p<2>; .reg .b32 %r<6>; .reg .b64 %d<2>;
ld.param.u32 %r1, [n];
st.local.u32 [frame+40], %r1;
setp.eq.u32 %p1, %r1, 0;
mov.u32 %r2, 0;
@%p1 bra OUT;
sub.u32 %r3, %r1, 1;
call (%r2), depth, (%r3);
ld.local.u32 %r4, [frame+40];
sub.u32 %r4, %r4, %r3;
add.u32 %r2, %r2, %r4;
OUT:
st.param.b32 [result], %r2;
ret;
}}
.visible .entry k(.param .u64 out, .param .u32 n)
{{
.reg .b32 %r<4>; .reg .b64 %d<4>;
ld.param.u64 %d1, [out]; ld.param.u32 %r1, [n];
mov.u32 %r3, %tid.x; and.b32 %r2, %r3, 1; sub.u32 %r1, %r1, %r2;
call (%r1), depth, (%r1);
mul.wide.u32 %d2, %r3, 4; add.u64 %d1, %d1, %d2;
st.global.u32 [%d1], %r1;
ret;
}}
"""
FRAME = 64
"""Bytes that a call of ``depth`` takes: its variables, and 16."""

STACK_ERROR = r"^cudaErrorHardwareStackError \(714\): .*PTX line"


async def deepest(device: zc.Device, depth: int, block: int = 40) -> Any:
    out = np.zeros(block, np.uint32)
    function = await device.load_ptx(RECURSIVE).get_kernel("k")
    async with device.create_stream() as stream:
        buffer = device.allocate(out.nbytes)
        stream.launch(function, zc.LaunchConfig(grid=1, block=block), buffer, depth)
        await stream.memcpy(out, buffer)
    return out


def steps(depth: int, block: int = 40) -> list[int]:
    return [depth - t % 2 for t in range(block)]


@pytest.mark.anyio
@pytest.mark.parametrize(("executor", "stack_bytes"), [("pool", 256 << 10), ("inline", 32 << 10)])
async def test_calls_fit_the_stack_limit(executor: str, stack_bytes: int) -> None:
    """A thread of the host has less of a native stack than a worker: what a call takes there depends on the processor."""
    async with zc.open_device(0, workers=1, executor=executor) as device:
        most = 1024 // FRAME - 1
        assert (await deepest(device, most)).tolist() == steps(most)
        device.limits = zc.DeviceLimits(stack_bytes=stack_bytes)
        most = stack_bytes // FRAME - 1
        assert (await deepest(device, most)).tolist() == steps(most)


@pytest.mark.anyio
@pytest.mark.parametrize(("stack_bytes", "depth"), [(1024, 16), (1024, 1 << 20), (8 << 10, 128), (1 << 40, 1 << 30)])
async def test_calls_beyond_the_stack_limit_are_a_sticky_error(stack_bytes: int, depth: int) -> None:
    """Also where the limit is more than there is."""
    async with zc.open_device(0, workers=1, limits=zc.DeviceLimits(stack_bytes=stack_bytes)) as device:
        with pytest.raises(zc.CudaError, match=STACK_ERROR):
            await deepest(device, depth)
        with pytest.raises(zc.CudaError, match=STACK_ERROR):
            device.allocate(4)
        await device.reset()
        assert (await deepest(device, 10)).tolist() == steps(10)


# ---------------------------------------------------------------------- .local variables of the module

SHARED_LOCALS = """
.local .align 8 .b8 log[32];
.local .align 4 .u32 top;
.func note(.param .b32 value)
{
.reg .b32 %r<4>; .reg .b64 %d<4>; .reg .pred %p<2>;
ld.local.u32 %r1, [top]; ld.param.u32 %r2, [value];
mov.u64 %d1, log; cvta.local.u64 %d1, %d1; mul.wide.u32 %d2, %r1, 4; add.u64 %d1, %d1, %d2;
st.u32 [%d1], %r2;
add.u32 %r1, %r1, 1; st.local.u32 [top], %r1;
setp.lt.u32 %p1, %r2, 10; @%p1 bra OUT;
mul.hi.u32 %r3, %r2, 0x1999999a;
call note, (%r3);
OUT:
ret;
}
.global .u64 table[1] = {note};
"""


@pytest.mark.parametrize("pointer", [False, True])
@pytest.mark.parametrize("parts", [None, 1, 2])
def test_local_variables_of_the_module_are_one_for_all_functions(pointer: bool, parts: int | None) -> None:
    target = "ld.global.u64 %d20, [table]; call %d20, (%r20), proto;" if pointer else "call note, (%r20);"
    body = f"""
    proto: .callprototype _ (.param .b32 value);
    mov.u32 %r21, 0; st.local.u32 [top], %r21;
    mul.lo.u32 %r20, %r6, 37; mov.u64 %d21, 0;
    setp.eq.u32 %p1, %r6, 5; @%p1 bra SUM;
    {target}
    call note, (%r6);
    SUM:
    ld.local.u32 %r22, [top]; cvt.u64.u32 %d10, %r22;
    ld.local.u32 %r23, [log]; ld.local.u32 %r24, [log+4]; setp.eq.u32 %p2, %r22, 0; @%p2 bra END;
    mad.wide.u32 %d10, %r23, 1000, %d10; setp.lt.u32 %p2, %r22, 2; @%p2 bra END;
    mul.wide.u32 %d11, %r24, 10000000; add.u64 %d10, %d10, %d11;
    """
    arrays = [np.zeros(1, np.uint64), np.zeros(80, np.uint64)]
    case = Case(kernel(body, before=SHARED_LOCALS), arrays, block=(40, 1, 1), grid=(2, 1, 1))
    want = run_interpreter(case, strict=False)[1]

    def notes(value: int) -> list[int]:
        return [value, *(notes(value // 10) if value >= 10 else [])]

    for t in range(40):
        log = [] if t == 5 else [*notes(t * 37), *notes(t)]
        assert want[t] == (len(log) + log[0] * 1000 + log[1] * 10**7 if log else 0)
    for target_name in TARGETS:
        np.testing.assert_array_equal(run_jit(case, target_name, parts)[1], want)


# ---------------------------------------------------------------------- launches have numbers

GRID_ID = kernel("mov.u64 %d10, %gridid;")


def test_the_first_launch_of_the_interpreter_has_number_one() -> None:
    check(Case(GRID_ID, [np.zeros(1, np.uint64), np.zeros(32, np.uint64)]))


@pytest.mark.anyio
@pytest.mark.parametrize("executor", ["pool", "inline"])
async def test_every_launch_has_another_number(executor: str) -> None:
    numbers = np.zeros((5, 64), np.uint64)
    async with zc.open_device(0, executor=executor) as device:
        function = await device.load_ptx(GRID_ID).get_kernel("k")
        async with device.create_stream() as one, device.create_stream() as other:
            buffers = [device.allocate(numbers[0].nbytes) for _ in numbers]
            for index, buffer in enumerate(buffers):
                stream = one if index % 2 else other
                stream.launch(function, zc.LaunchConfig(grid=2, block=32), buffer, buffer)
            await device.sync()
            for row, buffer in zip(numbers, buffers, strict=True):
                await one.memcpy(row, buffer)
    assert (numbers == numbers[:, :1]).all()
    firsts = numbers[:, 0].tolist()
    assert sorted(set(firsts)) == firsts
    assert firsts[0] > 0


# ---------------------------------------------------------------------- large frames

LARGE = """
.local .align 8 .b8 buffer[{size}];
mul.wide.u32 %d11, %r6, 4096; and.b64 %d11, %d11, {mask}; mov.u64 %d12, buffer; add.u64 %d12, %d12, %d11;
st.local.u64 [%d12], %d2; st.local.u64 [buffer+{last}], %d0;
{barrier}
ld.local.u64 %d10, [%d12]; ld.local.u64 %d13, [buffer+{last}]; sub.u64 %d13, %d13, %d0; add.u64 %d10, %d10, %d13;
"""


def large(size: int, barrier: str = "") -> str:
    return kernel(LARGE.format(size=size, mask=size // 2 - 1, last=size - 8, barrier=barrier))


@pytest.mark.anyio
@pytest.mark.parametrize("barrier", ["", "bar.sync 0;"])
async def test_threads_have_as_much_local_memory_as_there_is(barrier: str) -> None:
    """Half a megabyte each, as on a GPU, if not all threads of a large block wait for each other."""
    block = 128 if not barrier else 64
    out = np.zeros(block, np.uint64)
    async with zc.open_device(0, workers=1) as device, device.create_stream() as stream:
        function = await device.load_ptx(large(512 << 10, barrier)).get_kernel("k")
        buffer = device.allocate(out.nbytes)
        stream.launch(function, zc.LaunchConfig(grid=1, block=block), buffer, buffer)
        await stream.memcpy(out, buffer)
        np.testing.assert_array_equal(out, np.arange(block) * 8)
        too_much = await device.load_ptx(large(4 << 20, barrier)).get_kernel("k")
        with pytest.raises(zc.CudaError, match=r"^cudaErrorLaunchOutOfResources \(701\)"):
            await stream.launch(too_much, zc.LaunchConfig(grid=1, block=64), buffer, buffer)
        await device.reset()
