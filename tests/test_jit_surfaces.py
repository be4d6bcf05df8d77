"""Surfaces: machine code against the interpreter; what is written against numpy where it is simple."""

from __future__ import annotations

import numpy as np
import pytest
from jit_harness import check, run_interpreter
from test_jit_textures import CHOICE, MOVE, run
from texture_tools import Array, fetch_case, image, inputs

from zcuda_async.texture import ArrayShape, ChannelFormat

SHAPES = {
    "1d": ArrayShape(7),
    "2d": ArrayShape(5, 4),
    "3d": ArrayShape(4, 3, 5),
    "a1d": ArrayShape(6, layers=3),
    "a2d": ArrayShape(3, 5, layers=4),
}
PLACES = {
    "1d": "{%r30}",
    "2d": "{%r30,%r12}",
    "3d": "{%r30,%r12,%r13,%r13}",
    "a1d": "{%r10,%r30}",
    "a2d": "{%r10,%r30,%r12,%r12}",
}
WIDE = ChannelFormat("unsigned", 32, 4)


def places(count: int, size: int, *, low: int = -2, high: int = 6) -> tuple[Array, str]:
    """(inputs, code): coordinates around the surface, along x multiples of `size` bytes, in %r30."""
    return inputs(count, low=low, high=high), f"mul.lo.s32 %r30, %r11, {size};"


@pytest.mark.parametrize("geometry", SHAPES)
@pytest.mark.parametrize("clamp", ["clamp", "zero"])
@pytest.mark.parametrize(
    ("vector", "bits"),
    [("", 8), ("", 16), ("", 32), ("", 64), ("v2", 8), ("v2", 64), ("v4", 8), ("v4", 16), ("v4", 32)],
)
def test_loads(geometry: str, clamp: str, vector: str, bits: int) -> None:
    count = int(vector[1:]) if vector else 1
    surface = image(WIDE, SHAPES[geometry], is_surface=True)
    values, scale = places(64, bits // 8 * count, high=20)
    prefix = {8: "%h", 16: "%h", 32: "%r4", 64: "%d2"}[bits]
    registers = [f"{prefix}{index}" for index in range(count)]
    loaded = f"{{{','.join(registers)}}}" if vector else registers[0]
    text = f"{scale} suld.b.{geometry}{'.' + vector if vector else ''}.b{bits}.{clamp} {loaded}, [%d12, {PLACES[geometry]}];"
    for index, register in enumerate(registers):
        text += (
            f" cvt.u32.u{max(bits, 16)} %r2{index}, {register};" if bits != 32 else f" mov.b32 %r2{index}, {register};"
        )
        if bits == 64:
            text += f" shr.u64 {register}, {register}, 32; cvt.u32.u64 %r2{index + 2}, {register};"
    text += "".join(f" mov.b32 %r2{index}, 0;" for index in range(count if bits != 64 else 4, 4))
    if bits == 64 and count == 1:
        text += " mov.b32 %r21, 0; mov.b32 %r23, 0;"
    run(fetch_case(text + MOVE, [surface], values))


@pytest.mark.parametrize("geometry", SHAPES)
@pytest.mark.parametrize("clamp", ["clamp", "zero"])
@pytest.mark.parametrize(("vector", "bits"), [("", 8), ("v4", 8), ("", 32), ("v2", 32), ("v4", 32)])
def test_stores(geometry: str, clamp: str, vector: str, bits: int) -> None:
    """Lanes that write one place write the same: the place."""
    count = int(vector[1:]) if vector else 1
    surface = image(WIDE, SHAPES[geometry], is_surface=True)
    values, scale = places(64, bits // 8 * count, high=16)
    if clamp == "clamp":  # far away is the edge: then the lanes there must agree
        values["r"] = np.clip(values["r"], 0, 15)
    text = f"{scale} mov.b32 %r20, 0; mad.lo.s32 %r20, %r30, 7, 3;"
    if bits == 8:
        text += " cvt.u16.u32 %h1, %r20; and.b16 %h2, %h1, 15; mov.b16 %h3, 1; mov.b16 %h4, 255;"
        data = "{%h1,%h2,%h3,%h4}" if vector else "%h1"
    else:
        text += " not.b32 %r21, %r20; mov.b32 %r22, 5; mov.b32 %r23, 6;"
        data = {"": "%r20", "v2": "{%r20,%r21}", "v4": "{%r20,%r21,%r22,%r23}"}[vector]
    if clamp == "clamp":
        text += " mov.b32 %r20, 77;" + (" mov.b32 %r21, 88;" if bits == 32 else " mov.b16 %h1, 5; mov.b16 %h2, 6;")
    text += f" sust.b.{geometry}{'.' + vector if vector else ''}.b{bits}.{clamp} [%d12, {PLACES[geometry]}], {data};"
    run(fetch_case(text, [surface], values))


@pytest.mark.parametrize(
    ("kind", "bits"),
    [
        ("unsigned", 8),
        ("unsigned", 16),
        ("unsigned", 32),
        ("signed", 8),
        ("signed", 16),
        ("signed", 32),
        ("float", 16),
        ("float", 32),
    ],
)
@pytest.mark.parametrize("channels", [1, 2, 4])
def test_samples(kind: str, bits: int, channels: int) -> None:
    """``sust.p`` brings words into the surface's format."""
    surface = image(ChannelFormat(kind, bits, channels), ArrayShape(64), is_surface=True)
    values = inputs(64, low=-300, high=300, special=kind != "float")
    given = ["%f0", "%f1", "%f2", "%f3"] if kind == "float" else ["%r10", "%r11", "%r12", "%r13"]
    text = f"sust.p.1d.v4.b32.trap [%d12, {{%r7}}], {{{','.join(given)}}};"
    got = run(fetch_case(text, [surface], values))[3]
    name = {"unsigned": "uint", "signed": "int", "float": "float"}[kind]
    got = got[: 64 * channels * bits // 8].view(f"{name}{bits}").reshape(64, channels)
    source = values["f" if kind == "float" else "r"][:, :channels]
    if kind == "float":
        with np.errstate(over="ignore"):
            want = source.astype(got.dtype)
    else:
        limits = np.iinfo(got.dtype)
        plain = source.astype(np.int64) if kind == "signed" else source.view(np.uint32).astype(np.int64)
        want = np.clip(plain, limits.min, limits.max).astype(got.dtype)
    np.testing.assert_array_equal(got, want)


def test_samples_that_are_not_given_become_zero() -> None:
    surface = image(ChannelFormat("unsigned", 8, 4), ArrayShape(8, 8), is_surface=True)
    values = inputs(64, low=-1, high=9)
    run(
        fetch_case(
            "sust.p.2d.v2.b32.zero [%d12, {%r10,%r11}], {%r20,%r20};", [surface], values, before="mov.b32 %r20, 9;"
        )
    )


REDUCTIONS = [
    *(("add", kind) for kind in ("u32", "s32", "u64")),
    *((name, kind) for name in ("min", "max") for kind in ("u32", "s32", "u64", "s64")),
    *((name, kind) for name in ("and", "or") for kind in ("b32", "b64")),
]


@pytest.mark.parametrize(("operation", "kind"), REDUCTIONS)
@pytest.mark.parametrize("clamp", ["clamp", "zero"])
def test_reductions(operation: str, kind: str, clamp: str) -> None:
    """Many lanes meet at a few places."""
    size = int(kind[1:]) // 8
    surface = image(WIDE, ArrayShape(2, 3), is_surface=True)
    values, scale = places(96, size, high=7)
    value = "%r14" if size == 4 else "%d20"
    text = f"{scale} mov.b64 %d20, {{%r14,%r15}}; sured.b.{operation}.2d.{kind}.{clamp} [%d12, {{%r30,%r12}}], {value};"
    run(fetch_case(text, [surface], values))


@pytest.mark.parametrize("operation", ["add", "min", "max", "and", "or"])
@pytest.mark.parametrize("kind", ["signed", "unsigned"])
def test_reductions_of_samples(operation: str, kind: str) -> None:
    surface = image(ChannelFormat(kind, 32), ArrayShape(3, 2), is_surface=True)
    values = inputs(64, low=-1, high=4)
    run(fetch_case(f"sured.p.{operation}.2d.b32.zero [%d12, {{%r11,%r12}}], %r14;", [surface], values))


@pytest.mark.parametrize(
    "query", ["width", "height", "depth", "channel_data_type", "channel_order", "array_size", "memory_layout"]
)
def test_queries(query: str) -> None:
    surface = image(ChannelFormat("signed", 16, 2), ArrayShape(9, 6, layers=3), is_surface=True)
    got = run(fetch_case(f"suq.{query}.b32 %r20, [%d12]; mov.b32 %f10, %r20;", [surface], inputs(4, low=0, high=1)))[1]
    want = {
        "width": 9,
        "height": 6,
        "depth": 1,
        "channel_data_type": 0x10D8,
        "channel_order": 0x10B2,
        "array_size": 3,
        "memory_layout": 0,
    }
    assert set(got[:, 0].view(np.uint32)) == {want[query]}


def test_handles_by_lane_and_lanes_that_are_off() -> None:
    surfaces = [image(WIDE, ArrayShape(16, 4), is_surface=True, seed=seed) for seed in (1, 2)]
    values = inputs(64, low=0, high=8, special=False)
    text = CHOICE + "setp.gt.s32 %p2, %r10, 3; shl.b32 %r30, %r7, 2; and.b32 %r30, %r30, 255; mov.b32 %r20, 1;"
    for guard in ("", "@%p2 "):
        check(
            fetch_case(f"{text}{guard}sust.b.2d.b32.trap [%d14, {{%r30,0}}], %r7;", surfaces, values), parts=(None, 1)
        )
        check(
            fetch_case(
                f"{text}{guard}suld.b.2d.b32.trap %r20, [%d14, {{%r30,1}}]; mov.b32 %f10, %r20;", surfaces, values
            ),
            parts=(None, 1),
        )
        check(
            fetch_case(f"{text}{guard}sured.b.add.2d.u32.trap [%d14, {{0,2}}], %r7;", surfaces, values), parts=(None, 1)
        )


@pytest.mark.parametrize("place", ["{%r11}", "{-4}", "{64}", "{2}"])
def test_faults_end_the_launch(place: str) -> None:
    """The interpreter refuses what is outside or misaligned; test_runtime_texture has what launches make of it."""
    surface = image(ChannelFormat("unsigned", 32), ArrayShape(16), is_surface=True)
    values = inputs(4, low=100, high=200, special=False)
    with pytest.raises(Exception, match=r"outside of the surface|not a multiple"):
        run_interpreter(fetch_case(f"suld.b.1d.b32.trap %r20, [%d12, {place}];", [surface], values))
