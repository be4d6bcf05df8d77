"""What bad PTX is told: place, line, carets, and words."""

from __future__ import annotations

import pickle
import re

import pytest

from zcuda_async.ptx import PtxError, parse
from zcuda_async.ptx.ir import Span
from zcuda_async.ptx.parser_initialisers import MAX_PADDING

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
KERNEL = (
    HEADER + ".global .u32 g; .func f(.param .b32 x); .entry k(.param .u64 p) { .shared .u32 s;\n"
    ".reg .pred %p<4>; .reg .b16 %rs<5>; .reg .u32 %u<3>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %rd<9>;\n"
)
UNDECLARED = "is not declared here: no register, variable, parameter or label in scope has that name"


def error(text: str) -> PtxError:
    with pytest.raises(PtxError) as caught:
        parse(text, "x.ptx")
    return caught.value


def test_the_text_shows_place_line_and_carets() -> None:
    found = error(KERNEL + "\tadd.s32 \t%r1, %r99, %r2;\n}")
    assert str(found) == (
        f"x.ptx:6:16: error: '%r99' {UNDECLARED}\n    \tadd.s32 \t%r1, %r99, %r2;\n    \t        \t     ^^^^"
    )
    assert (found.filename, found.span) == ("x.ptx", Span(6, 16, 4))
    assert found.source_line == "\tadd.s32 \t%r1, %r99, %r2;"


def test_long_lines_are_cut_around_the_place() -> None:
    shown = str(error(HEADER + " " * 1000 + "garbage" + " " * 1000)).split("\n")
    assert shown[0] == "x.ptx:4:1001: error: expected a directive, found 'garbage'"
    assert len(shown[1]) < 200
    assert shown[1].index("garbage") == shown[2].index("^^^^^^^")


def test_an_error_survives_pickling() -> None:
    found = error(HEADER + "garbage")
    assert str(pickle.loads(pickle.dumps(found))) == str(found)


@pytest.mark.parametrize(
    ("statement", "column", "length", "message"),
    [
        # opcodes, modifiers, types, counts
        ("addd.s32 %r1, %r2, %r3;", 1, 8, "unknown instruction 'addd.s32'; did you mean 'add'?"),
        ("zzz;", 1, 3, "unknown instruction 'zzz'"),
        ("wgmma.sync.aligned x;", 1, 18, "instruction 'wgmma.sync.aligned' is not supported"),
        (
            "add.wide.s32 %r1, %r2, %r3;",
            1,
            12,
            "'add.wide.s32': 'add' has no modifier '.wide'; it takes .cc .ftz .rm .rn .rp .rz .sat",
        ),
        (
            "and.u32 %r1, %r2, %r3;",
            1,
            7,
            "'and.u32': 'and' has no type '.u32'; it takes .b16 .b32 .b64 .pred",
        ),
        ("ret.s32;", 1, 7, "'ret.s32': 'ret' has no type '.s32'; it takes no type"),
        (
            "mul.s32 %r1, %r2, %r3;",
            1,
            7,
            "'mul.s32': 'mul' has no such combination; its forms are mul.half.type "
            "(.half: lo hi, .type: u16 u32 u64 s16 s32 s64); mul.wide.type (.type: u16 s16 u32 s32)",
        ),
        (
            "shfl.down.b32 %r1, %r2, 1, 31;",
            1,
            13,
            "'shfl.down.b32': 'shfl' has no such combination; "
            "its forms are shfl.sync.mode.b32 (.mode: up down bfly idx)",
        ),
        ("add.s32 %r1, %r2;", 1, 7, "'add.s32' takes 3 operands (d, a, b), got 2"),
        ("bar.sync;", 1, 8, "'bar.sync' takes 1 or 2 operands (a{, b}), got 0"),
        ("ret %r1;", 1, 3, "'ret' takes 0 operands, got 1"),
        # operands
        (
            "add.f32 %f1, %u1, %f2;",
            14,
            3,
            "'add.f32': operand a must be a register of type .b32 .f32, got '%u1' of type .u32",
        ),
        (
            "mul.wide.s32 %r1, %r2, 4;",
            14,
            3,
            "'mul.wide.s32': operand d must be a register of type .b64 .s64 .u64, got '%r1' of type .b32",
        ),
        (
            "mov.f32 %f1, 5;",
            14,
            1,
            "'mov.f32': operand a is of type .f32; write the constant with a point or as 0f… or 0d…",
        ),
        (
            "add.s32 %r1, %r2, 1.5;",
            19,
            3,
            "'add.s32': operand b is of type .s32, which takes no floating-point constant of this width",
        ),
        (
            "add.s32 5, %r1, %r2;",
            9,
            1,
            "'add.s32': operand d is written, so it must be a register, not a constant",
        ),
        (
            "lop3.b32 %r1, %r2, %r3, %r4, 256;",
            30,
            3,
            "'lop3.b32': operand table must be a constant from 0 to 255, got 256",
        ),
        (
            "lop3.b32 %r1, %r2, %r3, %r4, %r5;",
            30,
            3,
            "'lop3.b32': operand table must be a constant from 0 to 255, not the register '%r5'",
        ),
        ("bar.sync 16;", 10, 2, "'bar.sync': operand a must be a constant from 0 to 15, got 16"),
        ("bar.sync 0, 47;", 1, 8, "'bar.sync': the number of threads must be a multiple of 32, got 47"),
        (
            "add.s32 %r1, %tid.x, 1;",
            14,
            6,
            "'add.s32': the special register '%tid.x' can only be read with mov or cvt",
        ),
        ("mov.u32 %r1, %clock64;", 14, 8, "'mov.u32': '%clock64' is of type .u64, which does not fit .u32"),
        ("add.s32 %r1, g, 1;", 14, 1, "'add.s32': operand a must be a register; move the address of 'g' to one first"),
        ("mov.u32 %r1, g;", 14, 1, "'mov.u32': the address of 'g' does not fit .u32; use .u64"),
        ("add.s32 _, %r1, %r2;", 9, 1, "'add.s32': operand d cannot be '_' here"),
        ("add.s32 %r1, [%rd1], 1;", 14, 6, "'add.s32': operand a is not an address; load the value with ld first"),
        (
            "ld.global.u32 %r1, %rd1;",
            20,
            4,
            "'ld.global.u32': operand a must be an address in brackets, not the register '%rd1'",
        ),
        (
            "ld.global.u32 %r1, [%f1];",
            20,
            5,
            "'ld.global.u32': an address needs a 32-bit or 64-bit integer register, got '%f1' of type .f32",
        ),
        ("ld.shared.u32 %r1, [g];", 20, 3, "'ld.shared.u32': 'g' is in .global, but the instruction accesses .shared"),
        ("st.param.u64 [p], %rd1;", 14, 3, "'st.param.u64': the parameter 'p' can be read only"),
        ("cvta.shared.u64 %rd1, g;", 23, 1, "'cvta.shared.u64': 'g' is in .global, not in .shared"),
        (
            "ld.global.v2.u32 {%r1, %r2, %r3, %r4}, [%rd1];",
            18,
            20,
            "'ld.global.v2.u32': operand d must be a vector of 2 elements, not one of 4",
        ),
        (
            "ld.global.v2.u32 %r1, [%rd1];",
            18,
            3,
            "'ld.global.v2.u32': operand d must be a vector of 2 elements, not '%r1'",
        ),
        ("ld.global.u32 {%r1, %r2}, [%rd1];", 15, 10, "'ld.global.u32': operand d must not be a vector here"),
        (
            "mov.b32 %r1, {%r2, %r3};",
            14,
            10,
            "'mov.b32': vector elements must be registers of type .b16, got '%r2' of type .b32",
        ),
        (
            "ld.param.u64 %rd1, [p+8];",
            1,
            12,
            "'ld.param.u64': reads bytes 8 to 16 of the parameters, which are 8 bytes",
        ),
        ("bra g;", 5, 1, "'bra': operand target must be a label, not 'g'"),
        ("add.s32 %r1|%p1, %r2, %r3;", 1, 7, "'add.s32': the destination cannot be a pair"),
        ("elect.sync %r1, -1;", 1, 10, "'elect.sync': the destination must be a pair d|p"),
        (
            "shfl.sync.up.b32 %r1|%r2, %r3, 1, 0, -1;",
            1,
            16,
            "'shfl.sync.up.b32': the second destination must be a predicate register, got '%r2' of type .b32",
        ),
        ("add.s32 %r1, !%r2, %r3;", 1, 7, "'add.s32': operand a cannot be negated with '!'"),
        ("call.uni f;", 1, 8, "'call.uni': 'f' has 0 return values and 1 parameters, the call has 0 and 0"),
        ("call.uni g;", 10, 1, "'call.uni': 'g' is not a function"),
        ("call.uni f, (g);", 1, 8, "'call.uni': 'g' is not a .param variable"),
        # names and syntax
        ("@%r1 ret;", 2, 3, "expected a predicate register as the guard, found '%r1'"),
        ("bra X;", 5, 1, f"'X' {UNDECLARED}"),
        ("mov.u32 %r1, %tid.w;", 14, 6, "unknown special register '%tid.w'"),
        ("mov.u32 %r1, 0x;", 14, 2, "'0x' is not a number that fits in 64 bits"),
        ("mov.u32 %r1, 18446744073709551616;", 14, 20, "'18446744073709551616' is not a number that fits in 64 bits"),
        ("ld.global.u32 %r1, [%rd1+%r2];", 26, 3, "expected an integer offset, found '%r2'"),
        ("ld.global.u32 %r1, [%rd1;", 25, 1, "expected ']', found ';'"),
        ("add.s32 %r1 %r2, %r3;", 13, 3, "expected ',' or ';', found '%r2'"),
        (".reg .b32 %q<2000000000>;", 11, 2, "%q<2000000000>: a range has 1 to 1000000 registers"),
        (".reg .b32 %r<4>;", 11, 2, "'%r' is already declared in this scope"),
        (".reg .b32 %r5;", 11, 3, "'%r5' is already declared in this scope"),
        (".reg .q32 x;", 6, 4, "'.q32' is not a register type"),
        (".wobble;", 1, 7, "unknown directive '.wobble' in a function body"),
        (".shared .u32 y = 3;", 16, 1, ".shared variables cannot be initialised; store to 'y' instead"),
        (".local .b8 y[];", 12, 1, "array 'y' needs a size or an initialiser"),
        (".local .align 3 .b8 y;", 15, 1, "alignment 3 is not a power of two from 1 to 1048576"),
        ("L: L: ret;", 4, 1, "'L' is already declared in this scope"),
        (
            "ld.global.v4.b128 {%rd1, %rd2, %rd3, %rd4}, [%rd1];",
            19,
            24,
            "'ld.global.v4.b128': vector elements must be registers of type .b128, got '%rd1' of type .b64",
        ),
    ],
)
def test_statements(statement: str, column: int, length: int, message: str) -> None:
    found = error(f"{KERNEL}{statement}\n}}")
    assert found.message == message
    assert found.span == Span(6, column, length)


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("", 1, 1, "a PTX module starts with '.version'"),
        (".target sm_80", 1, 1, "a PTX module starts with '.version'"),
        (".version 8", 1, 10, "expected a version such as 8.0, found '8'"),
        (".version 8.0", 1, 1, "the module has no '.target'"),
        (HEADER + ".version 8.0", 4, 10, "the module has a '.version' already"),
        (
            ".version 8.0 .target sm_80 .address_size 32",
            1,
            42,
            "address size 32 is not supported; compile for 64-bit addresses",
        ),
        (HEADER + "add.s32 %r1;", 4, 1, "expected a directive, found 'add.s32'"),
        (HEADER + ".wobble x;", 4, 1, "unknown directive '.wobble'"),
        (HEADER + ".alias a, b;", 4, 8, "'b' has no body in this file, so 'a' cannot stand for it"),
        (
            HEADER + ".func b() { ret; } .alias a, b;",
            4,
            27,
            "'a' must be declared with the parameters of 'b'",
        ),
        (HEADER + ".global .texref t;", 4, 9, ".texref variables are not supported; use a bindless 64-bit handle"),
        (
            HEADER + ".extern .global .u32 x;",
            4,
            22,
            ".extern .global variable 'x' is defined in another file; load both with link_ptx",
        ),
        (HEADER + ".global .u32 x; .global .u32 x;", 4, 30, "'x' is already declared"),
        (HEADER + ".global .u64 x = {y};", 4, 18, "a scalar takes one value without braces"),
        (HEADER + ".global .u64 x = y;", 4, 14, "'y', in the initial value of 'x', is not declared"),
        (HEADER + ".global .u32 x = y;", 4, 18, "an address needs a 64-bit integer element, not .u32"),
        (HEADER + ".global .u32 x = 1.0;", 4, 18, "a floating-point value does not fit .u32"),
        (HEADER + ".global .u8 x[2] = {1, 2, 3};", 4, 27, "more than 2 values for this array"),
        (
            HEADER + ".global .b8 x[8] = {0xff(x)};",
            4,
            20,
            "the address of 'x' must be written with all its eight bytes",
        ),
        (
            HEADER + ".global .b8 x[2][200000000] = {{1}, {2}};",
            4,
            31,
            f"initial values imply more than {MAX_PADDING} bytes of zeros between them",
        ),
        (HEADER + ".global .b8 x[99999999999999];", 4, 29, "an array of 99999999999999 elements is too large"),
        (HEADER + ".entry k() { ret;", 4, 12, "'{' without its closing '}'"),
        (HEADER + ".entry k() {} .entry k() {}", 4, 22, "'k' has a body already"),
        (HEADER + ".func f(); .func f(.param .b32 x);", 4, 18, "'f' was declared with other parameters before"),
        (
            HEADER + ".func f(.reg .b32 x);",
            4,
            9,
            "function parameters in registers are not supported; declare them in .param space",
        ),
        (
            HEADER + ".entry k(.param .b8 x[40000]) {}",
            4,
            8,
            "the parameters of 'k' take 40000 bytes; at most 32764 are allowed",
        ),
        (HEADER + ".entry k(.param .pred x) {}", 4, 17, "'.pred' is not a type that memory can hold"),
        (HEADER + ".entry k(.param .b32 x, .param .b32 x) {}", 4, 8, "two parameters of 'k' are called 'x'"),
        (HEADER + ".entry k() .wobble 5 {}", 4, 12, "unknown directive '.wobble' for a function"),
        (HEADER + ".entry k() " + "{" * 300, 4, 213, "scopes are nested more than 200 deep"),
        (HEADER + ".section .debug_x { .b8 1", 4, 19, "'{' without its closing '}'"),
    ],
)
def test_modules(text: str, line: int, column: int, message: str) -> None:
    found = error(text)
    assert found.message == message
    assert (found.span.line, found.span.column) == (line, column)


def test_a_message_names_registers_as_the_text_does() -> None:
    found = error(KERNEL + "{ .reg .f32 t; } { .reg .f32 t; add.s32 %r1, t, 1; } }")
    assert re.search(r"got 't' of type \.f32$", found.message)
