"""Loads, stores and atomics of compiled kernels, in every state space, type, width and address pattern."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pytest
from jit_harness import TARGETS, Case, check, differences, kernel, run_interpreter, run_jit, sweep

BYTES = {
    **{f"{kind}{bits}": bits // 8 for kind in "bus" for bits in (8, 16, 32, 64)},
    "b128": 16,
    "f32": 4,
    "f64": 8,
}
FEW = ("u8", "s16", "b32", "f64")
ALL = tuple(name for name in BYTES if name != "b128")
LANES = {"": 1, "v2": 2, "v4": 4, "v8": 8}
SPACES = ("global", "generic", "shared", "local", "const", "param")
BLOCK = (16, 4, 1)

INDEX = {
    "one place": "mov.u32 %r20, 3;",
    "in a row": "mov.u32 %r20, %r7;",
    "every second": "mad.lo.s32 %r20, %r7, 2, 1;",
    "backwards": "sub.s32 %r20, 63, %r7;",
    "one place for each row": "mov.u32 %r20, %r1;",
    "here and there": "mul.lo.s32 %r20, %r7, 7; and.b32 %r20, %r20, 63; xor.b32 %r20, %r20, 5;",
}
"""What %r20, the index of the element that a thread accesses, is."""

DATA = np.random.default_rng(1).integers(0, 256, 1 << 15).astype(np.uint8)

COPY_TO_SHARED = """
mov.u64 %d30, words; mov.u32 %r21, %r6;
FILL: shl.b32 %r22, %r21, 3; cvt.u64.u32 %d34, %r22; add.s64 %d35, %d0, %d34; ld.global.u64 %d36, [%d35];
add.s64 %d35, %d30, %d34; st.shared.u64 [%d35], %d36; add.u32 %r21, %r21, %r8;
setp.lt.u32 %p1, %r21, 1024; @%p1 bra FILL;
bar.sync 0;
"""
COPY_TO_LOCAL = """
mov.u64 %d30, words; mov.u32 %r21, 0;
FILL: shl.b32 %r22, %r21, 3; cvt.u64.u32 %d34, %r22; add.s64 %d35, %d0, %d34; ld.global.u64 %d36, [%d35];
add.s64 %d35, %d30, %d34; st.local.u64 [%d35], %d36; add.u32 %r21, %r21, 1;
setp.lt.u32 %p1, %r21, 576; @%p1 bra FILL;
"""
SETUP = {
    "global": "mov.u64 %d30, %d0;",
    "generic": "mov.u64 %d30, %d0;",
    "shared": COPY_TO_SHARED,
    "local": COPY_TO_LOCAL,
    "const": "mov.u64 %d30, words;",
    "param": "mov.b64 %d30, words;",
}
DECLARATIONS = {
    "shared": ".shared .align 32 .b8 words[8192];",
    "local": ".local .align 32 .b8 words[4608];",
}
CONSTANTS = f".const .align 32 .b8 words[16384] = {{{', '.join(map(str, DATA[:16384]))}}};"


class PaddedCase(Case):
    """A case whose last parameter is an array of 256 bytes."""

    def pack(self, addresses: Sequence[int]) -> bytes:
        return struct.pack("<QQ", *addresses[:2]) + DATA[:256].tobytes()


def register_type(ptx_type: str) -> str:
    return f"b{max(16, BYTES[ptx_type] * 8)}"


def load_case(space: str, spelling: str, types: Sequence[str], vector: str, *, guarded: bool) -> Case:
    """Every type at every address pattern; the registers go to the output, 16 bytes for each."""
    count = LANES[vector]
    body, registers, slot = [SETUP[space], "setp.ne.u32 %p5, %r0, 5;"], [DECLARATIONS.get(space, "")], 0
    for pattern, code in INDEX.items():
        body.append(code)
        if space == "param":
            body.append("and.b32 %r20, %r20, 3;")
        if space in ("local", "shared") and pattern == "every second":
            body.append("and.b32 %r20, %r20, 127;")
        for ptx_type in types:
            size, register = BYTES[ptx_type] * count, register_type(ptx_type)
            names = [f"%x{slot + at}" for at in range(count)]
            registers += [f".reg .{register} {name};" for name in names]
            start = "{%d2, %d2}" if register == "b128" else "1"
            body += [f"mov.{register} {name}, {start};" for name in names]
            body += [f"mul.wide.s32 %d40, %r20, {size}; add.s64 %d41, %d30, %d40;"]
            to = names[0] if count == 1 else f"{{{', '.join(names)}}}"
            dotted = f".{vector}" if vector else ""
            body.append(f"{'@%p5 ' if guarded else ''}{spelling}{dotted}.{ptx_type} {to}, [%d41];")
            body += [f"st.global.{register} [%d42+{(slot + at) * 16}], {name};" for at, name in enumerate(names)]
            slot += count
    body.insert(0, f"mad.wide.u32 %d42, %r7, {slot * 16}, %d1; mov.u64 %d3, %d42;")
    params = ["align 16 .b8 words[256]"] if space == "param" else []
    before = CONSTANTS if space == "const" else ""
    text = kernel("\n".join([*body, "ret;"]), *params, registers="\n".join(registers), before=before)
    out = np.zeros(64 * slot * 16, np.uint8)
    make = PaddedCase if space == "param" else Case
    return make(text, [DATA, out, *([0] if space == "param" else [])], block=BLOCK)


def quick_types(vector: str) -> tuple[str, ...]:
    return FEW if not vector else {"v2": ("u8", "f64"), "v4": ("s16", "b32"), "v8": ("s16",)}[vector]


def named(space: str) -> str:
    return "" if space == "generic" else f".{space}"


@pytest.mark.parametrize(
    ("space", "vector"),
    [(space, vector) for space in SPACES for vector in LANES if space == "global" or vector in ("", "v2")],
)
def test_loads_agree(space: str, vector: str) -> None:
    types = quick_types(vector)
    check(
        load_case(space, f"ld{named(space)}", types, vector, guarded=vector in ("v2", "")),
        targets=("host",),
        parts=(2 if vector == "v8" else 4,),
    )


@sweep
@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("vector", LANES)
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.timeout(600)
def test_loads_of_every_type_agree_for_every_target(space: str, vector: str, guarded: bool) -> None:
    widest = 16 if space == "param" else 32  # how far parameters are aligned
    types = [name for name in ALL if BYTES[name] * LANES[vector] <= widest]
    check(load_case(space, f"ld{named(space)}", types, vector, guarded=guarded), parts=(None, 1, 4))


@pytest.mark.parametrize(
    "spelling",
    [
        "ld.global.nc",
        "ld.global.ca",
        "ld.global.L1::no_allocate.L2::128B",
        "ldu.global",
        "ld.weak.global",
        "ld.volatile.global",
        "ld.relaxed.gpu.global",
        "ld.acquire.sys.global",
        "ld.mmio.relaxed.sys.global",
    ],
)
def test_loads_with_modifiers_agree(spelling: str) -> None:
    check(load_case("global", spelling, ("u8", "f32"), "", guarded=True), targets=("host",), parts=(2,))


@pytest.mark.parametrize("space", ["shared", "generic"])
def test_ordered_loads_of_other_spaces_agree(space: str) -> None:
    check(
        load_case(space, f"ld.volatile{named(space)}", ("s16", "b64"), "v2", guarded=False),
        targets=("host",),
        parts=(2,),
    )


def test_loads_of_128_bits_agree() -> None:
    check(load_case("global", "ld.global", ["b128"], "", guarded=True), parts=(2,))


# ---------------------------------------------------------------------- stores

PERMUTATIONS = {
    "in a row": "mov.u32 %r20, %r7;",
    "every second": "mad.lo.s32 %r20, %r7, 2, 1;",
    "backwards": "sub.s32 %r20, 63, %r7;",
    "here and there": "mul.lo.s32 %r20, %r7, 7; and.b32 %r20, %r20, 63; xor.b32 %r20, %r20, 5;",
}
REGION = 64 * 2 * 32
"""Bytes of output for each store: 64 threads, every second element of at most 32 bytes."""


def store_case(space: str, spelling: str, types: Sequence[str], vector: str, *, guarded: bool) -> Case:
    """Each type by each pattern into a region of its own; shared memory is then copied out."""
    count, slot = LANES[vector], 0
    body, registers = ["setp.ne.u32 %p5, %r0, 5; mov.u64 %d30, %d1;"], []
    if space == "shared":
        registers.append(f".shared .align 32 .b8 words[{REGION}]; .reg .b64 %c<4>;")
        body.append("mov.u64 %d30, words;")
    for code in PERMUTATIONS.values():
        body.append(code)
        for ptx_type in types:
            register, size = register_type(ptx_type), BYTES[ptx_type] * count
            names = [f"%x{slot}_{at}" for at in range(count)]
            registers += [f".reg .{register} {name};" for name in names]
            body.append("mul.wide.u32 %d40, %r7, 128; add.s64 %d40, %d0, %d40;")
            body += [f"ld.global.{register} {name}, [%d40+{16 * at}];" for at, name in enumerate(names)]
            if space == "shared":
                body += _clear_shared(slot)
            body.append(f"mul.wide.s32 %d41, %r20, {size}; add.s64 %d41, %d30, %d41;")
            source = names[0] if count == 1 else f"{{{', '.join(names)}}}"
            dotted = f".{vector}" if vector else ""
            offset = 0 if space == "shared" else slot * REGION
            body.append(f"{'@%p5 ' if guarded else ''}{spelling}{dotted}.{ptx_type} [%d41+{offset}], {source};")
            if space == "shared":
                body += _copy_out(slot)
            slot += 1
    text = kernel("\n".join([*body, "ret;"]), registers="\n".join(registers))
    return Case(text, [DATA, np.zeros(slot * REGION, np.uint8)], block=BLOCK)


def _each_word(label: str, action: str) -> list[str]:
    """A loop in which each thread visits its words of shared memory; %d45 is the offset."""
    step = f"add.u32 %r30, %r30, 64; setp.lt.u32 %p6, %r30, {REGION // 8}; @%p6 bra {label};"
    return [f"mov.u32 %r30, %r6;\n{label}: mul.wide.u32 %d45, %r30, 8; {action} {step}", "bar.sync 0;"]


def _clear_shared(slot: int) -> list[str]:
    return _each_word(f"CLEAR{slot}", "add.s64 %d46, %d30, %d45; st.shared.u64 [%d46], 0;")


def _copy_out(slot: int) -> list[str]:
    copy = f"add.s64 %d46, %d30, %d45; ld.shared.u64 %d47, [%d46]; add.s64 %d46, %d1, %d45; st.global.u64 [%d46+{slot * REGION}], %d47;"
    return ["bar.sync 0;", *_each_word(f"COPY{slot}", copy)]


@pytest.mark.parametrize(
    ("space", "vector"),
    [*(("global", vector) for vector in LANES), ("generic", ""), ("shared", ""), ("shared", "v2")],
)
def test_stores_agree(space: str, vector: str) -> None:
    types = quick_types(vector)
    guarded = vector in ("", "v4")
    check(store_case(space, f"st{named(space)}", types, vector, guarded=guarded), targets=("host",), parts=(2,))


@sweep
@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("vector", LANES)
@pytest.mark.parametrize("space", ["global", "generic", "shared"])
@pytest.mark.timeout(600)
def test_stores_of_every_type_agree_for_every_target(space: str, vector: str, guarded: bool) -> None:
    types = [name for name in ALL if BYTES[name] * LANES[vector] <= 32]
    check(store_case(space, f"st{named(space)}", types, vector, guarded=guarded), parts=(1, 4))


@pytest.mark.parametrize(
    "spelling", ["st.volatile.global", "st.relaxed.gpu.global", "st.release.sys.global", "st.global.cg"]
)
def test_stores_with_modifiers_agree(spelling: str) -> None:
    check(store_case("global", spelling, ("u8", "f32"), "", guarded=True), targets=("host",), parts=(2,))


# ---------------------------------------------------------------------- atomics

OPERATIONS = (
    *(f"{name}.{ptx_type}" for name in ("and", "or", "xor", "exch") for ptx_type in ("b32", "b64")),
    *(f"{name}.{ptx_type}" for name in ("min", "max") for ptx_type in ("u32", "s32", "u64", "s64")),
    *("add.u32", "add.s32", "add.u64", "add.f32", "add.f64", "inc.u32", "dec.u32", "cas.b32", "cas.b64"),
)
COMMUTATIVE = tuple(name for name in OPERATIONS if name.partition(".")[0] not in ("exch", "cas"))


def atomic_case(opcode: str, operations: Sequence[str], space: str, *, shared_place: bool, guarded: bool) -> Case:
    """Each operation on 8 bytes of its own for every thread, or for all threads together."""
    body, registers = ["setp.ne.u32 %p5, %r0, 5;", "mov.u32 %r20, 0;" if shared_place else "mov.u32 %r20, %r6;"], []
    places = 1 if shared_place else 64
    if space == "shared":
        registers.append(f".shared .align 32 .b8 cells[{places * 8 * len(operations)}];")
    for at, operation in enumerate(operations):
        name, ptx_type = operation.split(".")
        width = BYTES[ptx_type] * 8
        registers += [f".reg .b{width} %old{at}; .reg .b{width} %a{at}; .reg .b{width} %b{at};"]
        base = "cells" if space == "shared" else "%d1"
        body.append(f"mov.u64 %d30, {base}; mad.wide.u32 %d41, %r20, {len(operations) * 8}, %d30;")
        body.append(f"mul.wide.u32 %d40, %r7, 16; add.s64 %d40, %d0, %d40; mov.b{width} %old{at}, 9;")
        body.append(
            f"ld.global.b{width} %a{at}, [%d40+{1024 * at}]; ld.global.b{width} %b{at}, [%d40+{1024 * at + 8}];"
        )
        if ptx_type[0] == "f":  # small integers, whose sums are exact in any order
            code = "f32" if width == 32 else "f64"
            body.append(f"and.b{width} %a{at}, %a{at}, 255; cvt.rn.{code}.u{width} %a{at}, %a{at};")
        if name == "cas":
            body.append(f"and.b32 %r21, %r6, 1; cvt.u{width}.u32 %a{at}, %r21;")
        if space == "shared":
            start = "bar.sync 0;" if shared_place else ""
            body.append(f"st.shared.u64 [%d41+{8 * at}], {at % 2}; {start}")
        operands = f"%a{at}, %b{at}" if name == "cas" else f"%a{at}"
        result = f"%old{at}, " if opcode == "atom" else ""
        guard = "@%p5 " if guarded else ""
        dotted = "" if space == "generic" else f".{space}"
        body.append(f"{guard}{opcode}{dotted}.{operation} {result}[%d41+{8 * at}], {operands};")
        if space == "shared":
            body.append(
                f"{start} ld.shared.u64 %d47, [%d41+{8 * at}]; mad.wide.u32 %d48, %r20, {len(operations) * 8}, %d1;"
            )
            body.append(f"st.global.u64 [%d48+{8 * at}], %d47;")
        if opcode == "atom" and not shared_place:
            body.append(f"mad.wide.u32 %d48, %r7, {len(operations) * 8}, %d1;")
            body.append(f"st.global.b{width} [%d48+{64 * 8 * len(operations) + 8 * at}], %old{at};")
    text = kernel("\n".join([*body, "ret;"]), registers="\n".join(registers))
    out = np.zeros((2, 64, len(operations)), np.uint64)
    out[0, :, ::2] = 1
    return Case(text, [DATA, out], block=BLOCK)


@pytest.mark.parametrize(
    ("space", "guarded"), [("global", False), ("global", True), ("shared", True), ("generic", False)]
)
def test_atomics_on_a_threads_own_word_agree(space: str, guarded: bool) -> None:
    check(atomic_case("atom", OPERATIONS, space, shared_place=False, guarded=guarded), targets=("host",), parts=(2,))


@pytest.mark.parametrize("space", ["global", "shared", "generic"])
@pytest.mark.parametrize("opcode", ["atom", "red"])
def test_atomics_on_one_word_of_all_threads_agree(opcode: str, space: str) -> None:
    names = [name for name in COMMUTATIVE if not name.startswith(("inc", "dec"))]
    check(atomic_case(opcode, names, space, shared_place=True, guarded=True), targets=("host",), parts=(4,))


@sweep
@pytest.mark.parametrize("opcode", ["atom", "red"])
@pytest.mark.parametrize("shared_place", [False, True])
@pytest.mark.timeout(600)
def test_atomics_agree_for_every_target(opcode: str, shared_place: bool) -> None:
    names = [name for name in COMMUTATIVE if not (shared_place and name.startswith(("inc", "dec")))]
    for space in ("global", "shared", "generic"):
        for guarded in (False, True):
            check(atomic_case(opcode, names, space, shared_place=shared_place, guarded=guarded), parts=(1, 4))


def test_the_old_values_of_an_atomic_counter_are_all_different() -> None:
    body = "atom.global.add.u32 %r20, [%d0], 1; cvt.u64.u32 %d10, %r20;"
    case = Case(kernel(body), [np.zeros(4, np.uint32), np.zeros(256, np.uint64)], grid=(2, 1, 1), block=(100, 1, 1))
    for target in TARGETS:
        counter, old = run_jit(case, target, 2)
        assert counter[0] == 200
        assert sorted(old[:200]) == list(range(200))


def test_atomic_inc_and_dec_wrap_around() -> None:
    body = "red.global.inc.u32 [%d0], 6; red.global.dec.u32 [%d0+4], 4; red.global.inc.u32 [%d0+8], %r7;"
    case = Case(kernel(body), [np.zeros(4, np.uint32), np.zeros(64, np.uint64)], block=(33, 1, 1))
    want = run_interpreter(case)
    assert want[0][0] == 33 % 7
    for target in TARGETS:
        assert run_jit(case, target, 2)[0].tolist()[:2] == want[0].tolist()[:2]


def test_differences_are_described() -> None:
    a, b = np.array([1.0, np.nan, 2.0], np.float32), np.array([1.0, -np.nan, -2.0], np.float32)
    assert differences([a], [b]).startswith("array 0[2]: got")


# ---------------------------------------------------------------------- variables


def test_module_variables_hold_what_they_are_declared_with() -> None:
    before = """
    .const .align 4 .u32 table[4] = {10, 20, 30, 40};
    .global .align 8 .u64 pointer = table;
    .global .align 4 .u32 counter = 5;
    .global .align 16 .f32 blank[8];
    """
    body = """
    and.b32 %r10, %r7, 3; mov.u64 %d11, table; mad.wide.u32 %d11, %r10, 4, %d11; ld.const.u32 %r11, [%d11];
    ld.global.u64 %d12, [pointer]; mad.wide.u32 %d12, %r10, 4, %d12; ld.u32 %r12, [%d12];
    red.global.add.u32 [counter], %r11; bar.sync 0; ld.volatile.global.u32 %r13, [counter]; ld.global.f32 %f0, [blank+4];
    mov.b32 %r14, %f0; add.u32 %r13, %r13, %r14; mad.wide.u32 %d10, %r11, %r12, 0; mad.wide.u32 %d10, %r13, 65536, %d10;
    ld.const.u32 %r15, [table+8]; cvt.u64.u32 %d13, %r15; add.u64 %d10, %d10, %d13;
    """
    case = Case(kernel(body, before=before), [DATA, np.zeros(64, np.uint64)], block=(40, 1, 1))
    assert run_interpreter(case)[1][1] == 20 * 20 + (5 + 1000) * 65536 + 30
    check(case, parts=(1, 4))


def test_dynamic_shared_memory_follows_the_static_one() -> None:
    before = ".extern .shared .align 16 .b8 dynamic[];"
    body = """
    mov.u64 %d30, dynamic; mov.u64 %d31, fixed; mad.wide.u32 %d32, %r6, 4, %d30; mad.wide.u32 %d33, %r6, 4, %d31;
    st.shared.u32 [%d32], %r6; st.shared.u32 [%d33], 7; bar.sync 0;
    mov.u32 %r20, %dynamic_smem_size; shr.u32 %r20, %r20, 2; sub.u32 %r20, %r20, %r6;
    mad.wide.u32 %d34, %r20, 4, %d30; ld.shared.u32 %r21, [%d34+-4]; ld.shared.u32 %r22, [%d33];
    mad.wide.u32 %d10, %r21, 100, 0; cvt.u64.u32 %d11, %r22; add.u64 %d10, %d10, %d11;
    """
    text = kernel(body, before=before, registers=".shared .align 4 .b8 fixed[200];")
    case = Case(text, [DATA, np.zeros(64, np.uint64)], block=(50, 1, 1), dynamic_shared=200)
    assert run_interpreter(case)[1][:2].tolist() == [4907, 4807]
    check(case, parts=(1, 4))


def test_a_vector_store_leaves_its_neighbours_alone() -> None:
    body = """
    setp.lt.u32 %p0, %r7, 9; @!%p0 bra END; mad.wide.u32 %d11, %r7, 8, %d1;
    cvt.u16.u32 %h0, %r7; mov.u16 %h1, 3; st.global.v2.u16 [%d11+4], {%h0, %h1}; exit;
    """
    out = np.full(64, 0x1122334455667788, np.uint64)
    check(Case(kernel(body), [DATA, out], block=(33, 1, 1)), parts=(1, 4))
