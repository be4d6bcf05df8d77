"""Kernels: a module's entry points, compiled once per block shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from zcuda_async.errors import CompileError, LaunchError, Status
from zcuda_async.launch import ArgumentPacker, LaunchConfig, check_cluster
from zcuda_async.op import AbandonedError, Completion

if TYPE_CHECKING:
    from zcuda_async.context import Context
    from zcuda_async.jit.info import KernelCode, KernelInfo, ParamInfo
    from zcuda_async.module import Module

__all__ = ("Kernel",)

_SHARED_DEFAULT: Final = 48 << 10
_SHARED_OPTIN: Final = 99 << 10
_MOST_BLOCKS: Final = 16
_MOST_THREADS: Final = 1536
_MOST_SHARED: Final = 100 << 10
"""What one multiprocessor (a worker) holds at a time, as `DeviceProperties` and the attributes say."""


class Kernel:
    """A kernel of a loaded module, made by `Module.get_kernel`; give it to `Stream.launch`.

    It is compiled once for each block shape, in a process of its own, and shared by all launches of that shape;
    launching a kernel that is not compiled yet just takes longer.
    """

    __slots__ = ("_codes", "_info", "_max_dynamic_shared", "_module", "_packer", "context", "pack")

    def __init__(self, module: Module, info: KernelInfo) -> None:
        self._module = module
        self._info = info
        self._packer = ArgumentPacker(info)
        self._codes: dict[tuple[int, int, int], Completion[KernelCode]] = {}
        self._max_dynamic_shared = max(0, _SHARED_DEFAULT - info.static_shared)
        self.context: Context = module.context
        self.pack = self._packer.pack

    @property
    def name(self) -> str:
        """The name in the PTX text."""
        return self._info.name

    @property
    def info(self) -> KernelInfo:
        """The kernel's signature and limits."""
        return self._info

    @property
    def params(self) -> tuple[ParamInfo, ...]:
        """The parameters, in order."""
        return self._info.params

    @property
    def module(self) -> Module:
        """The module the kernel belongs to."""
        return self._module

    @property
    def globals_address(self) -> int:
        """Where the module's variables live; 0 if it has none."""
        return self._module.globals_address

    @property
    def max_dynamic_shared_bytes(self) -> int:
        """The most dynamic shared memory a launch may ask for, in bytes.

        Static and dynamic shared memory together may have 48 KiB; set this to opt in to up to 99 KiB, as CUDA's
        ``cudaFuncAttributeMaxDynamicSharedMemorySize`` does.
        """
        return self._max_dynamic_shared

    @max_dynamic_shared_bytes.setter
    def max_dynamic_shared_bytes(self, size: int) -> None:
        limit = _SHARED_OPTIN - self._info.static_shared
        if not 0 <= size <= limit:
            raise LaunchError(
                Status.cudaErrorInvalidValue,
                f"{self.name} may use 0 to {limit} bytes of dynamic shared memory ({_SHARED_OPTIN} less"
                f" {self._info.static_shared} static), got {size}",
            )
        self._max_dynamic_shared = size

    async def compile(self, block: int | tuple[int, ...]) -> None:
        """Compile for blocks of this shape now, so that the first launch need not wait; a checkpoint.

        Cancelling stops only the waiting.

        Raises:
            CompileError: the kernel cannot be compiled.
            LaunchError: it does not allow such blocks.
            anyio.ClosedResourceError: the device is closed.
        """
        self.context.check_open()
        config = LaunchConfig(grid=1, block=block)
        self.check_config(config)
        await self.code_for(config.block_shape)

    def code_for(self, block: tuple[int, int, int]) -> Completion[KernelCode]:
        """The kernel's code for a block shape, compiling it if nobody has asked for it yet."""
        code = self._codes.get(block)
        if code is None:
            code = self._codes[block] = Completion()
            self.context.start_task(self._compile, block, code)
        return code

    async def _compile(self, block: tuple[int, int, int], code: Completion[KernelCode]) -> None:
        try:
            code.resolve(await self._module.compile_kernel(self.name, block))
        except Exception as error:  # noqa: BLE001 - it belongs to the launches that wait for the code
            # A text that is wrong stays wrong (its PtxError is the cause then).  Where the compiler itself failed, a
            # later launch may try again.
            if not isinstance(error, CompileError) or error.__cause__ is None:
                del self._codes[block]
            code.fail(error)
        except BaseException:
            del self._codes[block]
            code.fail(AbandonedError(f"{self.name} was not compiled: {self.context.name} was closed"))
            raise

    def check_config(self, config: LaunchConfig) -> None:
        """Check a launch's shape against what this kernel allows.

        Raises:
            LaunchError: `cudaErrorInvalidValue` for a block that ``.maxntid`` or ``.reqntid`` rules out, or for
                too much shared memory.
            anyio.ClosedResourceError: the kernel's module is closed.
        """
        self._module.check_open()
        info, block = self._info, config.block_shape
        if config.cooperative:
            self._check_cooperative(config)
        if info.cluster is not None:
            self._check_required_cluster(config, info.cluster)
        if config.shared_bytes > self._max_dynamic_shared:
            raise self._too_much_shared(config.shared_bytes)
        if info.required_block is not None and block != info.required_block:
            raise LaunchError(
                Status.cudaErrorInvalidValue,
                f"{self.name} requires blocks of exactly {info.required_block} (.reqntid), got {block};"
                f" pass block={info.required_block}",
            )
        if block[0] * block[1] * block[2] > info.max_threads:
            raise LaunchError(
                Status.cudaErrorInvalidValue,
                f"{self.name} allows at most {info.max_threads} threads per block (.maxntid), got {block} ="
                f" {block[0] * block[1] * block[2]}; use smaller blocks and a larger grid",
            )

    def max_cooperative_blocks(self, block: int | tuple[int, ...], shared_bytes: int = 0) -> int:
        """The most blocks that a cooperative launch may have: as many as can run at once.

        Args:
            block: threads of a block.
            shared_bytes: dynamic shared memory of each block.
        """
        config = LaunchConfig(grid=1, block=block, shared_bytes=shared_bytes)
        x, y, z = config.block_shape
        threads = -(-x * y * z // 32) * 32
        shared = self._info.static_shared + config.shared_bytes
        each = min(_MOST_BLOCKS, _MOST_THREADS // threads, _MOST_SHARED // shared if shared else _MOST_BLOCKS)
        return each * self.context.executor.workers

    def _check_cooperative(self, config: LaunchConfig) -> None:
        x, y, z = config.grid_shape
        limit = self.max_cooperative_blocks(config.block_shape, config.shared_bytes)
        if x * y * z > limit:
            raise LaunchError(
                Status.cudaErrorCooperativeLaunchTooLarge,
                f"a cooperative launch of {self.name} may have at most {limit} blocks of {config.block_shape} threads,"
                f" got {x * y * z}; use a smaller grid and a loop, or a device with more workers",
            )

    def _check_required_cluster(self, config: LaunchConfig, cluster: tuple[int, int, int]) -> None:
        if config.cluster not in (None, cluster):
            raise LaunchError(
                Status.cudaErrorInvalidClusterSize,
                f"{self.name} requires clusters of exactly {cluster} (.reqnctapercluster), got {config.cluster}",
            )
        check_cluster(cluster, config.grid_shape)

    def cluster_for(self, config: LaunchConfig) -> tuple[int, int, int]:
        """The cluster that a launch uses: its own, or the one that the kernel requires."""
        return config.cluster or self._info.cluster or (1, 1, 1)  # type: ignore[return-value]

    def _too_much_shared(self, size: int) -> LaunchError:
        static = f" besides its {self._info.static_shared} static ones" if self._info.static_shared else ""
        optin = _SHARED_OPTIN - self._info.static_shared
        fix = (
            f"set kernel.max_dynamic_shared_bytes = {size} first"
            if size <= optin
            else f"use at most {optin}, and set kernel.max_dynamic_shared_bytes first"
        )
        return LaunchError(
            Status.cudaErrorInvalidValue,
            f"{self.name} may use {self._max_dynamic_shared} bytes of dynamic shared memory{static}, got {size}; {fix}",
        )

    def __repr__(self) -> str:
        return f"<Kernel {self.name} of {self._module.filename}>"
