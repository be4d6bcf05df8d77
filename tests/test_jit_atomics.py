"""Atomics of all types, in all spaces: machine code, interpreter and numpy agree."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from jit_harness import TARGETS, Case, differences, run_interpreter, run_jit, target
from spelling_kernels import kernel_of_spellings

from zcuda_async.jit.compile import generate_ir
from zcuda_async.ptx import PtxError

COUNT = 64
"""Threads; they share eight places in memory."""

SPACES = ("global", "shared", "generic", "generic shared")


def atomic_kernel(operation: str, kind: str, space: str, *, lanes: int = 1, compare: bool = False) -> str:
    """A kernel in which thread i does the operation on element (i * 5) % 8 of ``data`` with operand i.

    ``old`` gets what each thread found, unless the operation is a ``red``.
    """
    size = int(kind.strip("bfsux").removesuffix("x2").removesuffix("x")) // 8 * (2 if kind.endswith("x2") else 1)
    bits = 8 * size
    unit = size * lanes
    register = kind if kind in ("f32", "f64") else f"b{bits}"
    values = [f"%v{lane}" for lane in range(lanes)]
    olds = [f"%o{lane}" for lane in range(lanes)]
    group = (lambda names: "{" + ", ".join(names) + "}") if lanes > 1 else (lambda names: names[0])
    dotted = {"generic": "", "generic shared": ""}.get(space, "." + space)
    shared = "shared" in space
    loads = [f"ld.global.{register} {value}, [%d4+{size * lane}];" for lane, value in enumerate(values)]
    where = {"global": "%d7", "generic": "%d7", "shared": "%d8", "generic shared": "%d9"}[space]
    head, _, tail = operation.partition(".")
    spelling = f"{head}{dotted}.{tail}{f'.v{lanes}' if lanes > 1 else ''}.{kind}"
    destination = f"{group(olds)}, " if head == "atom" else ""
    operand = f"{values[0]}, %c" if compare else group(values)
    stores = [f"st.global.{register} [%d5+{size * lane}], {old};" for lane, old in enumerate(olds) if head == "atom"]
    return f"""\
.version 8.7
.target sm_90
.address_size 64
.visible .entry k(.param .u64 data, .param .u64 values, .param .u64 old)
{{
.reg .b64 %d<20>; .reg .b32 %r<20>; .reg .pred %p<4>; .reg .{register} {", ".join([*values, *olds])}, %c, %m<9>;
.shared .align 16 .b8 place[{8 * unit}];
ld.param.u64 %d0, [data]; ld.param.u64 %d1, [values]; ld.param.u64 %d2, [old];
mov.u32 %r0, %tid.x; mul.lo.u32 %r1, %r0, 5; and.b32 %r1, %r1, 7;
mul.wide.u32 %d3, %r0, {unit}; add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;
mul.wide.u32 %d6, %r1, {unit}; add.s64 %d7, %d0, %d6;
mov.u64 %d8, place; add.s64 %d8, %d8, %d6; cvta.shared.u64 %d9, %d8;
{" ".join(loads)}
ld.global.{register} %c, [%d1+{size}];
setp.lt.u32 %p0, %r0, 8;
add.s64 %d10, %d0, %d3; mov.u64 %d11, place; add.s64 %d11, %d11, %d3;
{"".join(f"@%p0 ld.global.{register} %m{n}, [%d10+{size * n}]; " for n in range(lanes)) if shared else ""}
{"".join(f"@%p0 st.shared.{register} [%d11+{size * n}], %m{n}; " for n in range(lanes)) if shared else ""}
bar.sync 0;
{spelling} {destination}[{where}], {operand};
{" ".join(stores)}
bar.sync 0;
{"".join(f"@%p0 ld.shared.{register} %m{n}, [%d11+{size * n}]; " for n in range(lanes)) if shared else ""}
{"".join(f"@%p0 st.global.{register} [%d10+{size * n}], %m{n}; " for n in range(lanes)) if shared else ""}
ret;
}}
"""


def run(
    text: str, data: npt.NDArray[np.generic], values: npt.NDArray[np.generic]
) -> dict[str, list[npt.NDArray[np.generic]]]:
    case = Case(text, [data, values, np.zeros_like(values)], block=(COUNT, 1, 1))
    results = {"interpreter": run_interpreter(case)}
    # Of the older processors one a case: the code differs in how it is compiled, not in what is generated.
    older = () if "\nred" in text else (TARGETS[1 + len(text) % 2],)
    results.update((name, run_jit(case, name)) for name in ("host", *older))
    return results


def sequential(
    update: Callable[[np.generic, np.generic], np.generic],
    data: npt.NDArray[np.generic],
    values: npt.NDArray[np.generic],
) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]]:
    """The threads one after another: (memory, what each found)."""
    data, old = data.copy(), np.zeros_like(values)
    for i in range(COUNT):
        at = i * 5 % 8
        old[i] = data[at]
        with np.errstate(all="ignore"):
            data[at] = update(data[at], values[i])
    return data, old


INTEGER: dict[str, Callable[..., object]] = {
    "add": lambda a, b: a + b,
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "exch": lambda _, b: b,
    "inc": lambda a, b: 0 if a >= b else a + 1,
    "dec": lambda a, b: b if a == 0 or a > b else a - 1,
}
INTEGER_FORMS = [
    *(("add", kind) for kind in ("u32", "s32", "u64")),
    *((name, kind) for name in ("min", "max") for kind in ("u32", "s32", "u64", "s64")),
    *((name, kind) for name in ("and", "or", "xor", "exch") for kind in ("b32", "b64")),
    *((name, "u32") for name in ("inc", "dec")),
]


@pytest.mark.parametrize(
    ("name", "kind", "space"),
    # Every form in one generic space and one named one.
    [(name, kind, SPACES[(at + step) % 4]) for at, (name, kind) in enumerate(INTEGER_FORMS) for step in (0, 1)],
)
def test_integers(name: str, kind: str, space: str) -> None:
    dtype = np.dtype({"u32": "u4", "s32": "i4", "u64": "u8", "s64": "i8", "b32": "u4", "b64": "u8"}[kind])
    rng = np.random.default_rng(1)
    info = np.iinfo(dtype)
    small = name in ("inc", "dec")
    data = rng.integers(0, 4, 8, dtype) if small else rng.integers(info.min, info.max, 8, dtype)
    values = rng.integers(0, 7, COUNT, dtype) if small else rng.integers(info.min, info.max, COUNT, dtype)
    want, old = sequential(INTEGER[name], data, values)  # type: ignore[arg-type]
    for name_of_target, got in run(atomic_kernel(f"atom.{name}", kind, space), data, values).items():
        assert not differences([got[0], got[2]], [want, old]), name_of_target
    if name != "exch" and space in ("global", "shared"):
        for name_of_target, got in run(atomic_kernel(f"red.{name}", kind, space), data, values).items():
            assert (got[0] == want).all(), name_of_target


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("kind", ["f32", "f64"])
def test_sums_of_floats(kind: str, space: str) -> None:
    dtype = np.dtype(kind.replace("f32", "f4").replace("f64", "f8"))
    values = np.random.default_rng(2).normal(size=COUNT).astype(dtype)
    data = np.zeros(8, dtype)
    want, old = sequential(lambda a, b: a + b, data, values)  # type: ignore[operator]
    for name_of_target, got in run(atomic_kernel("atom.add", kind, space), data, values).items():
        assert not differences([got[0], got[2]], [want, old]), name_of_target
    for name_of_target, got in run(atomic_kernel("red.add", kind, space), data, values).items():
        np.testing.assert_allclose(got[0], want, rtol=1e-5, err_msg=name_of_target)


def halves(kind: str) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16]]:
    """Eight places and an operand for each thread: patterns of 16-bit floats, some special, no NaN."""
    rng = np.random.default_rng(3)
    floats = rng.normal(size=2 * COUNT + 16).astype(np.float32) * np.float32(2.0) ** rng.integers(
        -12, 5, 2 * COUNT + 16
    )
    bits = floats.astype(np.float16).view(np.uint16) if kind.startswith("f16") else (floats.view(np.uint32) >> 16)
    bits = bits.astype(np.uint16)
    bits[::11] &= 0x83FF  # subnormal numbers and zeros of both signs
    return bits[: 2 * COUNT], bits[2 * COUNT :]


def half_sum(kind: str) -> Callable[[int, int], int]:
    def run(a: int, b: int) -> int:
        if kind.startswith("f16"):
            x, y = (np.uint16(bits).view(np.float16) for bits in (a, b))
            return int((x + y).view(np.uint16))
        x, y = (np.uint32(int(bits) << 16).view(np.float32) for bits in (a, b))
        total = int((x + y).view(np.uint32))
        return (total + 0x7FFF + (total >> 16 & 1)) >> 16

    return run


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("kind", ["f16", "bf16", "f16x2", "bf16x2"])
def test_sums_of_halves(kind: str, space: str) -> None:
    values, data = halves(kind)
    one = half_sum(kind)
    if kind.endswith("x2"):
        values, data = values.view(np.uint32), data.view(np.uint32)
        update = lambda a, b: one(int(a) & 0xFFFF, int(b) & 0xFFFF) | one(int(a) >> 16, int(b) >> 16) << 16  # noqa: E731
    else:
        values, data = values[:COUNT].copy(), data[:8].copy()
        update = lambda a, b: one(int(a), int(b))  # noqa: E731
    want, old = sequential(update, data, values)  # type: ignore[arg-type]
    for name_of_target, got in run(atomic_kernel("atom.add.noftz", kind, space), data, values).items():
        assert not differences([got[0], got[2]], [want, old]), name_of_target
    for name_of_target, got in run(atomic_kernel("red.add.noftz", kind, space), data, values).items():
        assert not differences([got[0]], [want]), name_of_target


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(("kind", "dtype"), [("b16", np.uint16), ("b32", np.uint32), ("b64", np.uint64)])
def test_compare_and_swap(kind: str, dtype: type[np.unsignedinteger], space: str) -> None:
    """The value to compare with is the thread's own, the new one the second of the operands."""
    rng = np.random.default_rng(4)
    values = rng.integers(0, 4, COUNT).astype(dtype)
    values[1] = 3
    data = rng.integers(0, 4, 8).astype(dtype)
    want, old = sequential(lambda a, b: values[1] if a == b else a, data, values)
    for name_of_target, got in run(atomic_kernel("atom.cas", kind, space, compare=True), data, values).items():
        assert not differences([got[0], got[2]], [want, old]), name_of_target


@pytest.mark.parametrize("space", ["global"])
@pytest.mark.parametrize(
    ("operation", "kind", "lanes"),
    [
        ("add", "f32", 2), ("add", "f32", 4),
        *((f"{name}.noftz", kind, 2) for name in ("add", "min", "max") for kind in ("f16", "bf16", "f16x2", "bf16x2")),
        ("add.noftz", "f16", 8), ("max.noftz", "bf16", 4), ("min.noftz", "f16x2", 4),
    ],
)  # fmt: skip
def test_vectors(operation: str, kind: str, lanes: int, space: str) -> None:
    rng = np.random.default_rng(5)
    if kind == "f32":
        values, data = rng.normal(size=COUNT * lanes).astype(np.float32), np.zeros(8 * lanes, np.float32)
    else:
        width = lanes * (2 if kind.endswith("x2") else 1)
        bits = rng.normal(size=(COUNT + 8) * width).astype(np.float32)
        patterns = bits.astype(np.float16).view(np.uint16) if kind[0] == "f" else (bits.view(np.uint32) >> 16)
        patterns = patterns.astype(np.uint16)
        dtype = np.uint32 if kind.endswith("x2") else np.uint16
        values = patterns[: COUNT * width].view(dtype)
        data = patterns[COUNT * width :].view(dtype)
    for head in ("atom", "red"):
        results = run(atomic_kernel(f"{head}.{operation}", kind, space, lanes=lanes), data, values)
        want = results.pop("interpreter")
        if kind == "f32":
            sums = np.zeros((8, lanes), np.float64)
            np.add.at(sums, np.arange(COUNT) * 5 % 8, values.reshape(COUNT, lanes))
            np.testing.assert_allclose(want[0].reshape(8, lanes), sums, rtol=1e-4, atol=1e-5)
        for name_of_target, got in results.items():
            assert not differences(got, want), name_of_target


@pytest.mark.parametrize(
    "spelling",
    [
        "atom.global.gpu.acq_rel.add.u32", "atom.add.release.gpu.u32", "atom.or.acq_rel.cta.b32",
        "atom.relaxed.sys.cas.b32", "atom.global.sys.exch.b32", "atom.max.acquire.gpu.s32",
        "atom.relaxed.cluster.global.add.f64", "atom.acq_rel.sys.global.min.u64",
    ],
)  # fmt: skip
def test_order_and_scope_may_stand_in_any_place(spelling: str) -> None:
    text = kernel_of_spellings([spelling])
    case = Case(text, [np.arange(16384, dtype=np.uint32)], block=(4, 1, 1))
    want = run_interpreter(case)
    for name in TARGETS:
        assert not differences(run_jit(case, name), want), name


def test_a_cache_policy_is_taken_and_ignored() -> None:
    text = atomic_kernel("atom.add", "u32", "global").replace(
        "atom.global.add.u32 %o0, [%d7], %v0;",
        "createpolicy.fractional.L2::evict_first.b64 %d12; atom.global.add.L2::cache_hint.u32 %o0, [%d7], %v0, %d12;",
    )
    assert "cache_hint" in text
    values = np.arange(COUNT, dtype=np.uint32)
    results = run(text, np.zeros(8, np.uint32), values)
    want, old = sequential(lambda a, b: a + b, np.zeros(8, np.uint32), values)  # type: ignore[operator]
    for name_of_target, got in results.items():
        assert not differences([got[0], got[2]], [want, old]), name_of_target


def wide_kernel(operation: str, space: str) -> str:
    """``atom.exch.b128`` or ``.cas``: thread i works on place i % 4 with its own operand; cas stores thread 0's."""
    where = "%d8" if space == "shared" else "%d7"
    dotted = "" if space == "generic" else "." + space
    back = "@%p0 ld.shared.b128 %q5, [%d8]; @%p0 st.global.b128 [%d7], %q5;" if space == "shared" else ""
    return f"""\
.version 8.7
.target sm_90
.address_size 64
.visible .entry k(.param .u64 data, .param .u64 values, .param .u64 old)
{{
.reg .b64 %d<20>; .reg .b32 %r<9>; .reg .b128 %q<9>; .reg .pred %p<3>;
.shared .align 16 .b8 place[64];
ld.param.u64 %d0, [data]; ld.param.u64 %d1, [values]; ld.param.u64 %d2, [old];
mov.u32 %r0, %tid.x; and.b32 %r1, %r0, 3; mul.wide.u32 %d3, %r0, 16; mul.wide.u32 %d6, %r1, 16;
add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3; add.s64 %d7, %d0, %d6; mov.u64 %d9, place; add.s64 %d8, %d9, %d6;
ld.global.b128 %q1, [%d4]; ld.global.b128 %q2, [%d1]; ld.global.b128 %q3, [%d7];
setp.lt.u32 %p0, %r0, 4; @%p0 st.shared.b128 [%d8], %q3; bar.sync 0;
atom{dotted}.{operation}.b128 %q4, [{where}], %q1{", %q2" if operation == "cas" else ""};
st.global.b128 [%d5], %q4; bar.sync 0; {back}
ret;
}}
"""


@pytest.mark.parametrize("space", ["global", "shared", "generic"])
@pytest.mark.parametrize("operation", ["exch", "cas"])
def test_128_bits(operation: str, space: str) -> None:
    rng = np.random.default_rng(6)
    data, values = (rng.integers(0, 2, 2 * count).astype(np.uint64) for count in (4, COUNT))
    case = Case(wide_kernel(operation, space), [data, values, np.zeros_like(values)], block=(COUNT, 1, 1))
    want = run_interpreter(case)
    for name in ("host", "avx2"):
        assert not differences(run_jit(case, name), want), name


def test_processors_that_cannot_exchange_128_bits_say_so() -> None:
    with pytest.raises(PtxError, match="cannot exchange 128 bits atomically"):
        generate_ir(wide_kernel("exch", "global"), "<test>", "k", (32, 1, 1), target=target("sse2"))
