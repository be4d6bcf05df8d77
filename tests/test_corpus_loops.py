"""Kernels of the corpus under either event loop, each on a device of its own."""

from __future__ import annotations

from contextlib import ExitStack
from importlib import import_module

import pytest
from corpus.cases import CASES
from corpus_runner import Runner

import zcuda_async as zc

import_module("corpus.algorithms")  # its cases are made when it is imported

pytestmark = [pytest.mark.anyio, pytest.mark.pool, pytest.mark.timeout(120)]


async def test_kernels_under_either_event_loop() -> None:
    async with zc.open_device(0) as device:
        for case in CASES[:4]:
            with ExitStack() as owned:
                await case.check(Runner(device, "sm80", [], owned))
