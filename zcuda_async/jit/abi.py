"""The binary interface between compiled kernels and the workers that run them.

Both structs live in the arena, so parent and workers see the same bytes at the same address.
A compiled kernel exports one function, ``i32 entry(Launch*, Worker*)``: it claims chunks of blocks
from ``Launch.next_block`` until none is left (or ``stop`` is set), runs them, then atomically
decrements ``Launch.running``.  It returns 1 to the caller that brought ``running`` to zero, else 0.
A fault detected by compiled code (trap, assert) stores ``fault_code`` and ``fault_site`` in its
Worker struct and executes an illegal instruction; the worker's signal handler keeps a fault code
that is already there.
"""

from __future__ import annotations

import struct
from typing import Final

__all__ = (
    "ABI_VERSION",
    "EXTENSION",
    "EXTENSION_OFFSET",
    "HEAP",
    "HEAP_BINS",
    "HEAP_BLOCKS",
    "HEAP_FIELDS",
    "HEAP_HEAD",
    "HEAP_USED",
    "LAUNCH",
    "LAUNCH_FIELDS",
    "LAUNCH_SIZE",
    "REPORT_SIZE",
    "RING",
    "RING_DATA",
    "RING_FIELDS",
    "RING_GRANULE",
    "RING_RECORD",
    "SERVICES",
    "SERVICES_FIELDS",
    "SERVICES_SIZE",
    "WORKER",
    "WORKER_FIELDS",
    "WORKER_SIZE",
    "WORKSPACE_SIZE",
    "MAX_WORKERS",
    "SHARED_WINDOW_SIZE",
    "WORKER_SPACING",
)

ABI_VERSION: Final = 6
"""Part of every object-cache key: raise it with any change below."""

LAUNCH: Final = struct.Struct("<QQQIIIIIIQQQQ48x")
"""One launch; 128 bytes, 64-byte aligned.  What only some launches need follows in `EXTENSION`."""

EXTENSION: Final = struct.Struct("<QIII4xQQQ")
EXTENSION_OFFSET: Final = 80
WORKSPACE_SIZE: Final = 64
"""Bytes."""

LAUNCH_SIZE: Final = 128

LAUNCH_FIELDS: Final[dict[str, tuple[int, str]]] = {
    "next_block": (0, "i64"),  # atomic: the next linear block index nobody has claimed
    "total_blocks": (8, "i64"),
    "chunk": (16, "i64"),  # blocks claimed at a time
    "running": (24, "i32"),  # atomic: participating workers that have not finished
    "stop": (28, "i32"),  # nonzero: claim nothing more
    "grid_x": (32, "i32"),
    "grid_y": (36, "i32"),
    "grid_z": (40, "i32"),
    "dynamic_shared": (44, "i32"),  # bytes
    "params": (48, "i64"),  # address of the packed parameters
    "globals": (56, "i64"),  # address of the module's .global/.const image, 0 if it has none
    "started_ns": (64, "i64"),  # CLOCK_MONOTONIC; kept by the worker loop, not by compiled code
    "finished_ns": (72, "i64"),
    "workspace": (80, "i64"),  # of a cooperative launch: 64 bytes that start as zeros, for grid-wide barriers; else 0
    "cluster_x": (88, "i32"),  # blocks of a cluster; 1 without
    "cluster_y": (92, "i32"),
    "cluster_z": (96, "i32"),
    "services": (104, "i64"),  # address of the device's `SERVICES`, 0 if it has none
    "number": (112, "i64"),  # no other launch of the device has it: %gridid
    "stack_bytes": (120, "i64"),  # what each thread's calls may take
}

SHARED_WINDOW_SIZE: Final = 256 << 10
"""Bytes of a worker's shared-memory window."""

WORKER_SPACING: Final = 64 << 20
MAX_WORKERS: Final = 128
"""Workers' regions lie so far apart, and there are at most so many, from a multiple of their product on."""
SERVICES: Final = struct.Struct("<QQ48x")
"""What kernels can ask of the device: addresses, each 0 where the device lacks the service."""

SERVICES_SIZE: Final = 64

SERVICES_FIELDS: Final[dict[str, tuple[int, str]]] = {
    "printf": (0, "i64"),  # a `RING` with its data
    "heap": (8, "i64"),  # what ``malloc`` takes from, see `memory.kernel_heap`
}

HEAP: Final = struct.Struct("<QQ")
"""The head of the memory that ``malloc`` takes from; see `jit.lower.heap`.

The lists of free blocks follow at `HEAP_BINS`: list n has the sizes from 2**n bytes on.  Blocks begin at
`HEAP_BLOCKS`, and a last one of size 0, in use, ends them.
"""

HEAP_FIELDS: Final[dict[str, tuple[int, str]]] = {
    "lock": (0, "i32"),  # atomic: 1 while a worker is at work
    "end": (8, "i64"),  # address of the last block
}

HEAP_BINS: Final = 64
HEAP_BLOCKS: Final = 1024
HEAP_HEAD: Final = 16
"""Bytes of a block before what the kernel gets."""

HEAP_USED: Final = 0x5A6D << 48
"""Added to the size of a block in use; so high that no free block's size reaches it."""

RING: Final = struct.Struct("<QQ48x")
"""The head of the buffer that kernels print into; its data follows.

Positions count bytes from the buffer's first use on, for ever; `reserved` is where the next record goes,
at `reserved` modulo `size`.  Records are multiples of `RING_GRANULE`, and none goes round the end: a
filler is put there.  What is not collected in time is overwritten, the oldest first.
"""

RING_DATA: Final = 64

RING_FIELDS: Final[dict[str, tuple[int, str]]] = {
    "reserved": (0, "i64"),  # atomic
    "size": (8, "i64"),
}

RING_GRANULE: Final = 32

RING_RECORD: Final = struct.Struct("<QIIIIQ")
"""A record's head: its position plus 1 (written last), its whole size, and the sizes of what follows.

That is the format (0 for a filler), padded to a multiple of 8; the arguments as the kernel laid them out,
likewise; and the strings that its ``%s`` name, each with its NUL.
"""

WORKER: Final = struct.Struct("<QQQQQQQQ")
"""One worker's state; 64 bytes."""

WORKER_SIZE: Final = 64

WORKER_FIELDS: Final[dict[str, tuple[int, str]]] = {
    "shared": (0, "i64"),  # base address of this worker's shared-memory window (256 KiB)
    "scratch": (8, "i64"),  # base address of coroutine frames and .local memory
    "scratch_size": (16, "i64"),  # bytes
    "block": (24, "i64"),  # linear index of the block now executing
    "fault_code": (32, "i64"),  # cudaError_t value, 0 for none
    "fault_address": (40, "i64"),
    "fault_site": (48, "i64"),  # line in the PTX text, 0 if unknown; the text's number in the high half
    "stack_floor": (56, "i64"),  # how low calls may push the native stack; 0 if the worker runs in a thread of others
}

REPORT_SIZE: Final = 4096
"""The last bytes of a worker's scratch memory: who waits where, in a deadlock.

A 32-bit count, then from byte 16 that many records: i32 first thread, i32 PTX line, i64 mask of the
threads from there on.
"""
