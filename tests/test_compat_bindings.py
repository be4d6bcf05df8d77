"""`zcuda_compat.cudart` against ``cuda.bindings.runtime``: names, parameters, enums, constants, structures."""

from __future__ import annotations

import dataclasses
import inspect
from enum import IntEnum
from typing import Any

import pytest

from zcuda_compat import cudart
from zcuda_compat.handles import Handle

runtime: Any = pytest.importorskip("cuda.bindings.runtime", exc_type=ImportError)

# In the C API, but without a wrapper in cuda.bindings.runtime.
EXTRAS = {"cudaLaunchConfig_t", "cudaLaunchKernel", "cudaLaunchKernelExC"}
MIRRORED = [name for name in cudart.__all__ if name not in EXTRAS]
VALUES = {name: getattr(cudart, name) for name in MIRRORED}
FUNCTIONS = [name for name, value in VALUES.items() if inspect.isfunction(value)]
ENUMS = [name for name, value in VALUES.items() if inspect.isclass(value) and issubclass(value, IntEnum)]
STRUCTS = [name for name, value in VALUES.items() if dataclasses.is_dataclass(value)]
HANDLES = [name for name, value in VALUES.items() if inspect.isclass(value) and issubclass(value, Handle)]
CONSTANTS = [name for name, value in VALUES.items() if type(value) is int]


def test_every_name_belongs_to_a_kind() -> None:
    kinds = [*FUNCTIONS, *ENUMS, *STRUCTS, *HANDLES, *CONSTANTS]
    assert sorted(kinds) == sorted(MIRRORED)
    assert len(FUNCTIONS) > 50


def test_all_names_are_in_the_bindings() -> None:
    assert [name for name in MIRRORED if not hasattr(runtime, name)] == []
    assert [name for name in EXTRAS if hasattr(runtime, name)] == []


def test_all_is_what_the_package_has() -> None:
    modules = {"constants", "device", "device_attributes", "device_facts", "enums", "error", "event", "launch"}
    modules |= {"library", "memory", "results", "stream", "structs"}
    public = {name for name in dir(cudart) if not name.startswith("_")}
    assert public - modules == set(cudart.__all__)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_parameters_have_the_same_names(name: str) -> None:
    ours = inspect.signature(getattr(cudart, name)).parameters
    theirs = inspect.signature(getattr(runtime, name)).parameters
    assert list(ours) == list(theirs)
    assert [entry.default for entry in ours.values()] == [entry.default for entry in theirs.values()]


@pytest.mark.parametrize("name", ENUMS)
def test_enums_have_the_same_members_and_values(name: str) -> None:
    ours, theirs = getattr(cudart, name), getattr(runtime, name)
    assert {key: int(value) for key, value in ours.__members__.items()} == {
        key: int(value) for key, value in theirs.__members__.items()
    }
    first = next(iter(ours))
    twin = theirs(int(first))
    assert (repr(first), str(first), f"{first}", f"{first:d}") == (repr(twin), str(twin), f"{twin}", f"{twin:d}")


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants_have_the_same_values(name: str) -> None:
    assert getattr(cudart, name) == getattr(runtime, name)


@pytest.mark.parametrize("name", STRUCTS)
def test_structures_have_the_same_fields_and_defaults(name: str) -> None:
    ours, theirs = getattr(cudart, name)(), getattr(runtime, name)()
    fields = {entry.name for entry in dataclasses.fields(ours)}
    assert fields == {field for field in dir(theirs) if not field.startswith("_") and field != "getPtr"}
    for field in fields - {"uuid"}:
        assert getattr(ours, field) == getattr(theirs, field), field


@pytest.mark.parametrize("name", HANDLES)
def test_handles_behave_alike(name: str) -> None:
    for kind in (getattr(cudart, name), getattr(runtime, name)):
        assert int(kind()) == 0
        handle = kind(init_value=5)
        assert int(handle) == 5
        if name != "cudaHostFn_t":  # of which each object is equal only to itself there
            assert (kind(5) == handle, kind(6) == handle, handle == 5) == (True, False, False)
            assert hash(handle) == hash(kind(5))
        assert int(kind(_ptr=handle.getPtr())) == 5
        with pytest.raises(TypeError, match="integer"):
            kind("5")
        with pytest.raises(OverflowError):
            kind(-1)


def test_error_names_are_the_same() -> None:
    for code in (*cudart.cudaError_t, 12345):
        assert cudart.cudaGetErrorName(code) == runtime.cudaGetErrorName(int(code))


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda api: api.cudaMalloc("a"), TypeError),
        (lambda api: api.cudaMalloc(-8), OverflowError),
        (lambda api: api.cudaSetDevice(2**40), OverflowError),
        (lambda api: api.cudaStreamQuery("x"), TypeError),
        (lambda api: api.cudaMemcpy("x", 0, 8, api.cudaMemcpyKind.cudaMemcpyDefault), TypeError),
        (lambda api: api.cudaLibraryLoadData("x", None, None, 0, None, None, 0), TypeError),
        (lambda api: api.cudaLibraryLoadFromFile("x", None, None, 0, None, None, 0), TypeError),
    ],
)
def test_misuse_raises_the_same_exceptions(call: Any, kind: type[Exception]) -> None:
    for api in (cudart, runtime):
        with pytest.raises(kind):
            call(api)
