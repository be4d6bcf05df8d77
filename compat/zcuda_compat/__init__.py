"""The synchronous faces of zcuda-async, for code that is written against CUDA's own APIs.

`zcuda_compat.cudart` mirrors ``cuda.bindings.runtime``.  Nothing starts before the first call that needs a device.
"""

from zcuda_async import __version__
from zcuda_compat.lifetime import shutdown
from zcuda_compat.thread import last_failure

__all__ = ("__version__", "last_failure", "shutdown")
