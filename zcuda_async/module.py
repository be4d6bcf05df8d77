"""Modules: PTX text on a device, its kernels by name and its variables in memory."""

from __future__ import annotations

import re
import struct
from typing import TYPE_CHECKING, Final

import anyio

from zcuda_async.errors import CompileError, CudaError, Status
from zcuda_async.jit.info import KernelCode
from zcuda_async.kernel import Kernel
from zcuda_async.memory.buffer import Buffer
from zcuda_async.op import AbandonedError, Completion
from zcuda_async.threads import run_blocking

if TYPE_CHECKING:
    from types import TracebackType

    from zcuda_async.context import Context
    from zcuda_async.jit.info import ModuleInfo

__all__ = ("Module",)

_WORD: Final = struct.Struct("<Q")
_IMAGE_INLINE: Final = 1 << 20
_PATH_ENDS: Final = (".ptx", ".cu", ".cubin", ".fatbin", ".txt")
_CUDA_SOURCE: Final = re.compile(r"__global__|__device__|^\s*#\s*include\b", re.MULTILINE)


class _Loading(Completion["ModuleInfo"]):
    """The module's reading, which a context can keep as a failure."""

    __slots__ = ("_filename",)

    def __init__(self, filename: str) -> None:
        super().__init__()
        self._filename = filename

    def __repr__(self) -> str:
        return f"<load of {self._filename}>"


class Module:
    """PTX text loaded on a device, made by `Device.load_ptx`.

    Reading the text starts at once, in the compiler's process; `get_kernel` waits for it.  The module's variables
    are placed in device memory before any kernel of it can run, and stay until `close`.
    """

    __slots__ = ("_filename", "_is_closed", "_kernels", "_loading", "_text", "context", "globals_address", "image")

    def __init__(self, context: Context, text: str, filename: str) -> None:
        self.context = context
        self.globals_address = 0
        """Where the module's variables start in device memory; 0 if it has none or is not loaded yet."""
        self._text = text
        self._filename = filename
        self._kernels: dict[str, Kernel] = {}
        self.image: Buffer | None = None
        """The memory that holds the variables; None if there are none."""
        self._is_closed = False
        self._loading = _Loading(filename)
        context.start_task(self._load)

    @property
    def filename(self) -> str:
        """What diagnoses call the text."""
        return self._filename

    @property
    def is_closed(self) -> bool:
        """Whether the module was closed, or its device."""
        return self._is_closed or self.context.is_closed

    @property
    def is_loaded(self) -> bool:
        """Whether the text was read, with or without success."""
        return self._loading.is_done

    async def get_kernel(self, name: str) -> Kernel:
        """The kernel of that name; waits until the module's text has been read.

        Raises:
            CompileError: the text is not valid PTX, or not supported; says where and what.
            CudaError: `cudaErrorSymbolNotFound` if it holds no such kernel.
            anyio.ClosedResourceError: the module or its device is closed.
        """
        info = await self._loaded()
        if name not in self._kernels:
            for kernel in info.kernels:
                if kernel.name == name:
                    self._kernels[name] = Kernel(self, kernel)
                    break
            else:
                raise self._not_found("kernel", name, [kernel.name for kernel in info.kernels])
        return self._kernels[name]

    async def get_kernel_names(self) -> tuple[str, ...]:
        """The names of all kernels, in the order of the text; raises as `get_kernel` does."""
        return tuple(kernel.name for kernel in (await self._loaded()).kernels)

    async def get_global(self, name: str) -> tuple[int, int]:
        """The device address and the size in bytes of a ``.global`` or ``.const`` variable.

        Copy to and from it with `Stream.memcpy` (address and size).  Raises as `get_kernel` does.
        """
        info = await self._loaded()
        for variable in info.variables:
            if variable.name == name:
                return self.globals_address + variable.offset, variable.size
        raise self._not_found("variable", name, [variable.name for variable in info.variables])

    def close(self) -> None:
        """Refuse further launches, and give the variables' memory back after those submitted; idempotent."""
        self._is_closed = True
        if self.image is not None:
            self.image.close()

    def __enter__(self) -> Module:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def compile_kernel(self, kernel: str, block: tuple[int, int, int]) -> KernelCode:
        """Have the compiler make one kernel's code; `Kernel` calls this once per block shape.

        For an executor that computes nothing it stays empty.
        """
        if not self.context.needs_code:
            return KernelCode(kernel, block, "", b"", 0)
        compiler = await self.context.get_compiler()
        return await compiler.compile(self._text, self._filename, kernel, block)

    def check_open(self) -> None:
        """ClosedResourceError if the module is closed."""
        if self._is_closed:
            raise anyio.ClosedResourceError(f"module {self._filename} is closed; load it again with dev.load_ptx")

    async def _loaded(self) -> ModuleInfo:
        self.context.check_open()
        self.check_open()
        return await self._loading

    async def _load(self) -> None:
        try:
            compiler = await self.context.get_compiler()
            info = await compiler.inspect(self._text, self._filename)
            if info.memory_size:
                await self._place(info)
        except Exception as error:  # noqa: BLE001 - it belongs to whoever asks for a kernel
            if isinstance(error, CompileError) and error.__cause__ is not None:
                error = _with_hint(error, self._text)
            self._loading.fail(error)
            self.context.note_failure(self._loading)
        except BaseException:
            self._loading.fail(AbandonedError(f"{self._filename} was not loaded: {self.context.name} was closed"))
            raise
        else:
            self._loading.resolve(info)

    async def _place(self, info: ModuleInfo) -> None:
        """Put the variables into device memory, addresses adjusted to where they landed."""
        size, image_size = info.memory_size, len(info.globals_image)
        heap = self.context.device_heap
        image = Buffer(heap, heap.reserve(size), size)

        def write() -> None:
            view = heap.view(image.handle, size)
            view[:image_size] = info.globals_image
            if image_size < size:
                import numpy as np

                np.frombuffer(view, np.uint8)[image_size:] = 0
            for offset, addend in info.relocations:
                _WORD.pack_into(view, offset, (image.handle + addend) % 2**64)

        if size <= _IMAGE_INLINE:
            write()
        else:
            await run_blocking(write)
        if self._is_closed:
            image.close()
        self.image = image
        self.globals_address = image.handle

    def _not_found(self, what: str, name: str, names: list[str]) -> CudaError:
        holds = f"it holds {', '.join(names)}" if names else f"it holds no {what}s"
        return CudaError(Status.cudaErrorSymbolNotFound, f"{self._filename} has no {what} {name!r}; {holds}")

    def __repr__(self) -> str:
        return f"<Module {self._filename}>"


def _with_hint(error: CompileError, text: str) -> CompileError:
    """The same error, with what to do where the text is obviously something else than PTX."""
    hint = ""
    if text and "\n" not in text.strip() and text.rstrip().endswith(_PATH_ENDS):
        hint = f"{text.strip()!r} looks like a path: load_ptx takes the text, so pass pathlib.Path(...).read_text()"
    elif _CUDA_SOURCE.search(text):
        hint = "the text looks like CUDA C++: compile it with `nvcc -ptx` and load the .ptx file's text"
    if not hint:
        return error
    hinted = CompileError(error.code, f"{error.detail}\nhint: {hint}")
    hinted.__cause__ = error.__cause__
    return hinted


def decode_ptx(text: object, filename: str) -> str:
    """PTX text as str: bytes are decoded, a final NUL (as CUDA images have) is cut off.

    Raises:
        TypeError: it is neither str nor bytes.
        CompileError: `cudaErrorInvalidKernelImage` for machine code instead of text, `cudaErrorInvalidPtx` for what
            is no text at all (not UTF-8, lone surrogates, NULs before the end).
    """
    if isinstance(text, str):
        return _checked(text.rstrip("\0"), filename)
    if not isinstance(text, (bytes, bytearray, memoryview)):
        raise TypeError(
            f"load_ptx takes the PTX text itself as str or bytes, got {type(text).__name__};"
            " read a file with pathlib.Path(...).read_text()"
        )
    data = bytes(text)
    if data.startswith((b"\x7fELF", b"\x50\xed\x55\xba")):
        raise CompileError(
            Status.cudaErrorInvalidKernelImage,
            f"{filename} is compiled GPU code (cubin or fatbin), which cannot run here; compile with `nvcc -ptx`",
        )
    try:
        return _checked(data.rstrip(b"\0").decode(), filename)
    except UnicodeDecodeError as error:
        raise CompileError(Status.cudaErrorInvalidPtx, f"{filename} is not text: {error}") from None


def _checked(text: str, filename: str) -> str:
    """The text, if it can go to the compiler: without NULs, and in UTF-8."""
    at = text.find("\0")
    if at >= 0:
        line = text.count("\n", 0, at) + 1
        raise CompileError(Status.cudaErrorInvalidPtx, f"{filename} is not text: there is a NUL in line {line}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise CompileError(Status.cudaErrorInvalidPtx, f"{filename} is not text: {error}") from None
    return text
