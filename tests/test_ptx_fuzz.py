"""Whatever the text, `parse` gives a module or a `PtxError`, in bounded time and memory."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from fuzz.fuzz_ptx import make, run_one
from fuzz.mutate import mutant
from fuzz.seeds import small_seeds
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zcuda_async.ptx import PtxError, parse
from zcuda_async.ptx.lexer import Source, tokenize

FOLDER = Path(__file__).parent / "ptx"
TEXTS = tuple(path.read_text() for path in sorted(FOLDER.glob("*.ptx")))
HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
ODD = ("{", "}", "<", ">", "[", "]", "(", ")", "-", "|", "!", "@", "_", "0", "-1", "9" * 30, "0f3F800000", "1.5", '"',
       "\0", "/*", "//", "é", "%", "$", ".", "::", ".reg", ".param", ".branchtargets", "#", "\ud800")  # fmt: skip
WORDS = sorted({token for text in TEXTS for token in tokenize(Source(text, "x")).texts if token})


def survives(text: str) -> None:
    with suppress(PtxError):
        parse(text)


def pieces(text: str) -> list[str]:
    """The module's functions, each with a header so that it can stand alone."""
    return [HEADER + ".visible .entry" + piece[: piece.find("\n}") + 2] for piece in text.split(".entry")[1:]]


FUNCTIONS = [piece for text in TEXTS for piece in pieces(text)]


@st.composite
def mutants(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(FUNCTIONS))[: draw(st.sampled_from((800, 4000, 20000)))]
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, max(0, len(text) - 1)))
        end = start + draw(st.integers(0, 12))
        new = draw(st.one_of(st.sampled_from(ODD), st.sampled_from(WORDS), st.text(max_size=3), st.just("")))
        text = text[:start] + new + text[end:]
    return text


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(mutants())
def test_mutated_kernels_raise_nothing_else(text: str) -> None:
    survives(text)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(WORDS), st.sampled_from(ODD)), max_size=40))
def test_token_soup_raises_nothing_else(words: list[str]) -> None:
    survives(HEADER + ".entry k() { .reg .b32 %r<9>; " + " ".join(words))
    survives(HEADER + " ".join(words))


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=60))
def test_any_text_raises_nothing_else(text: str) -> None:
    survives(text)
    survives(HEADER + text)


@pytest.mark.parametrize(
    "text",
    [
        "{" * 100_000,
        "(" * 100_000,
        "/*" * 50_000,
        '"' * 99_999,
        "\\" * 50_000,
        "!" * 100_000,
        "-" * 100_000,
        "9" * 100_000,
        "a" * 100_000,
        "%r" + "1" * 100_000,
        "." + "a" * 100_000,
        "add" + ".cc" * 30_000,
        "L:" * 30_000,
        "@" * 100_000,
    ],
    ids=lambda text: text[:3],
)
def test_repetition_is_harmless(text: str) -> None:
    for start in ("", HEADER, HEADER + ".global .b8 x[] = ", HEADER + ".entry k() {", HEADER + ".entry k() { mov.u32 "):
        survives(start + text)


def test_huge_register_ranges_cost_nothing() -> None:
    lines = "".join(f".reg .b32 %a{index}_<1000000>;" for index in range(200))
    tracemalloc.start()
    parse(HEADER + f".entry k() {{ {lines} mov.b32 %a7_999999, 1; }}")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000


def test_zeros_between_values_are_bounded_for_the_whole_module() -> None:
    lines = "".join(f".global .b8 x{index}[2][9000000] = {{{{1}}, {{2}}}};" for index in range(200))
    with pytest.raises(PtxError, match=r"initial values imply more than 67108864 bytes of zeros between them"):
        parse(HEADER + lines)


def test_a_large_function_is_read() -> None:
    body = "".join(f"L{index}: add.s32 %r1, %r{index}, {index}; @%p bra L{index};\n" for index in range(3000))
    (function,) = parse(HEADER + f".entry k() {{ .reg .pred %p; .reg .b32 %r<4000>; {body} }}").functions
    assert len(function.body) == 9000


@pytest.mark.parametrize("part", range(4))
def test_mutants_are_loaded_or_refused(part: int) -> None:
    """A short piece of what ``python -m tests.fuzz.fuzz_ptx`` does for hours."""
    seen = Counter[str]()
    for number in range(100 * part, 100 * (part + 1)):
        run_one(make(small_seeds(), 0, number), number, seen)
    assert seen["read"] >= 5, seen
    assert seen["generated"] >= 1, seen
    assert seen["reports"] >= 1, seen


def test_a_mutant_is_always_the_same() -> None:
    assert make(small_seeds(), 1, 2) == make(small_seeds(), 1, 2) != make(small_seeds(), 1, 3)
    assert {type(make(small_seeds(), 0, number)) for number in range(200)} == {str, bytes}


def test_mutants_are_bounded() -> None:
    seeds = small_seeds()
    for number in range(200):
        assert len(mutant(seeds.texts[0], Random(number), seeds, 5000)) <= 5000
    assert mutant("", Random(1), seeds) == ""
