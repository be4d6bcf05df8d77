"""examples/legacy_sync.py: computes what numpy computes, reports CUDA's errors, runs as a command."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from examples_tools import images, random_picture, run_example
from PIL import Image

import zcuda_compat
from zcuda_compat import cudart

import legacy_sync  # isort: skip  (found through examples_tools)

pytestmark = pytest.mark.pool


@pytest.fixture(scope="module", autouse=True)
def _shutdown() -> Iterator[None]:
    yield
    zcuda_compat.shutdown()


@pytest.mark.parametrize("shape", [(1, 1), (67, 45)])
def test_the_filters_compute_what_numpy_does(shape: tuple[int, int]) -> None:
    photo = random_picture(*shape)
    work = legacy_sync.Filter(photo)
    np.testing.assert_array_equal(work.count(), images.histogram_reference(photo))
    blurred, elapsed_ms = work.apply(work.blur, 2)
    assert elapsed_ms >= 0
    expected = images.blur_reference(images.blur_reference(photo))
    np.testing.assert_array_equal(blurred, expected)
    np.testing.assert_array_equal(work.apply(work.sobel, 1)[0], images.edges_reference(expected))
    work.close()


def test_a_failed_call_raises_with_its_story() -> None:
    message = (
        r"^cudaErrorInvalidDevice \(101\): there is no device 9, only 0 to 0; set ZCUDA_DEVICE_COUNT to have more$"
    )
    with pytest.raises(legacy_sync.CudaCallError, match=message):
        legacy_sync.value(cudart.cudaGetDeviceProperties(9))
    with pytest.raises(legacy_sync.CudaCallError, match=message):
        legacy_sync.check(cudart.cudaSetDevice(9))
    cudart.cudaGetLastError()


@pytest.mark.slow
def test_the_command_writes_three_pictures(tmp_path: Path) -> None:
    done = run_example("legacy_sync.py", "--check", "--out", "pictures", cwd=tmp_path)
    lines = done.stdout.splitlines()
    assert lines[1] == "photo      512 x 600 pixels, 1.2 MB"
    assert "check      equal to numpy's results" in lines
    assert lines[-1] == (
        "written    pictures/legacy_blurred.png, pictures/legacy_edges.png, pictures/legacy_histogram.png"
    )
    sizes = {}
    for path in (tmp_path / "pictures").iterdir():
        with Image.open(path) as picture:
            sizes[path.name] = picture.size
    assert sizes == {
        "legacy_blurred.png": (512, 600),
        "legacy_edges.png": (512, 600),
        "legacy_histogram.png": (512, 160),
    }


@pytest.mark.slow
def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    done = run_example("legacy_sync.py", "--photo", "none.jpg", cwd=tmp_path, check=False)
    assert (done.returncode, done.stderr) == (
        1,
        "cannot read the photo: [Errno 2] No such file or directory: 'none.jpg'\n",
    )
    done = run_example("legacy_sync.py", "--blurs", "0", cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith("--blurs must be at least 1, got 0")
