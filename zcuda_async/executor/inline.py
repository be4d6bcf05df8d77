"""An executor without processes: the same machine code, in a thread of this one, for debugging."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic_ns
from typing import TYPE_CHECKING, Final, Self

import anyio
from anyio import to_thread

from zcuda_async.errors import Status
from zcuda_async.executor.base import Fault, LaunchRequest, LaunchResult
from zcuda_async.executor.protocol import CURRENT, NO_BLOCK
from zcuda_async.jit.abi import LAUNCH_FIELDS, WORKER
from zcuda_async.memory.mapping import PAGE

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from zcuda_async.executor.native import NativeCode
    from zcuda_async.jit.info import KernelCode
    from zcuda_async.memory.arena import Arena

__all__ = ("InlineExecutor",)
