"""The recorder, its trace and its picture."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from runtime_support import ONE_THREAD, Rig, load

import zcuda_async as zc

pytestmark = pytest.mark.anyio

MB = 1_000_000
LINK = zc.LinkProfile(name="test", h2d_gbps=1.0, d2h_gbps=1.0, latency_us=0.0)


async def recorded(recorder: zc.Recorder, streams: int = 2) -> None:
    rig = Rig()
    async with rig.open(clock=zc.VirtualClock(kernel_ms=0.5), link=LINK, recorder=recorder) as device:
        kernel = await load(device)
        rig.executor.is_open = True
        for number in range(streams):
            stream = device.create_stream(zc.StreamOptions(name=f"tile {number}"))
            buffer, data = device.allocate(MB), bytearray(MB)
            stream.memcpy(buffer, data)
            stream.launch(kernel, ONE_THREAD)
            stream.record()
            stream.memcpy(data, buffer)
            stream.memset(buffer, 0)
            stream.host_callback(int)


async def test_records_say_what_ran_where_and_when() -> None:
    recorder = zc.Recorder()
    await recorded(recorder, streams=1)
    found = [(r.stream, r.kind, r.label, r.size, r.started_ms, r.finished_ms, r.engine) for r in recorder.records]
    assert found == [
        ("tile 0", "h2d", "h2d 976.6 KiB", MB, 0, 1, "h2d"),
        ("tile 0", "launch", "empty", 0, 1, 1.5, None),
        ("tile 0", "record", "record", 0, 1.5, 1.5, None),
        ("tile 0", "d2h", "d2h 976.6 KiB", MB, 1.5, 2.5, "d2h"),
        ("tile 0", "memset", "memset 976.6 KiB", MB, 2.5, 2.5, None),
        ("tile 0", "callback", "callback int", 0, 2.5, 2.5, None),
    ]
    assert {r.device for r in recorder.records} == {"device 0"}
    assert recorder.records[1].duration_ms == 0.5
    recorder.clear()
    assert recorder.records == ()


async def test_records_of_failures_say_why() -> None:
    recorder = zc.Recorder()
    async with Rig().open(recorder=recorder) as device:
        with pytest.raises(ValueError, match="'x'"):
            await device.create_stream().host_callback(int, "x")
    assert recorder.records[0].error == "invalid literal for int() with base 10: 'x'"


async def test_recorder_drops_the_oldest_beyond_its_limit() -> None:
    recorder = zc.Recorder(limit=3)
    await recorded(recorder, streams=1)
    assert [r.kind for r in recorder.records] == ["d2h", "memset", "callback"]
    assert recorder.dropped == 3
    with pytest.raises(ValueError, match=r"^limit must be at least 1 record, got 0$"):
        zc.Recorder(limit=0)


async def test_chrome_trace_has_a_lane_per_stream_and_engine(tmp_path: Path) -> None:
    recorder = zc.Recorder()
    await recorded(recorder)
    recorder.write_chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert trace == recorder.to_chrome_trace()
    events = trace["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert sorted(names.values()) == ["copy engine d2h", "copy engine h2d", "tile 0", "tile 1"]
    copies = [(names[e["pid"], e["tid"]], e["ts"], e["dur"]) for e in events if e.get("cat") == "h2d"]
    assert sorted(copies) == [
        ("copy engine h2d", 0, 1000),
        ("copy engine h2d", 1000, 1000),
        ("tile 0", 0, 1000),
        ("tile 1", 1000, 1000),
    ]
    assert {e["ph"] for e in events} == {"M", "X", "i"}
    assert [e["args"]["name"] for e in events if e["name"] == "process_name"] == ["device 0"]


async def test_timeline_picture_is_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    recorder = zc.Recorder()
    await recorded(recorder, streams=4)
    recorder.write_timeline(tmp_path / "timeline.png", title="four tiles")
    assert (tmp_path / "timeline.png").read_bytes().startswith(b"\x89PNG\r\n")


async def test_many_streams_still_make_a_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    recorder = zc.Recorder()
    await recorded(recorder, streams=100)
    recorder.write_timeline(tmp_path / "timeline.png")
    assert (tmp_path / "timeline.png").stat().st_size > 1000


def test_timeline_needs_something_to_draw(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"^nothing that takes time was recorded; open the device with recorder=\.\.\. "
    ):
        zc.Recorder().write_timeline(tmp_path / "timeline.png")


async def test_missing_matplotlib_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = zc.Recorder()
    await recorded(recorder, streams=1)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(
        ImportError,
        match=r"^the timeline picture needs matplotlib, which is missing; pip install 'zcuda-async\[timeline\]'$",
    ):
        recorder.write_timeline(tmp_path / "timeline.png")
