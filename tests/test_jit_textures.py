"""Textures: machine code against the interpreter for every kind of fetch, and both against numpy where it is simple."""

from __future__ import annotations

import os
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jit_harness import TARGETS, Case, check, differences, kernel, run_interpreter, run_jit
from texture_tools import Array, Image, fetch_case, image, inputs

from zcuda_async.ptx import PtxError, parse
from zcuda_async.texture import AddressMode, ArrayShape, ChannelFormat, FilterMode, ReadMode, TextureOptions

FLOAT = ChannelFormat("float", 32)
RESULT = "{%f10,%f11,%f12,%f13}"
SHAPES = {
    "1d": ArrayShape(7),
    "2d": ArrayShape(5, 4),
    "3d": ArrayShape(4, 3, 5),
    "a1d": ArrayShape(6, layers=3),
    "a2d": ArrayShape(3, 5, layers=4),
    "cube": ArrayShape(4, 4, layers=6, is_cubemap=True),
    "acube": ArrayShape(3, 3, layers=12, is_cubemap=True),
}
COORDINATES = {
    "1d": "{%f0}",
    "2d": "{%f0,%f1}",
    "3d": "{%f0,%f1,%f2,%f2}",
    "a1d": "{%r10,%f0}",
    "a2d": "{%r10,%f0,%f1,%f1}",
    "cube": "{%f0,%f1,%f2,%f2}",
    "acube": "{%r10,%f0,%f1,%f2}",
}
WHOLE = {
    "1d": "%r11",
    "2d": "{%r11,%r12}",
    "3d": "{%r11,%r12,%r13,%r13}",
    "a1d": "{%r10,%r11}",
    "a2d": "{%r10,%r11,%r12,%r12}",
}
FORMATS = [
    (kind, bits, channels)
    for kind, widths in (("unsigned", (8, 16, 32)), ("signed", (8, 16, 32)), ("float", (16, 32)))
    for bits in widths
    for channels in (1, 2, 4)
]


def run(case: Case) -> list[Array]:
    """The results, on which interpreter and machine code agree: for one of the processors, or for all in a sweep."""
    want = run_interpreter(case)
    targets = TARGETS if os.environ.get("ZCUDA_TEST_SWEEP") else TARGETS[crc32(case.text.encode()) % len(TARGETS) :][:1]
    for target in targets:
        text = differences(run_jit(case, target), want)
        assert not text, f"{target}:\n{text}\n{case.text}"
    return want


@pytest.mark.parametrize(("kind", "bits", "channels"), FORMATS)
@pytest.mark.parametrize("read_mode", ReadMode)
def test_formats(kind: str, bits: int, channels: int, read_mode: ReadMode) -> None:
    """Every format gives what numpy makes of its texels."""
    if read_mode is ReadMode.NORMALIZED_FLOAT and bits == 32 and kind != "float":
        return  # refused; see test_runtime_texture
    format_ = ChannelFormat(kind, bits, channels)
    source = image(format_, ArrayShape(8, 8), TextureOptions(read_mode=read_mode))
    values = inputs(64, low=0, high=8, special=False)
    values["f"][:, 0], values["f"][:, 1] = np.arange(64) % 8, np.arange(64) // 8
    got = run(fetch_case(f"tex.2d.v4.f32.f32 {RESULT}, [%d12, {{%f0,%f1}}];", [source], values))[1]
    name = {"unsigned": "uint", "signed": "int", "float": "float"}[kind]
    texels = source.texels[: 64 * format_.texel_bytes].view(f"{name}{bits}").reshape(64, channels)
    if kind == "float":
        want, one = texels.astype(np.float32), np.float32(1)
    elif read_mode is ReadMode.NORMALIZED_FLOAT:
        top = np.float32((1 << bits - (kind == "signed")) - 1)
        want, one = np.maximum(texels.astype(np.float32) / top, np.float32(-1)), np.float32(1)
    else:
        want, one = texels.astype(np.int64).astype(np.uint32).view(np.float32), np.uint32(1).view(np.float32)
    expected = np.zeros((64, 4), np.float32)
    expected[:, 3] = one
    expected[:, :channels] = want
    np.testing.assert_array_equal(got.view(np.uint32), expected.view(np.uint32))


def test_srgb() -> None:
    """Colours become linear, alpha does not."""
    options = TextureOptions(read_mode=ReadMode.NORMALIZED_FLOAT, srgb=True)
    source = image(ChannelFormat("unsigned", 8, 4), ArrayShape(256), options)
    values = inputs(256, low=0, high=8, special=False)
    values["f"][:, 0] = np.arange(256)
    texels = source.texels.reshape(-1, 4)
    texels[:] = np.arange(256)[:, None]
    got = run(fetch_case(f"tex.1d.v4.f32.f32 {RESULT}, [%d12, {{%f0}}];", [source], values))[1]
    x = np.arange(256) / 255
    linear = np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)
    np.testing.assert_allclose(got[:, :3], np.repeat(linear[:, None], 3, 1), rtol=1e-6)
    np.testing.assert_array_equal(got[:, 3], x.astype(np.float32))


@pytest.mark.parametrize("geometry", SHAPES)
@pytest.mark.parametrize("mode", AddressMode)
@pytest.mark.parametrize("filter_mode", FilterMode)
@pytest.mark.parametrize("normalized", [False, True])
def test_sampling(geometry: str, mode: AddressMode, filter_mode: FilterMode, normalized: bool) -> None:
    options = TextureOptions(
        address_mode=mode, filter_mode=filter_mode, normalized_coords=normalized, border_color=(1.5, -2, 0.25, 7)
    )
    source = image(ChannelFormat("float", 32, 2), SHAPES[geometry], options)
    reach = (-1.5, 2.5) if normalized or "cube" in geometry else (-3.0, 9.0)
    values = inputs(96, low=reach[0], high=reach[1])
    run(fetch_case(f"tex.{geometry}.v4.f32.f32 {RESULT}, [%d12, {COORDINATES[geometry]}];", [source], values))


@pytest.mark.parametrize("geometry", WHOLE)
@pytest.mark.parametrize("mode", AddressMode)
def test_whole_numbers(geometry: str, mode: AddressMode) -> None:
    source = image(FLOAT, SHAPES[geometry], TextureOptions(address_mode=mode, border_color=(9, 8, 7, 6)))
    values = inputs(64, low=0, high=5)
    run(fetch_case(f"tex.{geometry}.v4.f32.s32 {RESULT}, [%d12, {WHOLE[geometry]}];", [source], values))


@pytest.mark.parametrize("mode", AddressMode)
@pytest.mark.parametrize("filter_mode", FilterMode)
@pytest.mark.parametrize(
    ("geometry", "offset"), [("1d", "-3"), ("2d", "{2, -7}"), ("2d", "{%r16, %r17}"), ("3d", "{1, 1, -2, 0}")]
)
def test_offsets(geometry: str, offset: str, mode: AddressMode, filter_mode: FilterMode) -> None:
    options = TextureOptions(address_mode=mode, filter_mode=filter_mode, normalized_coords=True)
    source = image(FLOAT, SHAPES[geometry], options)
    values = inputs(64, low=-1, high=2)
    values["r"][:, 6:] = np.arange(-64, 64).reshape(64, 2) % 16 - 8
    run(fetch_case(f"tex.{geometry}.v4.f32.f32 {RESULT}, [%d12, {COORDINATES[geometry]}], {offset};", [source], values))


LEVELS = {
    "1d": ArrayShape(13, levels=4),
    "2d": ArrayShape(9, 6, levels=4),
    "3d": ArrayShape(5, 4, 3, levels=3),
    "a2d": ArrayShape(6, 5, layers=3, levels=3),
    "cube": ArrayShape(8, 8, layers=6, is_cubemap=True, levels=4),
}


@pytest.mark.parametrize("geometry", LEVELS)
@pytest.mark.parametrize("filter_mode", FilterMode)
@pytest.mark.parametrize("between", FilterMode)
def test_levels(geometry: str, filter_mode: FilterMode, between: FilterMode) -> None:
    options = TextureOptions(
        filter_mode=filter_mode,
        normalized_coords=True,
        mipmap_filter_mode=between,
        mipmap_level_bias=0.25,
        min_mipmap_level_clamp=0.5,
        max_mipmap_level_clamp=2.75,
    )
    source = image(FLOAT, LEVELS[geometry], options)
    values = inputs(64, low=-1, high=4)
    run(
        fetch_case(f"tex.level.{geometry}.v4.f32.f32 {RESULT}, [%d12, {COORDINATES[geometry]}], %f4;", [source], values)
    )


@pytest.mark.parametrize("geometry", ["1d", "2d", "a2d"])
def test_levels_of_whole_numbers(geometry: str) -> None:
    options = TextureOptions(normalized_coords=True)
    source = image(FLOAT, LEVELS[geometry], options)
    values = inputs(64, low=0, high=9)
    run(fetch_case(f"tex.level.{geometry}.v4.f32.s32 {RESULT}, [%d12, {WHOLE[geometry]}], %r14;", [source], values))


GRADIENTS = {
    "1d": ("%f3", "%f4"),
    "2d": ("{%f3,%f4}", "{%f5,%f6}"),
    "3d": ("{%f3,%f4,%f5,%f5}", "{%f5,%f6,%f7,%f7}"),
    "a2d": ("{%f3,%f4}", "{%f5,%f6}"),
}


@pytest.mark.parametrize("geometry", GRADIENTS)
def test_gradients(geometry: str) -> None:
    """The level is that of the longer gradient; where the nearest is taken, it does not hang on rounding."""
    source = image(FLOAT, LEVELS[geometry], TextureOptions(normalized_coords=True))
    values = inputs(96, low=0, high=1)
    values["f"][:, 3:] *= np.float32(0.3)
    dx, dy = GRADIENTS[geometry]
    run(
        fetch_case(
            f"tex.grad.{geometry}.v4.f32.f32 {RESULT}, [%d12, {COORDINATES[geometry]}], {dx}, {dy};", [source], values
        )
    )


@pytest.mark.parametrize("geometry", ["2d", "a2d", "cube", "acube"])
@pytest.mark.parametrize("channel", "rgba")
def test_gather(geometry: str, channel: str) -> None:
    source = image(ChannelFormat("unsigned", 8, 4), SHAPES[geometry], TextureOptions(address_mode=AddressMode.BORDER))
    values = inputs(64, low=-2, high=6)
    run(
        fetch_case(
            f"tld4.{channel}.{geometry}.v4.u32.f32 {{%r20,%r21,%r22,%r23}}, [%d12, {COORDINATES[geometry]}];" + MOVE,
            [source],
            values,
        )
    )


MOVE = " mov.b32 %f10, %r20; mov.b32 %f11, %r21; mov.b32 %f12, %r22; mov.b32 %f13, %r23;"


def test_halves() -> None:
    source = image(ChannelFormat("float", 32, 4), SHAPES["2d"], TextureOptions(filter_mode=FilterMode.LINEAR))
    values = inputs(64, low=-1, high=6)
    pair = "tex.2d.v2.f16x2.f32 {%r20,%r21}, [%d12, {%f0,%f1}]; mov.b32 %f10, %r20; mov.b32 %f11, %r21;"
    run(fetch_case(pair, [source], values))
    four = "tex.2d.v4.f16.f32 {%h1,%h2,%h3,%h4}, [%d12, {%f0,%f1}]; mov.b32 %f10, {%h1,%h2}; mov.b32 %f11, {%h3,%h4};"
    run(fetch_case(four, [source], values))


@pytest.mark.parametrize(
    "query",
    [
        "width",
        "height",
        "depth",
        "channel_data_type",
        "channel_order",
        "normalized_coords",
        "array_size",
        "num_mipmap_levels",
        "num_samples",
        "force_unnormalized_coords",
        "filter_mode",
        "addr_mode_0",
        "addr_mode_1",
        "addr_mode_2",
    ],
)
def test_queries(query: str) -> None:
    options = TextureOptions(
        address_mode=(AddressMode.WRAP, AddressMode.MIRROR, AddressMode.BORDER),
        normalized_coords=True,
        filter_mode=FilterMode.LINEAR,
    )
    source = image(ChannelFormat("float", 16, 2), ArrayShape(9, 6, layers=3, levels=3), options)
    got = run(fetch_case(f"txq.{query}.b32 %r20, [%d12]; mov.b32 %f10, %r20;", [source], inputs(4, low=0, high=1)))[1]
    want = {
        "width": 9,
        "height": 6,
        "depth": 1,
        "channel_data_type": 0x10DD,
        "channel_order": 0x10B2,
        "normalized_coords": 1,
        "array_size": 3,
        "num_mipmap_levels": 3,
        "num_samples": 0,
        "force_unnormalized_coords": 0,
        "filter_mode": 1,
        "addr_mode_0": 0,
        "addr_mode_1": 1,
        "addr_mode_2": 4,
    }[query]
    assert set(got[:, 0].view(np.uint32)) == {want}


def test_queries_of_levels() -> None:
    source = image(FLOAT, ArrayShape(9, 6, levels=4), TextureOptions(normalized_coords=True))
    values = inputs(8, low=0, high=1, special=False)
    values["r"][:, 0] = [0, 1, 2, 3, 4, 100, -1, 2]
    text = "txq.level.width.b32 %r20, [%d12], %r10; txq.level.height.b32 %r21, [%d12], %r10;"
    got = run(fetch_case(text + " mov.b32 %f10, %r20; mov.b32 %f11, %r21;", [source], values))[1].view(np.uint32)
    assert got[:, 0].tolist() == [9, 4, 2, 1, 1, 1, 1, 2]
    assert got[:, 1].tolist() == [6, 3, 1, 1, 1, 1, 1, 1]


CHOICE = """
and.b32 %r20, %r7, 1; setp.eq.u32 %p1, %r20, 0; selp.b64 %d14, %d12, %d13, %p1;
"""


def test_handles_by_lane() -> None:
    """Each lane has a texture of its own, and some are off."""
    sources = [image(FLOAT, SHAPES["2d"], seed=1), image(ChannelFormat("unsigned", 8, 4), ArrayShape(3, 9), seed=2)]
    values = inputs(64, low=-1, high=6)
    text = CHOICE + "setp.gt.f32 %p2, %f2, 1.0;"
    for guard in ("", "@%p2 ", "@!%p2 "):
        fetch = f"{guard}tex.2d.v4.f32.f32 {RESULT}|%p3, [%d14, {{%f0,%f1}}];"
        check(fetch_case(text + fetch, sources, values), parts=(None, 1))
    check(fetch_case(CHOICE + "txq.width.b32 %r20, [%d14]; mov.b32 %f10, %r20;", sources, values), parts=(None, 1))
    branch = CHOICE + f"@!%p1 bra SKIP; tex.2d.v4.f32.f32 {RESULT}, [%d14, {{%f0,%f1}}]; SKIP:"
    check(fetch_case(branch, sources, values), parts=(None, 1))


def test_types() -> None:
    sources: list[Image] = [
        image(FLOAT, SHAPES["2d"]),
        image(FLOAT, SHAPES["2d"], is_surface=True),
    ]
    text = CHOICE + " ".join(
        f"istypep.{kind} %p3, %d14; selp.b32 %r2{index}, 1, 0, %p3;"
        for index, kind in enumerate(("texref", "surfref", "samplerref"))
    )
    text += " mov.b32 %r23, 0;" + MOVE
    got = run(fetch_case(text, sources, inputs(4, low=0, high=1)))[1].view(np.uint32)
    assert got.tolist() == [[1, 0, 0, 0], [0, 1, 0, 0]] * 2


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_any_size(data: st.DataObject) -> None:
    """Sizes down to one texel, any format and options."""
    kind, bits, channels = data.draw(st.sampled_from(FORMATS))
    format_ = ChannelFormat(kind, bits, channels)
    read_mode = ReadMode.NORMALIZED_FLOAT if bits < 32 else ReadMode.ELEMENT_TYPE
    gives_floats = kind == "float" or bits < 32
    geometry = data.draw(st.sampled_from(["1d", "2d", "3d", "a1d", "a2d"]))
    size = st.integers(1, 9)
    axes = 3 if geometry == "3d" else int(geometry[-2])
    sizes = [data.draw(size) for _ in range(axes)]
    shape = ArrayShape(*sizes, layers=data.draw(size) if geometry[0] == "a" else 0)
    options = TextureOptions(
        address_mode=tuple(data.draw(st.sampled_from(AddressMode)) for _ in range(3)),
        filter_mode=data.draw(st.sampled_from(FilterMode)) if gives_floats else FilterMode.POINT,
        read_mode=read_mode,
        normalized_coords=data.draw(st.booleans()),
        border_color=(0.5, 0.25, 0.75, 1.0),
    )
    source = image(format_, shape, options, seed=data.draw(st.integers(0, 99)))
    values = inputs(32, low=-2, high=11, seed=data.draw(st.integers(0, 99)))
    case = fetch_case(f"tex.{geometry}.v4.f32.f32 {RESULT}, [%d12, {COORDINATES[geometry]}];", [source], values)
    run(case)


@pytest.mark.parametrize(
    ("instruction", "message"),
    [
        (
            f"tex.2d.v4.f32.f32 {RESULT}, [%d12, {{%f0,%f1,%f2}}];",
            "the coordinates must be a vector of 2 elements, not 3",
        ),
        (f"tex.3d.v4.f32.f32 {RESULT}, [%d12, {{%f0,%f1,%f2}}];", "the coordinates must be a vector of 4 elements"),
        (f"tex.2d.v4.f32.f32 {RESULT}, [%d12, {{%f0,%e1}}];", "must be 32-bit registers or constants, not '%e1'"),
        (f"tex.2d.v4.f32.f32 {RESULT}, [%d12, {{%f0,%f1}}], %f2;", "depth textures"),
        (f"tex.2d.v4.f32.f32 {RESULT}, [%d12, %d13, {{%f0,%f1}}];", "a sampler of its own is not supported"),
        (f"tex.2d.v4.f32.f32 {RESULT}, [%r1, {{%f0,%f1}}];", "must be in a 64-bit register"),
        (f"tex.2d.v4.f32.f32 {RESULT}, [%d12];", "expected ',' and the coordinates"),
        (f"tex.cube.v4.f32.s32 {RESULT}, [%d12, {{%r0,%r1,%r2,%r2}}];", r"a direction into a cube is of type \.f32"),
        (f"tex.grad.cube.v4.f32.f32 {RESULT}, [%d12, {{%f0,%f1,%f2,%f2}}], %f3, %f3;", "'tex.grad.cube.v4.f32.f32'"),
        (f"tex.2dms.v4.f32.s32 {RESULT}, [%d12, {{%r0,%r1,%r2,%r2}}];", "'tex.2dms.v4.f32.s32'"),
        ("txq.width.b32 %r1, [%r2];", "must be in a 64-bit register"),
        ("sust.b.2d.b32.trap [%d12, {%r0}], %r1;", "the coordinates must be a vector of 2 elements, not 1"),
    ],
)
def test_what_is_wrong_is_refused(instruction: str, message: str) -> None:
    with pytest.raises(PtxError, match=message):
        parse(kernel(instruction), "<test>")
