"""Random programs: nested divergence, loops, tangles of jumps, barriers, exchanges, calls.

Machine code must agree with the interpreter bit for bit, whatever the target and the number of parts.
"""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jit_harness import TARGETS, differences, run_interpreter, run_jit, sweep
from program_generator import Program, SeededChooser, make_program
from program_tree import smaller

QUIET = (HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example, HealthCheck.filter_too_much)


@dataclass
class DrawnChooser:
    """Decisions that hypothesis makes, and can make simpler."""

    data: st.DataObject

    def integer(self, low: int, high: int) -> int:
        return self.data.draw(st.integers(low, high))


def check_program(program: Program, target: str, parts: int | None) -> None:
    case = program.case
    text = differences(run_jit(case, target, parts), run_interpreter(case))
    assert not text, f"{target}, parts {parts}, block {program.block}, n {program.n}:\n{text}\n{program.text}"


@pytest.mark.timeout(300)
@settings(max_examples=25, deadline=None, derandomize=True, database=None, suppress_health_check=QUIET)
@given(data=st.data(), parts=st.sampled_from([None, 1, 2, 4]))
def test_small_programs_agree(data: st.DataObject, parts: int | None) -> None:
    check_program(make_program(DrawnChooser(data), size=6, depth=2), "host", parts)


@pytest.mark.parametrize("seed", range(100, 112))
def test_programs_agree(seed: int) -> None:
    check_program(make_program(SeededChooser(seed), size=9), "host", (None, 1, 2, 4)[seed % 4])


@pytest.mark.parametrize(("target", "seed"), [("avx2", 1), ("avx2", 2), ("sse2", 3), ("sse2", 4)])
def test_programs_agree_for_older_processors(target: str, seed: int) -> None:
    check_program(make_program(SeededChooser(seed), size=5, depth=2), target, 2)


@sweep
@pytest.mark.timeout(600)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("seed", range(1000, 1030))
def test_large_programs_agree_for_every_target(seed: int, target: str) -> None:
    program = make_program(SeededChooser(seed), size=18, depth=4)
    for parts in (None, 2, 8):
        check_program(program, target, parts)


@sweep
@pytest.mark.timeout(1200)
@settings(max_examples=200, deadline=None, suppress_health_check=QUIET)
@given(data=st.data(), parts=st.sampled_from([None, 1, 2, 4, 8]), target=st.sampled_from(TARGETS))
def test_many_programs_agree(data: st.DataObject, parts: int | None, target: str) -> None:
    check_program(make_program(DrawnChooser(data), size=9, depth=3), target, parts)


def test_a_seed_always_makes_the_same_program() -> None:
    assert make_program(SeededChooser(5)) == make_program(SeededChooser(5))
    assert make_program(SeededChooser(5)).text == make_program(SeededChooser(5)).text


def test_smaller_programs_are_programs() -> None:
    program = make_program(SeededChooser(16), size=6, depth=2)
    variants = list(smaller(program.statements))
    assert variants
    assert all(variant != program.statements for variant in variants[:50])
