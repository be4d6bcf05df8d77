"""What the README shows works as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
PROGRAMS = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
OUTPUTS = [
    "[5. 5. 5.]\n",
    "cudaErrorIllegalAddress (700): illegal address 0x0 in block 0 of saxpy\n",
    "[ 1.  3.  5.  7.  9. 11. 13. 15.]\n",
]


@pytest.mark.pool
@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "output"), list(zip(PROGRAMS, OUTPUTS, strict=True)), ids=["async", "fault", "legacy"]
)
def test_the_programs_run(program: str, output: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, output, "")


def test_links_lead_to_files() -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", README)
    assert targets
    assert not [target for target in targets if not (ROOT / target).exists()]


def test_the_two_commands_are_targets() -> None:
    makefile = (ROOT / "Makefile").read_text()
    commands = re.findall(r"^\$ make (\w+)", README, re.MULTILINE)
    assert commands == ["demo", "test"]
    assert all(re.search(rf"^{command}:", makefile, re.MULTILINE) for command in commands)
