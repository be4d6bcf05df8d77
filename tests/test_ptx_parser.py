"""PTX modules to the typed form: real files first, then one construct at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from zcuda_async.ptx import parse
from zcuda_async.ptx.ir import (
    Address,
    Function,
    Guard,
    Immediate,
    Instruction,
    Label,
    Module,
    Param,
    Register,
    Sink,
    Span,
    SpecialRegister,
    Symbol,
    Variable,
    VectorOperand,
)

FOLDER = Path(__file__).parent / "ptx"
HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
REGISTERS = (
    ".reg .pred %p<4>; .reg .b16 %rs<5>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %rd<9>; .reg .f64 %fd<9>;\n"
)

P1 = Register("%p1", "pred")
R1, R2, R3, R4 = (Register(f"%r{index}", "b32") for index in range(1, 5))
F1, F2 = Register("%f1", "f32"), Register("%f2", "f32")
RD1, RD2 = Register("%rd1", "b64"), Register("%rd2", "b64")


def module_of(text: str) -> Module:
    return parse(HEADER + text, "test.ptx")


def kernel(body: str, params: str = "") -> Function:
    return module_of(f".visible .entry k({params}) {{\n{REGISTERS}{body}\n}}").functions[-1]


def instructions(body: str, params: str = "") -> list[Instruction]:
    return [item for item in kernel(body, params).body if isinstance(item, Instruction)]


def instruction(body: str, params: str = "") -> Instruction:
    return instructions(body, params)[-1]


def variables(text: str) -> tuple[Variable, ...]:
    return module_of(text).variables


def read(name: str) -> Module:
    return parse((FOLDER / name).read_text(), name)


# --- real files ---------------------------------------------------------------------------------


def test_the_eight_kernels_are_read() -> None:
    module = read("kernels.ptx")
    assert (module.version, module.target, module.address_size) == ((9, 0), ("sm_80",), 64)
    assert [(function.name, len(function.body), len(function.params)) for function in module.functions] == [
        ("saxpy", 21, 4),
        ("black_scholes", 170, 8),
        ("mandelbrot", 54, 8),
        ("nbody", 169, 4),
        ("matmul", 105, 4),
        ("reduce_sum", 104, 3),
        ("histogram256", 58, 3),
        ("heat2d", 62, 5),
    ]


def test_nvcc_features_are_read() -> None:
    module = read("features.ptx")
    functions = {function.name: function for function in module.functions}
    by_value = next(function for name, function in functions.items() if "by_value" in name)
    assert by_value.params[0] == Param(f"{by_value.name}_param_0", "b8", 24, 8, 0, 24)
    assert [param.offset for param in by_value.params] == [0, 32, 48]
    warps = next(function for name, function in functions.items() if "warps" in name)
    assert warps.directives == (("maxntid", (256, 1, 1)), ("minnctapersm", (2,)))
    assert any(variable.relocations for variable in module.variables)
    assert any(not function.is_entry for function in module.functions)


@pytest.mark.parametrize("name", ["triton_add.ptx", "numba.ptx"])
def test_other_compilers_are_read(name: str) -> None:
    (function,) = read(name).functions
    assert function.is_entry
    assert len(function.body) > 50


def test_tritons_vectors_of_one_element_are_scalars() -> None:
    found = instruction("ld.global.b32 { %r1 }, [ %rd1 + 0 ];")
    assert found.operands == (R1, Address(RD1))


# --- module level -------------------------------------------------------------------------------


def test_zero_characters_at_the_end_are_ignored() -> None:
    assert parse(HEADER + "\0\0").functions == ()


def test_debugging_directives_are_skipped() -> None:
    module = module_of(
        '.file 1 "a.cu", 17, 4\n.section .debug_str { L: .b8 1,2 .b32 L+4 }\n.pragma "x";\n'
        ".extern .func (.param .b32 r) vprintf (.param .b64 a, .param .b64 b) ;\n"
        ".weak .func helper() .noreturn ;"
    )
    assert module.functions == ()


def test_functions_have_spans_params_and_returns() -> None:
    (function,) = module_of(".func (.param .b64 r) f(.param .b32 a, .param .align 8 .b8 b[12]) { ret; }").functions
    assert not function.is_entry
    assert function.span == Span(4, 23, 1)
    assert function.returns == (Param("r", "b64", 8, 8, 0),)
    assert function.params == (Param("a", "b32", 4, 4, 0), Param("b", "b8", 12, 8, 8, 12))


def test_params_follow_the_c_abi() -> None:
    found = kernel(
        "ret;", ".param .u8 a, .param .u64 .ptr .global .align 16 b, .param .f32 c, .param .align 16 .b8 d[3]"
    )
    assert found.params == (
        Param("a", "u8", 1, 1, 0),
        Param("b", "u64", 8, 8, 8),
        Param("c", "f32", 4, 4, 16),
        Param("d", "b8", 3, 16, 32, 3),
    )


def test_performance_directives_are_kept() -> None:
    (found,) = module_of('.entry k() .maxntid 16, 4, 2 .reqntid 128 .maxnreg 64 .pragma "x"; { }').functions
    assert found.directives == (("maxntid", (16, 4, 2)), ("reqntid", (128,)), ("maxnreg", (64,)))


# --- variables ----------------------------------------------------------------------------------


def test_initial_values_become_little_endian_bytes() -> None:
    found = variables(
        ".global .u32 a = 5; .const .align 8 .s16 b[4] = {-1, 0x102}; .global .f32 c[] = {1.0, 0f40000000};"
        '.global .b8 d[3][2] = {{1}, {2, 3}}; .global .b8 e[] = "hi"; .global .v4 .u16 f = {1, 2, 3, 4};'
    )
    assert [(v.name, v.size, v.align, v.initial) for v in found] == [
        ("a", 4, 4, b"\5\0\0\0"),
        ("b", 8, 8, b"\xff\xff\2\1"),
        ("c", 8, 4, b"\0\0\x80\x3f\0\0\0\x40"),
        ("d", 6, 1, b"\1\0\2\3"),
        ("e", 3, 1, b"hi\0"),
        ("f", 8, 8, b"\1\0\2\0\3\0\4\0"),
    ]


def test_addresses_become_relocations() -> None:
    masked = ", ".join(f"0xff{'00' * index}(x)" for index in range(8))
    found = variables(
        f".global .u32 x; .global .u64 y[3] = {{7, x, generic(x)+4}}; .global .align 8 .b8 z[10] = {{1, {masked}}};"
    )
    assert found[1].initial == b"\7" + bytes(23)
    assert found[1].relocations == ((8, "x", 0), (16, "x", 4))
    assert found[2].relocations == ((1, "x", 0),)


def test_the_spaces_of_variables() -> None:
    found = kernel(
        ".shared .align 16 .b8 tile[4096]; .local .align 8 .b8 depot[16]; .shared .f32 a, b[2]; { .param .b64 p0; }"
    )
    assert [(v.name, v.space, v.type, v.size, v.align) for v in found.variables] == [
        ("tile", "shared", "b8", 4096, 16),
        ("depot", "local", "b8", 16, 8),
        ("a", "shared", "f32", 4, 4),
        ("b", "shared", "f32", 8, 4),
        ("p0", "param", "b64", 8, 8),
    ]


def test_dynamic_shared_memory_has_no_size() -> None:
    (found,) = variables(".extern .shared .align 16 .b8 smem[];")
    assert (found.space, found.size, found.align) == ("shared", None, 16)


def test_managed_and_common_variables_are_ordinary_ones() -> None:
    found = variables(".visible .global .attribute(.managed) .align 4 .u32 m; .common .global .align 8 .u64 env;")
    assert [v.space for v in found] == ["global", "global"]


# --- instructions -------------------------------------------------------------------------------


def test_an_instruction_carries_everything() -> None:
    found = instruction("@!%p1 ld.global.nc.v2.f32 {%f1, %f2}, [%rd1+-48];")
    assert found == Instruction(
        "ld",
        ("global", "nc", "v2"),
        ("f32",),
        (VectorOperand((F1, F2)), Address(RD1, -48)),
        Span(6, 7, 19),
        Guard(P1, negated=True),
    )


@pytest.mark.parametrize(
    ("statement", "operands"),
    [
        ("add.s32 %r1, %r2, -5;", (R1, R2, Immediate(-5))),
        ("mov.u32 %r1, %tid.x;", (R1, SpecialRegister("%tid.x"))),
        ("mov.u32 %r1, WARP_SZ;", (R1, Immediate(32))),
        ("mov.u32 %r1, WARP_SZ+1;", (R1, Immediate(33))),
        ("mov.f32 %f1, 0f3F800000;", (F1, Immediate(1.0, 0x3F800000, 32))),
        ("mov.f32 %f1, -1.0;", (F1, Immediate(-1.0, 0xBFF0000000000000, 64))),
        ("mov.b64 %rd1, {%r1, %r2};", (RD1, VectorOperand((R1, R2)))),
        ("mov.b64 {%r1, _}, %rd1;", (VectorOperand((R1, Sink())), RD1)),
        ("mov.u64 %rd1, x+8;", (RD1, Symbol("x", 8))),
        ("ld.global.u32 %r1, [x];", (R1, Address(Symbol("x")))),
        ("ld.global.u32 %r1, [x+4];", (R1, Address(Symbol("x"), 4))),
        ("ld.global.u32 %r1, [%rd1-4];", (R1, Address(RD1, -4))),
        ("ld.local.u32 %r1, [1024];", (R1, Address(Immediate(1024)))),
        ("atom.global.add.u32 _, [%rd1], 1;", (Sink(), Address(RD1), Immediate(1))),
        ("bar.sync 0;", (Immediate(0),)),
        ("ret;", ()),
    ],
)
def test_operands(statement: str, operands: tuple[object, ...]) -> None:
    module = module_of(f".global .u32 x[4]; .entry k() {{ {REGISTERS} {statement} }}")
    found = module.functions[0].body[-1]
    assert isinstance(found, Instruction)
    assert found.operands == operands


def test_pairs_of_destinations_are_kept_apart() -> None:
    found = instruction("shfl.sync.down.b32 %r1|%p1, %r2, 1, 31, -1;")
    assert found.operands[0] == R1
    assert found.second_destination == P1
    assert instruction("shfl.sync.down.b32 %r1|_, %r2, 1, 31, -1;").second_destination == Sink()


def test_negated_predicates_are_listed() -> None:
    found = instruction("setp.eq.and.s32 %p1|%p2, %r1, 5, !%p3;")
    assert found.negated_operands == (3,)
    assert found.operands[3] == Register("%p3", "pred")


def test_statements_may_be_glued_together() -> None:
    found = kernel("{.reg.b16 h;cvt.u16.u32 h,%r1;mov.b16 %rs1,h;}L:bra L;")
    assert [item.opcode if isinstance(item, Instruction) else item.name for item in found.body] == [
        "cvt",
        "mov",
        "L",
        "bra",
    ]


def test_scopes_rename_what_they_declare_again() -> None:
    found = kernel("{ .reg .b32 t; mov.b32 t, 1; } { .reg .f32 t; mov.f32 t, 1.0; } { .reg .b32 %r1; mov.b32 %r1, 2; }")
    first, second, third = (item.operands[0] for item in found.body if isinstance(item, Instruction))
    assert first == Register("t", "b32")
    assert isinstance(second, Register)
    assert isinstance(third, Register)
    assert (second.type, third.type) == ("f32", "b32")
    assert len({register.name for register in found.registers}) == len(found.registers) == 3


def test_labels_belong_to_their_scope() -> None:
    body = kernel("L: { bra L; L: bra L; } { L: bra L; } bra L;").body
    names = [item.operands[0] if isinstance(item, Instruction) else item for item in body]
    outer, inner, other = names[0], names[2], names[4]
    assert len({outer, inner, other}) == 3
    assert names == [outer, inner, inner, inner, other, other, outer]


def test_branches_may_go_forward() -> None:
    assert kernel("bra.uni END; ret; END: ret;").body[-2] == Label("END")


def test_only_registers_in_use_are_made() -> None:
    assert kernel("add.s32 %r1, %r2, %r1;").registers == (R1, R2)


def test_a_branch_table_lists_its_labels() -> None:
    found = kernel("brx.idx %r1, table; A: ret; B: ret; table: .branchtargets A, B;").body[0]
    assert isinstance(found, Instruction)
    assert found.operands == (R1, VectorOperand((Label("A"), Label("B"))))


def test_calls_have_returns_callee_and_arguments() -> None:
    module = module_of(
        ".func (.param .b32 r) f(.param .b32 a); .func g();\n.entry k() {"
        + REGISTERS
        + "{ .param .b32 a0; .param .b32 r0;"
        "st.param.b32 [a0+0], %r1; call.uni (r0), f, (a0); ld.param.b32 %r2, [r0+0]; } call g; call g, ();"
        "{ .param .b32 a0; .param .b32 r0; call (r0), %rd1, (a0), proto;"
        "proto: .callprototype (.param .b32 _) _ (.param .b32 _); } }"
    )
    calls = [i.operands for i in module.functions[0].body if isinstance(i, Instruction) and i.opcode == "call"]
    empty = VectorOperand(())
    assert calls[0] == (VectorOperand((Symbol("r0"),)), Symbol("f"), VectorOperand((Symbol("a0"),)))
    assert calls[1] == calls[2] == (empty, Symbol("g"), empty)
    assert calls[3][1] == RD1
    assert calls[3][3] == Symbol("proto")


def test_line_directives_are_skipped() -> None:
    body = kernel(
        '.loc 1 2 3\n.loc 1 25 3, function_name $L__info_string0+4, inlined_at 1 10 5\n.pragma "nounroll";\nret;'
    ).body
    assert len(body) == 1


@pytest.mark.parametrize(
    "statement",
    [
        "add.cc.u32 %r1, %r2, %r3",
        "madc.hi.cc.u32 %r1, %r2, %r3, %r4",
        "bfe.u32 %r1, %r2, 3, 5",
        "bfi.b32 %r1, %r2, %r3, 3, 5",
        "dp4a.s32.s32 %r1, %r2, %r3, %r4",
        "lop3.b32 %r1, %r2, %r3, %r4, 0x96",
        "shf.l.wrap.b32 %r1, %r2, %r3, %r4",
        "prmt.b32 %r1, %r2, %r3, 0x5410",
        "div.full.ftz.f32 %f1, %f2, %f3",
        "ex2.approx.ftz.f32 %f1, %f2",
        "fma.rn.f16x2 %r1, %r2, %r3, %r4",
        "add.bf16 %rs1, %rs2, %rs3",
        "testp.infinite.f32 %p1, %f1",
        "set.le.u32.f16x2 %r1, %r2, %r3",
        "slct.f32.s32 %f1, %f2, %f3, %r1",
        "selp.u16 %rs1, 1, 0, %p1",
        "cvt.rn.bf16x2.f32 %r1, %f1, %f2",
        "cvt.s16.s8 %rs1, %rs2",
        "cvt.u64.u32 %rd1, %tid.x",
        "cvta.shared.u64 %rd1, %rd2",
        "ld.volatile.global.v4.u32 {%r1, %r2, %r3, %r4}, [%rd1]",
        "ld.relaxed.gpu.v2.u64 {%rd1, %rd2}, [%rd3]",
        "ld.global.L1::no_allocate.L2::cache_hint.u32 %r1, [%rd1], %rd2",
        "st.release.sys.global.u8 [%rd1], %rs1",
        "st.global.v2.u32 [%rd1], {%r1, 5}",
        "prefetch.global.L2 [%rd1]",
        "isspacep.shared %p1, %rd1",
        "atom.global.cas.b32 %r1, [%rd1], 0, 1",
        "red.relaxed.gpu.global.add.s32 [%rd1], 1",
        "vote.sync.all.pred %p1, !%p2, -1",
        "vote.ballot.sync.b32 %r1, %p1, -1",
        "match.all.sync.b32 %r1|%p1, %r2, -1",
        "activemask.b32 %r1",
        "redux.sync.add.s32 %r1, %r2, -1",
        "elect.sync _|%p1, -1",
        "bar.red.popc.u32 %r1, 0, !%p1",
        "bar.sync %r1, 64",
        "barrier.sync 0",
        "bar.warp.sync -1",
        "fence.acq_rel.gpu",
        "membar.gl",
        "nanosleep.u32 100",
        "cp.async.cg.shared.global.L2::128B [%r1], [%rd1], 16",
        "and.pred %p1, %p2, !%p3",
        "exit",
        "trap",
    ],
)
def test_the_instruction_set_is_accepted(statement: str) -> None:
    assert instruction(f"{statement};").opcode == statement.partition(".")[0].partition(" ")[0]
