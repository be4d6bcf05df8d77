"""The object cache on disk: compiled kernels that the next process need not compile again.

What is loaded from here is executed, so an entry counts only if this user wrote it:

* The directory must belong to this user and be writable by nobody else.  It is opened once, checked
  through its descriptor, and every file is reached relative to that descriptor, so what was checked
  is what is used.
* Every entry carries an HMAC-SHA256 over its key and content, keyed with random bytes that only this
  user can read.  A plain checksum would find damage but not a forgery: whoever could once write
  here (before a `chmod`, through a restored backup, with a stray symlink) could compute it as well.

Anything that does not verify is removed and compiled again.  Files appear by atomic rename, so
several processes may share a directory; a lost race costs one compilation.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from zcuda_async.jit.abi import ABI_VERSION

__all__ = ("CacheError", "ObjectCache", "cache_key", "default_directory")

_MAGIC: Final = b"zcuda-cache-1\n"
_MAC_SIZE: Final = 32
_HEADER_SIZE: Final = len(_MAGIC) + _MAC_SIZE
_KEY_FILE: Final = "key"
_KEY_SIZE: Final = 32
_SUFFIX: Final = ".zc"
_TEMPORARY: Final = ".tmp-"
_TEMPORARY_LIFE_S: Final = 3600
_DEFAULT_LIMIT: Final = 256 << 20
_OPEN_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # a FIFO must not hang us


class CacheError(Exception):
    """The cache directory cannot be used or written; compiling goes on without it."""


def default_directory() -> Path:
    """Return ``$ZCUDA_CACHE_DIR``, else ``zcuda-async`` in the user's XDG cache directory."""
    chosen = os.environ.get("ZCUDA_CACHE_DIR")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME", "")
    # The XDG rules: a relative or empty path is ignored.
    return (Path(base) if base.startswith("/") else Path("~/.cache").expanduser()) / "zcuda-async"


@cache
def _fingerprint() -> bytes:
    """Hash what decides the machine code besides the kernel: host CPU, LLVM, ABI and this compiler.

    The compiler counts by its own source text, so no edit of it can meet objects of an older one.
    """
    import llvmlite
    from llvmlite import binding

    package = Path(__file__).parent.parent
    sources = [path for part in ("ptx", "jit") for path in sorted((package / part).rglob("*.py"))]
    facts = (
        binding.get_host_cpu_name(),
        binding.get_host_cpu_features().flatten(),
        str(binding.llvm_version_info),
        llvmlite.__version__,
        str(ABI_VERSION),
    )
    return _digest(
        *(fact.encode() for fact in facts),
        *(path.read_bytes() for path in (package / "_version.py", *sources)),
    )


def _digest(*parts: bytes) -> bytes:
    """Hash `parts` so that no two different lists of them give the same bytes to hash."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def cache_key(text: str, kernel: str = "", block: tuple[int, ...] = ()) -> str:
    """Return the hexadecimal key of one compiled kernel; no kernel name stands for the module itself."""
    return _digest(_fingerprint(), text.encode(), kernel.encode(), repr(tuple(block)).encode()).hex()


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    size: int
    used_ns: int


class ObjectCache:
    """A directory of verified byte strings by key, bounded in size, least recently used out first.

    Made by `ObjectCache.open`.  Safe to share between processes, not between threads.

    The bound is enforced after every sixteenth of it written, so a directory may exceed it by that
    much for each process that is writing.
    """

    def __init__(self, descriptor: int, directory: Path, secret: bytes, limit: int) -> None:
        self._descriptor = descriptor
        self._secret = secret
        self._unswept = limit  # the first write looks at what is there
        self.directory: Final = directory
        self.limit: Final = limit

    @classmethod
    def open(cls, directory: Path | None = None, limit: int = _DEFAULT_LIMIT) -> ObjectCache:
        """Open the cache, making its directory (mode 0700) if it is not there.

        Args:
            directory: Where; by default `default_directory()`.
            limit: Size of all entries together, in bytes.

        Raises:
            CacheError: The directory cannot be made, or someone else owns it or can write to it.
        """
        directory = default_directory() if directory is None else directory
        with _as_cache_error(directory):
            directory.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                directory.mkdir(mode=0o700)
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                _check_private(os.fstat(descriptor), directory)
                return cls(descriptor, directory, _load_secret(descriptor), limit)
            except BaseException:
                os.close(descriptor)
                raise

    def close(self) -> None:
        """Release the directory; idempotent."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def get(self, key: str) -> bytes | None:
        """Return what `put` stored under `key`, or None; an entry that does not verify is removed."""
        name = key + _SUFFIX
        try:
            data = self._read(name)
        except FileNotFoundError:
            return None
        except OSError:
            data = b""  # a symlink, a directory, a bad sector: not an entry of ours
        payload = data[_HEADER_SIZE:]
        if hmac.compare_digest(data[:_HEADER_SIZE], self._header(key, payload)):
            return payload
        self._remove(name)
        return None

    def put(self, key: str, payload: bytes) -> None:
        """Store `payload` under `key`, replacing what is there.

        Raises:
            CacheError: It cannot be written (disk full, directory gone, …); nothing was changed.
        """
        data = self._header(key, payload) + payload
        with _as_cache_error(self.directory):
            with _temporary_file(self._descriptor, data) as temporary:
                os.replace(temporary, key + _SUFFIX, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)
            self._unswept += len(data)
            if self._unswept > self.limit // 16:
                self._sweep()

    def _header(self, key: str, payload: bytes) -> bytes:
        # The key is part of the message: an entry renamed to another key does not verify.
        return _MAGIC + hmac.digest(self._secret, key.encode() + b"\n" + payload, "sha256")

    def _read(self, name: str) -> bytes:
        descriptor = os.open(name, _OPEN_FLAGS, dir_fd=self._descriptor)
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size > self.limit:
                return b""
            os.utime(descriptor)  # used now
            return file.read()

    def _remove(self, name: str) -> None:
        with suppress(OSError):  # another process was faster, or it is a directory: then it stays a miss
            os.unlink(name, dir_fd=self._descriptor)

    def _sweep(self) -> None:
        """Remove the least recently used entries over the limit, and what crashed writers left."""
        entries = sorted(self._entries(), key=lambda entry: entry.used_ns, reverse=True)
        total = 0
        for entry in entries:
            total += entry.size
            if total > self.limit:
                self._remove(entry.name)
        self._unswept = 0

    def _entries(self) -> Iterator[_Entry]:
        stale_ns = time.time_ns() - _TEMPORARY_LIFE_S * 1_000_000_000
        with os.scandir(self._descriptor) as items:
            for item in items:
                try:
                    status = item.stat(follow_symlinks=False)
                except FileNotFoundError:  # another process removed it
                    continue
                if item.name.endswith(_SUFFIX):
                    yield _Entry(item.name, status.st_size, status.st_mtime_ns)
                elif item.name.startswith(_TEMPORARY) and status.st_mtime_ns < stale_ns:
                    self._remove(item.name)


@contextmanager
def _as_cache_error(directory: Path) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise CacheError(f"object cache {directory}: {exc.strerror}; set ZCUDA_CACHE_DIR to a writable place") from exc


def _check_private(status: os.stat_result, directory: Path) -> None:
    if status.st_uid != os.geteuid():
        raise CacheError(
            f"object cache {directory} belongs to user {status.st_uid}, not to user {os.geteuid()} who would run "
            "code from it; set ZCUDA_CACHE_DIR to a directory of your own"
        )
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o022:
        raise CacheError(
            f"object cache {directory} has mode {mode:04o}, so other users could plant code in it; "
            f"run chmod 700 {directory}"
        )


def _load_secret(directory: int) -> bytes:
    """Return this user's key, making it if there is none that can be trusted."""
    secret = _read_secret(directory)
    if secret == b"":
        os.unlink(_KEY_FILE, dir_fd=directory)
    if not secret:
        # A link, unlike a rename, fails if another process made the key first: then theirs is used.
        with _temporary_file(directory, secrets.token_bytes(_KEY_SIZE)) as temporary, suppress(FileExistsError):
            os.link(temporary, _KEY_FILE, src_dir_fd=directory, dst_dir_fd=directory)
        secret = _read_secret(directory)
    if not secret:
        raise CacheError("object cache: its key file cannot be read back; set ZCUDA_CACHE_DIR to another directory")
    return secret


def _read_secret(directory: int) -> bytes | None:
    """Return the key; nothing if what is there cannot be trusted; None if nothing is there."""
    try:
        descriptor = os.open(_KEY_FILE, _OPEN_FLAGS, dir_fd=directory)
    except FileNotFoundError:
        return None
    except OSError:  # a symlink or the like
        return b""
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        private = status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) & 0o077 == 0
        if not (stat.S_ISREG(status.st_mode) and private):
            return b""
        secret = file.read(_KEY_SIZE + 1)
    return secret if len(secret) == _KEY_SIZE else b""


@contextmanager
def _temporary_file(directory: int, data: bytes) -> Iterator[str]:
    """Give the name of a new private file holding `data`; it is gone, or renamed, afterwards."""
    temporary = f"{_TEMPORARY}{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600, dir_fd=directory)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
        yield temporary
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=directory)
