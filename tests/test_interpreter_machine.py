"""The interpreter's threads: barriers, exchanges between lanes, memory, calls, and what it reports."""

from __future__ import annotations

import ctypes
import struct

import numpy as np
import pytest

from zcuda_async.interpreter import (
    DeadlockError,
    Interpreter,
    InterpreterError,
    MemoryFaultError,
    ProcessMemory,
    RegionMemory,
    TrapError,
    UndefinedRegisterError,
)
from zcuda_async.ptx import parse

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"
DECLARATIONS = ".reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %d<16>; .reg .f32 %f<4>;"
OWN = "mov.u32 %r0, %tid.x; ld.param.u64 %d0, [out]; mad.wide.u32 %d1, %r0, 4, %d0;"
BASE = 0x10000


def run(
    body: str, threads: int = 32, *, before: str = "", step_limit: int | None = 10_000, strict: bool = True
) -> list[int]:
    """Run a block; what its threads stored to their own words, ``[%d1]``."""
    text = f"{HEAD}{before}.visible .entry k(.param .u64 out) {{ {DECLARATIONS} {OWN}\n{body}\nret; }}"
    data = bytearray(4 * threads)
    memory = RegionMemory([(BASE, data)])
    Interpreter(parse(text, "t.ptx")).launch(
        "k", (1, 1, 1), (threads, 1, 1), struct.pack("<Q", BASE), memory, step_limit=step_limit, strict=strict
    )
    return [int(word) for word in np.frombuffer(bytes(data), np.uint32)]


STORE = "st.global.u32 [%d1], %r1;"
SHARED = ".shared .align 4 .b8 s[512]; mov.u64 %d2, s; mad.wide.u32 %d3, %r0, 4, %d2;"


def test_a_barrier_lets_every_thread_see_what_the_others_stored() -> None:
    body = "sub.u32 %r2, 63, %r0; mad.wide.u32 %d4, %r2, 4, %d2; ld.shared.u32 %r1, [%d4];"
    assert run(f"{SHARED} st.shared.u32 [%d3], %r0; bar.sync 0; {body} {STORE}", 64) == list(range(63, -1, -1))


def test_threads_that_have_exited_do_not_hold_up_a_barrier() -> None:
    body = f"setp.lt.u32 %p0, %r0, 5; @%p0 exit; bar.sync 0; mov.u32 %r1, 7; {STORE}"
    assert run(body, 40) == [0] * 5 + [7] * 35


def test_different_barrier_instructions_meet() -> None:
    body = f"mov.u32 %r1, 1; setp.lt.u32 %p0, %r0, 5; @%p0 bra A; bar.sync 0; bra B; A: bar.sync 0; B: {STORE}"
    assert run(body) == [1] * 32


def test_a_producer_arrives_and_goes_on() -> None:
    body = f"""
    {SHARED} setp.lt.u32 %p0, %r0, 32; @!%p0 bra CONSUMER;
    st.shared.u32 [%d3], %r0; bar.arrive 1, 64; bra END;
    CONSUMER: bar.sync 1, 64; ld.shared.u32 %r1, [%d3+-128]; {STORE}
    END:
    """
    assert run(body, 64)[32:] == list(range(32))


def test_barriers_count_and_combine_predicates() -> None:
    body = "setp.lt.u32 %p0, %r0, 5; bar.red.popc.u32 %r1, 0, %p0; bar.red.or.pred %p1, 0, !%p0;"
    assert run(f"{body} @%p1 add.u32 %r1, %r1, 100; {STORE}") == [105] * 32


def test_waiting_for_each_other_in_vain_is_a_deadlock() -> None:
    body = "setp.lt.u32 %p0, %r0, 5; @%p0 bra A; bar.sync 0; bra B; A: vote.sync.any.pred %p1, %p0, 0xffffffff; B:"
    with pytest.raises(
        DeadlockError, match=r"^block \(0, 0, 0\): no thread can go on; 5 at line 5: vote, 27 at line 5: bar$"
    ):
        run(body)


def test_a_thread_may_wait_for_another_in_a_loop() -> None:
    body = f"""
    .shared .align 4 .b32 flag; mov.u64 %d2, flag;
    setp.eq.u32 %p0, %r0, 31; @%p0 bra SET;
    WAIT: ld.volatile.shared.u32 %r1, [%d2]; setp.eq.u32 %p1, %r1, 0; @%p1 bra WAIT; bra END;
    SET: mov.u32 %r1, 9; st.volatile.shared.u32 [%d2], %r1;
    END: {STORE}
    """
    assert run(body, step_limit=None) == [9] * 32


def test_an_endless_loop_meets_the_step_limit() -> None:
    with pytest.raises(InterpreterError, match=r"^thread \(0, 0, 0\) has run 10000 instructions, which is the limit$"):
        run("L: bra L;")


def test_a_trap_says_where() -> None:
    with pytest.raises(TrapError, match=r"^line 5: trap: thread \(3, 0, 0\) of block \(0, 0, 0\)\n"):
        run("setp.eq.u32 %p0, %r0, 3; @%p0 trap;")


def test_a_register_that_nothing_was_written_to_is_an_error() -> None:
    with pytest.raises(UndefinedRegisterError, match=r"^register %r5 is read before it is written"):
        run("add.u32 %r1, %r5, 1;")
    assert run(f"add.u32 %r1, %r5, 1; {STORE}", strict=False) == [1] * 32


def test_a_guard_that_nothing_was_written_to_is_an_error() -> None:
    with pytest.raises(InterpreterError, match=r"^line 5: mov: guard %p3 was never written$"):
        run("@%p3 mov.u32 %r1, 1;")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("ld.global.u32 %r1, [%d1+4096];", r"^line 5: ld: no memory at 0x11000 to 0x11004\n"),
        ("ld.global.u32 %r1, [%d1+2];", r"^line 5: ld: address 0x10002 is not a multiple of 4\n"),
        (".shared .b32 s; st.shared.u32 [s+4], %r0;", r"^line 5: st: offset 0x4 of a window of 4 bytes\n"),
        ("ld.global.v4.u32 {%r1, %r2, %r3, %r4}, [%d1+4];", r"^line 5: ld: address 0x10004 is not a multiple of 16\n"),
    ],
)
def test_accesses_outside_of_memory_are_faults(body: str, message: str) -> None:
    with pytest.raises(MemoryFaultError, match=message):
        run(body)


def test_instructions_without_a_meaning_here_are_named() -> None:
    with pytest.raises(InterpreterError, match=r"^line 5: mov: not supported \(special register %pm0\)$"):
        run("mov.u32 %r1, %pm0;")


def test_a_lane_outside_of_its_own_mask_is_an_error() -> None:
    with pytest.raises(InterpreterError, match=r"^line 5: vote: lane 8 is not in its own mask 0xff$"):
        run("setp.eq.u32 %p0, %r0, 3; vote.sync.any.pred %p1, %p0, 0xff;")


def test_a_shuffle_from_a_lane_that_takes_no_part_is_an_error() -> None:
    with pytest.raises(InterpreterError, match=r"^shfl in lane 7 reads lane 8, which does not take part"):
        run("shfl.sync.down.b32 %r1, %r0, 1, 31, 0xffffffff;", 8)


def test_lanes_exchange_within_their_masks() -> None:
    body = f"""
    setp.lt.u32 %p0, %r0, 16; @%p0 bra LOW;
    redux.sync.add.u32 %r1, %r0, 0xffff0000; bra END;
    LOW: redux.sync.max.u32 %r1, %r0, 0x0000ffff;
    END: {STORE}
    """
    assert run(body) == [15] * 16 + [sum(range(16, 32))] * 16


def test_lanes_with_the_same_value_find_each_other() -> None:
    body = "and.b32 %r2, %r0, 1; match.any.sync.b32 %r1, %r2, 0xffffffff;"
    assert run(body + STORE) == [0x55555555, 0xAAAAAAAA] * 16
    body = "mov.u32 %r2, 5; match.all.sync.b32 %r1|%p0, %r2, 0xffffffff; @!%p0 mov.u32 %r1, 0;"
    assert run(body + STORE) == [0xFFFFFFFF] * 32
    body = "elect.sync %r1|%p0, 0xffffffff; @%p0 mov.u32 %r1, 77;"
    assert run(body + STORE) == [77] + [0] * 31


def test_lanes_that_stand_together_are_active_together() -> None:
    body = f"setp.lt.u32 %p0, %r0, 4; @%p0 bra A; activemask.b32 %r1; bra B; A: activemask.b32 %r1; B: {STORE}"
    assert run(body) == [0xF] * 4 + [0xFFFFFFF0] * 28


def test_the_lanes_of_a_warp_meet_at_different_barriers() -> None:
    body = (
        f"mov.u32 %r1, 3; setp.lt.u32 %p0, %r0, 4; @%p0 bra A; bar.warp.sync -1; bra B; A: bar.warp.sync -1; B: {STORE}"
    )
    assert run(body) == [3] * 32


def test_carries_go_from_one_instruction_to_the_next() -> None:
    body = """
    mov.u32 %r2, 0xFFFFFFFF; add.cc.u32 %r3, %r2, %r0; addc.cc.u32 %r4, %r2, 0; addc.u32 %r1, 0, 10;
    mad.lo.cc.u32 %r5, %r2, %r2, %r2; madc.hi.u32 %r6, %r2, %r2, 0; sub.cc.u32 %r7, %r0, 1; subc.u32 %r8, 5, 0;
    add.u32 %r1, %r1, %r6; mad.lo.u32 %r1, %r8, 1000, %r1;
    """
    assert run(body + STORE)[:3] == [4009, 5010, 5010]


def test_functions_call_each_other_and_themselves() -> None:
    before = """
    .func (.param .b32 result) factorial(.param .b32 n) {
    .reg .pred %p; .reg .b32 %r<4>; .local .b32 kept;
    ld.param.u32 %r0, [n]; st.local.u32 [kept], %r0; setp.lt.u32 %p, %r0, 2; @%p bra ONE;
    sub.u32 %r1, %r0, 1; { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), factorial, (a);
    ld.param.b32 %r2, [b]; } ld.local.u32 %r3, [kept]; mul.lo.u32 %r2, %r2, %r3; st.param.b32 [result], %r2; ret;
    ONE: st.param.b32 [result], 1; ret; }
    """
    body = "{ .param .b32 x; .param .b32 y; st.param.b32 [x], %r0; call (y), factorial, (x); ld.param.b32 %r1, [y]; }"
    assert run(body + STORE, 8, before=before) == [1, 1, 2, 6, 24, 120, 720, 5040]


def test_special_registers_know_the_launch() -> None:
    names = ("%ntid.x", "%nctaid.z", "%ctaid.y", "%laneid", "%warpid", "%lanemask_lt")
    text = HEAD + ".visible .entry k(.param .u64 out) { .reg .b32 %r<9>; .reg .b64 %d<9>; ld.param.u64 %d0, [out];"
    text += "mov.u32 %r0, %ctaid.y; mov.u32 %r1, %tid.x; mad.lo.u32 %r0, %r0, 40, %r1; mad.wide.u32 %d1, %r0, 24, %d0;"
    text += "".join(f"mov.u32 %r2, {name}; st.global.u32 [%d1+{4 * at}], %r2;" for at, name in enumerate(names)) + "}"
    data = bytearray(80 * 24)
    memory = RegionMemory([(BASE, data)])
    Interpreter(parse(text)).launch("k", (1, 2, 1), (40, 1, 1), struct.pack("<Q", BASE), memory)
    rows = np.frombuffer(bytes(data), np.uint32).reshape(80, 6)
    assert rows[0].tolist() == [40, 1, 0, 0, 0, 0]
    assert rows[73].tolist() == [40, 1, 1, 1, 1, 1]


def test_a_processes_own_memory_can_be_used() -> None:
    array = (ctypes.c_uint32 * 4)(1, 2, 3, 4)
    text = HEAD + ".visible .entry k(.param .u64 a) { .reg .b64 %d; ld.param.u64 %d, [a]; st.global.u32 [%d+8], 9; }"
    Interpreter(parse(text)).launch(
        "k", (1, 1, 1), (1, 1, 1), struct.pack("<Q", ctypes.addressof(array)), ProcessMemory()
    )
    assert list(array) == [1, 2, 9, 4]


def test_an_unknown_kernel_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="other"):
        Interpreter(parse(HEAD)).launch("other", (1, 1, 1), (1, 1, 1), b"", RegionMemory())
