// Compile: nvcc -ptx -rdc=true -arch=sm_80 link_other.cu -o link_other.ptx
#include <cstdio>
extern __device__ int offset;
__device__ int counter = 7;
__constant__ float factors[4] = {0.5f, 1.5f, 2.5f, 3.5f};
static __device__ __noinline__ int hidden(int x) { return x * 2; }
__device__ int twice(int x) { return hidden(x) + offset; }
__device__ int (*operation)(int) = twice;
__device__ int collatz(int n) { return n == 1 ? 0 : 1 + collatz(n % 2 ? 3 * n + 1 : n / 2); }
extern "C" __global__ void greet() { __shared__ int tile[4]; tile[threadIdx.x] = 3; printf("other %d\n", tile[threadIdx.x]); }
