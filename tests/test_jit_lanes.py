"""What the code generator infers about lanes: small kernels in which each inference could go wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from jit_harness import TARGETS, Case, check, differences, kernel, run_interpreter, run_jit, sweep

VALUES = (np.arange(4096, dtype=np.uint64) * 2654435761 % (1 << 32)).astype(np.uint32)
WORD = r"mul.wide.u32 %d11, \1, 4; add.s64 %d12, %d0, %d11; ld.global.u32 %r40, [%d12]; cvt.u64.u32 %d10, %r40;"  # what WORD(index) stands for


@dataclass(frozen=True)
class Trap:
    """A kernel body; `n` is a further parameter where the body reads it, `words` the length of the input."""

    name: str
    body: str
    block: tuple[int, int, int]
    n: int | None
    words: int

    def case(self) -> Case:
        more = [] if self.n is None else [self.n]
        text = kernel(self.body, *(["u32 n"] if more else []))
        return Case(text, [VALUES[: self.words], np.zeros(1024, np.uint64), *more], block=self.block)


def read_traps() -> Iterator[Trap]:
    """The bodies in ``ptx/lanes.txt``, whose head says how they are written."""
    text = re.sub(r"^#.*\n", "", (Path(__file__).parent / "ptx/lanes.txt").read_text(), flags=re.MULTILINE)
    for section in text.split("== ")[1:]:
        head, _, body = section.partition("\n")
        name, *settings = head.split("; ")
        values = {key: [int(n) for n in rest.split()] for key, _, rest in (item.partition(" ") for item in settings)}
        x, y, z = values.get("block", [64, 1, 1])
        body = re.sub(r"WORD\((%r\d+)\);", WORD, body)
        yield Trap(name, body, (x, y, z), values.get("n", [None])[0], values.get("words", [4096])[0])


TRAPS = list(read_traps())


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.name)
def test_lanes_are_right(trap: Trap) -> None:
    case = trap.case()
    want = run_interpreter(case)
    for target, parts in (("host", 4), ("sse2", 1), ("avx2", 8)):
        text = differences(run_jit(case, target, parts), want)
        assert not text, f"{target}, parts {parts}: {text}"


@sweep
@pytest.mark.timeout(600)
@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.name)
def test_lanes_are_right_for_every_target(trap: Trap) -> None:
    check(trap.case(), targets=TARGETS, parts=(None, 1, 2, 4, 8))
