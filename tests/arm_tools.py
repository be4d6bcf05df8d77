"""Runs kernels as a 64-bit ARM host would: compiled for it by the code generator, executed by qemu."""

from __future__ import annotations

import atexit
import shutil
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import jit_harness
from jit_harness import Array, Case

from zcuda_async.jit.abi import EXTENSION, EXTENSION_OFFSET, LAUNCH, LAUNCH_SIZE, WORKER, WORKER_SIZE

__all__ = ("run_arm",)

_COMPILER, _EMULATOR = jit_harness.ARM_TOOLS
_LIBRARIES: Final = ("-L", "/usr/aarch64-linux-gnu")
_BASE: Final = 0x20_0000_0000
_GUARD: Final = 1 << 16
_PAGE: Final = 4096


@dataclass(frozen=True)
class _Region:
    """Memory of the launch; `data` is None for what starts as zeros and is not looked at afterwards."""

    address: int
    size: int
    data: bytes | None


class _Memory:
    """Regions with gaps between them, each ending at a page's end, so that overruns are faults."""

    def __init__(self) -> None:
        self.regions: list[_Region] = []
        self._next = _BASE

    def add(self, data: bytes | None, size: int | None = None) -> int:
        size = max(1, len(data or b"")) if size is None else size
        end = self._next + -(-size // _PAGE) * _PAGE
        address = (end - size) & ~63
        self.regions.append(_Region(address, size, None if data is None else data.ljust(size, b"\0")))
        self._next = end + _GUARD
        return address


@cache
def _driver() -> Path:
    directory = Path(tempfile.mkdtemp(prefix="zcuda-arm-"))
    atexit.register(shutil.rmtree, directory)
    source = Path(__file__).with_name("arm_driver.c")
    subprocess.run([_COMPILER, "-O1", "-o", str(directory / "driver"), str(source)], check=True)
    return directory


def run_arm(case: Case, parts: int | None = None) -> list[Array]:
    """The arrays after the launch."""
    directory = _driver()
    (directory / "kernel.o").write_bytes(jit_harness.object_code(case, "arm", parts))
    library, job = str(directory / "kernel.so"), directory / "job"
    subprocess.run([_COMPILER, "-shared", "-o", library, str(directory / "kernel.o"), "-lm"], check=True)
    memory, head, buffers = _prepare(case)
    table = b"".join(struct.pack("<QQQ", r.address, r.size, r.data is not None) for r in memory.regions)
    job.write_bytes(head + table + b"".join(r.data for r in memory.regions if r.data is not None))
    done = subprocess.run(
        [_EMULATOR, *_LIBRARIES, str(directory / "driver"), library, str(job)], capture_output=True, text=True
    )
    assert done.returncode == 0, f"the emulated kernel ended with {done.returncode}: {done.stderr}"
    data = job.read_bytes()[len(head) + len(table) :]
    found = {}
    for region in memory.regions:
        if region.data is not None:
            found[region.address], data = bytearray(data[: region.size]), data[region.size :]
    jit_harness.services().memory[:] = found[jit_harness.services().address]
    return jit_harness.unpack(case, [found[address] for address in buffers[:-1]], buffers)


def _prepare(case: Case) -> tuple[_Memory, bytes, list[int]]:
    """The launch's memory, the head of the job, and the addresses of the arrays and of the module's variables."""
    memory, image = _Memory(), jit_harness.image_of(case)
    buffers = [memory.add(array.tobytes(), max(1, array.nbytes)) for array in case.arrays]
    base = memory.add(image.data or bytes(16))
    memory.regions[-1] = _Region(base, memory.regions[-1].size, image.at(base).ljust(memory.regions[-1].size, b"\0"))
    buffers.append(base)
    _link(case, memory, buffers)
    shared = memory.add(bytes([0xA5]) * jit_harness.SHARED_BYTES)
    scratch = memory.add(None, jit_harness.SCRATCH_BYTES)
    params = memory.add(case.pack(buffers) + bytes(16))
    x, y, z = case.grid
    control = bytearray(LAUNCH_SIZE + WORKER_SIZE)
    LAUNCH.pack_into(control, 0, 0, x * y * z, 3, 1, 0, x, y, z, case.dynamic_shared, params, base, 0, 0)
    services = jit_harness.services()
    memory.regions.append(_Region(services.address, len(services.memory), bytes(services.memory)))
    EXTENSION.pack_into(control, EXTENSION_OFFSET, 0, *case.cluster, services.address, 1, case.stack_bytes)
    WORKER.pack_into(control, LAUNCH_SIZE, shared, scratch, jit_harness.SCRATCH_BYTES, 0, 0, 0, 0, 0)
    launch = memory.add(bytes(control), _PAGE)
    return memory, struct.pack("<QQQ", len(memory.regions), launch, launch + LAUNCH_SIZE), buffers


def _link(case: Case, memory: _Memory, buffers: list[int]) -> None:
    """Put addresses where the case has them in its arrays."""
    for array, offset, target in case.links:
        region = memory.regions[array]
        data = bytearray(region.data or b"")
        (value,) = struct.unpack_from("<Q", data, offset)
        struct.pack_into("<Q", data, offset, (value + buffers[target]) % (1 << 64))
        memory.regions[array] = _Region(region.address, region.size, bytes(data))
