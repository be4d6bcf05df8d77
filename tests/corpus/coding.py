"""Hashes, ciphers, encodings, strings, bits."""

from __future__ import annotations

import base64 as reference_base64
import hashlib
import math
from collections.abc import Callable

import numpy as np

from corpus.cases import Array
from corpus.problems import Launch, Problem, Rng, Want, ceil_div, problem

WORD = 2**32 - 1


@problem((100, 64), (1, 32), (3000, 256))
def md5(rng: Rng, n: int, block: int) -> Problem:
    messages, digests = rng.integers(0, 256, (n, 64)).astype(np.uint8), np.zeros((n, 16), np.uint8)
    want = np.array([list(hashlib.md5(message.tobytes()).digest()) for message in messages])
    table = np.array([int(abs(math.sin(i + 1)) * 2**32) for i in range(64)], np.uint32)
    launch = Launch("md5", ceil_div(n, block), block, (messages, digests, n))
    return Problem([launch], [Want(digests, want)], {"md5_table": table})


def _double(x: int) -> int:
    return (x << 1 ^ (0x11B if x & 0x80 else 0)) & 0xFF


def _sbox() -> Array:
    """Inverse in GF(256), then an affine map."""
    table, p, q = [0x63] * 256, 1, 1
    for _ in range(255):
        p ^= _double(p)  # times 3; q is divided by 3
        for shift in (1, 2, 4):
            q = (q ^ q << shift) & 0xFF
        if q & 0x80:
            q ^= 0x09
        turned = [(q << s | q >> (8 - s)) & 0xFF for s in range(5)]
        table[p] = turned[0] ^ turned[1] ^ turned[2] ^ turned[3] ^ turned[4] ^ 0x63
    return np.array(table, np.uint8)


def _round_keys(key: bytes, sbox: Array) -> Array:
    words, constant = [list(key[i : i + 4]) for i in range(0, 16, 4)], 1
    for i in range(4, 44):
        word = words[-1]
        if i % 4 == 0:
            word = [int(sbox[b]) for b in word[1:] + word[:1]]
            word[0] ^= constant
            constant = _double(constant)
        words.append([a ^ b for a, b in zip(words[i - 4], word, strict=True)])
    return np.array(words, np.uint8).ravel()


def _encrypt(block: list[int], keys: Array, sbox: Array) -> list[int]:
    state = [b ^ int(k) for b, k in zip(block, keys, strict=False)]
    for number in range(1, 11):
        state = [int(sbox[state[(j + 4 * (j % 4)) % 16]]) for j in range(16)]
        if number < 10:
            mixed = []
            for c in range(0, 16, 4):
                q = state[c : c + 4]
                mixed += [
                    _double(q[r]) ^ _double(q[(r + 1) % 4]) ^ q[(r + 1) % 4] ^ q[(r + 2) % 4] ^ q[(r + 3) % 4]
                    for r in range(4)
                ]
            state = mixed
        state = [b ^ int(k) for b, k in zip(state, keys[16 * number : 16 * number + 16], strict=True)]
    return state


@problem((80, 64), (1, 32), (1000, 128))
def aes(rng: Rng, n: int, block: int) -> Problem:
    """The first block and the key are those of FIPS 197, appendix C.1."""
    sbox, keys = _sbox(), _round_keys(bytes(range(16)), _sbox())
    data, out = rng.integers(0, 256, (n, 16)).astype(np.uint8), np.zeros((n, 16), np.uint8)
    data[0] = [17 * i for i in range(16)]
    want = np.array([_encrypt(row.tolist(), keys, sbox) for row in data])
    assert bytes(want[0].tolist()).hex() == "69c4e0d86a7b0430d8cdb78070b4c55a"
    launch = Launch("aes", ceil_div(n, block), block, (data, out, n))
    return Problem([launch], [Want(out, want)], {"sbox": sbox, "round_keys": keys})


@problem(1000, 1, 2, 9999)
def base64(rng: Rng, n: int) -> Problem:
    data, out = rng.integers(0, 256, n).astype(np.uint8), np.zeros((ceil_div(n, 3), 4), np.uint8)
    want = np.frombuffer(reference_base64.b64encode(data.tobytes()), np.uint8).reshape(out.shape)
    return Problem([Launch("base64", ceil_div(n, 3 * 128), 128, (data, n, out))], [Want(out, want)])


def _words(rng: Rng, n: int, dtype: type = np.uint32) -> Array:
    """Random words of every length, and the edges."""
    bits = np.iinfo(dtype).bits
    words = rng.integers(0, 2**bits, n, dtype=dtype) >> rng.integers(0, bits, n).astype(dtype)
    words[:4] = [0, 1, 2**bits - 1, 2 ** (bits - 1)]
    return words


def _bits(x: int, y: int) -> list[int]:
    s, wide, joined = y & 31, min(y & 63, 32), y << 32 | x
    both = x.to_bytes(4, "little") + y.to_bytes(4, "little")
    chosen = []
    for position in range(0, 16, 4):
        selector = y >> position & 15
        byte = both[selector & 7]
        chosen.append((0xFF if byte & 0x80 else 0) if selector & 8 else byte)
    return [
        int(f"{x:032b}"[::-1], 2),
        32 - x.bit_length(),
        (x & -x).bit_length(),
        x.bit_count(),
        int.from_bytes(bytes(chosen), "little"),
        (joined << s) >> 32 & WORD,
        joined >> s & WORD,
        (joined << wide) >> 32 & WORD,
        joined >> wide & WORD,
        x * y >> 32,
        (abs(x - y) + 7) & WORD,
        (x + y) >> 1 ^ (x + y + 1) >> 1,
    ]


@problem(600, 5000)
def bit_tricks(rng: Rng, n: int) -> Problem:
    """__byte_perm uses three bits of each selector, so bit 3 is cleared in `b`'s lower half."""
    a, b, out = _words(rng, n), _words(rng, n)[::-1] & np.uint32(0xFFFF7777), np.zeros((n, 12), np.uint32)
    want = np.array([_bits(int(x), int(y)) for x, y in zip(a, b, strict=True)])
    return Problem([Launch("bit_tricks", ceil_div(n, 96), 96, (a, b, out, n))], [Want(out, want)])


@problem(600, 5000)
def bit_tricks_long(rng: Rng, n: int) -> Problem:
    a, out, top = _words(rng, n, np.uint64), np.zeros((n, 6), np.uint64), 2**64

    def signed(value: int) -> int:
        value %= top
        return value - top if value >> 63 else value

    want = []
    for x in a.tolist():
        high = signed(x) * signed(3 * x) >> 64
        row = [int(f"{x:064b}"[::-1], 2), 64 - x.bit_length(), (x & -x).bit_length(), x.bit_count()]
        want.append([*row, x * (x ^ 0x123456789ABCDEF) >> 64, high % top])
    return Problem(
        [Launch("bit_tricks_long", ceil_div(n, 96), 96, (a, out, n))], [Want(out, np.array(want, np.uint64))]
    )


@problem(600, 5000)
def packed(rng: Rng, n: int) -> Problem:
    a, b, out = _words(rng, n), _words(rng, n)[::-1].copy(), np.zeros((n, 8), np.uint32)
    x, y = (word.view(np.uint8).reshape(n, 4).astype(np.int64) for word in (a, b))
    sx, sy = (word.view(np.int8).reshape(n, 4).astype(np.int64) for word in (a, b))
    hx, hy = (word.view(np.int16).reshape(n, 2).astype(np.int64) for word in (a, b))

    def join(values: Array, kind: type) -> Array:
        return values.astype(kind).view(np.uint32).ravel()

    columns = [
        join(x + y, np.uint8),
        join(np.maximum(x - y, 0), np.uint8),
        join(np.abs(x - y), np.uint8),
        join(np.maximum(sx, sy), np.int8),
        join(np.where(x > y, 255, 0), np.uint8),
        np.abs(x - y).sum(1).astype(np.uint32),
        join(np.clip(hx + hy, -32768, 32767), np.int16),
        join((x + y + 1) >> 1, np.uint8),
    ]
    return Problem([Launch("packed", ceil_div(n, 96), 96, (a, b, out, n))], [Want(out, np.stack(columns, 1))])


@problem((100, 12), (500, 32))
def levenshtein(rng: Rng, n: int, width: int) -> Problem:
    words = rng.integers(97, 100, (40, width)).astype(np.uint8)
    for word in words:
        word[rng.integers(0, width + 1) :] = 0
    pairs, out = rng.integers(0, 40, (n, 2)).astype(np.int32), np.zeros(n, np.int32)

    def distance(a: bytes, b: bytes) -> int:
        row = list(range(len(b) + 1))
        for y, letter in enumerate(a, 1):
            fresh = [y]
            for j, other in enumerate(b):
                fresh.append(min(row[j + 1] + 1, fresh[j] + 1, row[j] + (letter != other)))
            row = fresh
        return row[-1]

    texts = [word.tobytes().rstrip(b"\0") for word in words]
    want = [distance(texts[i], texts[j]) for i, j in pairs]
    launch = Launch("levenshtein", ceil_div(n, 64), 64, (words, width, pairs, out, n))
    return Problem([launch], [Want(out, want)])


@problem((50, 4), (1, 1), (128, 10))
def smith_waterman(rng: Rng, n: int, pairs: int) -> Problem:
    a, b = (rng.integers(0, 4, (pairs, n)).astype(np.uint8) for _ in range(2))
    best, want = np.zeros(pairs, np.int32), []
    for one, other in zip(a, b, strict=True):
        table = np.zeros((n + 1, n + 1), int)
        for y in range(n):
            for x in range(n):
                corner = table[y, x] + (3 if one[y] == other[x] else -2)
                table[y + 1, x + 1] = max(0, corner, table[y, x + 1] - 4, table[y + 1, x] - 4)
        want.append(table.max())
    return Problem([Launch("smith_waterman", pairs, 128, (a, b, n, best))], [Want(best, want)])


@problem()
def varint(rng: Rng) -> Problem:
    numbers, out, total = _words(rng, 32), np.zeros(160, np.uint8), np.zeros(1, np.int32)
    want = bytearray()
    for number in numbers.tolist():
        while number > 127:
            want.append(number & 127 | 128)
            number >>= 7
        want.append(number)
    wants = [Want(out, list(want.ljust(160, b"\0"))), Want(total, len(want))]
    return Problem([Launch("varint", 1, 32, (numbers, out, total))], wants)


@problem(100, 1000)
def power_mod(rng: Rng, n: int) -> Problem:
    make: Callable[[], Array] = lambda: _words(rng, n, np.uint64)  # noqa: E731
    base, exponent, modulus, out = make(), make(), np.maximum(make()[::-1], np.uint64(1)), np.zeros(n, np.uint64)
    want = [pow(b, e, m) for b, e, m in zip(base.tolist(), exponent.tolist(), modulus.tolist(), strict=True)]
    launch = Launch("power_mod", ceil_div(n, 64), 64, (base, exponent, modulus, out, n))
    return Problem([launch], [Want(out, np.array(want, np.uint64))])
