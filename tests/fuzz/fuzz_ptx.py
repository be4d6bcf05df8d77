"""Mutate PTX and load it: ``python -m tests.fuzz.fuzz_ptx --minutes 30``.

Mutant number N of seed S is always the same text: ``--seed S --show N`` prints it.  A process of its own does the
work, so a crash is a finding as well; it is started again behind the mutant that it crashed on.  With
``--atheris`` coverage guides what is mutated next; further arguments go to libFuzzer.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import mmap
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from random import Random
from types import FrameType
from typing import Final

from zcuda_async.ptx.linker import join_texts

from .mutate import mutant
from .seeds import Seeds, load_seeds
from .target import load, load_bytes

__all__ = ("main", "make", "run_one")

_CPU_SECONDS: Final = 10
_WALL_SECONDS: Final = 120
_MEMORY: Final = 1 << 30
_ASSEMBLED: Final = 1000
"""LLVM's optimiser leaves about 0.3 MB behind for each kernel: after so many another process goes on."""
_GO_ON: Final = 3
_PROGRESS: Final = struct.Struct("<qq")


class TooSlowError(Exception):
    """A mutant took longer than it may."""


def make(seeds: Seeds, seed: int, number: int) -> str | bytes:
    """Mutant `number` of a seed."""
    random = Random(f"{seed}:{number}")
    if random.random() < 0.04:
        texts = [mutant(text, random, seeds) for text in seeds.linked]
        return join_texts({f"{index}.ptx": text.replace("\0", "") for index, text in enumerate(texts)})
    text = mutant(random.choice(seeds.texts), random, seeds)
    if random.random() < 0.02:
        data = bytearray(text.encode(errors="surrogatepass"))
        for _ in range(random.choice((0, 1, 5))):
            data[random.randrange(len(data) or 1) :][:1] = bytes([random.randrange(256)])
        return bytes(data)
    return text


def run_one(text: str | bytes, number: int, seen: Counter[str]) -> None:
    """Load a mutant: one in 16 all the way to machine code."""
    depth = 2 if number % 16 == 0 else 1
    if isinstance(text, bytes):
        load_bytes(text, depth, seen)
    else:
        load(text, depth, seen)


def _too_slow(_: int, frame: FrameType | None) -> None:
    raise TooSlowError("".join(traceback.format_stack(frame)[-3:]))


def _limit_memory() -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
    resource.setrlimit(resource.RLIMIT_AS, (size + _MEMORY, resource.RLIM_INFINITY))


def _record(folder: Path, seed: int, number: int, text: str | bytes, error: str) -> None:
    """Keep a finding: its text, and what came of it; one file for each place where an error was raised."""
    where = "\n".join(line for line in error.splitlines() if line.startswith("  File"))[-400:] or error[-200:]
    key = hashlib.sha256(where.encode()).hexdigest()[:12]
    path = folder / f"{key}.txt"
    if path.exists():
        return
    data = text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
    (folder / f"{key}.ptx").write_bytes(data)
    path.write_text(f"seed {seed}, mutant {number}\n{error}\n")
    print(f"FINDING {path}: {error.strip().splitlines()[-1][:200]}", flush=True)


def _worker(options: argparse.Namespace) -> int:
    """Go through mutants from `first` on until the time is up; the file tells the parent how far it is."""
    seeds, seen = load_seeds(), Counter[str]()
    with options.progress.open("r+b") as file, mmap.mmap(file.fileno(), _PROGRESS.size) as shared:
        _limit_memory()
        signal.signal(signal.SIGPROF, _too_slow)
        number = options.first
        while number < options.runs and time.time() < options.until and seen["assembled"] < _ASSEMBLED:
            _PROGRESS.pack_into(shared, 0, number, 1)
            text = make(seeds, options.seed, number)
            faulthandler.dump_traceback_later(_WALL_SECONDS, exit=True)
            signal.setitimer(signal.ITIMER_PROF, _CPU_SECONDS)
            try:
                run_one(text, number, seen)
            except Exception:  # noqa: BLE001 - whatever it is, it is a finding
                signal.setitimer(signal.ITIMER_PROF, 0)
                _record(options.findings, options.seed, number, text, traceback.format_exc())
            signal.setitimer(signal.ITIMER_PROF, 0)
            number += 1
            if number % 2000 == 0:
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
                print(f"# {number} mutants, peak {peak} MiB, {dict(seen)}", flush=True)
        faulthandler.cancel_dump_traceback_later()
        _PROGRESS.pack_into(shared, 0, number, 0)
    print(f"# stopped before mutant {number}: {dict(seen)}", flush=True)
    return _GO_ON if seen["assembled"] >= _ASSEMBLED else 0


def _supervise(options: argparse.Namespace) -> int:
    """Run workers until the time is up; the exit status says whether anything was found."""
    options.findings.mkdir(parents=True, exist_ok=True)
    before, first = set(options.findings.glob("*.txt")), options.first
    until, started = time.time() + 60 * options.minutes, time.monotonic()
    with tempfile.NamedTemporaryFile() as file:
        file.write(_PROGRESS.pack(first, 0))
        file.flush()
        while True:
            command = [sys.executable, "-X", "faulthandler", "-m", f"{__package__}.fuzz_ptx", "--worker"]
            command += ["--seed", str(options.seed), "--first", str(first), "--runs", str(options.runs)]
            command += ["--until", str(until), "--progress", file.name, "--findings", str(options.findings)]
            done = subprocess.run(command, check=False, stderr=subprocess.PIPE, text=True, errors="replace")
            number, is_busy = _PROGRESS.unpack(Path(file.name).read_bytes())
            if done.returncode == 0:
                break
            if done.returncode == _GO_ON:
                first = number
                continue
            if not is_busy:
                sys.stderr.write(done.stderr)
                return 2
            text = make(load_seeds(), options.seed, number)
            error = f"{done.stderr[-6000:]}\nprocess ended with {done.returncode}"
            _record(options.findings, options.seed, number, text, error)
            first = number + 1
    found = sorted(set(options.findings.glob("*.txt")) - before)
    print(f"{number - options.first} mutants in {(time.monotonic() - started) / 60:.1f} minutes, {len(found)} findings")
    return 1 if found else 0


def _atheris(arguments: list[str]) -> None:
    """The same target, guided by coverage."""
    import atheris

    seeds = load_seeds()
    seen = Counter[str]()

    def change(data: bytes, largest: int, seed: int) -> bytes:
        random = Random(seed)
        text = data.decode(errors="replace") if len(data) > 20 else random.choice(seeds.texts)
        return mutant(text, random, seeds, largest).encode(errors="replace")[:largest]

    def test_one(data: bytes) -> None:
        load_bytes(data, 1, seen)

    with tempfile.TemporaryDirectory() as folder:
        for index, text in enumerate(seeds.texts):
            if len(text) < 8000:
                Path(folder, f"{index}.ptx").write_text(text)
        limits = ["-max_len=16000", "-timeout=10", "-rss_limit_mb=1500"]
        atheris.Setup([sys.argv[0], *limits, *arguments, folder], test_one, custom_mutator=change)
        atheris.instrument_all()
        atheris.Fuzz()


def main(arguments: list[str] | None = None) -> int:
    """Fuzz; 1 if there were findings."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.fuzz_ptx", description=__doc__)
    parser.add_argument(
        "--runs", type=int, default=1 << 60, metavar="N", help="stop before this mutant (default never)"
    )
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="other mutants (default 1)")
    parser.add_argument("--minutes", type=float, default=10.0, metavar="M", help="stop after this time (default 10)")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="start with this mutant (default 0)")
    parser.add_argument("--findings", type=Path, default=Path("out/fuzz"), metavar="DIR", help="where findings go")
    parser.add_argument("--show", type=int, metavar="N", help="only print this mutant")
    parser.add_argument("--atheris", action="store_true", help="let atheris choose (python -m pip install atheris)")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--until", type=float, default=0.0, help=argparse.SUPPRESS)
    parser.add_argument("--progress", type=Path, help=argparse.SUPPRESS)
    options, rest = parser.parse_known_args(arguments)
    if rest and not options.atheris:
        parser.error(f"unknown arguments: {' '.join(rest)}")
    if options.show is not None:
        text = make(load_seeds(), options.seed, options.show)
        data = text if isinstance(text, bytes) else text.encode(errors="surrogatepass")
        sys.stdout.buffer.write(data)
        return 0
    if options.atheris:
        _atheris(rest)
        return 0
    return _worker(options) if options.worker else _supervise(options)


if __name__ == "__main__":
    sys.exit(main())
