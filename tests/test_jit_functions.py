"""Functions that stay functions (``functions.ptx``): recursion, virtual calls, function pointers, ``brx.idx``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from jit_harness import TARGETS, Case, check, differences, kernel, run_interpreter, run_jit

import zcuda_async as zc
from zcuda_async.jit.compile import compile_kernel
from zcuda_async.ptx import PtxError

FOLDER = Path(__file__).parent / "ptx"
TEXTS = {name: (FOLDER / f"{name}.ptx").read_text() for name in ("functions", "functions_debug")}
TEXT = TEXTS["functions"]


def fibonacci(n: int) -> int:
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("text", TEXTS)
def test_recursion_runs_each_lane_to_its_own_depth(text: str, target: str) -> None:
    out = np.full(150, -1, np.int32)
    case = Case(TEXTS[text], [out], "recursion", grid=(3, 1, 1), block=(50, 1, 1))
    expected = [-1 if t % 5 == 3 else fibonacci(t % 11) * 10 + (t % 2 == 0) for t in range(150)]
    assert run_jit(case, target, 4 if text == "functions" else None)[0].tolist() == expected


@pytest.mark.parametrize("text", TEXTS)
def test_rows_are_sorted(text: str) -> None:
    rows = np.random.default_rng(5).random((40, 60)).astype(np.float32)
    (result,) = run_jit(Case(TEXTS[text], [rows, 60], "sort_rows", block=(40, 1, 1)))
    for t, row in enumerate(rows):
        end = 60 - t % 3
        np.testing.assert_array_equal(result[t, :end], np.sort(row[:end]))
        np.testing.assert_array_equal(result[t, end:], row[end:])


@pytest.mark.parametrize(
    ("text", "target"), [*(("functions", target) for target in TARGETS), ("functions_debug", "host")]
)
def test_virtual_calls(text: str, target: str) -> None:
    n = 45
    t = np.arange(n)
    is_circle = t % 3 == 1
    arrays = [np.zeros(n, np.float32), np.zeros(n), np.zeros(n, np.int32)]
    areas, sums, tags = run_jit(Case(TEXTS[text], arrays, "virtual_calls", block=(n, 1, 1)), target)
    np.testing.assert_array_equal(areas, np.where(is_circle, 3.0 * (t + 2) ** 2, (t + 1) ** 2))
    np.testing.assert_array_equal(sums, np.where(is_circle, t * 0.5 + 3 + t * 2.0, t * 1.5 + t * 2.0 * (t + 1)))
    np.testing.assert_array_equal(tags, t + np.where(is_circle, 2, 1))


@pytest.mark.parametrize("text", TEXTS)
def test_a_table_of_functions_one_of_which_ends_threads(text: str) -> None:
    case = Case(TEXTS[text], [np.full(40, -7, np.int32)], "pointers", block=(40, 1, 1))
    expected = [(t + 17, t - 17, t * 17, -7 if t > 17 else 1000 + t)[t % 4] for t in range(40)]
    assert run_jit(case)[0].tolist() == expected
    assert run_interpreter(case)[0].tolist() == expected


@pytest.mark.parametrize("name", ["recursion", "sort_rows", "virtual_calls"])
def test_the_interpreter_agrees(name: str) -> None:
    n = 24
    arguments: dict[str, list[object]] = {
        "recursion": [np.full(n, -1, np.int32)],
        "sort_rows": [np.random.default_rng(1).random((n, 20)).astype(np.float32), 20],
        "virtual_calls": [np.zeros(n, np.float32), np.zeros(n), np.zeros(n, np.int32)],
    }
    case = Case(TEXT, arguments[name], name, block=(n, 1, 1))  # type: ignore[arg-type]
    text = differences(run_jit(case), run_interpreter(case, strict=False))
    assert not text, text


SWITCH = """
targets: .branchtargets A, B, C, B;
and.b32 %r20, %r6, 3;
setp.ne.u32 %p1, %r6, 9;
@%p1 brx.idx %r20, targets;
mov.u64 %d10, 99; bra END;
A: add.u64 %d10, %d10, 5; bra END;
B: add.u64 %d10, %d10, 7;
C: add.u64 %d10, %d10, 100;
"""


def test_a_switch() -> None:
    case = Case(kernel(SWITCH), [np.zeros(1, np.uint64), np.zeros(40, np.uint64)], block=(40, 1, 1))
    check(case)
    expected = [99 if t == 9 else (5, 107, 100, 107)[t % 4] for t in range(40)]
    assert run_jit(case)[1].tolist() == expected


def test_an_alias_is_the_function_itself() -> None:
    before = """
.func (.param .b32 result) other (.param .b32 x);
.func (.param .b32 result) triple (.param .b32 x) {
.reg .b32 %r<3>; ld.param.b32 %r1, [x]; mul.lo.s32 %r2, %r1, 3; st.param.b32 [result], %r2; ret; }
.alias other, triple;
"""
    body = "call (%r20), other, (%r6); cvt.u64.u32 %d10, %r20;"
    case = Case(kernel(body, before=before), [np.zeros(1, np.uint64), np.zeros(40, np.uint64)], block=(40, 1, 1))
    check(case)
    assert run_jit(case)[1].tolist() == [3 * t for t in range(40)]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("wild", (0x1234,), r"^cudaErrorInvalidPc \(718\): .*PTX line"),
        ("bottomless", (), r"^cudaErrorHardwareStackError \(714\): "),
    ],
)
async def test_wild_calls_and_bottomless_recursion_are_sticky_errors(
    name: str, arguments: tuple[int, ...], message: str
) -> None:
    async with zc.open_device(0, workers=1) as device, device.create_stream() as stream:
        kernel = await device.load_ptx(TEXT).get_kernel(name)
        out = device.allocate(4 * 64)
        with pytest.raises(zc.CudaError, match=message):
            await stream.launch(kernel, zc.LaunchConfig(grid=1, block=64), out, *arguments)
        await device.reset()
        again = await device.load_ptx(TEXT).get_kernel("pointers")
        await stream.launch(again, zc.LaunchConfig(grid=1, block=64), out)


HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            ".extern .func cudaLaunchDeviceV2();\n.visible .entry k() { call cudaLaunchDeviceV2, (); ret; }\n",
            "call: cudaLaunchDeviceV2 belongs to dynamic parallelism: kernels that launch kernels are not supported",
        ),
        (
            ".extern .func cudaCGSynchronize();\n.visible .entry k() { call cudaCGSynchronize, (); ret; }\n",
            "call: cudaCGSynchronize: grids that span several devices are not supported",
        ),
    ],
)
def test_what_has_no_form_is_refused(text: str, message: str) -> None:
    with pytest.raises(PtxError) as info:
        compile_kernel(HEAD + text, "r.ptx", "k", (64, 1, 1))
    assert f"error: {message}\n" in str(info.value)


def recursive(x: int, depth: int, printed: list[str]) -> int:
    if depth == 0:
        printed.append(f"A {x}")
        return x
    return recursive(x + 1, depth - 1, printed) * 2


def shuffling(x: int, depth: int) -> int:
    if x % 7 == 3:
        return -x
    return shuffling(x - 1, depth - 1) + 1 if depth else x


@pytest.mark.anyio
async def test_virtual_recursion_among_barriers_locks_and_output() -> None:
    """``mixed.ptx``: the kernel's groups stop at a barrier, and its lanes spin for a lock."""
    output: list[str] = []
    result, total = np.zeros(128, np.int32), np.zeros(1, np.int32)
    async with zc.open_device(0, workers=1, printf=output.append) as device, device.create_stream() as stream:
        function = await device.load_ptx((FOLDER / "mixed.ptx").read_text()).get_kernel("mixed")
        out, sums = device.allocate(result.nbytes), device.allocate(4)
        stream.memset(sums, 0, 4)
        stream.launch(function, zc.LaunchConfig(grid=1, block=128), out, sums)
        stream.memcpy(result, out)
        await stream.memcpy(total, sums)
    printed: list[str] = []

    def run(t: int, depth: int) -> int:
        return recursive(t, depth, printed) if t % 2 else shuffling(t, depth)

    assert result.tolist() == [run(t, t % 4) for t in range(128)][::-1]
    assert total[0] == sum(run(t, 1) for t in range(128))
    assert sorted("".join(output).splitlines()) == sorted(printed)
