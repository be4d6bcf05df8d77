"""Functions that stay functions because the kernel would become too large with them expanded."""

from __future__ import annotations

import numpy as np
import pytest
from jit_harness import Case, check

from zcuda_async.jit import callsize
from zcuda_async.jit.callgraph import build_call_graph
from zcuda_async.jit.callsize import functions_to_keep
from zcuda_async.jit.inline import expand_calls
from zcuda_async.ptx import parse
from zcuda_async.ptx.ir import Module

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"


def function(name: str, *, steps: int, calls: tuple[str, ...] = (), body: str = "") -> str:
    """A function of one word that adds 1 `steps` times and then calls others with what it has."""
    inner = "".join(f"call (%r1), {callee}, (%r1);" for callee in calls)
    return (
        f".func (.param .b32 result) {name}(.param .b32 n) {{ .reg .b32 %r<4>; .local .align 4 .b8 own[400];"
        f"ld.param.u32 %r1, [n]; st.local.u32 [own+4], %r1; {'add.u32 %r1, %r1, 1;' * steps}{body}{inner}"
        "ld.local.u32 %r2, [own+4]; xor.b32 %r1, %r1, %r2; add.u32 %r1, %r1, %r2; st.param.b32 [result], %r1; ret; }\n"
    )


def program(functions: str, calls: tuple[str, ...]) -> str:
    body = "".join(f"call (%r1), {callee}, (%r1);" for callee in calls)
    return (
        f"{HEAD}{functions}.visible .entry k(.param .u64 out) {{ .reg .b32 %r<4>; .reg .b64 %d<4>; ld.param.u64 %d1, [out];"
        f"mov.u32 %r1, %tid.x; {body} mov.u32 %r2, %tid.x; mul.wide.u32 %d2, %r2, 4; add.u64 %d1, %d1, %d2;"
        "st.global.u32 [%d1], %r1; ret; }\n"
    )


def kept(text: str) -> set[str]:
    module: Module = parse(text)
    kernel = next(f for f in module.functions if f.name == "k")
    return set(functions_to_keep(module, kernel, build_call_graph(module)))


LEAF = function("leaf", steps=300)


@pytest.mark.parametrize(
    ("functions", "calls", "want"),
    [
        (LEAF, ("leaf",) * 30, set()),
        (LEAF, ("leaf",) * 40, {"leaf"}),
        (function("leaf", steps=20000), ("leaf",), set()),
        (LEAF + function("pair", steps=1, calls=("leaf",) * 20), ("pair", "pair"), {"leaf"}),
        (LEAF + function("many", steps=1, calls=("leaf",) * 60), ("many",), {"leaf"}),
        (LEAF + function("other", steps=300), ("leaf",) * 40 + ("other",) * 2, {"leaf"}),
        (function("leaf", steps=300, body="barrier.cluster.arrive; barrier.cluster.wait;"), ("leaf",) * 40, set()),
    ],
    ids=[
        "fits",
        "too large",
        "once",
        "a caller",
        "a callee",
        "one of two",
        "bound by a cluster's barrier",
    ],
)
def test_what_is_kept(functions: str, calls: tuple[str, ...], want: set[str]) -> None:
    assert kept(program(functions, calls)) == want


def test_a_program_of_many_calls_stays_small() -> None:
    layers = function("f0", steps=9)
    layers += "".join(function(f"f{n + 1}", steps=9, calls=(f"f{n}",) * 3) for n in range(20))
    module = parse(program(layers, ("f20",)))
    kernel = next(f for f in module.functions if f.name == "k")
    assert kept(program(layers, ("f20",)))
    assert len(expand_calls(module, kernel).instructions) < 20_000


@pytest.fixture
def small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that small programs are too large."""
    monkeypatch.setattr(callsize, "_LARGE", 60)


SMALL = function("leaf", steps=20)


@pytest.mark.usefixtures("small_limit")
@pytest.mark.parametrize("calls", [("leaf",) * 5, ("pair", "leaf", "pair")])
def test_kept_functions_compute_the_same_and_take_no_stack(calls: tuple[str, ...]) -> None:
    text = program(SMALL + function("pair", steps=3, calls=("leaf", "leaf")), calls)
    assert "leaf" in kept(text)
    check(Case(text, [np.zeros(50, np.uint32)], block=(50, 1, 1), stack_bytes=64), parts=(None, 1))


@pytest.mark.usefixtures("small_limit")
def test_kept_functions_with_barriers_and_shuffles() -> None:
    body = "shfl.sync.bfly.b32 %r3, %r1, 5, 31, -1; add.u32 %r1, %r1, %r3; bar.sync 0;"
    text = program(function("leaf", steps=20, body=body), ("leaf",) * 4)
    assert kept(text) == {"leaf"}
    check(Case(text, [np.zeros(64, np.uint32)], block=(64, 1, 1)), parts=(None, 2))
