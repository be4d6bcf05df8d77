"""What a child process runs first: ``child_main.py SEARCH_PATH MODULE ARGUMENT...`` (see `child`).

Nothing is imported here but what the interpreter has loaded anyway.
"""

from __future__ import annotations

import sys
from types import ModuleType


def _light_package(name: str, path: str) -> None:
    """Stand in for a package whose ``__init__`` imports what a child has no use for."""
    package = ModuleType(name)
    package.__path__ = [path]
    sys.modules[name] = package


def _main() -> None:
    search_path, module, *arguments = sys.argv[1:]
    sys.path[:] = search_path.split("\n")
    executor = __file__.rpartition("/")[0]
    _light_package("zcuda_async", executor.rpartition("/")[0])
    _light_package("zcuda_async.executor", executor)
    __import__(module)
    sys.modules[module].main(arguments)


if __name__ == "__main__":
    _main()
