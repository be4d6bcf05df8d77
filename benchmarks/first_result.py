"""Run as a new process: imports the package, runs one kernel, prints when its result was there.

``result_at`` is on the clock of `time.monotonic`, which all processes share.
"""

from __future__ import annotations

import json
import time
from array import array

import anyio

from benchmarks.problems import KERNELS_PTX

_COUNT = 1000


async def _main() -> None:
    before = time.monotonic()
    import zcuda_async as zc

    imported = time.monotonic()
    x, y = array("f", [1.0] * _COUNT), array("f", [2.0] * _COUNT)
    async with zc.open_device(0) as device, device.create_stream() as stream:
        saxpy = await device.load_ptx(KERNELS_PTX.read_text(), "kernels.ptx").get_kernel("saxpy")
        with device.allocate(4 * _COUNT) as device_x, device.allocate(4 * _COUNT) as device_y:
            stream.memcpy(device_x, x)
            stream.memcpy(device_y, y)
            stream.launch(saxpy, zc.LaunchConfig(grid=-(-_COUNT // 256), block=256), _COUNT, 3.0, device_x, device_y)
            await stream.memcpy(y, device_y)
        result_at = time.monotonic()
    assert y[-1] == 5.0
    print(json.dumps({"import_s": imported - before, "result_at": result_at}))


if __name__ == "__main__":
    anyio.run(_main)
