"""Link profiles, and modelled copies on the real clock."""

from __future__ import annotations

import time
from dataclasses import FrozenInstanceError

import pytest
from runtime_support import Rig

import zcuda_async as zc
from zcuda_async.timing.link import CopyEngine, link_profile

pytestmark = pytest.mark.anyio


def test_duration_is_latency_plus_size_over_bandwidth() -> None:
    profile = zc.LinkProfile(name="x", h2d_gbps=10.0, d2h_gbps=20.0, latency_us=5.0)
    assert profile.duration_ns("h2d", 10_000_000) == 1_005_000
    assert profile.duration_ns("d2h", 10_000_000) == 505_000
    assert profile.duration_ns("d2d", 10_000_000) is None
    assert profile.duration_ns("h2h", 10_000_000) is None


def test_engine_serves_in_order() -> None:
    engine = CopyEngine(zc.LinkProfile(name="x", h2d_gbps=1.0, d2h_gbps=1.0, latency_us=0.0), "h2d")
    assert engine.reserve(0, 100) == (0, 100)
    assert engine.reserve(50, 100) == (100, 200)
    engine.extend(500)
    engine.extend(400)
    assert engine.reserve(60, 1) == (500, 501)
    assert engine.reserve(1000, 1) == (1000, 1001)


def test_profiles_are_named_frozen_and_checked() -> None:
    assert link_profile("pcie4-x16").h2d_gbps == 24.0
    assert link_profile("pcie1-x1").duration_ns("h2d", 200_000_000) == 1_000_020_000
    assert all(name == profile.name for name, profile in zc.LINK_PROFILES.items())
    with pytest.raises(FrozenInstanceError):
        link_profile("pcie4-x16").latency_us = 0.0  # type: ignore[misc]
    with pytest.raises(ValueError, match=r"^d2h_gbps must be above 0 GB/s, got 0$"):
        zc.LinkProfile(name="x", h2d_gbps=1, d2h_gbps=0, latency_us=0)
    with pytest.raises(ValueError, match=r"^latency_us must be at least 0, got -1$"):
        zc.LinkProfile(name="x", h2d_gbps=1, d2h_gbps=1, latency_us=-1)
    with pytest.raises(
        ValueError,
        match=r"^no link profile is named 'scsi'; choose one of pcie1-x1, pcie3-x16, pcie4-x8, pcie4-x16, pcie5-x16,"
        r" nvlink-c2c, or pass a LinkProfile$",
    ):
        link_profile("scsi")


async def test_real_clock_makes_copies_last_as_long_as_modelled() -> None:
    link = zc.LinkProfile(name="slow", h2d_gbps=1.0, d2h_gbps=1.0, latency_us=20_000.0)
    async with Rig().open(link=link) as device:
        start = time.monotonic()
        first, second = device.create_stream(), device.create_stream()
        ops = [stream.memcpy(device.allocate(8), b"abcdefgh") for stream in (first, second)]
        end = second.record()
        await device.sync()
        elapsed_ms = (time.monotonic() - start) * 1e3
        durations = [op.finished_ms - op.started_ms for op in ops]  # type: ignore[operator]
        assert durations == [pytest.approx(20.000008)] * 2
        assert ops[1].started_ms == ops[0].finished_ms
        assert end.time_ms == ops[1].finished_ms
        assert elapsed_ms >= 40
