"""The package as a whole: what it exports, and what importing it does."""

from __future__ import annotations

import subprocess
import sys

import zcuda_async


def test_every_public_name_exists_and_says_what_it_is() -> None:
    assert isinstance(zcuda_async.__all__, tuple)
    assert len(set(zcuda_async.__all__)) == len(zcuda_async.__all__)
    for name in zcuda_async.__all__:
        thing = getattr(zcuda_async, name)
        if callable(thing):
            assert thing.__doc__, name


def test_every_public_method_is_documented() -> None:
    for name in zcuda_async.__all__:
        thing = getattr(zcuda_async, name)
        if not isinstance(thing, type) or not thing.__module__.startswith("zcuda_async"):
            continue
        for attribute, value in vars(thing).items():
            if not attribute.startswith("_") and (callable(value) or isinstance(value, property)):
                assert value.__doc__, f"{name}.{attribute}"


def test_import_is_light() -> None:
    code = "import sys, zcuda_async; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"numpy", "llvmlite", "matplotlib", "asyncio", "trio", "subprocess", "multiprocessing", "zcuda_async.ptx"}
    assert heavy.isdisjoint(found)
