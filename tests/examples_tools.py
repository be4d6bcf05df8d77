"""The examples as modules, and a way to run them as a user does: `python examples/NAME.py`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"
sys.path.insert(0, str(EXAMPLES))

import image_service  # noqa: E402
import images  # noqa: E402
import overlap  # noqa: E402
import trio_pipeline  # noqa: E402

__all__ = ("EXAMPLES", "image_service", "images", "overlap", "random_picture", "run_example", "trio_pipeline")


def run_example(name: str, *arguments: str, cwd: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run an example from another directory than its own; its output goes into the failure, if it fails."""
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=50, check=False)
    assert not check or done.returncode == 0, f"{name} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done


def random_picture(width: int, height: int, seed: int = 1) -> images.Pixels:
    """Noise, opaque."""
    import numpy as np

    picture = np.random.default_rng(seed).integers(0, 256, (height, width, 4), np.uint8)
    picture[..., 3] = 255
    return picture
