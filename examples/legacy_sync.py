"""The image filter in the classic synchronous CUDA style: allocate, copy, launch, copy back, free.

No `async`, no event loop in sight: this is how programs for ``cuda.bindings.runtime`` look, and
`zcuda_compat.cudart` has the same names, tuples and error codes.  A photograph is blurred three times, searched for
edges and counted into a histogram; CUDA events measure the kernels.

    python examples/legacy_sync.py                   # a photograph that comes with matplotlib
    python examples/legacy_sync.py --photo me.jpg --blurs 8 --check
    python examples/legacy_sync.py --help

Written to ./out: the blurred picture, its edges, and the histogram.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt
from images import Pixels, blur_reference, edges_reference, histogram_reference, load_photo, sample_photo
from PIL import Image

import zcuda_compat
from zcuda_compat import cudart

T = TypeVar("T")

PTX: Final = Path(__file__).parent / "kernels" / "image.ptx"
BLOCK: Final = cudart.dim3(32, 8)
PICTURE_TYPES: Final = (ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
HISTOGRAM_TYPES: Final = (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
TO_DEVICE: Final = cudart.cudaMemcpyKind.cudaMemcpyHostToDevice
TO_HOST: Final = cudart.cudaMemcpyKind.cudaMemcpyDeviceToHost


class CudaCallError(Exception):
    """A CUDA call returned an error."""


def check(result: tuple[cudart.cudaError_t]) -> None:
    """Raise if a call that returns only an error failed."""
    if result[0] != cudart.cudaError_t.cudaSuccess:
        raise CudaCallError(str(zcuda_compat.last_failure()))


def value(result: tuple[cudart.cudaError_t, T | None]) -> T:
    """The value of a call that returns one; raise if it failed."""
    error, found = result
    if error != cudart.cudaError_t.cudaSuccess or found is None:
        raise CudaCallError(str(zcuda_compat.last_failure()))
    return found


class Filter:
    """The kernels, two pictures and the bins in device memory; `close` frees them."""

    def __init__(self, photo: Pixels) -> None:
        self.height, self.width, _ = photo.shape
        self.size = photo.nbytes
        self.library = value(cudart.cudaLibraryLoadFromFile(str(PTX).encode(), None, None, 0, None, None, 0))
        self.blur = value(cudart.cudaLibraryGetKernel(self.library, b"blur"))
        self.sobel = value(cudart.cudaLibraryGetKernel(self.library, b"sobel"))
        self.histogram = value(cudart.cudaLibraryGetKernel(self.library, b"histogram"))
        self.source = value(cudart.cudaMalloc(self.size))
        self.target = value(cudart.cudaMalloc(self.size))
        self.bins = value(cudart.cudaMalloc(256 * 4))
        self.start, self.stop = value(cudart.cudaEventCreate()), value(cudart.cudaEventCreate())
        check(cudart.cudaMemcpy(self.source, photo, self.size, TO_DEVICE))

    def count(self) -> npt.NDArray[np.uint32]:
        """How often each luminance occurs in the current picture."""
        counts = np.empty(256, np.uint32)
        check(cudart.cudaMemset(self.bins, 0, counts.nbytes))
        arguments = ((self.width * self.height, self.source, self.bins), HISTOGRAM_TYPES)
        check(cudart.cudaLaunchKernel(self.histogram, cudart.dim3(32), cudart.dim3(256), arguments, 0, 0))
        check(cudart.cudaMemcpy(counts, self.bins, counts.nbytes, TO_HOST))
        return counts

    def apply(self, kernel: cudart.cudaKernel_t, times: int) -> tuple[Pixels, float]:
        """Run a kernel over the picture so many times; the picture, and the milliseconds that the kernels took."""
        grid = cudart.dim3(-(-self.width // BLOCK.x), -(-self.height // BLOCK.y))
        self.launch(kernel, grid)  # a launch compiles the kernel if need be: not what is measured
        check(cudart.cudaEventRecord(self.start, 0))
        for _ in range(times):
            self.launch(kernel, grid)
            self.source, self.target = self.target, self.source
        check(cudart.cudaEventRecord(self.stop, 0))
        check(cudart.cudaEventSynchronize(self.stop))
        picture = np.empty((self.height, self.width, 4), np.uint8)
        check(cudart.cudaMemcpy(picture, self.source, self.size, TO_HOST))
        return picture, value(cudart.cudaEventElapsedTime(self.start, self.stop))

    def launch(self, kernel: cudart.cudaKernel_t, grid: cudart.dim3) -> None:
        """Run a kernel from `source` to `target`."""
        arguments = ((self.width, self.height, self.source, self.target), PICTURE_TYPES)
        check(cudart.cudaLaunchKernel(kernel, grid, BLOCK, arguments, 0, 0))

    def close(self) -> None:
        """Free everything."""
        for event in (self.start, self.stop):
            check(cudart.cudaEventDestroy(event))
        for address in (self.source, self.target, self.bins):
            check(cudart.cudaFree(address))
        check(cudart.cudaLibraryUnload(self.library))


def compare(photo: Pixels, blurs: int, blurred: Pixels, edges: Pixels, counts: npt.NDArray[np.uint32]) -> None:
    """Compare with the same filters in numpy.

    Raises:
        SystemExit: they differ.
    """
    expected = photo
    for _ in range(blurs):
        expected = blur_reference(expected)
    for name, ours, theirs in (
        ("blurred picture", blurred, expected),
        ("edges", edges, edges_reference(expected)),
        ("histogram", counts, histogram_reference(photo)),
    ):
        if not np.array_equal(ours, theirs):
            sys.exit(f"check failed: the {name} differs from numpy's")


def bar_chart(counts: npt.NDArray[np.uint32], height: int = 160) -> Pixels:
    """The histogram as a picture: two columns a bin, dark on the left, each in its own gray."""
    heights = (counts * height // max(1, int(counts.max()))).astype(int)
    rows = np.arange(height, 0, -1)[:, None]
    grays = np.repeat(np.where(rows <= heights, np.arange(256), 255)[..., None], 3, axis=2).astype(np.uint8)
    grays[rows[:, 0] == 1] = (200, 60, 40)
    return np.repeat(grays, 2, axis=1)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    summary, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=details, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--photo", type=Path, help="a picture to filter (default: one that comes with matplotlib)")
    parser.add_argument("--blurs", type=int, default=3, help="how often to blur it (default: 3)")
    parser.add_argument("--check", action="store_true", help="compare the results with numpy's")
    parser.add_argument("--out", type=Path, default=Path("out"), help="where the pictures go (default: ./out)")
    options = parser.parse_args(arguments)
    if options.blurs < 1:
        parser.error(f"--blurs must be at least 1, got {options.blurs}")
    return options


def run(photo: Pixels, options: argparse.Namespace) -> None:
    """Filter the photo, and print and write the results."""
    device = value(cudart.cudaGetDeviceProperties(value(cudart.cudaGetDevice())))
    name, processors = device.name.decode(), device.multiProcessorCount
    print(f"device     {name}, {processors} multiprocessors, sm_{device.major}{device.minor}")
    print(f"photo      {photo.shape[1]} x {photo.shape[0]} pixels, {photo.nbytes / 1e6:.1f} MB")
    work = Filter(photo)
    counts = work.count()
    blurred, blur_ms = work.apply(work.blur, options.blurs)
    edges, sobel_ms = work.apply(work.sobel, 1)
    work.close()
    print(f"kernels    {options.blurs} x blur {blur_ms:.2f} ms, sobel {sobel_ms:.2f} ms")
    print(f"histogram  {counts.sum()} pixels, the most frequent luminance is {counts.argmax()}")
    if options.check:
        compare(photo, options.blurs, blurred, edges, counts)
        print("check      equal to numpy's results")
    options.out.mkdir(parents=True, exist_ok=True)
    pictures = {"blurred": blurred[..., :3], "edges": edges[..., 0], "histogram": bar_chart(counts)}
    paths = {options.out / f"legacy_{name}.png": picture for name, picture in pictures.items()}
    for path, picture in paths.items():
        Image.fromarray(np.ascontiguousarray(picture)).save(path)
    print(f"written    {', '.join(map(str, paths))}")


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse(arguments)
    try:
        photo = load_photo(options.photo or sample_photo())
    except OSError as error:
        sys.exit(f"cannot read the photo: {error}")
    try:
        run(photo, options)
    except CudaCallError as error:
        sys.exit(f"CUDA failed: {error}")


if __name__ == "__main__":
    main()
