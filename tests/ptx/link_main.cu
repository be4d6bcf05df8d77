// Two files for the linker: the kernels, and what they use of the other file.
// Compile: nvcc -ptx -rdc=true -arch=sm_80 link_main.cu -o link_main.ptx
#include <cstdio>
extern __device__ int counter;
extern __constant__ float factors[4];
extern __device__ int collatz(int n);
extern __device__ int (*operation)(int);
__device__ int offset = 100;
static __device__ int hidden(int x) { return x + 1; }
extern "C" __global__ void steps(int* out, float* scaled) {
  __shared__ int tile[64];
  int t = threadIdx.x;
  tile[t] = collatz(t + 1);
  __syncthreads();
  out[t] = tile[63 - t] + hidden(offset) + operation(t);
  scaled[t] = factors[t % 4] * t;
  atomicAdd(&counter, 1);
  if (t == 5) printf("main %d\n", t);
}
