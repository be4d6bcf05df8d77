// function pointers
typedef int (*F)(int);
__device__ int a(int x) { return x + 1; }
__device__ int b(int x) { return x * 2; }
__device__ F t[2] = {a, b};
extern "C" __global__ void function_pointers(int* o) { o[threadIdx.x] = t[threadIdx.x & 1](threadIdx.x); }
