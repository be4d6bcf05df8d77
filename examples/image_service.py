"""An HTTP service that filters uploaded images on the device, many requests at once.

Each request has a stream of its own.  The event loop never waits: images are decoded and encoded in threads,
kernels run in the device's worker processes, and ``await stream.memcpy(...)`` resumes the request when its
picture is there.  A device fault answers the requests it hit with 503, and `Device.reset` makes the device
whole for the next ones.

    python examples/image_service.py --port 8000
    curl --data-binary @photo.jpg 'http://127.0.0.1:8000/filter?filter=blur' -o blurred.png
    curl --form image=@photo.jpg 'http://127.0.0.1:8000/filter?filter=sobel' -o edges.png
    curl http://127.0.0.1:8000/stats
"""

from __future__ import annotations

import argparse
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from io import BytesIO
from typing import Final

import anyio
import anyio.to_thread
import numpy as np
import uvicorn
from images import ImageKernels, Pixels, grid_over
from PIL import Image, ImageOps, UnidentifiedImageError
from starlette.applications import Starlette
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Message, Receive

import zcuda_async as zc

__all__ = ("FilterService", "Limits", "create_app")

_BAD_IMAGE: Final = (OSError, SyntaxError, ValueError, EOFError, struct.error)
"""What Pillow raises for data that it cannot decode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What the service takes on."""

    upload_bytes: int = 16 << 20
    """The largest request body."""
    pixels: int = 25_000_000
    """The largest picture, however few bytes describe it."""
    concurrent: int = 8
    """How many pictures are on the device, or being decoded or encoded, at once; further requests wait."""


@dataclass(slots=True)
class Stats:
    """What happened so far."""

    requests: int = 0
    filtered: int = 0
    refused: int = 0
    unavailable: int = 0
    resets: int = 0
    in_progress: int = 0


class FilterService:
    """Filters pictures on an open device."""

    def __init__(self, device: zc.Device, kernels: ImageKernels, limits: Limits) -> None:
        self.device = device
        self.limits = limits
        self.stats = Stats()
        self._kernels = {"blur": kernels.blur, "sobel": kernels.sobel}
        self._slots = anyio.Semaphore(limits.concurrent)
        self._resetting = anyio.Lock()

    def kernel(self, name: str | None) -> zc.Kernel:
        """The kernel for a request's ``filter``; 400 if there is none of that name."""
        if name not in self._kernels:
            raise HTTPException(400, f"unknown filter {name!r}; pass ?filter= with one of {', '.join(self._kernels)}")
        return self._kernels[name]

    async def filter_image(self, kernel: zc.Kernel, data: bytes) -> bytes:
        """An encoded image, filtered, as PNG.

        Raises:
            HTTPException: 400 for data that is no image, 413 for too many pixels, 503 if the device failed.
        """
        async with self._slots:
            self.stats.in_progress += 1
            try:
                pixels = await anyio.to_thread.run_sync(decode, data, self.limits.pixels)
                filtered = await self._on_device(kernel, pixels)
                return await anyio.to_thread.run_sync(encode, filtered)
            finally:
                self.stats.in_progress -= 1

    async def _on_device(self, kernel: zc.Kernel, pixels: Pixels) -> Pixels:
        try:
            return await self._run(kernel, pixels)
        except (zc.CudaError, zc.AbandonedError) as error:
            await self.recover()
            raise HTTPException(503, f"the device failed, try again: {error}", {"Retry-After": "1"}) from error

    async def _run(self, kernel: zc.Kernel, pixels: Pixels) -> Pixels:
        """To the device, through the kernel and back, in order, on a stream of this request's own.

        If the request is cancelled meanwhile, the operations still run to their end and keep what they use.
        """
        height, width, _ = pixels.shape
        filtered = np.empty_like(pixels)
        stream = self.device.create_stream()
        with self.device.allocate(pixels.nbytes) as source, self.device.allocate(pixels.nbytes) as target:
            stream.memcpy(source, pixels)
            stream.launch(kernel, grid_over(width, height), width, height, source, target)
            await stream.memcpy(filtered, target)
        return filtered

    async def recover(self) -> None:
        """Make the device usable again if a fault has stuck to it; of many requests at once, one does it."""
        async with self._resetting:
            if self.device.fault is not None:
                await self.device.reset()
                self.stats.resets += 1


# -- images: blocking, for threads -----------------------------------------------------------------------


def decode(data: bytes, most_pixels: int) -> Pixels:
    """The pixels of an encoded image, turned upright, without transparency.

    Raises:
        HTTPException: 400 if it cannot be decoded, 413 if it has too many pixels.
    """
    try:
        with Image.open(BytesIO(data)) as image:
            # The header is enough to refuse a picture that would fill the memory.
            if image.width * image.height > most_pixels:
                raise _too_many_pixels(f"{image.width} x {image.height}", most_pixels)
            upright = ImageOps.exif_transpose(image)
            return np.array(upright.convert("RGB").convert("RGBA"))
    except Image.DecompressionBombError:
        raise _too_many_pixels("far more", most_pixels) from None
    except UnidentifiedImageError as error:  # its text is about our buffer, not about the upload
        message = "not an image that can be decoded: unknown format; send a PNG or JPEG, for example"
        raise HTTPException(400, message) from error
    except _BAD_IMAGE as error:
        raise HTTPException(400, f"not an image that can be decoded: {error}") from error


def _too_many_pixels(got: str, most: int) -> HTTPException:
    return HTTPException(413, f"the picture may have {most} pixels, got {got}")


def encode(pixels: Pixels) -> bytes:
    """The pixels as PNG."""
    file = BytesIO()
    Image.fromarray(pixels).convert("RGB").save(file, "PNG", compress_level=1)
    return file.getvalue()


# -- HTTP ------------------------------------------------------------------------------------------------


def service_of(request: Request) -> FilterService:
    service = request.app.state.service
    assert isinstance(service, FilterService)
    return service


async def post_filter(request: Request) -> Response:
    """Filter the image in the body, or in a multipart form's only file."""
    service = service_of(request)
    service.stats.requests += 1
    try:
        kernel = service.kernel(request.query_params.get("filter"))
        data = await read_upload(request, service.limits.upload_bytes)
        result = await service.filter_image(kernel, data)
    except HTTPException as error:
        if error.status_code == 503:
            service.stats.unavailable += 1
        else:
            service.stats.refused += 1
        raise
    service.stats.filtered += 1
    return Response(result, media_type="image/png")


async def read_upload(request: Request, most_bytes: int) -> bytes:
    """The uploaded file, read no further than the limit.

    Raises:
        HTTPException: 400 for an empty body or a form without a file, 413 for a body beyond the limit.
    """
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > most_bytes:
        raise _too_large(most_bytes)
    request = Request(request.scope, _limited(request.receive, most_bytes))
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        data = await request.body()
    else:
        async with request.form(max_files=1) as form:
            files = [value for value in form.values() if isinstance(value, UploadFile)]
            if not files:
                raise HTTPException(400, "the form has no file; send one, such as curl --form image=@photo.jpg")
            data = await files[0].read()
    if not data:
        raise HTTPException(400, "the upload is empty; send an image as the body, or as a file of a multipart form")
    return data


def _limited(receive: Receive, most_bytes: int) -> Receive:
    """The same messages, cut off by an error once the bodies exceed the limit: a length may be absent, or a lie."""
    received = 0

    async def limited() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > most_bytes:
            raise _too_large(most_bytes)
        return message

    return limited


def _too_large(most_bytes: int) -> HTTPException:
    return HTTPException(413, f"an upload may have {most_bytes} bytes; send a smaller image")


async def get_health(request: Request) -> Response:
    """200 while the device works; after a fault 503, until a request or this call has reset it."""
    service = service_of(request)
    fault = service.device.fault
    if fault is None:
        return JSONResponse({"status": "ok"})
    await service.recover()
    return JSONResponse({"status": "recovering", "fault": str(fault)}, 503)


async def get_stats(request: Request) -> Response:
    """Counters, and the memory in use on the device."""
    service = service_of(request)
    memory = service.device.memory_info()
    return JSONResponse(asdict(service.stats) | {"device_bytes": memory.used_bytes})


async def answer_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, error.headers)


def create_app(limits: Limits | None = None, *, workers: int | None = None) -> Starlette:
    """The application; its lifespan is the device's: opened before the first request, closed after the last."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with zc.open_device(workers=workers) as device:
            app.state.service = FilterService(device, await ImageKernels.load(device), limits or Limits())
            yield

    return Starlette(
        routes=[
            Route("/filter", post_filter, methods=["POST"]),
            Route("/healthz", get_health),
            Route("/stats", get_stats),
        ],
        exception_handlers={HTTPException: answer_error},
        lifespan=lifespan,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen at (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="the port; 0 takes a free one (default: 8000)")
    parser.add_argument("--workers", type=int, help="the device's worker processes (default: one per processor)")
    parser.add_argument("--concurrent", type=int, default=Limits().concurrent, help="pictures at once (default: 8)")
    options = parser.parse_args(arguments)
    if options.concurrent < 1:
        parser.error(f"--concurrent must be at least 1, got {options.concurrent}")
    app = create_app(Limits(concurrent=options.concurrent), workers=options.workers)
    uvicorn.run(app, host=options.host, port=options.port)


if __name__ == "__main__":
    main()
