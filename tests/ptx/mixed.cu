// Virtual recursion with printf, a shuffle, a barrier and a spin lock around it.
// Compile: nvcc -ptx -arch=sm_80 mixed.cu -o mixed.ptx
#include <cstdio>
__device__ int lock;
struct Op { __device__ virtual int run(int x, int d) const = 0; };
struct A : Op { __device__ int run(int x, int d) const override { if (d == 0) { printf("A %d\n", x); return x; } return run(x + 1, d - 1) * 2; } };
struct B : Op { __device__ int run(int x, int d) const override { int y = __shfl_xor_sync(__activemask(), x, 1); if (x % 7 == 3) return -x; return d ? run(x - 1, d - 1) + 1 : (int)(y * 0) + x; } };
extern "C" __global__ void mixed(int* out, int* total) {
  __shared__ int tile[128];
  A a; B b;
  int t = threadIdx.x;
  const Op* op = t % 2 ? (const Op*)&a : &b;
  tile[t] = op->run(t, t % 4);
  __syncthreads();
  int v = tile[127 - t];
  out[t] = v;
  bool done = false;
  while (!done) {
    if (atomicCAS(&lock, 0, 1) == 0) { *(volatile int*)total += op->run(t, 1) ; __threadfence(); atomicExch(&lock, 0); done = true; }
  }
}
