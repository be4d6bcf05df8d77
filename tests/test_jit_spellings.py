"""Every spelling of arithmetic, memory and special instructions that compilers emit is compiled and interpreted.

The spellings are in ``ptx/spellings.txt``, sorted by opcode.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from jit_harness import target
from scalar_tools import BF16, F16, F32, F64, check_spelling
from spelling_kernels import kernel_of_spellings, statement

from zcuda_async.interpreter import supports
from zcuda_async.jit.compile import generate_ir
from zcuda_async.ptx import PtxError, parse
from zcuda_async.ptx.ir import Instruction
from zcuda_async.ptx.table import Form, resolve
from zcuda_async.ptx.table_special import SPECIAL_REGISTERS
from zcuda_async.ptx.table_syntax import TYPE_WIDTHS

BATCH = 60
FLOATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}


def spellings() -> dict[str, list[str]]:
    """By opcode; lines that start with # are headings."""
    found: dict[str, list[str]] = {}
    for line in (Path(__file__).parent / "ptx" / "spellings.txt").read_text().splitlines():
        if not line.startswith("#"):
            for spelling in line.split():
                found.setdefault(spelling.partition(".")[0], []).append(spelling)
    return found


SPELLINGS = spellings()


def form_of(spelling: str) -> Form:
    form = resolve(spelling)
    assert form is not None, spelling
    return form


@pytest.mark.parametrize("opcode", list(SPELLINGS))
def test_every_spelling_is_compiled_and_interpreted(opcode: str) -> None:
    for start in range(0, len(SPELLINGS[opcode]), BATCH):
        text = kernel_of_spellings(SPELLINGS[opcode][start : start + BATCH])
        generate_ir(text, "<test>", "k", (32, 1, 1), target=target("host"), parts=1)
        body = parse(text, "<test>").functions[0].body
        missing = [item for item in body if isinstance(item, Instruction) and not supports(item)]
        assert not missing, statement(SPELLINGS[opcode][0])


# The operand c of scalar video instructions depends on selectors; see test_jit_video.py.
_NOT_COMPUTING = frozenset(
    "atom red ld ldu st mov cvta isspacep createpolicy addc subc madc "
    "vadd vsub vabsdiff vmin vmax vshl vshr vset".split()
)
# Instructions whose result depends on their operands alone, and is exact.
COMPUTING = [
    spelling
    for opcode, group in SPELLINGS.items()
    if opcode not in _NOT_COMPUTING
    for spelling in group
    if form_of(spelling).row.destinations and not {"approx", "full", "cc"} & set(spelling.split("."))
]


def alike() -> dict[tuple[str, ...], list[str]]:
    """Spellings by their operands."""
    found: dict[tuple[str, ...], list[str]] = {}
    for spelling in COMPUTING:
        operands = form_of(spelling).by_count[max(form_of(spelling).by_count)]
        found.setdefault(tuple(f"{entry.kind} {entry.type}" for entry in operands[1:]), []).append(spelling)
    return found


@pytest.mark.parametrize("operands", list(alike()), ids=lambda operands: " ".join(operands))
def test_where_all_lanes_hold_the_same_results_are_the_same(operands: tuple[str, ...]) -> None:
    """Values that are the same in all lanes are computed once, by scalar code."""
    spellings = alike()[operands]
    kinds = [operand.partition(" ")[2] for operand in operands if not operand.startswith("constant")]
    rng = np.random.default_rng(len(spellings))
    rows = [tuple(worth_trying(kind, rng) for kind in kinds) for _ in range(24)]
    for start in range(0, len(spellings), BATCH):
        check_spelling(spellings[start : start + BATCH], rows, targets=("host",), uniform=True)


def worth_trying(kind: str, rng: np.random.Generator) -> int:
    """A bit pattern of a type: half of the time a special one."""
    if kind == "pred":
        return int(rng.integers(0, 2))
    width = TYPE_WIDTHS[kind]
    element = kind.removesuffix("x2")
    if element in FLOATS:
        parts = [int(rng.choice(FLOATS[element].interesting(rng, 10))) for _ in range(1 + kind.endswith("x2"))]
        return sum(part << 16 * at for at, part in enumerate(parts))
    special = [0, 1, 2, 31, 32, (1 << width) - 1, 1 << (width - 1), (1 << (width - 1)) - 1]
    if rng.random() < 0.5:
        return special[rng.integers(len(special))]
    return int(rng.integers(0, (1 << width) - 1, dtype=np.uint64, endpoint=True))


# The performance counters have no meaning here.
REFUSED = {name for name in SPECIAL_REGISTERS if name.startswith("%pm")}


@pytest.mark.parametrize("register", sorted(set(SPECIAL_REGISTERS) - REFUSED))
def test_every_special_register_can_be_read(register: str) -> None:
    kind = SPECIAL_REGISTERS[register]
    if kind == "pred":
        lines = f"mov.pred %p9, {register}; selp.b32 %b32_9, 1, 0, %p9; st.global.b32 [%b64_1], %b32_9;"
    else:
        name = f"%b{kind[1:]}_9"
        lines = f"mov.{kind} {name}, {register}; st.global.{kind} [%b64_1], {name};"
    text = kernel_of_spellings(["mov.b32"]).replace("\nret;", f"\n{lines}\nret;")
    generate_ir(text, "<test>", "k", (32, 1, 1), target=target("host"), parts=1)
    instructions = [item for item in parse(text, "<test>").functions[0].body if isinstance(item, Instruction)]
    assert all(map(supports, instructions))


@pytest.mark.parametrize("register", sorted(name for name in REFUSED if name.startswith("%pm")))
def test_performance_counters_are_refused(register: str) -> None:
    wide = register.endswith("_64")
    move = f"mov.u64 %b64_9, {register};" if wide else f"mov.u32 %b32_9, {register};"
    text = kernel_of_spellings(["mov.b32"]).replace(
        "\nret;", f"\n{move} st.global.b{64 if wide else 32} [%b64_1], %b{64 if wide else 32}_9;\nret;"
    )
    with pytest.raises(PtxError, match=register):
        generate_ir(text, "<test>", "k", (32, 1, 1), target=target("host"), parts=1)
