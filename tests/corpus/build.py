"""Rebuilds ``ptx.tar.xz`` from the ``.cu`` files beside it: ``python tests/corpus/build.py`` (needs nvcc)."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FOLDER = Path(__file__).parent
FLAGS = {
    "sm80": ["-arch=compute_80", "-O3"],
    "sm75": ["-arch=compute_75", "-O3"],
    "sm90": ["-arch=compute_90", "-O3"],
    "debug": ["-arch=compute_80", "-G"],
}
EXTRA = {"dynamic": ["-rdc=true"]}


def compile_one(source: Path, variant: str, folder: Path) -> bytes | None:
    """PTX of one file; None where that architecture lacks what it needs."""
    target = folder / f"{variant}_{source.stem}.ptx"
    extra = EXTRA.get(source.stem, ["-use_fast_math"] if "fast_math" in source.stem else [])
    command = ["nvcc", "-std=c++17", "-ptx", *FLAGS[variant], *extra, str(source), "-o", str(target)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        if variant in ("sm80", "debug"):
            raise RuntimeError(f"{source.name}, {variant}:\n{done.stderr}")
        return None
    return target.read_bytes()


def main(names: list[str]) -> None:
    """Compile every source (or those named) in every variant."""
    archive = FOLDER / "ptx.tar.xz"
    texts: dict[str, bytes] = {}
    if names and archive.exists():
        with tarfile.open(archive) as old:
            texts = {member.name: old.extractfile(member).read() for member in old}  # type: ignore[union-attr]
    sources = sorted(FOLDER.glob("*.cu"))
    known = {source.stem for source in sources}
    texts = {name: text for name, text in texts.items() if Path(name).stem in known}
    wanted = [source for source in sources if not names or source.stem in names]
    jobs = [(source, variant) for source in wanted for variant in FLAGS]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor() as pool:
        made = pool.map(lambda job: compile_one(*job, Path(folder)), jobs)
        for number, ((source, variant), text) in enumerate(zip(jobs, made, strict=True), 1):
            sys.stderr.write(f"\r{number}/{len(jobs)} {source.stem:40s}")
            if text is not None:
                texts[f"{variant}/{source.stem}.ptx"] = text
    sys.stderr.write("\n")
    with tarfile.open(archive, "w:xz", preset=9) as new:
        for name in sorted(texts):
            info = tarfile.TarInfo(name)
            info.size = len(texts[name])
            new.addfile(info, io.BytesIO(texts[name]))


if __name__ == "__main__":
    main(sys.argv[1:])
