// Source of features.ptx: nvcc -ptx -arch=compute_80 -O3 features.cu
#include <cassert>
#include <cooperative_groups.h>
#include <cstdio>
#include <cuda_fp16.h>
namespace cg = cooperative_groups;

struct Point { int a; double b; char c[5]; };
typedef int (*Function)(int);

__constant__ Point table[2] = {{1, 2.0, {'a'}}, {3, 4.0, "hell"}};
__device__ double grid[3][2] = {{1, 2}, {3}, {4, 5}};
__device__ const char *message = "hello\n";
__managed__ int managed;
__device__ int triple(int x) { return x * 3; }
__device__ int less(int x) { return x - 7; }
__device__ Function functions[2] = {triple, less};

__device__ __noinline__ Point moved(Point p, int by) { p.a += by; return p; }

__global__ void by_value(Point p, float4 v, double *out) {
    out[threadIdx.x] = p.b + p.a + p.c[threadIdx.x % 5] + v.x + grid[threadIdx.x % 3][1] + table[managed & 1].b;
}
__global__ void calls(Point *p, int *i) {
    p[threadIdx.x] = moved(p[threadIdx.x], i[0]);
    i[1] = functions[i[2] & 1](i[3]);
    printf("%d %f %s\n", i[0], p->b, message);
    assert(i[0] > 3);
}
__global__ void atomics(int *a, float *f, unsigned long long *l) {
    __shared__ int sum;
    atomicAdd(a, 1); atomicCAS(a, 8, 9); atomicAdd(f, 1.0f); atomicMax(l, 2ull); atomicAdd_system(a, 1);
    atomicAdd(&sum, 1);
    __syncthreads();
    a[1] = sum;
}
__global__ void __launch_bounds__(256, 2) warps(int *a, float *f) {
    auto block = cg::this_thread_block();
    int x = __shfl_down_sync(~0u, a[block.thread_rank()], 1, 16) + __ballot_sync(~0u, a[0] > 3);
    x += __syncthreads_count(x > 1);
    x += __match_any_sync(~0u, x) + __popc(x) + __reduce_add_sync(~0u, x);
    switch (x) { case 0: x = 5; break; case 1: x = a[1]; break; case 2: x = a[2] * 3; break; default: x = ~x; }
    f[block.thread_rank()] = x;
}
__global__ void halves(__half2 *h, float *f) {
    h[1] = __hfma2(h[0], h[0], h[1]);
    if (__hlt(h[1].x, h[1].y)) f[0] = __half2float(h[1].x) + sqrtf(f[1]) / f[2];
}
