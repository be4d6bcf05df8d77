"""Print the oldest release of a package that pyproject.toml allows, as a requirement: ``llvmlite==0.45.*``."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path


def oldest(package: str) -> str:
    """What to install for the lower bound of a run-time dependency."""
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    for requirement in project["dependencies"]:
        found = re.fullmatch(rf"{re.escape(package)}>=([\d.]+)", requirement)
        if found:
            return f"{package}=={found[1]}.*"
    raise SystemExit(f"pyproject.toml has no dependency {package}>=VERSION")


if __name__ == "__main__":
    print(oldest(sys.argv[1]))
