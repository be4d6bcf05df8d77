"""The object cache: what it gives back, and what it refuses."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from zcuda_async.jit.cache import CacheError, ObjectCache, cache_key, default_directory

KEY = "ab" * 32
OTHER = "cd" * 32


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def cache(directory: Path) -> ObjectCache:
    return ObjectCache.open(directory)


def entry(directory: Path, key: str = KEY) -> Path:
    return directory / f"{key}.zc"


def test_get_returns_what_put_stored_also_in_another_process(cache: ObjectCache, directory: Path) -> None:
    cache.put(KEY, b"object code")
    assert cache.get(KEY) == b"object code"
    assert ObjectCache.open(directory).get(KEY) == b"object code"


def test_put_replaces(cache: ObjectCache) -> None:
    cache.put(KEY, b"old")
    cache.put(KEY, b"new")
    assert cache.get(KEY) == b"new"


def test_a_missing_entry_is_none(cache: ObjectCache) -> None:
    assert cache.get(KEY) is None


def test_an_empty_payload_is_an_entry(cache: ObjectCache) -> None:
    cache.put(KEY, b"")
    assert cache.get(KEY) == b""


def test_directory_and_files_are_private(cache: ObjectCache, directory: Path) -> None:
    cache.put(KEY, b"x")
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()} == {
        "key": 0o600,
        f"{KEY}.zc": 0o600,
    }


@pytest.mark.parametrize("position", [0, 20, -1])
def test_a_damaged_entry_is_dropped(cache: ObjectCache, directory: Path, position: int) -> None:
    cache.put(KEY, b"object code")
    data = bytearray(entry(directory).read_bytes())
    data[position] ^= 1
    entry(directory).write_bytes(data)
    assert cache.get(KEY) is None
    assert not entry(directory).exists()


@pytest.mark.parametrize("length", [0, 5, 46, 50])
def test_a_truncated_entry_is_dropped(cache: ObjectCache, directory: Path, length: int) -> None:
    cache.put(KEY, b"object code")
    os.truncate(entry(directory), length)
    assert cache.get(KEY) is None
    assert not entry(directory).exists()


def test_an_entry_moved_to_another_key_is_dropped(cache: ObjectCache, directory: Path) -> None:
    cache.put(KEY, b"object code")
    entry(directory).rename(entry(directory, OTHER))
    assert cache.get(OTHER) is None


def test_an_entry_signed_with_another_key_is_dropped(cache: ObjectCache, directory: Path, tmp_path: Path) -> None:
    ObjectCache.open(tmp_path / "foreign").put(KEY, b"planted code")
    entry(directory).write_bytes(entry(tmp_path / "foreign").read_bytes())
    assert cache.get(KEY) is None


def test_a_symlink_is_not_followed(cache: ObjectCache, directory: Path, tmp_path: Path) -> None:
    cache.put(KEY, b"object code")
    entry(directory).rename(tmp_path / "elsewhere")
    entry(directory).symlink_to(tmp_path / "elsewhere")
    assert cache.get(KEY) is None
    assert (tmp_path / "elsewhere").exists()


def test_a_fifo_does_not_block(cache: ObjectCache, directory: Path) -> None:
    os.mkfifo(entry(directory))
    assert cache.get(KEY) is None


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o720, 0o702])
def test_a_directory_others_can_write_to_is_refused(directory: Path, mode: int) -> None:
    directory.mkdir()
    directory.chmod(mode)
    message = (
        rf"^object cache {directory} has mode {mode:04o}, so other users could plant code in it; "
        rf"run chmod 700 {directory}$"
    )
    with pytest.raises(CacheError, match=message):
        ObjectCache.open(directory)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_foreign_directory_is_refused(directory: Path) -> None:
    directory.mkdir(mode=0o700)
    os.chown(directory, 12345, -1)
    message = (
        rf"^object cache {directory} belongs to user 12345, not to user 0 who would run code from it; "
        r"set ZCUDA_CACHE_DIR to a directory of your own$"
    )
    with pytest.raises(CacheError, match=message):
        ObjectCache.open(directory)


def test_a_file_in_place_of_the_directory_is_refused(directory: Path) -> None:
    directory.write_text("")
    message = rf"^object cache {directory}: Not a directory; set ZCUDA_CACHE_DIR to a writable place$"
    with pytest.raises(CacheError, match=message):
        ObjectCache.open(directory)


def test_refusing_leaves_no_descriptor_open(directory: Path) -> None:
    directory.mkdir()
    directory.chmod(0o777)
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(CacheError):
        ObjectCache.open(directory)
    assert set(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_key_others_can_read_is_replaced_and_its_entries_dropped(
    cache: ObjectCache, directory: Path, mode: int
) -> None:
    cache.put(KEY, b"object code")
    secret = (directory / "key").read_bytes()
    (directory / "key").chmod(mode)
    reopened = ObjectCache.open(directory)
    assert (directory / "key").read_bytes() != secret
    assert reopened.get(KEY) is None


def test_a_short_key_is_replaced(directory: Path) -> None:
    ObjectCache.open(directory).close()
    (directory / "key").write_bytes(b"short")
    ObjectCache.open(directory).close()
    assert len((directory / "key").read_bytes()) == 32


def test_least_recently_used_entries_go_first(directory: Path) -> None:
    cache = ObjectCache.open(directory, limit=3000)
    keys = [f"{i:064x}" for i in range(4)]
    for age, key in enumerate(keys[:3]):
        cache.put(key, bytes(800))
        os.utime(entry(directory, key), (100 + age, 100 + age))
    cache.get(keys[0])  # used just now, so the second is the oldest
    cache.put(keys[3], bytes(800))
    assert [cache.get(key) is not None for key in keys] == [True, False, True, True]


def test_leftovers_of_crashed_writers_are_swept(directory: Path) -> None:
    cache = ObjectCache.open(directory)
    old, new = directory / ".tmp-old", directory / ".tmp-new"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (100, 100))
    cache.put(KEY, b"x")
    assert not old.exists()
    assert new.exists()


def test_a_directory_that_vanished_is_an_error_on_put_and_a_miss_on_get(cache: ObjectCache, directory: Path) -> None:
    (directory / "key").unlink()
    directory.rmdir()
    assert cache.get(KEY) is None
    message = rf"^object cache {directory}: No such file or directory; set ZCUDA_CACHE_DIR to a writable place$"
    with pytest.raises(CacheError, match=message):
        cache.put(KEY, b"x")


_HAMMER = """
import sys
from pathlib import Path
from zcuda_async.jit.cache import ObjectCache
cache = ObjectCache.open(Path(sys.argv[1]), limit=int(sys.argv[2]))
good = 0
for turn in range(200):
    key = f"{turn % 20:064x}"
    payload = cache.get(key)
    assert payload is None or payload == key.encode() * 20, "torn entry"
    good += payload is not None
    cache.put(key, key.encode() * 20)
print(good)
"""


def hammer(directory: Path, limit: int) -> list[int]:
    command = [sys.executable, "-c", _HAMMER, str(directory), str(limit)]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    hits = [int(process.communicate()[0]) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0]
    return hits


def test_processes_that_start_together_trust_each_other(directory: Path) -> None:
    assert all(hits >= 180 for hits in hammer(directory, limit=1 << 20))


def test_processes_that_evict_each_others_entries_see_whole_ones(directory: Path) -> None:
    hammer(directory, limit=20_000)
    assert not list(directory.glob(".tmp-*"))


def test_key_depends_on_text_kernel_and_block() -> None:
    keys = {
        cache_key("text"),
        cache_key("text", "k"),
        cache_key("text", "k", (1, 2, 3)),
        cache_key("text", "k", (3, 2, 1)),
        cache_key("textk", "", (1, 2, 3)),
    }
    assert len(keys) == 5
    assert cache_key("text", "k", (1, 2, 3)) == cache_key("text", "k", (1, 2, 3))


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"ZCUDA_CACHE_DIR": "/a/b", "XDG_CACHE_HOME": "/x"}, "/a/b"),
        ({"ZCUDA_CACHE_DIR": "", "XDG_CACHE_HOME": "/x"}, "/x/zcuda-async"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/home/someone"}, "/home/someone/.cache/zcuda-async"),
        ({"HOME": "/home/someone"}, "/home/someone/.cache/zcuda-async"),
    ],
)
def test_default_directory(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str) -> None:
    for name in ("ZCUDA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert default_directory() == Path(expected)
