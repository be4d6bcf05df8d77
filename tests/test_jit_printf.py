"""printf in kernels: the compiler, the interpreter, and what C would print (``printf.ptx``, built from ``printf.cu``)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from jit_harness import TARGETS, Case, run_interpreter, run_jit
from jit_services import Services, services

TEXT = (Path(__file__).parent / "ptx" / "printf.ptx").read_text()


def printed_by_jit(case: Case, target: str = "host", parts: int | None = None) -> tuple[bytes, list[np.ndarray]]:
    services().ring.collect()
    arrays = run_jit(case, target, parts)
    return services().ring.collect(), arrays


def printed_by_interpreter(case: Case) -> tuple[bytes, list[np.ndarray]]:
    pieces: list[bytes] = []
    arrays = run_interpreter(case, output=pieces.append)
    return b"".join(pieces), arrays


def line(i: int, x: float) -> bytes:
    word = "odd" if i % 2 else "even"
    address = f"{i:#x}" if i else "(nil)"
    return f"thread {i} of {word}: {x:5.2f} {i << 33} {chr(97 + i % 26)} {address} %\n".encode()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("parts", [None, 1, 2])
def test_threads_print_in_order(target: str, parts: int | None) -> None:
    x = np.linspace(-3, 40, 100, dtype=np.float32)
    case = Case(TEXT, [90, x], "k", grid=(3, 1, 1), block=(37, 1, 1))
    text, _ = printed_by_jit(case, target, parts)
    assert text == b"".join(line(i, float(x[i])) for i in range(90))
    assert text == printed_by_interpreter(case)[0]


def test_results_strings_in_local_memory_and_stars() -> None:
    case = Case(TEXT, [np.zeros(6, np.int32)], "results", block=(6, 1, 1))
    text, (out,) = printed_by_jit(case)
    assert out.tolist() == [5, 5, 5, 0, 5, 5]
    lines = [b"%s|%-10d|%*d|beef\n" % (bytes(range(97 + i, 104 + i)), i, i + 1, i) for i in range(6)]
    lines[3] = b"no arguments\n"
    assert sorted(text.splitlines()) == sorted(b"".join(lines).splitlines())
    other, (same,) = printed_by_interpreter(case)
    assert sorted(other.splitlines()) == sorted(text.splitlines())
    assert same.tolist() == out.tolist()


def test_a_full_buffer_loses_the_oldest_output(monkeypatch: pytest.MonkeyPatch) -> None:
    small = Services(1 << 12)
    monkeypatch.setattr("jit_harness.services", lambda: small)
    x = np.zeros(1000, np.float32)
    case = Case(TEXT, [1000, x], "k", grid=(10, 1, 1), block=(100, 1, 1))
    expected = b"".join(line(i, 0) for i in range(1000))
    for _ in range(3):
        run_jit(case)
        text = small.ring.collect()
        assert len(text) > 1000
        assert expected.endswith(text)
        assert text.startswith(b"thread ")
        assert small.ring.is_empty
    assert small.ring.lost > 1000


def test_records_left_unfinished_are_skipped_once_nothing_runs() -> None:
    ring = Services(1 << 12).ring
    ring._view[:8] = (64).to_bytes(8, "little")  # reserved, and never written
    assert ring.collect() == b""
    assert not ring.is_empty
    assert ring.collect(final=True) == b""
    assert ring.is_empty


def test_no_format_is_an_error() -> None:
    text = (
        TEXT.split(".visible")[0]
        + """
.visible .entry k(.param .u64 out) {
.reg .b64 %d<4>; .reg .b32 %r<4>;
ld.param.u64 %d0, [out];
{ .param .b64 a; st.param.b64 [a], 0; .param .b64 b; st.param.b64 [b], 0; .param .b32 c;
call (c), vprintf, (a, b); ld.param.b32 %r1, [c]; }
st.global.u32 [%d0], %r1;
mov.b64 %d1, 0; mov.b64 %d2, 0;
call (%r2), vprintf, (%d1, %d2);
st.global.u32 [%d0+4], %r2;
ret; }
"""
    )
    case = Case(text, [np.zeros(2, np.int32)], block=(1, 1, 1))
    assert printed_by_jit(case)[1][0].tolist() == [-1, -1]
    assert printed_by_interpreter(replace(case))[1][0].tolist() == [-1, -1]
