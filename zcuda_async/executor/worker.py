"""Entry of a worker process: arranges that it cannot outlive its parent, then serves (see `worker_loop`).

Started by `process` through `child_main`, which keeps the package's public face, and with it the event
loop, out of this process.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from types import ModuleType

__all__ = ("main",)


def main(strings: list[str]) -> None:
    """Serve until the parent closes the socket or dies; `strings` are `WorkerArguments`."""
    # Only the parent decides when a worker ends, also where a supervisor signals every process it sees.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _spare_the_compiler()
    from zcuda_async.executor.protocol import WorkerArguments

    arguments = WorkerArguments.from_strings(strings)
    # From here on not even a kernel that never returns keeps this process alive without its parent:
    # kernels run without the interpreter lock, so this thread always gets to act.
    watch = (arguments.death_fd, arguments.parent_pid)
    threading.Thread(target=_die_with_parent, args=watch, name="parent-watch", daemon=True).start()
    from zcuda_async.executor.worker_loop import serve

    serve(arguments)


def _spare_the_compiler() -> None:
    """Let `zcuda_async.jit.abi` be imported without the compiler that `zcuda_async.jit` exports."""
    package = ModuleType("zcuda_async.jit")
    package.__path__ = [f"{path}/jit" for path in sys.modules["zcuda_async"].__path__]
    sys.modules["zcuda_async.jit"] = package


def _die_with_parent(death_fd: int, parent_pid: int) -> None:
    """End this process once the parent closes the death pipe, or ends while a fork of it keeps the pipe open."""
    poll = select.poll()
    poll.register(death_fd, select.POLLIN)
    try:
        poll.register(os.pidfd_open(parent_pid), select.POLLIN)
    except ProcessLookupError:
        os._exit(0)
    except OSError:
        pass  # An old system or a sandbox without pidfds; the pipe serves alone.
    if os.getppid() == parent_pid:
        poll.poll()
    os._exit(0)
