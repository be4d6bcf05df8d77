"""Fixtures that every test may use."""

from __future__ import annotations

import signal

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell; tests of Ctrl-C are to see it
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Run each `anyio` test once on asyncio and once on trio."""
    backend: str = request.param
    return backend
