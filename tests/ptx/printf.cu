// printf: all kinds of argument, strings in local memory, results.
// Compile: nvcc -ptx -arch=sm_80 printf.cu -o printf.ptx
#include <cstdio>
extern "C" __global__ void k(int n, const float* x) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) printf("thread %d of %s: %5.2f %lld %c %p %%\n", i, i & 1 ? "odd" : "even", x[i], (long long)i << 33, 'a' + i % 26, (void*)(size_t)i);
}
extern "C" __global__ void results(int* out) {
  int i = threadIdx.x;
  char text[8]; for (int j = 0; j < 7; j++) text[j] = 'a' + i + j; text[7] = 0;
  int r = i == 3 ? printf("no arguments\n") : printf("%s|%-10d|%*d|%x\n", text, i, i + 1, i, 0xbeef);
  out[i] = r;
}
