"""What the compiler says about a module and its kernels: plain data that crosses processes."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

__all__ = ("KernelCode", "KernelInfo", "ModuleInfo", "ParamInfo", "VariableInfo")

_MAGIC = b"zcuda-code-1\n"


@dataclass(frozen=True, slots=True)
class ParamInfo:
    """One kernel parameter: `size` bytes at `offset`; `type` is the PTX element type (``u32``…)."""

    name: str
    type: str
    size: int
    align: int
    offset: int
    count: int = 1


@dataclass(frozen=True, slots=True)
class KernelInfo:
    """A kernel's signature and limits, read off its PTX.

    `static_shared` is in bytes.  `max_threads` is the largest block that ``.maxntid``/``.reqntid``
    allow (1024 without), `required_block` the exact block of ``.reqntid`` or None, `cluster` that of
    ``.reqnctapercluster``.  `services` are the parts of the device runtime that it calls, by the
    names of `abi.SERVICES_FIELDS`.
    """

    name: str
    params: tuple[ParamInfo, ...]
    param_bytes: int
    static_shared: int
    max_threads: int = 1024
    required_block: tuple[int, int, int] | None = None
    uses_dynamic_shared: bool = False
    cluster: tuple[int, int, int] | None = None
    services: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VariableInfo:
    """A module-scope ``.global`` or ``.const`` variable inside the module's globals image."""

    name: str
    space: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class ModuleInfo:
    """What a module holds: its kernels by name, and the image its variables start from.

    `relocations` are (byte offset, addend): add the image's own load address to the 64-bit word there.  Variables
    may take more than the image, `globals_size` bytes: what lies beyond it is zero.
    """

    kernels: tuple[KernelInfo, ...]
    variables: tuple[VariableInfo, ...] = ()
    globals_image: bytes = b""
    relocations: tuple[tuple[int, int], ...] = ()
    globals_size: int = 0

    @property
    def memory_size(self) -> int:
        """Bytes that the variables take."""
        return max(self.globals_size, len(self.globals_image))

    def to_bytes(self) -> bytes:
        """Serialise (JSON header, then the image)."""
        fields = asdict(self)
        del fields["globals_image"]
        return json.dumps(fields).encode() + b"\n" + self.globals_image

    @classmethod
    def from_bytes(cls, data: bytes) -> ModuleInfo:
        """Read back what `to_bytes` wrote."""
        header, _, image = data.partition(b"\n")
        fields = json.loads(header)
        return cls(
            kernels=tuple(_kernel_info(kernel) for kernel in fields["kernels"]),
            variables=tuple(VariableInfo(**variable) for variable in fields["variables"]),
            globals_image=image,
            relocations=tuple((offset, addend) for offset, addend in fields["relocations"]),
            globals_size=fields["globals_size"],
        )


def _kernel_info(fields: dict[str, object]) -> KernelInfo:
    params = fields.pop("params")
    required, cluster = fields.pop("required_block"), fields.pop("cluster")
    services = fields.pop("services")
    return KernelInfo(
        services=tuple(services),  # type: ignore[arg-type]
        params=tuple(ParamInfo(**param) for param in params),  # type: ignore[attr-defined]
        required_block=tuple(required) if required is not None else None,  # type: ignore[arg-type]
        cluster=tuple(cluster) if cluster is not None else None,  # type: ignore[arg-type]
        **fields,  # type: ignore[arg-type]
    )


@dataclass(frozen=True, slots=True)
class KernelCode:
    """A kernel compiled for one block shape: an ELF object that exports `entry` (see `jit.abi`)."""

    name: str
    block: tuple[int, int, int]
    entry: str
    object_code: bytes
    static_shared: int

    def to_bytes(self) -> bytes:
        """Serialise (magic, JSON header line, object code)."""
        header = {"name": self.name, "block": self.block, "entry": self.entry, "static_shared": self.static_shared}
        return _MAGIC + json.dumps(header).encode() + b"\n" + self.object_code

    @classmethod
    def from_bytes(cls, data: bytes) -> KernelCode:
        """Read back what `to_bytes` wrote; ValueError if it is not that."""
        if not data.startswith(_MAGIC):
            raise ValueError("not a compiled kernel")
        header, _, code = data[len(_MAGIC) :].partition(b"\n")
        fields = json.loads(header)
        fields["block"] = tuple(fields["block"])
        return cls(object_code=code, **fields)
