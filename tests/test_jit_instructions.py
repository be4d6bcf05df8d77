"""Every form of every computing instruction: machine code against the interpreter, on values that matter.

The forms come from the instruction table, so a new row is tested without a new test.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pytest
from instruction_forms import COMPUTING, FormSpec, kernel_of, source_types, specs_of, tuples_of
from jit_harness import TARGETS, Case, kernel, run_interpreter, run_jit, sweep, target

from zcuda_async.interpreter import supports
from zcuda_async.jit.compile import generate_ir
from zcuda_async.jit.lower import LOWER
from zcuda_async.ptx import parse
from zcuda_async.ptx.ir import Instruction

Words = npt.NDArray[np.uint64]

BATCH = 24
"""Forms in one kernel."""

_MANY = {"set": 96, "setp": 96, "cvt": 144}
"""How many forms of the opcodes with the most of them the quick run takes."""


def is_approximate(spec: FormSpec) -> bool:
    return spec.has("approx") or spec.has("full")


def batches(specs: Sequence[FormSpec]) -> Iterator[list[FormSpec]]:
    """Forms whose operands are alike, a few at a time."""
    groups: dict[object, list[FormSpec]] = defaultdict(list)
    for spec in specs:
        groups[spec.sources, source_types(spec)].append(spec)
    for group in groups.values():
        yield from (group[at : at + BATCH] for at in range(0, len(group), BATCH))


def without_nans(words: Words, ptx_type: str) -> Words:
    """The words with one and the same NaN for every NaN in them."""
    if not ptx_type.endswith("f16x2"):
        return np.where(is_nan(words, ptx_type), np.uint64(1 << 63), words)
    low, high = words & np.uint64(0xFFFF), words >> np.uint64(16) & np.uint64(0xFFFF)
    halves = [np.where(is_nan(half, ptx_type[:-2]), np.uint64(0xFFFF), half) for half in (low, high)]
    return halves[0] | halves[1] << np.uint64(16)


def is_nan(words: Words, ptx_type: str) -> npt.NDArray[np.bool_]:
    """Which of the words are NaNs of a floating-point type."""
    infinities = {"f16": 0x7C00, "bf16": 0x7F80, "tf32": 0x7F800000, "f32": 0x7F800000, "f64": 0x7FF0000000000000}
    if ptx_type not in infinities:
        return np.zeros(words.shape, bool)
    sign = {"f16": 1 << 15, "bf16": 1 << 15, "tf32": 1 << 31, "f32": 1 << 31, "f64": 1 << 63}[ptx_type]
    return np.asarray((words & np.uint64(sign - 1)) > np.uint64(infinities[ptx_type]))


def batch_case(specs: Sequence[FormSpec], rows: Sequence[Sequence[int]], *, uniform: bool, seed: int) -> Case:
    count = len(rows)
    operands = np.array(rows, np.uint64).T.copy()
    results = np.zeros((len(specs) * 2, count), np.uint64)
    text = kernel_of(specs, count, uniform=uniform, seed=seed)
    if uniform:
        return Case(text, [operands, results], grid=(count, 1, 1), block=(1, 1, 1))
    return Case(text, [operands, results], grid=(-(-count // 48), 1, 1), block=(48, 1, 1))


def compare(specs: Sequence[FormSpec], case: Case, got: Words, want: Words) -> str:
    """The first difference of each form, as text."""
    lines = []
    for at, spec in enumerate(specs):
        for which in (0, 1):
            a, b = got[2 * at + which], want[2 * at + which]
            wrong = a != b if which else without_nans(a, spec.result_type) != without_nans(b, spec.result_type)
            for place in np.flatnonzero(wrong)[:1]:
                operands = ", ".join(hex(value) for value in case.arrays[0][:, place])
                lines.append(f"{spec.spelling} of {operands}: got {a[place]:#x}, want {b[place]:#x}")
    return "\n".join(lines)


def check_forms(specs: Sequence[FormSpec], targets: Sequence[str], rows: int, *, uniform: bool, seed: int = 1) -> None:
    rng = random.Random(seed)
    for batch in batches([spec for spec in specs if not is_approximate(spec)]):
        tuples = tuples_of(batch[0], rng, rows)
        rng.shuffle(tuples)
        case = batch_case(batch, tuples, uniform=uniform, seed=seed)
        want = run_interpreter(case)[1]
        for name in targets:
            text = compare(batch, case, run_jit(case, name)[1], want)
            assert not text, f"{name}:\n{text}"


def sample(opcode: str) -> list[FormSpec]:
    specs = specs_of(opcode)
    limit = _MANY.get(opcode, len(specs))
    return specs if len(specs) <= limit else random.Random(opcode).sample(specs, limit)


# ---------------------------------------------------------------------- the whole table


ELSEWHERE = (
    "mov cvta ld ldu st atom red shfl vote activemask redux bar barrier trap "
    "membar fence prefetch prefetchu nanosleep brkpt pmevent griddepcontrol applypriority createpolicy discard isspacep "
    "match elect mapa getctarank bar.result vprintf malloc free mbarrier call.out "
    "mma wmma ldmatrix stmatrix movmatrix tex tld4 txq suld sust sured suq istypep "
    "vadd vsub vabsdiff vmin vmax vshl vshr vmad vset vadd2 vsub2 vavrg2 vabsdiff2 vmin2 vmax2 vset2 "
    "vadd4 vsub4 vavrg4 vabsdiff4 vmin4 vmax4 vset4"
).split()
"""Opcodes with a lowering that other tests run: of memory, warps, matrices, textures, video, or hints (see below)."""


def test_no_lowered_opcode_is_forgotten() -> None:
    lowered = {opcode for table in LOWER.values() for opcode in table}
    assert lowered - set(COMPUTING) - set(ELSEWHERE) == set()


def test_hints_change_nothing() -> None:
    body = """
    mov.u64 %d10, 5; membar.gl; membar.cta; fence.sc.gpu; fence.acq_rel.cta; prefetch.global.L1 [%d0];
    prefetchu.L1 [%d0]; prefetch.L2 [%d3]; nanosleep.u32 20; pmevent 3; add.u64 %d10, %d10, %d2;
    """
    case = Case(kernel(body), [np.zeros(4, np.uint32), np.zeros(64, np.uint64)], block=(40, 1, 1))
    assert (run_jit(case)[1] == run_interpreter(case)[1]).all()


@pytest.mark.parametrize("opcode", COMPUTING)
def test_every_form_has_a_lowering(opcode: str) -> None:
    specs = specs_of(opcode)
    if len(specs) > 200:
        specs = tuple(random.Random(3).sample(specs, 200))
    for spec in specs:
        generate_ir(kernel_of([spec], 4), "<test>", "k", (32, 1, 1), target=target("host"), parts=1)


@pytest.mark.parametrize("opcode", COMPUTING)
def test_the_interpreter_has_every_form_that_is_compiled(opcode: str) -> None:
    for spec in sample(opcode):
        body = parse(kernel_of([spec], 4), "<test>").functions[0].body
        assert all(supports(item) for item in body if isinstance(item, Instruction)), spec.spelling


@pytest.mark.parametrize("opcode", COMPUTING)
def test_results_agree(opcode: str) -> None:
    check_forms(sample(opcode), ("host",), 50, uniform=False)


@pytest.mark.parametrize("opcode", [opcode for opcode in COMPUTING if opcode not in _MANY])
def test_results_agree_where_all_lanes_hold_the_same(opcode: str) -> None:
    check_forms(sample(opcode), ("host",), 12, uniform=True, seed=2)


@sweep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("uniform", [False, True])
@pytest.mark.parametrize("opcode", COMPUTING)
def test_results_of_every_form_agree_for_every_target(opcode: str, uniform: bool) -> None:
    check_forms(specs_of(opcode), TARGETS, 100 if uniform else 400, uniform=uniform, seed=4)


# ---------------------------------------------------------------------- constants as operands


def _constant(value: int, ptx_type: str) -> str:
    if ptx_type == "f32":
        return f"0f{value & 0xFFFFFFFF:08X}"
    if ptx_type == "f64":
        return f"0d{value:016X}"
    return str(value - (1 << 64)) if value >> 63 else str(value)


@pytest.mark.parametrize(
    "opcode", "add sub mul mad shl shr shf bfe bfi and prmt min setp selp slct fma div rem".split()
)
def test_constant_operands_agree(opcode: str) -> None:
    """The last operand, or the last two, as constants: of every value a form of its own."""
    rng = random.Random(7)
    specs = [spec for spec in specs_of(opcode) if not is_approximate(spec) and spec.sources[-1] != "pred"]
    specs = [spec for spec in specs if set(source_types(spec)) <= _WITH_CONSTANTS] or specs_of(opcode)[:4]
    for batch in batches(rng.sample(specs, min(len(specs), 16))):
        chosen, constants = [], []
        kinds = source_types(batch[0])
        for spec in batch:
            for values in tuples_of(spec, rng, 40)[:6]:
                places = [len(kinds) - 1] if rng.random() < 0.7 else [len(kinds) - 2, len(kinds) - 1]
                chosen.append(spec)
                constants.append({at: _constant(_fitting(spec, at, values[at]), kinds[at]) for at in places if at > 0})
        rows = tuples_of(batch[0], rng, 40)
        case = batch_case(chosen, rows, uniform=False, seed=1)
        case = Case(kernel_of(chosen, len(rows), immediates=constants), case.args, grid=case.grid, block=case.block)
        want = run_interpreter(case)[1]
        text = compare(chosen, case, run_jit(case, "host")[1], want)
        assert not text, text


_WITH_CONSTANTS = {f"{kind}{bits}" for kind in "bus" for bits in (16, 32, 64)} | {"f32", "f64"}


def _fitting(spec: FormSpec, at: int, value: int) -> int:
    """A value that the operand may be as a constant: ``bfe`` and ``bfi`` take 0 to 255 only."""
    return value & 255 if spec.opcode in ("bfe", "bfi") and at >= len(spec.sources) - 2 else value


def test_floating_point_constants_are_rounded_to_their_type() -> None:
    body = """
    mov.f32 %f0, 0d7FE0000000000000; add.f32 %f1, %f0, 0d3FF199999999999A; add.f32 %f2, 0f3F8CCCCD, 1.1;
    add.f64 %e0, 0f3F8CCCCD, 1.1; mov.b32 %r10, %f1; mov.b32 %r11, %f2; mov.b64 %d11, %e0;
    mad.wide.u32 %d10, %r10, 3, %d11; cvt.u64.u32 %d12, %r11; add.u64 %d10, %d10, %d12;
    """
    case = Case(kernel(body), [np.zeros(4, np.uint32), np.zeros(32, np.uint64)], block=(32, 1, 1))
    want = run_interpreter(case)[1]
    assert all((run_jit(case, name)[1] == want).all() for name in TARGETS)


# ---------------------------------------------------------------------- approximations

WIDE = np.concatenate(
    [
        np.random.default_rng(3).integers(0, 1 << 32, 3000, dtype=np.uint64).astype(np.uint32).view(np.float32),
        *(np.random.default_rng(4).uniform(-size, size, 1500).astype(np.float32) for size in (1, 6.3, 150, 310)),
        np.array([0.0, 1.0, 2.0, 0.5, np.inf, np.nan, 1e-45, 2.0**-126, 2.0**127, 128, 149, 150, 126], np.float32),
        -np.array([0.0, 1.0, 2.0, 0.5, np.inf, np.nan, 1e-45, 2.0**-126, 2.0**127, 128, 149, 150, 126], np.float32),
    ]
)


def _ulp(want: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """One unit in the last place of the nearest f32."""
    units: npt.NDArray[np.float64] = np.spacing(np.abs(want.astype(np.float32))).astype(np.float64)
    return units


def allowed(spec: FormSpec, x: npt.NDArray[np.float64], want: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The absolute error that PTX allows; infinite where it promises nothing."""
    size = np.abs(want)
    match spec.opcode:
        case "ex2" | "div":
            return 2 * _ulp(want)
        case "rcp":
            return 1 * _ulp(want)
        case "sqrt":
            return np.asarray(np.maximum(size * 2.0**-23, _ulp(want) / 2))
        case "rsqrt":
            return np.asarray(size * float(2.0**-22.9))
        case "lg2":
            return np.where((x > 0.5) & (x < 2), 2.0**-22, size * 2.0**-22)
        case "sin" | "cos":
            far = np.where(np.abs(x) <= 100 * np.pi, 2.0**-14.7, np.inf)
            return np.where(np.abs(x) <= 2 * np.pi, 2.0**-20.5, far)
        case "tanh":
            return size * 2.0**-11
    raise AssertionError(spec.opcode)


APPROXIMATE = [
    spec
    for opcode in ("ex2", "lg2", "sin", "cos", "tanh", "rcp", "sqrt", "rsqrt", "div")
    for spec in specs_of(opcode)
    if is_approximate(spec) and set(spec.types) == {"f32"}
]


@pytest.mark.parametrize("spec", APPROXIMATE, ids=lambda spec: spec.spelling)
def test_approximations_keep_the_bounds_that_ptx_states(spec: FormSpec) -> None:
    count = len(WIDE)
    operands = np.zeros((len(spec.sources), count), np.uint64)
    for at in range(len(spec.sources)):
        operands[at] = np.roll(WIDE, 977 * at).view(np.uint32)
    case = Case(
        kernel_of([spec], count),
        [operands, np.zeros((2, count), np.uint64)],
        grid=(-(-count // 256), 1, 1),
        block=(256, 1, 1),
    )
    want_bits, *got_bits = (
        words[1][0].astype(np.uint32) for words in (run_interpreter(case), *(run_jit(case, name) for name in TARGETS))
    )
    with np.errstate(all="ignore"):
        want, x = want_bits.view(np.float32).astype(np.float64), WIDE.astype(np.float64)
        # The interpreter's own value is half a unit off at most.
        bound = allowed(spec, x, want) + _ulp(want) / 2
        for name, bits in zip(TARGETS, got_bits, strict=True):
            got = bits.view(np.float32).astype(np.float64)
            same = (np.isnan(got) & np.isnan(want)) | (got == want) | (np.abs(got - want) <= bound)
            if spec.opcode in ("sin", "cos"):
                same |= np.abs(x) > 100 * np.pi
            assert same.all(), f"{name}: {[(WIDE[i], got[i], want[i]) for i in np.flatnonzero(~same)[:4]]}"


@pytest.mark.parametrize("spelling", ["rcp.approx.ftz.f64", "rsqrt.approx.f64", "rsqrt.approx.ftz.f64"])
def test_approximations_of_doubles_agree(spelling: str) -> None:
    (spec,) = [spec for spec in specs_of(spelling.partition(".")[0]) if spec.spelling == spelling]
    rows = [(bits,) for (bits,) in tuples_of(spec, random.Random(1), 300)]
    case = batch_case([spec], rows, uniform=False, seed=1)
    want = run_interpreter(case)[1][0].view(np.float64)
    got = run_jit(case)[1][0].view(np.float64)
    np.testing.assert_allclose(got, want, rtol=2.0**-50)
