"""A reference interpreter for PTX: slow, plain, one thread at a time.

It is written from the PTX ISA manual and shares nothing with the code generator, which is tested
against it.  Floating-point arithmetic is exact rational arithmetic, rounded once.
"""

from __future__ import annotations

from zcuda_async.interpreter.machine import Interpreter, supports
from zcuda_async.interpreter.memory import Memory, ProcessMemory, RegionMemory
from zcuda_async.interpreter.thread import (
    DeadlockError,
    InterpreterError,
    MemoryFaultError,
    TrapError,
    UndefinedRegisterError,
)

__all__ = (
    "DeadlockError",
    "Interpreter",
    "InterpreterError",
    "Memory",
    "MemoryFaultError",
    "ProcessMemory",
    "RegionMemory",
    "TrapError",
    "UndefinedRegisterError",
    "supports",
)
