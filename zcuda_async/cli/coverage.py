"""``zcuda coverage FILE.ptx``: which kernels of a file will run, and why the others will not."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from zcuda_async.ptx.errors import PtxError

__all__ = ("FileReport", "KernelReport", "Refusal", "add_parser", "examine")

_MOST: Final = 50
"""Places in one file that are looked at after the first that cannot be read."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """One thing that is not supported: where in the file, and why."""

    line: int
    column: int
    reason: str


@dataclass(frozen=True, slots=True)
class KernelReport:
    """A kernel: how many instructions it has, and what of it is refused (nothing: it compiles)."""

    name: str
    instructions: int
    refusals: tuple[Refusal, ...]


@dataclass(slots=True)
class FileReport:
    """A PTX file: its kernels, and what keeps the file as a whole from loading."""

    file: str
    version: str = ""
    target: str = ""
    kernels: list[KernelReport] = field(default_factory=list)
    unreadable: list[Refusal] = field(default_factory=list)
    opcodes: dict[str, int] = field(default_factory=dict)

    @property
    def is_covered(self) -> bool:
        """Whether the file loads and all its kernels compile."""
        return not self.unreadable and not any(kernel.refusals for kernel in self.kernels)


def add_parser(commands: Any) -> None:
    """Add the command to an argparse subparsers object."""
    parser = commands.add_parser(
        "coverage",
        help="say which kernels of a PTX file will run",
        description=(
            "Read PTX files as the compiler does and say, for each kernel, whether it will run; if not, which"
            " instruction in which line stands in the way. Exit status: 0 all run, 1 some do not, 2 a file cannot"
            " be opened."
        ),
    )
    parser.add_argument("files", nargs="*", metavar="FILE", type=Path, help="PTX text, as nvcc -ptx makes it")
    parser.add_argument("--json", action="store_true", help="print the reports as JSON")
    parser.add_argument("--opcodes", action="store_true", help="also count the instructions")
    parser.add_argument("--table", action="store_true", help="print the table of all instructions (Markdown) instead")
    parser.set_defaults(run=run, parser=parser)


def examine(text: str, filename: str) -> FileReport:
    """Read a file and try each of its kernels, without generating machine code."""
    from zcuda_async.ptx import parse
    from zcuda_async.ptx.ir import Instruction

    report = FileReport(filename)
    module = None
    lines = text.split("\n")
    while module is None and len(report.unreadable) < _MOST:
        try:
            module = parse("\n".join(lines), filename)
        except PtxError as error:
            refusal = _refusal(error)
            if report.unreadable and report.unreadable[-1].line == refusal.line:
                break
            report.unreadable.append(refusal)
            lines[refusal.line - 1] = ""  # read on as if it were not there
    if module is None:
        return report
    report.version = ".".join(map(str, module.version))
    report.target = ", ".join(module.target)
    counts: Counter[str] = Counter()
    for function in module.functions:
        items = [item for item in function.body if isinstance(item, Instruction)]
        counts.update(item.opcode for item in items)
        if function.is_entry:
            refusals = _try_kernel("\n".join(lines), filename, function.name)
            report.kernels.append(KernelReport(function.name, len(items), refusals))
    report.opcodes = dict(counts.most_common())
    return report


def _refusal(error: PtxError) -> Refusal:
    return Refusal(error.span.line, error.span.column, error.message)


def _try_kernel(text: str, filename: str, kernel: str) -> tuple[Refusal, ...]:
    """The first thing in the kernel that is refused, or that its compilation runs into."""
    from zcuda_async.jit.compile import generate_ir, inspect_module
    from zcuda_async.jit.host import host_target

    try:
        info = next(each for each in inspect_module(text, filename).kernels if each.name == kernel)
        block = info.required_block or (min(256, info.max_threads), 1, 1)
        generate_ir(text, filename, kernel, block, target=host_target())
    except PtxError as error:
        return (_refusal(error),)
    return ()


def run(options: argparse.Namespace) -> int:
    """Examine the files and print."""
    if options.table:
        from zcuda_async.cli.table import coverage_table

        sys.stdout.write(coverage_table())
        return 0
    if not options.files:
        options.parser.error("name a PTX file, or ask for --table")
    reports = []
    started = time.monotonic()
    for number, path in enumerate(options.files, 1):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            sys.stderr.write(f"zcuda coverage: {path}: {error.strerror}\n")
            return 2
        reports.append(examine(text, str(path)))
        if sys.stderr.isatty() and time.monotonic() - started > 2:
            sys.stderr.write(f"\r{number} of {len(options.files)} files")
    if options.json:
        json.dump([{**asdict(report), "is_covered": report.is_covered} for report in reports], sys.stdout, indent=2)
        sys.stdout.write("\n")
    else:
        for report in reports:
            _print(report, opcodes=options.opcodes)
        _print_total(reports)
    return 0 if all(report.is_covered for report in reports) else 1


def _print(report: FileReport, *, opcodes: bool) -> None:
    write = sys.stdout.write
    about = f" (PTX {report.version}, {report.target})" if report.version else ""
    write(f"{report.file}{about}\n")
    for refusal in report.unreadable:
        write(f"  the file does not load: {refusal.line}:{refusal.column}: {refusal.reason}\n")
    for kernel in report.kernels:
        if kernel.refusals:
            for refusal in kernel.refusals:
                write(f"  refused   {kernel.name}: {refusal.line}:{refusal.column}: {refusal.reason}\n")
        else:
            write(f"  compiles  {kernel.name} ({kernel.instructions:,} instructions)\n")
    if opcodes:
        write("  " + ", ".join(f"{opcode} {count:,}" for opcode, count in report.opcodes.items()) + "\n")


def _print_total(reports: list[FileReport]) -> None:
    kernels = [(report, kernel) for report in reports for kernel in report.kernels]
    good = sum(not kernel.refusals and not report.unreadable for report, kernel in kernels)
    sys.stdout.write(f"{good:,} of {len(kernels):,} kernels in {len(reports):,} files will run\n")
