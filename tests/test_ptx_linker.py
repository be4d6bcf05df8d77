"""Linking PTX texts: what names mean across files, and what is wrong with some."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import zcuda_async as zc
from zcuda_async.interpreter import Interpreter, RegionMemory
from zcuda_async.jit.compile import compile_kernel, inspect_module
from zcuda_async.ptx import PtxError
from zcuda_async.ptx.linker import join_texts, parse_texts

FOLDER = Path(__file__).parent / "ptx"
FILES = {name: (FOLDER / name).read_text() for name in ("link_main.ptx", "link_other.ptx")}
HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"


def collatz(n: int) -> int:
    return 0 if n == 1 else 1 + collatz(3 * n + 1 if n % 2 else n // 2)


EXPECTED = [collatz(64 - t) + 101 + 2 * t + 100 for t in range(64)]


@pytest.mark.anyio
@pytest.mark.parametrize("order", [1, -1])
async def test_two_files_of_nvcc(order: int) -> None:
    printed: list[str] = []
    async with zc.open_device(0, workers=1, printf=printed.append) as device, device.create_stream() as stream:
        module = device.link_ptx(dict(list(FILES.items())[::order]))
        assert sorted(await module.get_kernel_names()) == ["greet", "steps"]
        out, scaled = device.allocate(4 * 64), device.allocate(4 * 64)
        stream.launch(await module.get_kernel("steps"), zc.LaunchConfig(grid=1, block=64), out, scaled)
        stream.launch(await module.get_kernel("greet"), zc.LaunchConfig(grid=1, block=1))
        result, floats, counter = np.zeros(64, np.int32), np.zeros(64, np.float32), np.zeros(1, np.int32)
        stream.memcpy(result, out)
        stream.memcpy(floats, scaled)
        address, size = await module.get_global("counter")
        await stream.memcpy(counter, address, size)
    assert result.tolist() == EXPECTED
    assert floats.tolist() == [(0.5 + t % 4) * t for t in range(64)]
    assert counter[0] == 7 + 64
    assert "".join(printed) == "main 5\nother 3\n"


def test_the_interpreter_runs_a_linked_module() -> None:
    text = join_texts(FILES)
    info = inspect_module(text)
    base, out = 1 << 20, 1 << 24
    image = bytearray(info.globals_image.ljust(info.memory_size, b"\0"))
    for offset, addend in info.relocations:
        image[offset : offset + 8] = (base + addend).to_bytes(8, "little")
    results = bytearray(1024)
    printed: list[bytes] = []
    Interpreter(parse_texts(text, "linked")).launch(
        "steps",
        (1, 1, 1),
        (64, 1, 1),
        out.to_bytes(8, "little") + (out + 512).to_bytes(8, "little"),
        RegionMemory([(base, image), (out, results)]),
        symbols={variable.name: base + variable.offset for variable in info.variables},
        output=printed.append,
    )
    assert np.frombuffer(results, np.int32)[:64].tolist() == EXPECTED
    assert printed == [b"main 5\n"]


def sizes(**texts: str) -> dict[str, int]:
    info = inspect_module(join_texts({f"{name}.ptx": HEAD + text for name, text in texts.items()}))
    return {variable.name: variable.size for variable in info.variables}


def test_weak_gives_way_and_the_largest_common_counts() -> None:
    assert sizes(
        a=".weak .global .u32 x = 1;\n.common .global .b8 y[4];\n.global .u8 z;\n",
        b=".visible .global .u64 x = 2;\n.common .global .b8 y[12];\n.global .u16 z;\n",
        c=".weak .global .u32 x[5];\n.extern .global .b8 y[];\n",
    ) == {"x": 8, "y": 12, "z": 1, "z@1": 2}


VARIABLE = ".visible .global .u32 x;"
FUNCTION = ".visible .func x() { ret; }"


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (VARIABLE, VARIABLE, "b.ptx:4:23: error: 'x' is defined already, in a.ptx:4"),
        (FUNCTION, FUNCTION, "b.ptx:4:16: error: 'x' is defined already, in a.ptx:4"),
        (VARIABLE, FUNCTION, "b.ptx:4:16: error: 'x' is a function here, and a variable in a.ptx:4"),
        (".extern .global .u32 x;", "", "a.ptx:4:22: error: 'x' is not defined in any of a.ptx, b.ptx"),
        ("", ".visible .global .u32 x = ;", "b.ptx:4:27: error: "),
    ],
)
def test_errors_name_both_places(first: str, second: str, message: str) -> None:
    with pytest.raises(PtxError) as info:
        inspect_module(join_texts({"a.ptx": f"{HEAD}{first}\n", "b.ptx": f"{HEAD}{second}\n"}))
    assert str(info.value).startswith(message)


def test_a_call_of_what_no_file_defines_shows_its_own_file() -> None:
    away = ".extern .func away();\n.visible .func go() { call away, (); ret; }\n"
    kernel = ".extern .func go();\n.visible .entry k() { call go, (); ret; }\n"
    with pytest.raises(PtxError, match=r"^b\.ptx:5:\d+: error: call: the function away has no body here"):
        compile_kernel(join_texts({"a.ptx": HEAD + kernel, "b.ptx": HEAD + away}), "linked", "k", (32, 1, 1))


@pytest.mark.anyio
async def test_a_trap_names_its_line_and_text() -> None:
    traps = ".visible .func go() { trap; ret; }\n"
    main = ".extern .func go();\n.visible .entry k() { call go, (); ret; }\n"
    async with zc.open_device(0, workers=1) as device, device.create_stream() as stream:
        kernel = await device.link_ptx({"a.ptx": HEAD + main, "b.ptx": HEAD + traps}).get_kernel("k")
        with pytest.raises(zc.CudaError, match=r"\(PTX line 4 of text 2\)"):
            await stream.launch(kernel, zc.LaunchConfig(grid=1, block=1))
        await device.reset()


@pytest.mark.anyio
async def test_one_text_at_least() -> None:
    async with zc.open_device(0, executor="stub") as device:
        with pytest.raises(ValueError, match=r"^link_ptx takes at least one text; pass \{file name: text\}$"):
            device.link_ptx({})
