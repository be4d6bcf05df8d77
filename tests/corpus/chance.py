"""Random numbers and finance."""

from __future__ import annotations

import math

import numpy as np

from corpus.problems import Launch, Problem, Rng, Want, ceil_div, floats, problem


@problem((64, 2, 20), (1, 1, 3), (100, 7, 50))
def xorwow(rng: Rng, block: int, blocks: int, draws: int) -> Problem:
    n = block * blocks
    states, out = rng.integers(1, 2**32, (n, 6), dtype=np.uint32), np.zeros((draws, n), np.uint32)
    x, counter, want = [states[:, j].copy() for j in range(5)], states[:, 5].copy(), np.empty_like(out)
    for j in range(draws):
        t = x[0] ^ (x[0] >> np.uint32(2))
        x = [*x[1:], (x[4] ^ (x[4] << np.uint32(4))) ^ (t ^ (t << np.uint32(1)))]
        counter += np.uint32(362437)
        want[j] = x[4] + counter
    after = np.stack([*x, counter], 1)
    return Problem([Launch("xorwow", blocks, block, (states, out, draws))], [Want(out, want), Want(states, after)])


@problem((64, 2, 20), (1, 1, 3), (100, 7, 50))
def mrg32k3a(rng: Rng, block: int, blocks: int, draws: int) -> Problem:
    n, m1, m2 = block * blocks, 4294967087, 4294944443
    states, out = rng.integers(1, m2, (n, 6), dtype=np.uint32), np.zeros((draws, n))
    s, want = [column.astype(np.int64) for column in states.T], np.empty_like(out)
    for j in range(draws):
        p, q = (1403580 * s[1] - 810728 * s[0]) % m1, (527612 * s[5] - 1370589 * s[3]) % m2
        s = [s[1], s[2], p, s[4], s[5], q]
        want[j] = np.where(p <= q, p - q + m1, p - q) * 2.328306549295728e-10
    after = np.stack(s, 1)
    return Problem([Launch("mrg32k3a", blocks, block, (states, out, draws))], [Want(out, want), Want(states, after)])


@problem((128, 2), (1024, 1), (32, 5))
def mersenne_twister(rng: Rng, block: int, rounds: int) -> Problem:
    """numpy's own MT19937 is the reference."""
    twister = np.random.MT19937(int(rng.integers(2**31)))
    key = twister.state["state"]["key"]
    twister.state = {"bit_generator": "MT19937", "state": {"key": key, "pos": 624}}
    state, out = key.astype(np.uint32), np.zeros(624 * rounds, np.uint32)
    want = twister.random_raw(624 * rounds)
    return Problem([Launch("mersenne_twister", 1, block, (state, out, rounds))], [Want(out, want)])


@problem((1000, 128), (1, 32), (100000, 256))
def sobol(rng: Rng, n: int, block: int) -> Problem:
    first = [1 << (31 - j) for j in range(32)]
    second = [1 << 31]
    for _ in range(31):
        second.append(second[-1] ^ (second[-1] >> 1))
    directions, out = np.array([first, second], np.uint32), np.zeros((2, n), np.uint32)
    want = np.zeros((2, n), np.uint32)
    gray = np.arange(n) ^ (np.arange(n) >> 1)
    for bit in range(32):
        want ^= np.where(gray >> bit & 1, directions[:, bit : bit + 1], np.uint32(0))
    return Problem([Launch("sobol", (ceil_div(n, block), 2), block, (directions, out, n))], [Want(out, want)])


@problem(1000, 1, 100000)
def box_muller(rng: Rng, n: int) -> Problem:
    uniform, normal = floats(rng, n, 2, low=1e-6), np.zeros((n, 2), np.float32)
    exact = uniform.astype(np.float64)
    radius, angle = np.sqrt(-2 * np.log(exact[:, 0])), 2 * np.pi * exact[:, 1]
    want = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1)
    return Problem([Launch("box_muller", ceil_div(n, 128), 128, (uniform, normal, n))], [Want(normal, want, atol=1e-5)])


@problem(500, 1, 20000)
def black_scholes_double(rng: Rng, n: int) -> Problem:
    spot, strike, years = rng.uniform(5, 30, n), rng.uniform(1, 100, n), rng.uniform(0.25, 10, n)
    call, put = np.zeros(n), np.zeros(n)

    def normal(x: float) -> float:
        return 0.5 * math.erfc(-x / math.sqrt(2))

    wants = []
    for s, k, t in zip(spot.tolist(), strike.tolist(), years.tolist(), strict=True):
        d1 = (math.log(s / k) + (0.02 + 0.045) * t) / (0.3 * math.sqrt(t))
        d2, discounted = d1 - 0.3 * math.sqrt(t), k * math.exp(-0.02 * t)
        wants.append((s * normal(d1) - discounted * normal(d2), discounted * normal(-d2) - s * normal(-d1)))
    want = np.array(wants)
    launch = Launch("black_scholes_double", ceil_div(n, 128), 128, (spot, strike, years, call, put, n, 0.02, 0.3))
    return Problem([launch], [Want(call, want[:, 0], atol=1e-12), Want(put, want[:, 1], atol=1e-12)])


@problem((64, 100, 5), (32, 1, 1), (256, 500, 3))
def binomial_option(rng: Rng, block: int, steps: int, options: int) -> Problem:
    spot, strike, price = (
        floats(rng, options, low=80, high=120),
        floats(rng, options, low=80, high=120),
        np.zeros(options, np.float32),
    )
    up = np.float32(math.exp(0.3 * math.sqrt(1 / steps)))
    grown, discount = math.exp(0.05 / steps), np.float32(math.exp(-0.05 / steps))
    probability = np.float32((grown - 1 / float(up)) / (float(up) - 1 / float(up)))
    i = np.arange(steps + 1)
    s, k = spot[:, None].astype(np.float64), strike[:, None].astype(np.float64)
    value = np.maximum(k - s * float(up) ** (2 * i - steps), 0)
    for step in range(steps - 1, -1, -1):
        hold = float(discount) * (float(probability) * value[:, 1:] + (1 - float(probability)) * value[:, :-1])
        value = np.maximum(hold, k - s * float(up) ** (2 * i[: step + 1] - step))
    args = (spot, strike, price, steps, up, probability, discount)
    launch = Launch("binomial_option", options, block, args, shared=4 * (steps + 1))
    return Problem([launch], [Want(price, value[:, 0], rtol=1e-3, atol=1e-3)])


@problem((1000, 16, 3), (1, 1, 1), (20000, 50, 7))
def asian_option(rng: Rng, paths: int, steps: int, blocks: int) -> Problem:
    normals, total = rng.standard_normal((steps, paths)).astype(np.float32), np.zeros(1)
    levels = np.exp(np.cumsum(0.001 + 0.05 * normals.astype(np.float64), 0))
    want = np.maximum(levels.mean(0) - 1.0, 0).sum()
    launch = Launch("asian_option", blocks, 128, (normals, paths, steps, 0.001, 0.05, 1.0, total))
    return Problem([launch], [Want(total, want, rtol=1e-4, atol=1e-4)])
