"""The status codes and the exceptions that carry them."""

from __future__ import annotations

import copy
import pickle

import pytest

from zcuda_async.errors import EXPLANATIONS, CompileError, CudaError, LaunchError, Status


def test_codes_are_those_of_cuda() -> None:
    assert Status.cudaSuccess.value == 0
    assert Status.cudaErrorMemoryAllocation.value == 2
    assert Status.cudaErrorIllegalAddress.value == 700
    assert Status.cudaErrorApiFailureBase.value == 10000
    assert len(Status) == 139


def test_every_code_is_explained_in_one_sentence() -> None:
    assert set(EXPLANATIONS) == set(Status)
    for explanation in EXPLANATIONS.values():
        assert explanation[0].isupper()
        assert explanation.endswith(".")
    assert len(set(EXPLANATIONS.values())) == len(Status)


def test_an_error_shows_name_number_and_detail() -> None:
    error = CudaError(Status.cudaErrorInvalidValue, "size -1 is negative; pass a size")
    assert str(error) == "cudaErrorInvalidValue (1): size -1 is negative; pass a size"
    assert (error.code, error.detail) == (Status.cudaErrorInvalidValue, "size -1 is negative; pass a size")


def test_an_error_without_detail_explains_its_code() -> None:
    assert str(CudaError(Status.cudaErrorNoDevice)) == "cudaErrorNoDevice (100): There is no device."


def test_a_plain_number_becomes_a_status() -> None:
    assert CudaError(Status(719)).code is Status.cudaErrorLaunchFailure


@pytest.mark.parametrize("kind", [CudaError, CompileError, LaunchError])
def test_errors_survive_copies_and_pickles(kind: type[CudaError]) -> None:
    error = kind(Status.cudaErrorInvalidPtx, "line 3")
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(twin) is kind
        assert str(twin) == str(error)
        assert twin.code is error.code
