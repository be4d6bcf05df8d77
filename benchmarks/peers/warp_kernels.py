"""The kernels that Warp's CPU device can have; Warp reads the annotations, so they must not be strings."""

# ruff: noqa: UP018, RUF046 - float(0.0) is how Warp declares a variable that changes

import warp as wp


@wp.kernel
def saxpy(n: int, a: float, x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    if i < n:
        y[i] = a * x[i] + y[i]


@wp.func
def cnd(d: float):
    K = 1.0 / (1.0 + 0.2316419 * wp.abs(d))
    tail = 1.781477937 + K * (-1.821255978 + K * 1.330274429)
    c = 0.39894228 * wp.exp(-0.5 * d * d) * (K * (0.31938153 + K * (-0.356563782 + K * tail)))
    r = c
    if d > 0.0:
        r = 1.0 - c
    return r


@wp.kernel
def black_scholes(
    n: int,
    S: wp.array(dtype=float),
    X: wp.array(dtype=float),
    T: wp.array(dtype=float),
    r: float,
    v: float,
    call: wp.array(dtype=float),
    put: wp.array(dtype=float),
):
    i = wp.tid()
    if i >= n:
        return
    sq = wp.sqrt(T[i])
    d1 = (wp.log(S[i] / X[i]) + (r + 0.5 * v * v) * T[i]) / (v * sq)
    d2 = d1 - v * sq
    c1 = cnd(d1)
    c2 = cnd(d2)
    e = wp.exp(-r * T[i])
    call[i] = S[i] * c1 - X[i] * e * c2
    put[i] = X[i] * e * (1.0 - c2) - S[i] * (1.0 - c1)


@wp.kernel
def mandelbrot(w: int, h: int, x0: float, y0: float, dx: float, dy: float, limit: int, out: wp.array(dtype=int)):
    py, px = wp.tid()
    cx = x0 + float(px) * dx
    cy = y0 + float(py) * dy
    zx = float(0.0)
    zy = float(0.0)
    k = int(0)
    while k < limit and zx * zx + zy * zy < 4.0:
        t = zx * zx - zy * zy + cx
        zy = 2.0 * zx * zy + cy
        zx = t
        k += 1
    out[py * w + px] = k


@wp.kernel
def nbody(n: int, pos: wp.array(dtype=wp.vec4), acc: wp.array(dtype=wp.vec4), eps2: float):
    i = wp.tid()
    me = pos[i]
    ax = float(0.0)
    ay = float(0.0)
    az = float(0.0)
    for j in range(n):
        o = pos[j]
        rx = o[0] - me[0]
        ry = o[1] - me[1]
        rz = o[2] - me[2]
        inv = 1.0 / wp.sqrt(rx * rx + ry * ry + rz * rz + eps2)
        s = o[3] * inv * inv * inv
        ax += rx * s
        ay += ry * s
        az += rz * s
    acc[i] = wp.vec4(ax, ay, az, 0.0)


@wp.kernel
def matmul(n: int, A: wp.array(dtype=float), B: wp.array(dtype=float), C: wp.array(dtype=float)):
    i, j = wp.tid()
    s = float(0.0)
    for k in range(n):
        s += A[i * n + k] * B[k * n + j]
    C[i * n + j] = s


@wp.kernel
def heat2d(w: int, h: int, u: wp.array(dtype=wp.float64), v: wp.array(dtype=wp.float64), k: wp.float64):
    y, x = wp.tid()
    i = y * w + x
    c = u[i]
    left = c
    if x > 0:
        left = u[i - 1]
    right = c
    if x < w - 1:
        right = u[i + 1]
    top = c
    if y > 0:
        top = u[i - w]
    bottom = c
    if y < h - 1:
        bottom = u[i + w]
    v[i] = c + k * (left + right + top + bottom - wp.float64(4.0) * c)
