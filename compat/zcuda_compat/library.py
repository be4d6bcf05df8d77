"""Libraries: PTX text that is loaded on each device when it is first used there, and its kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zcuda_compat.bridge import BRIDGE
from zcuda_compat.primary import current

if TYPE_CHECKING:
    import zcuda_async as zc
    from zcuda_compat.primary import Primary

__all__ = ("Kernel", "Library")


class Library:
    """PTX text; loading it at once on the current device finds errors early.

    Raises:
        CompileError: the text is not valid PTX.
    """

    def __init__(self, code: bytes, filename: str) -> None:
        self._code = code
        self._filename = filename
        self._modules: dict[Primary, zc.Module] = {}
        self.kernels: dict[str, Kernel] = {}
        self.module(current())

    def module(self, primary: Primary) -> zc.Module:
        """The module on a device, loaded there if it is not yet."""
        primary.check()
        module = self._modules.get(primary)
        if module is None:
            module = self._modules[primary] = BRIDGE.run(lambda: self._load(primary))
        return module

    async def _load(self, primary: Primary) -> zc.Module:
        module = primary.device.load_ptx(self._code, self._filename)
        await module.get_kernel_names()
        return module

    def kernel_names(self) -> tuple[str, ...]:
        """The names of all kernels."""
        return BRIDGE.run(self.module(current()).get_kernel_names)

    def get_global(self, name: str) -> tuple[int, int]:
        """Address and size of a variable on the current device."""
        module = self.module(current())
        return BRIDGE.run(lambda: module.get_global(name))

    def kernel(self, name: str) -> Kernel:
        """The kernel of that name; CudaError `cudaErrorSymbolNotFound` if there is none."""
        kernel = self.kernels.get(name)
        if kernel is None:
            kernel = Kernel(self, name)
            kernel.on(current())
            kernel = self.kernels.setdefault(name, kernel)
        return kernel

    def forget(self, primary: Primary) -> zc.Module | None:
        """Forget a device; the next use there loads anew.  Gives the module that was loaded."""
        for kernel in self.kernels.values():
            kernel.forget(primary)
        return self._modules.pop(primary, None)

    def unload(self) -> None:
        """Unload from all devices, after what was submitted."""
        for primary in list(self._modules):
            module = self.forget(primary)
            if module is not None:
                BRIDGE.post(module.close)


class Kernel:
    """A kernel by name; made by `Library.kernel`."""

    def __init__(self, library: Library, name: str) -> None:
        self._library = library
        self.name = name
        self.handle = 0
        """The number that callers know it by, 0 before they do."""
        self._kernels: dict[Primary, zc.Kernel] = {}
        self._compiled: set[tuple[Primary, tuple[int, int, int]]] = set()

    def on(self, primary: Primary) -> zc.Kernel:
        """The kernel on a device."""
        kernel = self._kernels.get(primary)
        if kernel is None:
            module = self._library.module(primary)
            kernel = self._kernels[primary] = BRIDGE.run(lambda: module.get_kernel(self.name))
        return kernel

    def compile(self, primary: Primary, block: tuple[int, int, int]) -> None:
        """Compile for a block shape, the first time; so that the launch itself reports what is wrong."""
        if (primary, block) in self._compiled:
            return
        kernel = self.on(primary)
        BRIDGE.run(lambda: kernel.compile(block))
        self._compiled.add((primary, block))

    def forget(self, primary: Primary) -> None:
        """Forget a device."""
        self._kernels.pop(primary, None)
        self._compiled = {key for key in self._compiled if key[0] is not primary}
