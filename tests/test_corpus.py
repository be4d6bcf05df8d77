"""The corpus: CUDA kernels compiled by nvcc for several architectures, run and checked against numpy.

Every case runs as nvcc optimises it for compute_80, and one in three of the others.  `ZCUDA_EXHAUSTIVE=1` runs every
case in every variant.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import corpus
import pytest
from corpus.cases import CASES, EXHAUSTIVE, VARIANTS, Case
from corpus_runner import Runner

import zcuda_async as zc

for topic in iter_modules(corpus.__path__):
    if topic.name != "build":
        import_module(f"corpus.{topic.name}")  # a topic's cases are made when it is imported

EXPECTED_REFUSAL: dict[str, str] = {
    "dynamic: parent": r"__cudaCDP2\w+ belongs to dynamic parallelism: kernels that launch kernels are not supported",
}
"""Cases that need what is not there yet, and what the refusal says."""

pytestmark = [pytest.mark.anyio, pytest.mark.pool, pytest.mark.timeout(120)]


def selected() -> list[Any]:
    """Cases and variants to run now."""
    chosen = []
    for number, case in enumerate(CASES):
        for index, variant in enumerate(VARIANTS):
            if EXHAUSTIVE or index == 0 or number % 3 == index - 1:
                chosen.append(pytest.param(case, variant, id=f"{case.name}-{variant}"))
    return chosen


class Printed:
    """What kernels have printed since the list was changed."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def __call__(self, text: str) -> None:
        self.texts.append(text)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def open_corpus_device(anyio_backend: str) -> AsyncIterator[tuple[zc.Device, Printed]]:
    """One device for all cases: starting its processes takes longer than most kernels."""
    printed = Printed()
    async with zc.open_device(0, printf=printed) as device:
        yield device, printed


@pytest.mark.parametrize(("case", "variant"), selected())
async def test_kernel(case: Case, variant: str, open_corpus_device: tuple[zc.Device, Printed]) -> None:
    device, printed = open_corpus_device
    printed.texts = []
    with ExitStack() as owned:
        runner = Runner(device, variant, printed.texts, owned)
        try:
            if case.name in EXPECTED_REFUSAL:
                with pytest.raises(zc.CompileError, match=EXPECTED_REFUSAL[case.name]):
                    await case.check(runner)
            else:
                await case.check(runner)
        finally:
            if device.fault is not None:
                await device.reset()


def test_there_are_at_least_sixty_kernels() -> None:
    assert len(CASES) >= 60
    assert len({case.name for case in CASES}) == len(CASES)
