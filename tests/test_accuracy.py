"""The approximate instructions keep the manual's limits: strided inputs, the worst known ones, special values.

`python -m benchmarks.accuracy` goes through all inputs, with the same table and the same comparison.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from instruction_forms import specs_of
from jit_harness import TARGETS, Case, check, kernel, run_jit

from benchmarks.accuracy.__main__ import main
from benchmarks.accuracy.errors import Errors, compare, is_rounded
from benchmarks.accuracy.formats import FORMATS
from benchmarks.accuracy.functions import FAMILIES, FUNCTIONS, Family
from benchmarks.accuracy.kernels import BLOCK, as_words, kernel_text, spellings_of, word_of
from benchmarks.accuracy.page import page
from benchmarks.accuracy.sweep import Check, family_inputs, special_bits

Array = npt.NDArray[Any]
SAMPLES = 1 << 17

WORST: dict[str, tuple[int, ...]] = {
    "ex2.approx.f32": (0xBEFDF4FB,),
    "lg2.approx.f32": (0x3F327DB7, 0x4034F9A3),
    "sin.approx.f32": (0x401685A8, 0x41CF86F9, 0x67A85C08, 0x80000000, 0x4E800000, 0x7F7FFFFF, 0xFF000000),
    "cos.approx.f32": (0x40171220, 0x42B7C3EB, 0x66C05366, 0x4E800000, 0xD0B7D3EA, 0x7F7FFFFF),
    "tanh.approx.f32": (0x3EB446E4,),
    "rcp.approx.f32": (0x00FC3237,),
    "rcp.rn.f32": (0x00FC3237,),
    "sqrt.approx.f32": (0x00800001,),
    "sqrt.rn.f32": (0x017FFFFF,),
    "rsqrt.approx.f32": (0x0176B2A3,),
    "rcp.approx.ftz.f64": (0xF95FFFFF05603217, 0x7FF0000000000001, 0x7FE0000000000000),
    "rsqrt.approx.ftz.f64": (0x4A8FFFFEDE135E07, 0x7FF0000000000001, 0x000FFFFFFFFFFFFF),
    "rsqrt.approx.f64": (0x052FF5B45C17782B,),
    "rcp.rn.f64": (0x25D75CA85CEB7ADE,),
    "sqrt.rn.f64": (0x53694FB4EE034374,),
}
"""Where a sweep of all inputs found the largest errors, or errors that have been corrected since."""


def evaluated(family: Family, bits: list[Array], target: str) -> Array:
    count = -(-len(bits[0]) // BLOCK) * BLOCK
    padded = [np.resize(operand, count) for operand in bits]
    results = np.zeros((len(spellings_of(family)), count), word_of(family))
    case = Case(
        kernel_text(family),
        [as_words(family, padded), results, count],
        kernel="evaluate",
        grid=(count // BLOCK, 1, 1),
        block=(BLOCK, 1, 1),
    )
    return run_jit(case, target)[1][:, : len(bits[0])]


def known(family: Family) -> Array:
    worst = [bits for function in family.functions for bits in WORST.get(function.spelling, ())]
    return np.array(worst, family.format.word)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.functions[0].spelling)
def test_limits_are_kept(family: Family, target: str) -> None:
    inputs = family_inputs(family, max(1, (1 << family.format.width if not family.steps else 1 << 24) // SAMPLES + 1))
    specials, strided = special_bits(family), inputs.bits(family, 0, min(inputs.count, SAMPLES))
    extra = [known(family)] * family.arguments
    bits = [np.concatenate(columns) for columns in zip(specials, strided, extra, strict=True)]
    found = Check(family)
    found.add(bits, evaluated(family, bits, target))
    for errors in found.errors.values():
        assert errors.is_within, (errors.function.spelling, errors.wrong, errors.worst)


def test_the_table_has_every_approximate_instruction() -> None:
    listed = {name for family in FAMILIES for name in spellings_of(family)}
    opcodes = ("ex2", "lg2", "sin", "cos", "tanh", "rcp", "sqrt", "rsqrt", "div")
    approximate = {spec.spelling for opcode in opcodes for spec in specs_of(opcode) if spec.has("approx")}
    assert {name.replace(".ftz", "") for name in approximate} <= {name.replace(".ftz", "") for name in listed}


def operands(form: str, *columns: list[float]) -> Array:
    return np.stack(
        [np.array(column, form).view(f"u{np.dtype(form).itemsize}").astype(np.uint64) for column in columns]
    )


def of_pairs(spelling: str, width: int, values: Array) -> Case:
    """`out` gets the instruction's results, one for each column of `values`: bits, or those of f32 as doubles."""
    count, loads = values.shape[1], ""
    for k in range(len(values)):
        loads += f"ld.global.b{width} %x{k}, [%d0+{8 * count * k}];"
    sources = ", ".join(f"%x{k}" for k in range(len(values)))
    body = f"add.s64 %d0, %d0, %d2; {loads} {spelling} %x9, {sources};"
    body += "mov.b64 %d10, %x9;" if width == 64 else "cvt.f64.f32 %d10, %x9;"
    text = kernel(body, registers=f".reg .b{width} %x<10>;")
    return Case(text, [values, np.zeros(count, np.uint64 if width == 64 else np.float64)], block=(count, 1, 1))


INFINITE = float("inf")
FAR = [2.0**126, 1.0000001 * 2.0**126, -(2.0**127), 3e38, INFINITE, 1e-45, 0.0, float("nan")]


@pytest.mark.parametrize("spelling", ["div.approx.f32", "div.approx.ftz.f32"])
def test_a_divisor_with_a_subnormal_reciprocal_counts_as_infinite(spelling: str) -> None:
    pairs = [(a, b) for a in (1e38, -1.5, 0.0, -0.0, INFINITE, -INFINITE, float("nan")) for b in FAR]
    case = of_pairs(spelling, 32, operands("f4", *map(list, zip(*pairs, strict=True))))
    check(case)
    results = dict(zip(pairs, run_jit(case)[1], strict=True))
    assert results[1e38, 2.0**126] == np.float32(1e38) / np.float32(2.0**126)
    assert results[1e38, 3e38] == 0
    assert np.signbit(results[-1.5, 3e38])
    assert np.isnan(results[INFINITE, 3e38])


@pytest.mark.parametrize("spelling", ["rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64"])
def test_gross_approximations_of_doubles_use_upper_words_only(spelling: str) -> None:
    numbers = [0.0, -0.0, 1.0, 3.0, -3.0, 1e300, 1e308, -1e-308, 5e-324, 1e-310, INFINITE, -INFINITE, 1 / 3]
    bits = np.concatenate(
        [
            operands("f8", numbers)[0],
            np.array([0x7FF0000000000001, 0x7FF0000100000000, 0xFFF8000000000000, 0x0010000000000001], np.uint64),
            np.random.default_rng(5).integers(0, 1 << 64, 239, np.uint64),
        ]
    )[None, :]
    case = of_pairs(spelling, 64, bits)
    check(case)
    got = run_jit(case)[1]
    assert not (got & np.uint64(0xFFFFFFFF)).any()
    # A payload in the lower word is not seen: that is infinity, whose reciprocal (root) is zero.
    assert [hex(word) for word in got[13:15]] == ["0x0", "0x7fffffff00000000"]


def test_the_sine_of_minus_zero_is_minus_zero() -> None:
    values = operands("f4", [0.0, -0.0, -1e-45, 1e-45])
    got = run_jit(of_pairs("sin.approx.f32", 32, values))[1].astype(np.float32).view(np.uint32)
    assert list(got) == [0, 0x80000000, 0x80000001, 1]


@pytest.mark.parametrize("target", TARGETS)
def test_sines_of_huge_angles_are_sines(target: str) -> None:
    angles = [2.0**26, 2.0**30, 1e10, -1e20, 3.4e38, 2.0**127, 6.0, INFINITE]
    values = operands("f4", angles)
    for spelling, function in (("sin.approx.f32", np.sin), ("cos.approx.f32", np.cos)):
        got = run_jit(of_pairs(spelling, 32, values), target)[1]
        with np.errstate(invalid="ignore"):
            want = function(np.array(angles, np.float32).astype(np.float64))
        np.testing.assert_allclose(got, want, rtol=0, atol=2.0**-22)


def test_a_uniform_huge_angle() -> None:
    text = kernel("ld.global.f32 %f0, [%d0]; sin.approx.f32 %f1, %f0; mov.b32 %r9, %f1; cvt.u64.u32 %d10, %r9;")
    for angle in (1e10, 1.0):
        got = run_jit(Case(text, [np.full(8, angle, np.float32), np.zeros(32, np.uint64)]))[1]
        np.testing.assert_allclose(
            got.astype(np.uint32).view(np.float32), np.sin(np.float64(np.float32(angle))), rtol=0, atol=2.0**-22
        )


# ---------------------------------------------------------------------- the comparison itself


def test_integers_tell_the_nearest_double() -> None:
    third = 1 / 3
    assert is_rounded("rcp.rn.f64", [3.0], third)
    assert not is_rounded("rcp.rn.f64", [3.0], np.nextafter(third, 1))
    assert is_rounded("sqrt.rn.f64", [2.0], 2**0.5)
    assert not is_rounded("sqrt.rn.f64", [2.0], np.nextafter(2**0.5, 0))
    assert is_rounded("div.rn.f64", [1.0, 49.0], 1 / 49)


@pytest.mark.parametrize(
    ("result", "wrong", "ulps"),
    [
        (np.float32(0.5), 0, 0.0),
        (np.nextafter(np.float32(0.5), np.float32(1)), 0, 1.0),
        (np.float32("nan"), 1, 0.0),
        (np.float32("inf"), 0, (2.0**128 - 0.5) * 2**24),
    ],
)
def test_errors_are_seen(result: np.float32, wrong: int, ulps: float) -> None:
    family = next(family for family in FAMILIES if family.functions[0].spelling == "rcp.approx.f32")
    errors = Errors(family.functions[0])
    bits, values = np.array([0x40000000], np.uint32), np.array([2.0])
    with np.errstate(all="ignore"):
        compare(errors, family, [bits], [values], 1 / values, np.array([result]).view(np.uint32))
    assert errors.wrong_count == wrong
    assert errors.worst["all"].ulps == ulps
    assert errors.is_within == (not wrong and ulps <= 1)


def test_units_are_those_of_the_format() -> None:
    values = np.array([1.0, 1.5, 2.0**-126, 2.0**-149, 3.0])
    assert list(FORMATS["f32"].units(values)) == [2.0**-23, 2.0**-23, 2.0**-149, 2.0**-149, 2.0**-22]
    assert list(FORMATS["f64"].units(values.astype(np.longdouble)))[:2] == [2.0**-52, 2.0**-52]


@pytest.mark.pool
@pytest.mark.slow
def test_the_command_measures_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                         monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setenv("ZCUDA_CACHE_DIR", str(tmp_path / "cache"))
    assert main(["--function", "tanh", "--stride", "100003", "--json", str(tmp_path / "rows.json")]) == 0
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [row["instruction"] for row in rows] == ["tanh.approx.f32", "tanh.approx.f16", "tanh.approx.bf16"]
    assert {row["verdict"] for row in rows} == {"within"}
    assert "`tanh.approx.f16`<br>`tanh.approx.f16x2` | 2^16 | all |" in capsys.readouterr().out
    assert page(rows, "a processor", 16).count("\n| `tanh") == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--function", "tan"], "no such function: tan; choose from ex2.approx.f32, "),
        (["--stride", "0"], "--stride must be at least 1"),
        (["--stride", "2", "--update-docs"], "--update-docs needs all inputs of all functions"),
        (["--function", "sin", "--update-docs"], "--update-docs needs all inputs of all functions"),
    ],
)
def test_wrong_arguments_are_refused(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert message in capsys.readouterr().err


def test_worst_inputs_belong_to_functions() -> None:
    assert set(WORST) <= set(FUNCTIONS)
