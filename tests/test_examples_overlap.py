"""examples/overlap.py: the tiles, the result, the overlap (exactly, on the virtual clock), and the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from examples_tools import images, overlap, random_picture, run_example
from PIL import Image

import zcuda_async as zc


@pytest.mark.parametrize(("height", "count"), [(1, 1), (10, 3), (600, 12), (7, 7)])
def test_tiles_cover_the_picture_once_and_overlap_by_the_halo(height: int, count: int) -> None:
    tiles = overlap.cut(height, count)
    rows = [row for tile in tiles for row in range(tile.top, tile.bottom)]
    assert rows == list(range(height))
    for tile in tiles:
        assert (tile.first, tile.last) == (max(0, tile.top - overlap.HALO), min(height, tile.bottom + overlap.HALO))


def test_the_sketch_of_a_histogram_is_highest_where_the_counts_are() -> None:
    counts = np.zeros(256, np.uint32)
    counts[8], counts[200] = 100, 50
    assert overlap.sketch(counts, bars=32) == " █" + " " * 23 + "▄" + " " * 6
    assert overlap.sketch(np.zeros(256, np.uint32), bars=4) == " " * 4


@pytest.mark.anyio
@pytest.mark.pool
class TestMeasure:
    async def test_both_runs_compute_what_numpy_computes_on_the_whole_picture(self) -> None:
        photo = random_picture(90, 61)
        tiles = overlap.cut(61, 5)
        measured = await overlap.measure(photo, tiles, streams=3, link="pcie5-x16")
        overlap.check(photo, measured)

    async def test_overlap_is_much_faster_by_the_virtual_clock_and_repeats_exactly(self) -> None:
        photo = images.load_photo(images.sample_photo())
        tiles = overlap.cut(len(photo), 12)
        times = []
        for _ in range(2):
            clock = overlap.virtual_clock(photo.shape[1], tiles)
            measured = await overlap.measure(photo, tiles, streams=4, link=overlap.SLOW_LINK, clock=clock)
            times.append((measured.serial_ms, measured.overlapped_ms))
        assert times[0] == times[1]
        assert measured.speedup > 2

    async def test_the_recorder_holds_the_measured_runs_only(self) -> None:
        photo = random_picture(64, 32)
        tiles = overlap.cut(32, 4)
        recorder = zc.Recorder()
        await overlap.measure(photo, tiles, streams=2, link=overlap.SLOW_LINK, recorder=recorder)
        copies = [record for record in recorder.records if record.kind == "h2d"]
        assert len(copies) == 2 * len(tiles)
        assert {record.stream for record in recorder.records} == {"stream 1", "stream 2"}


def test_a_wrong_result_fails_the_check() -> None:
    photo = random_picture(8, 8)
    wrong = overlap.Measured(1.0, 1.0, photo, np.zeros(256, np.uint32))
    with pytest.raises(SystemExit, match=r"^check failed: the edges differ from numpy's$"):
        overlap.check(photo, wrong)


@pytest.mark.pool
@pytest.mark.slow
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_command_writes_the_picture_the_timeline_and_the_trace(tmp_path: Path, backend: str) -> None:
    done = run_example(
        *("overlap.py", "--enlarge", "1", "--tiles", "4", "--streams", "2", "--check", "--backend", backend),
        *("--link", "pcie3-x16"),
        cwd=tmp_path,
    )
    assert "photo         512 x 600 pixels, 1.2 MB, in 4 tiles\n" in done.stdout
    assert "check         equal to numpy's results\n" in done.stdout

    photo = images.load_photo(images.sample_photo())
    for _ in range(overlap.BLURS):
        photo = images.blur_reference(photo)
    with Image.open(tmp_path / "out" / "edges.png") as picture:
        np.testing.assert_array_equal(np.array(picture), images.edges_reference(photo)[..., 0])
    with Image.open(tmp_path / "out" / "timeline.png") as picture:
        assert picture.width > 1000
    events = json.loads((tmp_path / "out" / "trace.json").read_text())["traceEvents"]
    assert {"blur", "sobel", "histogram"} <= {event["name"] for event in events}


def test_an_own_photo_that_is_none_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no picture")
    done = run_example("overlap.py", "--photo", "notes.txt", cwd=tmp_path, check=False)
    assert done.returncode == 1
    assert done.stderr == "cannot read the photo: cannot identify image file 'notes.txt'\n"


def test_numbers_below_one_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        overlap.parse(["--tiles", "0"])
    assert capsys.readouterr().err.endswith("error: --tiles must be at least 1, got 0\n")
