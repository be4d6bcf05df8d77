"""The recorder, its trace and its picture."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from runtime_support import ONE_THREAD, Rig, load

import zcuda_async as zc
from zcuda_async.timing.timeline import draw_timeline

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


async def test_phases_lie_between_events_and_go_into_the_trace(tmp_path: Path) -> None:
    recorder, clock = zc.Recorder(), zc.VirtualClock()
    async with Rig().open(clock=clock, link=LINK, recorder=recorder) as device:
        stream, buffer = device.create_stream(), device.allocate(MB)
        await clock.sleep_ms(2)
        start = stream.record()
        stream.memcpy(buffer, bytes(MB))
        middle = stream.record()
        stream.memcpy(buffer, bytes(MB))
        end = stream.record()
        await end
        assert recorder.mark("up", start, middle) == zc.Phase("device 0", "up", 2, 3)
        assert recorder.mark("all", start, end).duration_ms == 2
    assert [phase.label for phase in recorder.phases] == ["up", "all"]
    recorder.write_chrome_trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    lanes = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    phases = [(lanes[e["pid"], e["tid"]], e["name"], e["ts"], e["dur"]) for e in events if e.get("cat") == "phase"]
    assert phases == [("phases", "up", 2000, 1000), ("phases", "all", 2000, 2000)]
    assert next(iter(lanes.values())) == "phases"
    recorder.clear()
    assert recorder.phases == ()


async def test_phases_that_make_no_sense_are_refused() -> None:
    recorder, clock = zc.Recorder(), zc.VirtualClock()
    rig = Rig()
    async with rig.open(clock=clock, recorder=recorder) as device, rig.open() as other:
        stream = device.create_stream()
        start = stream.record()
        await clock.sleep_ms(1.5)
        end = stream.record()
        with pytest.raises(
            ValueError, match=r"^phase 'x' ends 1\.5 ms before it starts; pass the earlier event first$"
        ):
            recorder.mark("x", end, start)
        with pytest.raises(
            ValueError,
            match=r"^phase 'x' is of device 0, which has another recorder or none; pass this one to"
            r" open_device\(recorder=\.\.\.\)$",
        ):
            zc.Recorder().mark("x", start, end)
        with pytest.raises(
            zc.CudaError,
            match=r"^cudaErrorInvalidResourceHandle \(400\): event was never recorded, so it has no time; ",
        ):
            recorder.mark("x", device.create_event(), end)
        with pytest.raises(
            zc.CudaError, match=r"^cudaErrorInvalidResourceHandle \(400\): event and event belong to different open de"
        ):
            recorder.mark("x", start, other.create_stream().record())
    assert recorder.phases == ()


async def test_the_oldest_phases_are_dropped_beyond_the_limit() -> None:
    recorder = zc.Recorder(limit=2)
    async with Rig().open(recorder=recorder) as device:
        event = device.create_stream().record()
        for label in "abc":
            recorder.mark(label, event, event)
    assert [phase.label for phase in recorder.phases] == ["b", "c"]


async def test_phases_are_shaded_and_narrow_bars_keep_their_colour() -> None:
    pytest.importorskip("matplotlib")
    recorder = zc.Recorder()
    async with Rig().open(clock=zc.VirtualClock(), link=LINK, recorder=recorder) as device:
        stream, buffer = device.create_stream(), device.allocate(100 * MB)
        marks = [stream.record()]
        for size in (100 * MB, MB // 10, 100 * MB):
            stream.memcpy(buffer, bytes(size))
            marks.append(stream.record())
        await stream.sync()
    for label, start, end in zip(("first", "narrow", "last"), marks, marks[1:], strict=False):
        recorder.mark(label, start, end)
    (axes,) = draw_timeline(recorder.records, phases=recorder.phases).axes
    assert [text.get_text() for text in axes.texts if text.get_text()[0] in "fnl"] == ["first  100 ms", "last  100 ms"]
    assert [(round(band.get_x(), 6), round(band.get_width(), 6)) for band in axes.patches] == [
        (0, 100),
        (100, 0.1),
        (100.1, 100),
    ]
    assert list(axes.collections[0].get_linewidths()) == [0.6, 0, 0.6]


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
