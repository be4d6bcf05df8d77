"""The ``zcuda`` command: coverage of PTX files, the table in the docs, facts about this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from zcuda_async.cli import main
from zcuda_async.cli.coverage import examine
from zcuda_async.cli.table import coverage_table

FOLDER = Path(__file__).parent
PAGE = FOLDER.parent / "docs" / "ptx-coverage.md"
HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"


def test_page_about_coverage_is_up_to_date() -> None:
    assert PAGE.read_text() == coverage_table(), "run: make docs"


def test_kernels_of_the_tests_are_covered(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["coverage", str(FOLDER / "ptx" / "kernels.ptx")]) == 0
    out = capsys.readouterr().out
    assert "(PTX 9.0, sm_80)\n" in out
    assert "  compiles  saxpy (" in out
    assert out.endswith(" kernels in 1 files will run\n")


def test_refused_instruction_is_named_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "two.ptx"
    path.write_text(
        HEAD + ".visible .entry good() { ret; }\n.visible .entry bad() { .reg .b32 %r<3>;\n"
        "  mov.u32 %r0, %pm0;\n  ret; }\n"
    )
    assert main(["coverage", str(path), "--opcodes"]) == 1
    assert capsys.readouterr().out == (
        f"{path} (PTX 8.0, sm_90)\n"
        "  compiles  good (1 instructions)\n"
        "  refused   bad: 6:3: mov: %pm0 is not supported here yet\n"
        "  ret 2, mov 1\n"
        "1 of 2 kernels in 1 files will run\n"
    )


def test_every_unreadable_line_is_named() -> None:
    text = (
        HEAD + ".visible .entry k() {\n  wgmma.fence.sync.aligned;\n  ret;\n  setmaxnreg.inc.sync.aligned.u32 64;\n}\n"
    )
    report = examine(text, "k.ptx")
    assert [(refusal.line, refusal.column) for refusal in report.unreadable] == [(5, 3), (7, 3)]
    assert [kernel.name for kernel in report.kernels] == ["k"]
    assert not report.is_covered


def test_text_that_is_no_ptx_ends() -> None:
    report = examine("int main() { return 0; }\n" * 300, "c.ptx")
    assert report.unreadable
    assert not report.kernels


def test_report_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["coverage", "--json", str(FOLDER / "ptx" / "triton_add.ptx")]) == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert report["is_covered"]
    assert report["kernels"][0]["refusals"] == []


def test_missing_file_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "none.ptx"
    assert main(["coverage", str(path)]) == 2
    assert capsys.readouterr().err == f"zcuda coverage: {path}: No such file or directory\n"


def test_coverage_without_a_file_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["coverage"])
    assert caught.value.code == 2
    assert "name a PTX file, or ask for --table" in capsys.readouterr().err


def test_info_knows_the_versions_and_the_processor(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["python"] == ".".join(map(str, sys.version_info[:3]))
    assert facts["vector lanes (32-bit)"] in (4, 8, 16)
    assert main(["info"]) == 0
    assert "object cache bytes" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["--help"], ["coverage", "--help"], ["info", "--help"], ["--version"]])
def test_help_is_everywhere(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "zcuda_async.cli", *arguments], capture_output=True, text=True, check=True
    )
    assert "zcuda" in done.stdout
