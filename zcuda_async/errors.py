"""CUDA's error codes, and the exceptions that carry them."""

# ruff: noqa: N815 - the names are CUDA's

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ("EXPLANATIONS", "CompileError", "CudaError", "LaunchError", "Status")


class CudaError(Exception):
    """A CUDA call failed: `code` is its `Status`, `detail` says what, where and what to do.

    Without a detail, the code's general explanation stands in for it.
    """

    def __init__(self, code: Status, detail: str = "") -> None:
        super().__init__(code, detail)
        self.code: Final = Status(code)
        self.detail: Final = detail or EXPLANATIONS[self.code]

    def __str__(self) -> str:
        return f"{self.code.name} ({self.code.value}): {self.detail}"


class CompileError(CudaError):
    """A module's text could not be turned into code (`cudaErrorInvalidPtx` and its relatives)."""


class LaunchError(CudaError):
    """A launch was refused, or its kernel failed while it ran."""


class Status(IntEnum):
    """Every ``cudaError_t`` value of the CUDA 13 runtime, under its CUDA name."""

    cudaSuccess = 0
    cudaErrorInvalidValue = 1
    cudaErrorMemoryAllocation = 2
    cudaErrorInitializationError = 3
    cudaErrorCudartUnloading = 4
    cudaErrorProfilerDisabled = 5
    cudaErrorProfilerNotInitialized = 6
    cudaErrorProfilerAlreadyStarted = 7
    cudaErrorProfilerAlreadyStopped = 8
    cudaErrorInvalidConfiguration = 9
    cudaErrorVersionTranslation = 10
    cudaErrorInvalidPitchValue = 12
    cudaErrorInvalidSymbol = 13
    cudaErrorInvalidHostPointer = 16
    cudaErrorInvalidDevicePointer = 17
    cudaErrorInvalidTexture = 18
    cudaErrorInvalidTextureBinding = 19
    cudaErrorInvalidChannelDescriptor = 20
    cudaErrorInvalidMemcpyDirection = 21
    cudaErrorAddressOfConstant = 22
    cudaErrorTextureFetchFailed = 23
    cudaErrorTextureNotBound = 24
    cudaErrorSynchronizationError = 25
    cudaErrorInvalidFilterSetting = 26
    cudaErrorInvalidNormSetting = 27
    cudaErrorMixedDeviceExecution = 28
    cudaErrorNotYetImplemented = 31
    cudaErrorMemoryValueTooLarge = 32
    cudaErrorStubLibrary = 34
    cudaErrorInsufficientDriver = 35
    cudaErrorCallRequiresNewerDriver = 36
    cudaErrorInvalidSurface = 37
    cudaErrorDuplicateVariableName = 43
    cudaErrorDuplicateTextureName = 44
    cudaErrorDuplicateSurfaceName = 45
    cudaErrorDevicesUnavailable = 46
    cudaErrorIncompatibleDriverContext = 49
    cudaErrorMissingConfiguration = 52
    cudaErrorPriorLaunchFailure = 53
    cudaErrorLaunchMaxDepthExceeded = 65
    cudaErrorLaunchFileScopedTex = 66
    cudaErrorLaunchFileScopedSurf = 67
    cudaErrorSyncDepthExceeded = 68
    cudaErrorLaunchPendingCountExceeded = 69
    cudaErrorInvalidDeviceFunction = 98
    cudaErrorNoDevice = 100
    cudaErrorInvalidDevice = 101
    cudaErrorDeviceNotLicensed = 102
    cudaErrorSoftwareValidityNotEstablished = 103
    cudaErrorStartupFailure = 127
    cudaErrorInvalidKernelImage = 200
    cudaErrorDeviceUninitialized = 201
    cudaErrorMapBufferObjectFailed = 205
    cudaErrorUnmapBufferObjectFailed = 206
    cudaErrorArrayIsMapped = 207
    cudaErrorAlreadyMapped = 208
    cudaErrorNoKernelImageForDevice = 209
    cudaErrorAlreadyAcquired = 210
    cudaErrorNotMapped = 211
    cudaErrorNotMappedAsArray = 212
    cudaErrorNotMappedAsPointer = 213
    cudaErrorECCUncorrectable = 214
    cudaErrorUnsupportedLimit = 215
    cudaErrorDeviceAlreadyInUse = 216
    cudaErrorPeerAccessUnsupported = 217
    cudaErrorInvalidPtx = 218
    cudaErrorInvalidGraphicsContext = 219
    cudaErrorNvlinkUncorrectable = 220
    cudaErrorJitCompilerNotFound = 221
    cudaErrorUnsupportedPtxVersion = 222
    cudaErrorJitCompilationDisabled = 223
    cudaErrorUnsupportedExecAffinity = 224
    cudaErrorUnsupportedDevSideSync = 225
    cudaErrorContained = 226
    cudaErrorInsufficientLoaderVersion = 227
    cudaErrorInvalidSource = 300
    cudaErrorFileNotFound = 301
    cudaErrorSharedObjectSymbolNotFound = 302
    cudaErrorSharedObjectInitFailed = 303
    cudaErrorOperatingSystem = 304
    cudaErrorInvalidResourceHandle = 400
    cudaErrorIllegalState = 401
    cudaErrorLossyQuery = 402
    cudaErrorSymbolNotFound = 500
    cudaErrorNotReady = 600
    cudaErrorIllegalAddress = 700
    cudaErrorLaunchOutOfResources = 701
    cudaErrorLaunchTimeout = 702
    cudaErrorLaunchIncompatibleTexturing = 703
    cudaErrorPeerAccessAlreadyEnabled = 704
    cudaErrorPeerAccessNotEnabled = 705
    cudaErrorSetOnActiveProcess = 708
    cudaErrorContextIsDestroyed = 709
    cudaErrorAssert = 710
    cudaErrorTooManyPeers = 711
    cudaErrorHostMemoryAlreadyRegistered = 712
    cudaErrorHostMemoryNotRegistered = 713
    cudaErrorHardwareStackError = 714
    cudaErrorIllegalInstruction = 715
    cudaErrorMisalignedAddress = 716
    cudaErrorInvalidAddressSpace = 717
    cudaErrorInvalidPc = 718
    cudaErrorLaunchFailure = 719
    cudaErrorCooperativeLaunchTooLarge = 720
    cudaErrorTensorMemoryLeak = 721
    cudaErrorNotPermitted = 800
    cudaErrorNotSupported = 801
    cudaErrorSystemNotReady = 802
    cudaErrorSystemDriverMismatch = 803
    cudaErrorCompatNotSupportedOnDevice = 804
    cudaErrorMpsConnectionFailed = 805
    cudaErrorMpsRpcFailure = 806
    cudaErrorMpsServerNotReady = 807
    cudaErrorMpsMaxClientsReached = 808
    cudaErrorMpsMaxConnectionsReached = 809
    cudaErrorMpsClientTerminated = 810
    cudaErrorCdpNotSupported = 811
    cudaErrorCdpVersionMismatch = 812
    cudaErrorStreamCaptureUnsupported = 900
    cudaErrorStreamCaptureInvalidated = 901
    cudaErrorStreamCaptureMerge = 902
    cudaErrorStreamCaptureUnmatched = 903
    cudaErrorStreamCaptureUnjoined = 904
    cudaErrorStreamCaptureIsolation = 905
    cudaErrorStreamCaptureImplicit = 906
    cudaErrorCapturedEvent = 907
    cudaErrorStreamCaptureWrongThread = 908
    cudaErrorTimeout = 909
    cudaErrorGraphExecUpdateFailure = 910
    cudaErrorExternalDevice = 911
    cudaErrorInvalidClusterSize = 912
    cudaErrorFunctionNotLoaded = 913
    cudaErrorInvalidResourceType = 914
    cudaErrorInvalidResourceConfiguration = 915
    cudaErrorStreamDetached = 917
    cudaErrorGraphRecaptureFailure = 918
    cudaErrorFabricNotReady = 919
    cudaErrorUnknown = 999
    cudaErrorApiFailureBase = 10000


EXPLANATIONS: Final[Mapping[Status, str]] = MappingProxyType(
    {
        Status.cudaSuccess: "The call did what was asked.",
        Status.cudaErrorInvalidValue: "An argument is outside the range the call accepts.",
        Status.cudaErrorMemoryAllocation: "There is not enough free memory for the request.",
        Status.cudaErrorInitializationError: "The runtime could not be brought up.",
        Status.cudaErrorCudartUnloading: "The process is ending and the runtime is already being taken down.",
        Status.cudaErrorProfilerDisabled: "Profiling is switched off for this run.",
        Status.cudaErrorProfilerNotInitialized: "Obsolete: profiling no longer needs to be set up first.",
        Status.cudaErrorProfilerAlreadyStarted: "Obsolete: starting the profiler twice is allowed.",
        Status.cudaErrorProfilerAlreadyStopped: "Obsolete: stopping the profiler twice is allowed.",
        Status.cudaErrorInvalidConfiguration: "The grid, block or shared memory exceeds what the device can run.",
        Status.cudaErrorVersionTranslation: "The driver is newer and uses an error code unknown to this runtime.",
        Status.cudaErrorInvalidPitchValue: "A pitch is out of range, or narrower than the row it holds.",
        Status.cudaErrorInvalidSymbol: "No variable or kernel of that name or handle exists.",
        Status.cudaErrorInvalidHostPointer: "The host pointer is not one the runtime can use.",
        Status.cudaErrorInvalidDevicePointer: "The device pointer does not lie in memory of this device.",
        Status.cudaErrorInvalidTexture: "The texture is not valid.",
        Status.cudaErrorInvalidTextureBinding: "No texture is bound.",
        Status.cudaErrorInvalidChannelDescriptor: "The channel format is not one of the known ones.",
        Status.cudaErrorInvalidMemcpyDirection: "The copy kind is unknown, or contradicts the two pointers.",
        Status.cudaErrorAddressOfConstant: "Obsolete: the address of a constant may be taken.",
        Status.cudaErrorTextureFetchFailed: "Obsolete: a texture read failed.",
        Status.cudaErrorTextureNotBound: "Obsolete: a texture was read before it was bound.",
        Status.cudaErrorSynchronizationError: "Obsolete: waiting for the device failed.",
        Status.cudaErrorInvalidFilterSetting: "Linear filtering does not work on a texture that is not floating point.",
        Status.cudaErrorInvalidNormSetting: "A texture that is not floating point cannot be read as normalised values.",
        Status.cudaErrorMixedDeviceExecution: "Obsolete: device and emulated code were mixed.",
        Status.cudaErrorNotYetImplemented: "Obsolete: the call has no implementation.",
        Status.cudaErrorMemoryValueTooLarge: "Obsolete: an emulated pointer exceeded 32 bits.",
        Status.cudaErrorStubLibrary: "The program was linked to a stub library that only serves linking.",
        Status.cudaErrorInsufficientDriver: "The driver is older than the runtime.",
        Status.cudaErrorCallRequiresNewerDriver: "This call needs a newer driver.",
        Status.cudaErrorInvalidSurface: "The surface is not valid.",
        Status.cudaErrorDuplicateVariableName: "Two variables of the program share a name.",
        Status.cudaErrorDuplicateTextureName: "Two textures of the program share a name.",
        Status.cudaErrorDuplicateSurfaceName: "Two surfaces of the program share a name.",
        Status.cudaErrorDevicesUnavailable: "Every device is busy or closed to this process.",
        Status.cudaErrorIncompatibleDriverContext: "The current context was made in a way this runtime cannot share.",
        Status.cudaErrorMissingConfiguration: "A kernel was launched before its grid and block were given.",
        Status.cudaErrorPriorLaunchFailure: "Obsolete: an earlier launch failed.",
        Status.cudaErrorLaunchMaxDepthExceeded: "Kernels launched from kernels are nested too deeply.",
        Status.cudaErrorLaunchFileScopedTex: "A kernel launched from a kernel uses a file-scope texture.",
        Status.cudaErrorLaunchFileScopedSurf: "A kernel launched from a kernel uses a file-scope surface.",
        Status.cudaErrorSyncDepthExceeded: "A kernel waited for its children deeper than the configured depth.",
        Status.cudaErrorLaunchPendingCountExceeded: "Too many launches made by kernels are waiting.",
        Status.cudaErrorInvalidDeviceFunction: "The kernel does not exist, or not for this device.",
        Status.cudaErrorNoDevice: "There is no device.",
        Status.cudaErrorInvalidDevice: "There is no device of that number.",
        Status.cudaErrorDeviceNotLicensed: "The device has no valid licence.",
        Status.cudaErrorSoftwareValidityNotEstablished: "The software's integrity could not be established.",
        Status.cudaErrorStartupFailure: "An internal check failed while starting.",
        Status.cudaErrorInvalidKernelImage: "The module is not a usable kernel image.",
        Status.cudaErrorDeviceUninitialized: "No context is current on the calling thread.",
        Status.cudaErrorMapBufferObjectFailed: "A buffer object could not be mapped.",
        Status.cudaErrorUnmapBufferObjectFailed: "A buffer object could not be unmapped.",
        Status.cudaErrorArrayIsMapped: "The array is mapped, so it cannot be destroyed.",
        Status.cudaErrorAlreadyMapped: "The resource is already mapped.",
        Status.cudaErrorNoKernelImageForDevice: "The module holds no code that fits this device.",
        Status.cudaErrorAlreadyAcquired: "The resource is already held.",
        Status.cudaErrorNotMapped: "The resource is not mapped.",
        Status.cudaErrorNotMappedAsArray: "The resource is not mapped as an array.",
        Status.cudaErrorNotMappedAsPointer: "The resource is not mapped as a pointer.",
        Status.cudaErrorECCUncorrectable: "A memory error was found that could not be corrected.",
        Status.cudaErrorUnsupportedLimit: "The device has no such limit.",
        Status.cudaErrorDeviceAlreadyInUse: "Another thread owns the device.",
        Status.cudaErrorPeerAccessUnsupported: "These two devices cannot reach each other's memory.",
        Status.cudaErrorInvalidPtx: "The PTX text does not compile.",
        Status.cudaErrorInvalidGraphicsContext: "The graphics context is not valid.",
        Status.cudaErrorNvlinkUncorrectable: "A link between devices failed beyond correction.",
        Status.cudaErrorJitCompilerNotFound: "The PTX compiler could not be found.",
        Status.cudaErrorUnsupportedPtxVersion: "The PTX text is written in a version newer than this compiler knows.",
        Status.cudaErrorJitCompilationDisabled: "Compiling PTX is switched off.",
        Status.cudaErrorUnsupportedExecAffinity: "The device cannot restrict execution that way.",
        Status.cudaErrorUnsupportedDevSideSync: "The kernel waits for its child kernels, which is not supported.",
        Status.cudaErrorContained: "A device error was contained; the process must still start over.",
        Status.cudaErrorInsufficientLoaderVersion: "The loader is older than the module needs.",
        Status.cudaErrorInvalidSource: "The kernel source is not valid.",
        Status.cudaErrorFileNotFound: "The file was not found.",
        Status.cudaErrorSharedObjectSymbolNotFound: "A shared library lacks a symbol that is needed.",
        Status.cudaErrorSharedObjectInitFailed: "A shared library could not be initialised.",
        Status.cudaErrorOperatingSystem: "A call to the operating system failed.",
        Status.cudaErrorInvalidResourceHandle: "The handle does not name a live stream, event or other resource.",
        Status.cudaErrorIllegalState: "The resource is not in a state that allows this call.",
        Status.cudaErrorLossyQuery: "The answer would not fit the type asked for.",
        Status.cudaErrorSymbolNotFound: "No symbol of that name was found.",
        Status.cudaErrorNotReady: "The work asked about has not finished yet.",
        Status.cudaErrorIllegalAddress: "A kernel touched memory that does not exist or is not its own.",
        Status.cudaErrorLaunchOutOfResources: "The launch needs more registers or threads than the device has.",
        Status.cudaErrorLaunchTimeout: "A kernel ran longer than the watchdog allows.",
        Status.cudaErrorLaunchIncompatibleTexturing: "The kernel uses an incompatible texture mode.",
        Status.cudaErrorPeerAccessAlreadyEnabled: "Access to that device's memory is already on.",
        Status.cudaErrorPeerAccessNotEnabled: "Access to that device's memory was never switched on.",
        Status.cudaErrorSetOnActiveProcess: "The setting cannot change once the device is in use.",
        Status.cudaErrorContextIsDestroyed: "The context was destroyed.",
        Status.cudaErrorAssert: "An assertion in a kernel failed.",
        Status.cudaErrorTooManyPeers: "No further peer connection is possible.",
        Status.cudaErrorHostMemoryAlreadyRegistered: "The host memory is already pinned.",
        Status.cudaErrorHostMemoryNotRegistered: "The host memory was never pinned.",
        Status.cudaErrorHardwareStackError: "A kernel's call stack overflowed or was damaged.",
        Status.cudaErrorIllegalInstruction: "A kernel ran an instruction the device does not have.",
        Status.cudaErrorMisalignedAddress: "A kernel's memory access was not aligned to its size.",
        Status.cudaErrorInvalidAddressSpace: "An instruction got an address of the wrong address space.",
        Status.cudaErrorInvalidPc: "A kernel jumped outside its code.",
        Status.cudaErrorLaunchFailure: "A kernel failed while it ran, for a reason no other code names.",
        Status.cudaErrorCooperativeLaunchTooLarge: "A cooperative grid has more blocks than can be resident at once.",
        Status.cudaErrorTensorMemoryLeak: "A block ended without freeing its tensor memory.",
        Status.cudaErrorNotPermitted: "The call is not permitted here.",
        Status.cudaErrorNotSupported: "This device or system does not support the call.",
        Status.cudaErrorSystemNotReady: "The system is not ready for CUDA work yet.",
        Status.cudaErrorSystemDriverMismatch: "The driver's parts have different versions.",
        Status.cudaErrorCompatNotSupportedOnDevice: "The forward-compatible driver does not support this device.",
        Status.cudaErrorMpsConnectionFailed: "The multi-process service did not answer.",
        Status.cudaErrorMpsRpcFailure: "A call to the multi-process service failed.",
        Status.cudaErrorMpsServerNotReady: "The multi-process service does not accept clients yet.",
        Status.cudaErrorMpsMaxClientsReached: "The multi-process service has no room for another client.",
        Status.cudaErrorMpsMaxConnectionsReached: "The multi-process service has no connection left.",
        Status.cudaErrorMpsClientTerminated: "The multi-process service ended this client.",
        Status.cudaErrorCdpNotSupported: "Kernels cannot launch kernels here.",
        Status.cudaErrorCdpVersionMismatch: "The program mixes two versions of launching from kernels.",
        Status.cudaErrorStreamCaptureUnsupported: "A stream that is being captured does not allow this call.",
        Status.cudaErrorStreamCaptureInvalidated: "An earlier error spoilt the capture of this stream.",
        Status.cudaErrorStreamCaptureMerge: "The call would join two separate captures.",
        Status.cudaErrorStreamCaptureUnmatched: "The capture was not begun on this stream.",
        Status.cudaErrorStreamCaptureUnjoined: "A stream forked during the capture was not joined back.",
        Status.cudaErrorStreamCaptureIsolation: "A dependency would cross the border of the capture.",
        Status.cudaErrorStreamCaptureImplicit: "The call would make a captured stream wait for the legacy stream.",
        Status.cudaErrorCapturedEvent: "The event was last recorded in a captured stream, so it cannot be asked.",
        Status.cudaErrorStreamCaptureWrongThread: "The capture was begun by another thread.",
        Status.cudaErrorTimeout: "The wait took longer than allowed.",
        Status.cudaErrorGraphExecUpdateFailure: "The graph changed in a way an update cannot express.",
        Status.cudaErrorExternalDevice: "A device outside the runtime's control failed.",
        Status.cudaErrorInvalidClusterSize: "The cluster size does not fit the kernel or the device.",
        Status.cudaErrorFunctionNotLoaded: "The function has not been loaded.",
        Status.cudaErrorInvalidResourceType: "The resource is of the wrong type.",
        Status.cudaErrorInvalidResourceConfiguration: "The resources asked for are too few or do not fit together.",
        Status.cudaErrorStreamDetached: "The stream's device resources were taken away.",
        Status.cudaErrorGraphRecaptureFailure: "The graph could not be captured again.",
        Status.cudaErrorFabricNotReady: "The fabric between devices is not ready.",
        Status.cudaErrorUnknown: "An internal error without a better name.",
        Status.cudaErrorApiFailureBase: "Obsolete: codes from here on were driver errors.",
    }
)
"""What each code means, one sentence each."""
