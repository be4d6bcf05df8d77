"""Every spelling of arithmetic, memory and special instructions that compilers emit is compiled and interpreted.

The spellings are in ``ptx/spellings.txt``, sorted by opcode.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from jit_harness import target
from spelling_kernels import kernel_of_spellings, statement

from zcuda_async.interpreter import supports
from zcuda_async.jit.compile import generate_ir
from zcuda_async.ptx import PtxError, parse
from zcuda_async.ptx.ir import Instruction
from zcuda_async.ptx.table_special import SPECIAL_REGISTERS

BATCH = 60


def spellings() -> dict[str, list[str]]:
    """By opcode; lines that start with # are headings."""
    found: dict[str, list[str]] = {}
    for line in (Path(__file__).parent / "ptx" / "spellings.txt").read_text().splitlines():
        if not line.startswith("#"):
            for spelling in line.split():
                found.setdefault(spelling.partition(".")[0], []).append(spelling)
    return found


SPELLINGS = spellings()


@pytest.mark.parametrize("opcode", list(SPELLINGS))
def test_every_spelling_is_compiled_and_interpreted(opcode: str) -> None:
    for start in range(0, len(SPELLINGS[opcode]), BATCH):
        text = kernel_of_spellings(SPELLINGS[opcode][start : start + BATCH])
        generate_ir(text, "<test>", "k", (32, 1, 1), target=target("host"), parts=1)
        body = parse(text, "<test>").functions[0].body
        missing = [item for item in body if isinstance(item, Instruction) and not supports(item)]
        assert not missing, statement(SPELLINGS[opcode][0])


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
