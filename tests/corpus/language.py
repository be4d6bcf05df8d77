"""What C++ makes of kernels: constants, templates, switches, local arrays, pointers, calls."""

from __future__ import annotations

import numpy as np

from corpus.cases import In, Out, Run, case, f32, f64, i32, rng, u64


@case("constant table initialised, struct of arrays")
async def constant_table_initialised(run: Run) -> None:
    src = "constant_table_initialised"
    o, p = await run(src, 1, 40, [Out(np.zeros(40)), Out(np.zeros(40, i32))])
    tab = [(1, -2, 3, 4.5), (-10, 20, -30, 1e300), (7, 8, 9, -0.25), (2147483647, -32768, -128, 3.14)]
    assert np.allclose(
        o, [tab[i & 3][0] + tab[i & 3][1] * 2.0 + tab[i & 3][2] * 3.0 + tab[i & 3][3] for i in range(40)]
    )
    assert (p == [[1, 2, 3, 250, 255][i % 5] for i in range(40)]).all()


@case("templates, struct by value, lambda, functor")
async def templates_struct_by_value(run: Run) -> None:
    src = "templates_struct_by_value"
    dt = np.dtype([("n", i32), ("c", f32, 7), ("d", f64), ("m", f32), ("q", np.int16, 3)], align=True)
    b = np.zeros((), dt)
    b["n"] = 100
    b["c"] = np.arange(7) / 4
    b["d"] = 2.5
    b["m"] = 2
    b["q"] = [1, -2, 3]
    a = rng.random(100).astype(f32)
    (o,) = await run(src, 2, 64, [bytes(b.tobytes()), In(a), Out(np.zeros(100, f32))])
    i = np.arange(100)
    e = a * 8 + (1 + 2 * b["c"][i % 7]) + f32(2.5) + b["q"][i % 3]
    assert np.allclose(o, e, rtol=1e-06)
    (o,) = await run(src, 1, 10, [Out(np.zeros(10)), 1.5], kernel="_Z2tkIdEvPT_S0_")
    assert (o == 1.5).all()
    (o,) = await run(src, 1, 10, [Out(np.zeros(10, np.int16)), -7], kernel="_Z2tkIsEvPT_S0_")
    assert (o == -7).all()


@case("switch/VM interpreter divergent")
async def switch_vm_interpreter(run: Run) -> None:
    src = "switch_vm_interpreter"
    prog = [
        *[3, 5, 4, 3, 8, 0, 5, 1, 0, 1000, 2, 6, 3, 9, 1, 7][:0],
        3,
        2,
        0,
        7,
        1,
        4,
        3,
        0,
        5,
        1,
        5,
        8,
        3,
        9,
        2,
        6,
        12,
    ]

    def ref(i):
        st = [i]
        pc = 0

        def w(v):
            return (v + 2**31) % 2**32 - 2**31

        while pc < len(prog):
            op = prog[pc]
            pc += 1
            if op == 0:
                st.append(prog[pc])
                pc += 1
            elif op == 1:
                b = st.pop()
                st[-1] = w(st[-1] + b)
            elif op == 2:
                b = st.pop()
                st[-1] = w(st[-1] * b)
            elif op == 3:
                st.append(st[-1])
            elif op == 4:
                if st[-1] & 1:
                    pc += prog[pc]
                pc += 1
            elif op == 5:
                st[-1] = int(np.fmod(st[-1], 17))
            elif op == 6:
                st[-1] = int(st[-1] / -3)
            elif op == 7:
                st[-1], st[-2] = (st[-2], st[-1])
            elif op == 8:
                st[-1] = ~st[-1]
            elif op == 9:
                st[-1] >>= 2
            else:
                st[-1] = -999
        return st[0]

    (o,) = await run(src, 2, 96, [In(np.array(prog, i32)), len(prog), Out(np.zeros(192, i32))])
    e = [ref(i) for i in range(192)]
    assert list(o) == e, (o[:10], e[:10])


@case("switch jump table dense returns (brx)")
async def switch_jump_table_dense(run: Run) -> None:
    src = "switch_jump_table_dense"
    n = 512
    c = rng.integers(-1, 15, n).astype(i32)
    x = rng.integers(-(2**30), 2**30, n).astype(i32)
    x[:16] = 0
    (o,) = await run(src, 4, 128, [In(c), In(x), Out(np.zeros(n, i32))])

    def s(v):
        return (int(v) + 2**31) % 2**32 - 2**31

    def g(c, x):
        u = x % 2**32
        return s(
            {
                0: lambda: x * 3,
                1: lambda: x ^ 85,
                2: lambda: x - (x >> 3),
                3: lambda: bin(u).count("1"),
                4: lambda: 32 - u.bit_length(),
                5: lambda: (u & -u).bit_length(),
                6: lambda: int(f"{u:032b}"[::-1], 2),
                7: lambda: int(x / 7),
                8: lambda: int(np.fmod(x, 11)),
                9: lambda: -x,
                10: lambda: abs(x),
                11: lambda: x << 5,
                12: lambda: min(x, 100),
            }.get(c, lambda: -1)()
        )

    e = [g(int(a), int(b)) for a, b in zip(c, x, strict=False)]
    assert list(o) == e, [(int(c[i]), int(x[i]), int(o[i]), e[i]) for i in range(n) if o[i] != e[i]][:5]


@case("local arrays / insertion sort per thread / dynamic index")
async def local_arrays_insertion_sort(run: Run) -> None:
    src = "local_arrays_insertion_sort"
    a = rng.random((200, 25)).astype(f32)
    (o,) = await run(src, 2, 100, [Out(a), 25])
    assert (o == np.sort(a, 1)).all()


@case("recursion (fib)")
async def recursion_fib(run: Run) -> None:
    (o,) = await run("recursion_fib", 1, 12, [Out(np.zeros(12, i32))])
    assert list(o) == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89]


@case("function pointers")
async def function_pointers(run: Run) -> None:
    (o,) = await run("function_pointers", 1, 4, [Out(np.zeros(4, i32))])
    assert list(o) == [1, 2, 3, 6]


@case("virtual functions")
async def virtual_functions(run: Run) -> None:
    (o,) = await run("virtual_functions", 1, 4, [Out(np.zeros(4, i32))])
    assert list(o) == [0, 5, 2, 15]


@case("dynamic shared 96KiB opt-in")
async def dynamic_shared_96kib_opt_in(run: Run) -> None:
    src = "dynamic_shared_96kib_opt_in"
    (o,) = await run(src, 1, 256, [Out(np.zeros(1, i32))], shared=98304)
    assert o[0] == 24575 * 24576 // 2


@case("pointer to pointer / linked list / generic addressing of shared+local")
async def pointer_to_pointer_linked_list(run: Run) -> None:
    src = "pointer_to_pointer_linked_list"
    _g, o = await run(src, 1, 64, [Out(np.zeros(64 * 2, u64)), Out(np.zeros(64, i32)), 20])
    assert list(o) == [190 if t % 3 == 0 else 280 if t % 3 == 1 else 4 * t + 6 for t in range(64)]


@case("__ldg, float2, __restrict__, ld.global.nc vec, int4 stores")
async def ldg_float2_restrict_ld_global(run: Run) -> None:
    src = "ldg_float2_restrict_ld_global"
    a = rng.integers(0, 99, (50, 4)).astype(i32)
    f = rng.random((50, 2)).astype(f32)
    o, g = await run(src, 1, 50, [In(a), Out(np.zeros_like(a)), In(f), Out(np.zeros((50, 2)))])
    assert (o == a[:, ::-1]).all()
    assert (g == f[:, ::-1]).all()


@case("device malloc/new in kernel")
async def device_malloc_new_in_kernel(run: Run) -> None:
    (o,) = await run("device_malloc_new_in_kernel", 1, 4, [Out(np.zeros(4, i32))])
    assert list(o) == [0, 1, 2, 3]


@case("memcpy/memset in kernel, big struct local")
async def memcpy_memset_in_kernel_big(run: Run) -> None:
    (o,) = await run(
        "memcpy_memset_in_kernel_big", 1, 33, [In(np.arange(33 * 40, dtype=i32)), Out(np.zeros((33, 40), i32))]
    )
    e = np.arange(33 * 40, dtype=i32).reshape(33, 40).copy()
    e[:, 3:13] = -1
    e[:, 30:34] = [0, 1, 2, 3]
    assert (o == e).all()


@case("launch_bounds + reqntid")
async def launch_bounds_reqntid(run: Run) -> None:
    (o,) = await run("launch_bounds_reqntid", 1, 128, [Out(np.zeros(128, i32))])
    assert (o == np.arange(128)).all()
