"""Devices through `zcuda_compat.cudart`: properties, attributes, versions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from compat_tools import checked

import zcuda_compat
from zcuda_compat import cudart

pytestmark = pytest.mark.pool

Attr = cudart.cudaDeviceAttr


@pytest.fixture(scope="module", autouse=True)
def _shutdown() -> Iterator[None]:
    yield
    zcuda_compat.shutdown()


@pytest.mark.parametrize(
    ("field", "attribute"),
    [
        ("warpSize", Attr.cudaDevAttrWarpSize),
        ("maxThreadsPerBlock", Attr.cudaDevAttrMaxThreadsPerBlock),
        ("multiProcessorCount", Attr.cudaDevAttrMultiProcessorCount),
        ("sharedMemPerBlock", Attr.cudaDevAttrMaxSharedMemoryPerBlock),
        ("major", Attr.cudaDevAttrComputeCapabilityMajor),
        ("unifiedAddressing", Attr.cudaDevAttrUnifiedAddressing),
    ],
)
def test_properties_and_attributes_agree(field: str, attribute: cudart.cudaDeviceAttr) -> None:
    value = getattr(checked(cudart.cudaGetDeviceProperties(0)), field)
    assert value == checked(cudart.cudaDeviceGetAttribute(attribute, 0)) > 0


def test_properties_describe_the_device() -> None:
    prop = checked(cudart.cudaGetDeviceProperties(0))
    assert prop.name == b"zcuda-async software device"
    assert prop.maxThreadsDim == [1024, 1024, 64]
    assert prop.maxGridSize == [2**31 - 1, 65535, 65535]
    assert prop.totalGlobalMem == checked(cudart.cudaMemGetInfo())[1]
    assert len(set(prop.uuid.bytes)) > 1
    assert "warpSize : 32" in str(prop).splitlines()


def test_every_attribute_has_a_value() -> None:
    for attribute in Attr:
        assert checked(cudart.cudaDeviceGetAttribute(attribute, 0)) >= 0


def test_versions_are_those_that_are_mirrored() -> None:
    assert checked(cudart.cudaRuntimeGetVersion()) == cudart.CUDART_VERSION
    assert checked(cudart.cudaDriverGetVersion()) >= cudart.CUDART_VERSION
