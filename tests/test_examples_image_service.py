"""examples/image_service.py under load: in process on both loops, and behind uvicorn over loopback."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from io import BytesIO
from subprocess import DEVNULL
from typing import Any

import anyio
import anyio.abc
import httpx
import numpy as np
import pytest
from anyio.streams.text import TextReceiveStream
from examples_tools import EXAMPLES, image_service, images, random_picture
from PIL import Image
from starlette.applications import Starlette

import zcuda_async as zc

pytestmark = [pytest.mark.anyio, pytest.mark.pool]

LIMITS = image_service.Limits(upload_bytes=300_000, pixels=100_000, concurrent=4)
UNKNOWN_FORMAT = "not an image that can be decoded: unknown format; send a PNG or JPEG, for example"
REFERENCES = {"blur": images.blur_reference, "sobel": images.edges_reference}


@pytest.fixture
async def app() -> AsyncIterator[Starlette]:
    app = image_service.create_app(LIMITS)
    async with app.router.lifespan_context(app):
        yield app


@pytest.fixture
async def client(app: Starlette) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://service") as client:
        yield client


@pytest.fixture
def service(app: Starlette) -> image_service.FilterService:
    service: image_service.FilterService = app.state.service
    return service


def png(picture: images.Pixels) -> bytes:
    return image_service.encode(picture)


def pixels_of(response: httpx.Response) -> images.Pixels:
    assert response.status_code == 200, response.text
    assert response.headers["content-type"] == "image/png"
    with Image.open(BytesIO(response.content)) as picture:
        return np.array(picture.convert("RGBA"))


async def post(client: httpx.AsyncClient, name: str, data: bytes) -> httpx.Response:
    return await client.post("/filter", params={"filter": name}, content=data)


async def load(client: httpx.AsyncClient, requests: int) -> None:
    """So many requests at once, of all sizes and filters; each answer is compared with numpy."""

    async def one(number: int) -> None:
        picture = random_picture(20 + 7 * number % 131, 15 + 11 * number % 97, number)
        name = ("blur", "sobel")[number % 2]
        answer = pixels_of(await post(client, name, png(picture)))
        np.testing.assert_array_equal(answer, REFERENCES[name](picture))

    await all_of(*(lambda number=number: one(number) for number in range(requests)))


async def all_of(*functions: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async with anyio.create_task_group() as group:
        for function in functions:
            group.start_soon(function)


async def test_many_requests_at_once_get_their_own_pictures(client: httpx.AsyncClient) -> None:
    await load(client, 60)
    stats = (await client.get("/stats")).json()
    assert stats == {
        "requests": 60,
        "filtered": 60,
        "refused": 0,
        "unavailable": 0,
        "resets": 0,
        "in_progress": 0,
        "device_bytes": 0,
    }
    assert (await client.get("/healthz")).json() == {"status": "ok"}


async def test_a_form_is_read_like_a_bare_body(client: httpx.AsyncClient) -> None:
    picture = random_picture(33, 21)
    form = {"image": ("photo.png", png(picture), "image/png")}
    answer = await client.post("/filter?filter=blur", files=form)
    np.testing.assert_array_equal(pixels_of(answer), images.blur_reference(picture))


async def test_a_photo_taken_on_its_side_is_turned_upright(client: httpx.AsyncClient) -> None:
    upright = random_picture(12, 30)
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation: turn clockwise
    file = BytesIO()
    Image.fromarray(np.rot90(upright)).convert("RGB").save(file, "PNG", exif=exif)
    answer = await post(client, "sobel", file.getvalue())
    np.testing.assert_array_equal(pixels_of(answer), images.edges_reference(upright))


async def test_images_are_decoded_and_encoded_outside_the_event_loop(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = []
    for name in ("decode", "encode"):
        function = getattr(image_service, name)

        def noted(*arguments: object, function: Callable[..., object] = function) -> object:
            threads.append(threading.get_ident())
            return function(*arguments)

        monkeypatch.setattr(image_service, name, noted)
    data = png(random_picture(8, 8))
    threads.clear()
    pixels_of(await post(client, "blur", data))
    assert len(threads) == 2
    assert threading.get_ident() not in threads


class EndlessBody(httpx.AsyncByteStream):
    """Chunks of 100,000 bytes for as long as somebody reads."""

    def __init__(self) -> None:
        self.chunks = 0

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        self.chunks += 1
        return bytes(100_000)


class TestRefusals:
    @pytest.mark.parametrize(
        ("query", "data", "status", "message"),
        [
            ("?filter=melt", b"x", 400, "unknown filter 'melt'; pass ?filter= with one of blur, sobel"),
            ("", b"x", 400, "unknown filter None; pass ?filter= with one of blur, sobel"),
            (
                "?filter=blur",
                b"",
                400,
                "the upload is empty; send an image as the body, or as a file of a multipart form",
            ),
            ("?filter=blur", b"GIF89a", 400, UNKNOWN_FORMAT),
            ("?filter=blur", png(random_picture(90, 90))[:9000], 400, "not an image that can be decoded: .*"),
            ("?filter=blur", b"x" * 300_001, 413, "an upload may have 300000 bytes; send a smaller image"),
            (
                "?filter=blur",
                png(np.zeros((500, 201, 4), np.uint8)),
                413,
                "the picture may have 100000 pixels, got 201 x 500",
            ),
        ],
    )
    async def test_a_bad_request_is_told_what_is_wrong(
        self, client: httpx.AsyncClient, query: str, data: bytes, status: int, message: str
    ) -> None:
        answer = await client.post(f"/filter{query}", content=data)
        assert answer.status_code == status
        assert re.fullmatch(message.replace("?filter=", r"\?filter="), answer.json()["error"])
        stats = (await client.get("/stats")).json()
        assert (stats["refused"], stats["in_progress"]) == (1, 0)

    async def test_a_body_of_unknown_length_is_cut_off_at_the_limit(self, client: httpx.AsyncClient) -> None:
        body = EndlessBody()
        answer = await client.send(httpx.Request("POST", "http://service/filter?filter=blur", stream=body))
        assert answer.status_code == 413
        assert body.chunks == 4

    async def test_a_form_without_a_file_is_told_so(self, client: httpx.AsyncClient) -> None:
        boundary = "multipart/form-data; boundary=x"
        body = b'--x\r\nContent-Disposition: form-data; name="image"\r\n\r\ntext\r\n--x--\r\n'
        answer = await client.post("/filter?filter=blur", content=body, headers={"content-type": boundary})
        assert answer.status_code == 400
        assert answer.json() == {"error": "the form has no file; send one, such as curl --form image=@photo.jpg"}


class TestFaults:
    async def spoil(self, service: image_service.FilterService) -> None:
        """Make the device fault, as a kernel with a wild pointer does."""
        stream = service.device.create_stream()
        kernel = service.kernel("blur")
        with pytest.raises(zc.CudaError, match=r"^cudaErrorIllegalAddress "):
            await stream.launch(kernel, images.grid_over(8, 8), 8, 8, 0, 0)

    async def test_a_fault_is_answered_with_503_and_the_next_request_works(
        self, client: httpx.AsyncClient, service: image_service.FilterService
    ) -> None:
        await self.spoil(service)
        data = png(random_picture(8, 8))
        failed = await post(client, "blur", data)
        assert failed.status_code == 503
        assert failed.headers["retry-after"] == "1"
        assert failed.json()["error"].startswith("the device failed, try again: cudaErrorIllegalAddress (700): ")
        pixels_of(await post(client, "blur", data))
        stats = (await client.get("/stats")).json()
        assert (stats["resets"], stats["unavailable"], stats["device_bytes"]) == (1, 1, 0)

    async def test_a_health_check_finds_the_fault_and_clears_it(
        self, client: httpx.AsyncClient, service: image_service.FilterService
    ) -> None:
        await self.spoil(service)
        answer = await client.get("/healthz")
        assert answer.status_code == 503
        assert answer.json()["status"] == "recovering"
        assert (await client.get("/healthz")).status_code == 200

    async def test_requests_that_a_fault_hits_get_503_and_all_others_their_picture(
        self, client: httpx.AsyncClient, service: image_service.FilterService
    ) -> None:
        picture = random_picture(200, 200)
        data = png(picture)
        codes: list[int] = []

        async def one() -> None:
            answer = await post(client, "blur", data)
            codes.append(answer.status_code)
            if answer.status_code == 200:
                np.testing.assert_array_equal(pixels_of(answer), images.blur_reference(picture))

        await all_of(*[one] * 10, lambda: self.spoil(service), *[one] * 10)
        assert len(codes) == 20
        assert set(codes) <= {200, 503}
        await load(client, 6)
        assert service.device.memory_info().used_bytes == 0


async def test_a_cancelled_request_gives_everything_back(
    client: httpx.AsyncClient, service: image_service.FilterService
) -> None:
    data = png(random_picture(300, 300))
    async with anyio.create_task_group() as group:
        for _ in range(6):
            group.start_soon(post, client, "blur", data)
        while not service.device.memory_info().used_bytes:
            await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()
    await service.device.sync()
    assert service.stats.in_progress == 0
    assert service.device.memory_info().used_bytes == 0
    await load(client, 6)


@pytest.mark.slow
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_behind_uvicorn_over_loopback() -> None:
    command = [sys.executable, str(EXAMPLES / "image_service.py"), "--port", "0"]
    async with await anyio.open_process(command, stdout=DEVNULL) as process:
        try:
            assert process.stderr is not None
            log = TextReceiveStream(process.stderr)
            with anyio.fail_after(30):
                address = await wait_address(log)
            async with httpx.AsyncClient(base_url=address, timeout=30) as client:
                await load(client, 40)
                large = random_picture(900, 700)  # copied in threads, which start where no task runs
                for name, reference in REFERENCES.items():
                    np.testing.assert_array_equal(pixels_of(await post(client, name, png(large))), reference(large))
                refused = await post(client, "blur", b"no picture")
                assert (refused.status_code, refused.json()) == (400, {"error": UNKNOWN_FORMAT})
                assert (await client.get("/stats")).json()["filtered"] == 42
            process.terminate()
            rest = "".join([text async for text in log])
            assert "Application shutdown complete." in rest
        finally:
            if process.returncode is None:
                process.kill()


async def wait_address(log: TextReceiveStream) -> str:
    """The address in uvicorn's log."""
    text = ""
    async for part in log:
        text += part
        found = re.search(r"running on (http://[\d.]+:\d+) ", text)
        if found:
            return found[1]
    raise AssertionError(f"the service ended before it listened:\n{text}")
