"""Machine code in this process: loading kernels, and the handler that turns crashes into reports.

Importing this loads LLVM (some 50 ms), so only workers and the inline executor do.
"""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Callable
from functools import cache
from itertools import count
from typing import Final

import llvmlite.binding as llvm

from zcuda_async.executor.protocol import SIGNAL_OFFSET
from zcuda_async.jit.abi import WORKER_FIELDS

__all__ = ("Entry", "LoadError", "NativeCode", "install_fault_handler")

Entry = Callable[[int, int], int]
"""``entry(launch address, worker address)``, see `jit.abi`; other threads run Python meanwhile."""

_ENTRY_TYPE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_size_t, ctypes.c_size_t)
_ALTERNATE_STACK: Final = 64 << 10
_SA_SIGINFO: Final = 4
_SA_ONSTACK: Final = 0x08000000
_CAUGHT: Final = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGTRAP)

_numbers = count()


class LoadError(Exception):
    """Object code could not be loaded; the message says why."""


class NativeCode:
    """One kernel's object code, linked into this process: call `entry` to take part in a launch.

    Raises:
        LoadError: this is no object code, it defines no function `name`, or it needs a symbol that
            this process does not have (LLVM prints which on standard error).
    """

    def __init__(self, object_code: bytes, name: str) -> None:
        builder = llvm.JITLibraryBuilder().add_object_img(object_code)
        self._library, address = _link(builder, name)
        self.entry: Final[Entry] = _ENTRY_TYPE(address)

    def close(self) -> None:
        """Unload; `entry` must not be called any more."""
        self._library.close()


def install_fault_handler(page: int) -> llvm.ResourceTracker:
    """Make crashes of the calling thread end this process with a report in the state page at `page`.

    The handler is machine code on a stack of its own and calls only ``_exit``, so it works whatever
    the kernel has done to this process.  Keep what is returned, it holds the code.
    """
    library, address = _link(llvm.JITLibraryBuilder().add_ir(_handler_ir(page)), "on_fault")
    libc = ctypes.CDLL(None, use_errno=True)
    # Never freed: the kernel holds on to its address.
    stack = ctypes.c_void_p(_leak(_ALTERNATE_STACK))
    _check(libc.sigaltstack(ctypes.byref(_StackT(stack, 0, _ALTERNATE_STACK)), None))
    action = _SigAction(address, (ctypes.c_ulong * 16)(), _SA_SIGINFO | _SA_ONSTACK)
    for number in _CAUGHT:
        _check(libc.sigaction(int(number), ctypes.byref(action), None))
    return library


def _link(builder: llvm.JITLibraryBuilder, name: str) -> tuple[llvm.ResourceTracker, int]:
    """Link a library of its own; return what keeps it loaded and the address of `name`."""
    library_name = f"zcuda-{next(_numbers)}"  # A failed attempt uses its name up, too.
    try:
        library = builder.export_symbol(name).add_current_process().link(_linker(), library_name)
    except RuntimeError as error:
        raise LoadError(str(error)) from error
    return library, library[name]


@cache
def _linker() -> llvm.LLJIT:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.create_lljit_compiler(llvm.Target.from_default_triple().create_target_machine())


class _StackT(ctypes.Structure):
    """``stack_t``."""

    _fields_ = (("sp", ctypes.c_void_p), ("flags", ctypes.c_int), ("size", ctypes.c_size_t))


class _SigAction(ctypes.Structure):
    """``struct sigaction`` of Linux C libraries on 64-bit machines."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ulong * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


def _leak(size: int) -> int:
    malloc = ctypes.CDLL(None).malloc
    malloc.restype = ctypes.c_void_p
    malloc.argtypes = [ctypes.c_size_t]
    return int(malloc(size))


def _check(result: int) -> None:
    if result:
        raise OSError(ctypes.get_errno(), "cannot install the fault handler")


def _handler_ir(page: int) -> str:
    """The handler, as LLVM IR: siginfo has si_code at byte 8 and si_addr at byte 16.

    Codes: 700 illegal address, 716 misaligned (SIGBUS with BUS_ADRALN), 715 illegal instruction, 719 the
    rest.  One that compiled code has stored stays.
    """
    code, address = (page + WORKER_FIELDS[name][0] for name in ("fault_code", "fault_address"))
    return f"""
        declare void @_exit(i32)
        define void @on_fault(i32 %signal, ptr %info, ptr %context) {{
          %p_si_code = getelementptr i8, ptr %info, i64 8
          %si_code = load i32, ptr %p_si_code
          %p_si_addr = getelementptr i8, ptr %info, i64 16
          %si_addr = load i64, ptr %p_si_addr
          %is_bus = icmp eq i32 %signal, {int(signal.SIGBUS)}
          %is_adraln = icmp eq i32 %si_code, 1
          %is_misaligned = and i1 %is_bus, %is_adraln
          %is_segv = icmp eq i32 %signal, {int(signal.SIGSEGV)}
          %is_access = or i1 %is_segv, %is_bus
          %is_ill = icmp eq i32 %signal, {int(signal.SIGILL)}
          %other = select i1 %is_ill, i64 715, i64 719
          %access = select i1 %is_misaligned, i64 716, i64 700
          %new = select i1 %is_access, i64 %access, i64 %other
          %p_code = inttoptr i64 {code} to ptr
          %old = load volatile i64, ptr %p_code
          %has_code = icmp ne i64 %old, 0
          %final = select i1 %has_code, i64 %old, i64 %new
          store volatile i64 %final, ptr %p_code
          %p_address = inttoptr i64 {address} to ptr
          store volatile i64 %si_addr, ptr %p_address
          %p_signal = inttoptr i64 {page + SIGNAL_OFFSET} to ptr
          store volatile i32 %signal, ptr %p_signal
          %p_kind = inttoptr i64 {page + SIGNAL_OFFSET + 4} to ptr
          store volatile i32 %si_code, ptr %p_kind
          %status = add i32 %signal, 128
          call void @_exit(i32 %status)
          unreachable
        }}
    """
