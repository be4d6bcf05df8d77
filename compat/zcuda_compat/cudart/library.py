"""Libraries: loading PTX, finding kernels and variables, asking about kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import SupportsIndex

from zcuda_async import CudaError, Status
from zcuda_compat.cudart.enums import cudaFuncAttribute, cudaJitOption, cudaLibraryOption
from zcuda_compat.cudart.results import status_call, two_value_call, value_call
from zcuda_compat.cudart.structs import cudaFuncAttributes
from zcuda_compat.handles import HANDLES, HandleLike, cudaKernel_t, cudaLibrary_t
from zcuda_compat.library import Kernel, Library
from zcuda_compat.numbers import c_int, c_uint
from zcuda_compat.primary import current

__all__ = (
    "cudaFuncGetAttributes",
    "cudaFuncSetAttribute",
    "cudaLibraryEnumerateKernels",
    "cudaLibraryGetGlobal",
    "cudaLibraryGetKernel",
    "cudaLibraryGetKernelCount",
    "cudaLibraryLoadData",
    "cudaLibraryLoadFromFile",
    "cudaLibraryUnload",
)

JitOptions = Sequence[cudaJitOption] | None
LibraryOptions = Sequence[cudaLibraryOption] | None
Values = Sequence[object] | None


@value_call
def cudaLibraryLoadData(
    code: object,
    jitOptions: JitOptions,
    jitOptionsValues: Values,
    numJitOptions: SupportsIndex,
    libraryOptions: LibraryOptions,
    libraryOptionValues: Values,
    numLibraryOptions: SupportsIndex,
) -> cudaLibrary_t:
    """Load PTX text: an object with the buffer protocol, or the address of NUL-terminated text.

    The text is read at once.  Options only tune the code of real devices, and are not used.
    """
    _check_options("jitOptions", jitOptions, jitOptionsValues, numJitOptions)
    _check_options("libraryOptions", libraryOptions, libraryOptionValues, numLibraryOptions)
    return _load(_text_of(code), "<library>")


@value_call
def cudaLibraryLoadFromFile(
    fileName: bytes,
    jitOptions: JitOptions,
    jitOptionsValues: Values,
    numJitOptions: SupportsIndex,
    libraryOptions: LibraryOptions,
    libraryOptionValues: Values,
    numLibraryOptions: SupportsIndex,
) -> cudaLibrary_t:
    """As `cudaLibraryLoadData`, from a file; `cudaErrorFileNotFound` if it cannot be read."""
    _check_options("jitOptions", jitOptions, jitOptionsValues, numJitOptions)
    _check_options("libraryOptions", libraryOptions, libraryOptionValues, numLibraryOptions)
    path = Path(_text("fileName", fileName))
    try:
        code = path.read_bytes()
    except OSError as error:
        raise CudaError(Status.cudaErrorFileNotFound, f"{path} cannot be read: {error.strerror}") from None
    return _load(code, path.name)


def _load(code: bytes, filename: str) -> cudaLibrary_t:
    return cudaLibrary_t(HANDLES.add(Library(code, filename)))


def _text_of(code: object) -> bytes:
    if code is None or isinstance(code, int):
        if not code:
            raise CudaError(Status.cudaErrorInvalidValue, "cudaLibraryLoadData code is NULL; pass the PTX text")
        return ctypes.string_at(code)
    try:
        return bytes(memoryview(code))  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            f"code is PTX text as bytes, or its address, got {type(code).__name__}; pass text.encode()"
        ) from None


def _text(name: str, value: object) -> str:
    if not isinstance(value, bytes):
        raise TypeError(f"{name}: expected bytes, {type(value).__name__} found")
    return value.decode()


def _check_options(name: str, options: Sequence[object] | None, values: Values, count: SupportsIndex) -> None:
    given = min(len(options or ()), len(values or ()))
    if c_uint(count) > given:
        raise CudaError(
            Status.cudaErrorInvalidValue, f"the number of {name} is {count!r}, but only {given} with values are given"
        )


@status_call
def cudaLibraryUnload(library: HandleLike) -> None:
    """Unload a library, after what was submitted; its handle and those of its kernels become invalid."""
    found = HANDLES.remove(library, Library)
    HANDLES.remove_all(*found.kernels.values())
    found.unload()


@value_call
def cudaLibraryGetKernel(library: HandleLike, name: bytes) -> cudaKernel_t:
    """Return the handle of a kernel; `cudaErrorSymbolNotFound` if the library has none of that name."""
    return _kernel_handle(HANDLES.get(library, Library).kernel(_text("name", name)))


def _kernel_handle(kernel: Kernel) -> cudaKernel_t:
    if not kernel.handle:
        kernel.handle = HANDLES.add(kernel)
    return cudaKernel_t(kernel.handle)


@value_call
def cudaLibraryGetKernelCount(lib: HandleLike) -> int:
    """Return how many kernels a library has."""
    return len(HANDLES.get(lib, Library).kernel_names())


@value_call
def cudaLibraryEnumerateKernels(numKernels: SupportsIndex, lib: HandleLike) -> list[cudaKernel_t]:
    """Return the handles of the first `numKernels` kernels of a library."""
    found = HANDLES.get(lib, Library)
    return [_kernel_handle(found.kernel(name)) for name in found.kernel_names()[: c_uint(numKernels)]]


@two_value_call
def cudaLibraryGetGlobal(library: HandleLike, name: bytes) -> tuple[int, int]:
    """Return address and size, in bytes, of a library's variable on the current device."""
    return HANDLES.get(library, Library).get_global(_text("name", name))


def find_kernel(function: HandleLike) -> Kernel:
    """The kernel of a handle; CudaError `cudaErrorInvalidDeviceFunction` if there is none."""
    return HANDLES.get(function, Kernel, Status.cudaErrorInvalidDeviceFunction)


@value_call
def cudaFuncGetAttributes(func: HandleLike) -> cudaFuncAttributes:
    """Return what a kernel needs and allows on the current device."""
    kernel = find_kernel(func).on(current())
    info = kernel.info
    return cudaFuncAttributes(
        sharedSizeBytes=info.static_shared,
        maxThreadsPerBlock=info.max_threads,
        maxDynamicSharedSizeBytes=kernel.max_dynamic_shared_bytes,
    )


@status_call
def cudaFuncSetAttribute(func: HandleLike, attr: cudaFuncAttribute, value: SupportsIndex) -> None:
    """Set how much dynamic shared memory launches may ask for; the shared memory carve-out is accepted as a hint."""
    kernel, setting = find_kernel(func).on(current()), c_int(value)
    if attr == cudaFuncAttribute.cudaFuncAttributeMaxDynamicSharedMemorySize:
        kernel.max_dynamic_shared_bytes = setting
    elif attr == cudaFuncAttribute.cudaFuncAttributePreferredSharedMemoryCarveout:
        if not -1 <= setting <= 100:
            raise CudaError(Status.cudaErrorInvalidValue, f"the carve-out is -1 to 100 percent, got {setting}")
    else:
        raise CudaError(Status.cudaErrorInvalidValue, f"the attribute {attr!r} cannot be set here")
