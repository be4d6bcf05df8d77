"""The first table: milliseconds of each kernel by each peer, answers checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from benchmarks.more_answers import more_answer
from benchmarks.peers import Peer, open_peers
from benchmarks.problems import make_problem
from benchmarks.timing import best_ms

__all__ = ("KernelTimes", "measure_kernels")

KernelTimes = dict[str, dict[str, float]]
"""Milliseconds by kernel and peer; NaN for a wrong answer."""

_Array = np.ndarray[Any, np.dtype[np.float64]]


async def measure_kernels(
    kernels: Sequence[str], peers: Sequence[str], seconds: float, scale: float, report: Callable[[str], None]
) -> KernelTimes:
    """Time every kernel with every peer that is here.

    All must agree with numpy's answer where there is one, else with the first peer's.
    """
    times: KernelTimes = {}
    async with open_peers(peers, report) as opened:
        for kernel in kernels:
            expected = more_answer(make_problem(kernel, scale))
            row = times[kernel] = {}
            for name, peer in opened.items():
                report(f"{kernel} with {name}")
                measured = await _measure(peer, kernel, seconds, scale, expected)
                if measured is None:
                    continue
                row[name], answer, complaint = measured
                expected = answer if expected is None else expected
                if complaint:
                    report(f"{kernel} with {name}: {complaint}")
    return times


async def _measure(
    peer: Peer, kernel: str, seconds: float, scale: float, expected: _Array | None
) -> tuple[float, _Array, str] | None:
    problem = make_problem(kernel, scale)
    run = await peer.prepare(problem)
    if run is None:
        return None
    try:
        await run.launch()
        await run.fetch()
        answer = problem.answer()
        if expected is not None and not problem.is_answer(answer, expected):
            return float("nan"), answer, f"wrong answer, off by up to {np.abs(answer - expected).max():.3g}"
        return await best_ms(run.launch, seconds), answer, ""
    finally:
        run.close()
