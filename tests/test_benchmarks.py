"""The benchmarks run, check answers, and report what they measured; how fast is not asked here."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from benchmarks.__main__ import main
from benchmarks.compile_phases import PHASES
from benchmarks.compile_source import count_instructions, long_kernel
from benchmarks.more_answers import more_answer, philox
from benchmarks.problems import ALL_KERNELS, MORE_KERNELS, make_problem
from benchmarks.report import draw_chart, format_figures, format_kernels
from benchmarks.runtime_table import Figure
from zcuda_async.ptx import parse
from zcuda_async.ptx.ir import Instruction

TIMES = {"saxpy": {"gcc": 2.0, "zcuda": 3.0}, "nbody": {"gcc": 4.0, "zcuda": math.nan}}


@pytest.mark.pool
@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_every_kernel_is_measured_and_agrees(
    backend: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ZCUDA_CACHE_DIR", str(tmp_path / "cache"))
    command = f"--set all --peer gcc --peer zcuda --only kernels --scale 0.003 --seconds 0 --backend {backend}".split()
    main([*command, "--json", str(tmp_path / "out.json")])
    measured = json.loads((tmp_path / "out.json").read_text())
    assert list(measured["kernels_ms"]) == list(ALL_KERNELS)
    assert all(row["zcuda"] > 0 for row in measured["kernels_ms"].values())
    output = capsys.readouterr()
    assert [line.split()[0] for line in output.out.splitlines()[2:-2]] == list(ALL_KERNELS)
    assert "wrong answer" not in output.err


@pytest.mark.pool
@pytest.mark.slow
def test_the_runtime_is_measured(tmp_path: Path) -> None:
    main(["--only", "runtime", "--scale", "0.01", "--json", str(tmp_path / "out.json")])
    figures = json.loads((tmp_path / "out.json").read_text())["runtime"]
    assert all(figure["value"] > 0 for figure in figures)
    named = {figure["name"] for figure in figures}
    assert all(figure["against"] in named for figure in figures if figure["ratio"] is not None)
    assert {"import zcuda_async", "submit a launch", "pipelined launches", "launch and sync"} <= named


@pytest.mark.slow
def test_compiling_is_measured_by_phase(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--only", "compile", "--scale", "0.1", "--json", str(tmp_path / "out.json")])
    rows = json.loads((tmp_path / "out.json").read_text())["compiling_ms"]
    assert list(rows) == ["the eight kernels", "the twelve more", "5,000 instructions"]
    for row in rows.values():
        assert all(row[phase] > 0 for phase in (*PHASES, "cached load", "import"))
        assert sum(row[phase] for phase in PHASES) == pytest.approx(row["total"], rel=0.05)
    assert "share of LLVM" in capsys.readouterr().out


@pytest.mark.parametrize("instructions", [100, 999, 5000])
def test_a_long_kernel_is_as_long_as_asked_for(instructions: int) -> None:
    text = long_kernel(instructions)
    (function,) = parse(text).functions
    assert count_instructions(text) == instructions
    assert sum(isinstance(item, Instruction) for item in function.body) == instructions
    assert long_kernel(instructions) == text


def test_an_unknown_kernel_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["fft"])
    assert "no such kernel: fft; choose from saxpy, " in capsys.readouterr().err


@pytest.mark.parametrize("kernel", ALL_KERNELS)
def test_problems_are_the_same_at_each_call(kernel: str) -> None:
    one, two = make_problem(kernel, 0.001), make_problem(kernel, 0.001)
    for first, second in zip(one.arguments.values(), two.arguments.values(), strict=True):
        np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("kernel", MORE_KERNELS)
def test_numpy_answers_what_no_launch_has_answered_yet(kernel: str) -> None:
    problem = make_problem(kernel, 0.001)
    expected = more_answer(problem)
    assert expected is not None
    assert expected.shape == problem.answer().shape
    assert problem.is_answer(expected, expected)
    assert not problem.is_answer(problem.answer(), expected)  # the inputs, or zeros


def test_numpys_philox_gives_the_published_numbers() -> None:
    zeros = philox([np.zeros(1, np.uint64)] * 4, [0, 0])
    assert [int(word[0]) for word in zeros] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    ones = philox([np.full(1, 0xFFFFFFFF, np.uint64)] * 4, [0xFFFFFFFF, 0xFFFFFFFF])
    assert [int(word[0]) for word in ones] == [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]


def test_a_wrong_answer_is_not_an_answer() -> None:
    problem = make_problem("saxpy", 0.001)
    expected = np.ones(1000)
    assert problem.is_answer(expected * 1.0001, expected)
    assert not problem.is_answer(np.where(np.arange(1000) < 10, 0.0, expected), expected)


def test_kernels_are_a_table_with_the_ratio_to_gcc() -> None:
    assert format_kernels(TIMES).splitlines() == [
        "kernel (ms)             gcc      zcuda  zcuda/gcc",
        "saxpy                  2.00       3.00      1.50x",
        "nbody                  4.00      wrong           ",
        "geometric mean                              1.50x",
    ]


def test_each_set_of_kernels_has_its_geometric_mean() -> None:
    times = {
        "saxpy": {"gcc": 1.0, "zcuda": 4.0},
        "heat2d": {"gcc": 1.0, "zcuda": 1.0},
        "mix": {"gcc": 2.0, "zcuda": 1.0},
    }
    assert [line.split() for line in format_kernels(times).splitlines()[-2:]] == [
        ["mean,", "first", "8", "2.00x"],
        ["mean,", "more", "12", "0.50x"],
    ]


def test_figures_are_lines_with_their_ratio() -> None:
    figures = [Figure("raw", 20.0, "µs"), Figure("ours", 30.0, "µs", 1.5, "raw"), Figure("rate", 12345.6, "per second")]
    assert [" ".join(line.split()) for line in format_figures(figures).splitlines()[1:]] == [
        "raw 20.00 µs",
        "ours 30.00 µs 1.50 x raw",
        "rate 12,346 per second",
    ]


def test_the_chart_is_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    draw_chart(TIMES, tmp_path / "chart.png")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")
