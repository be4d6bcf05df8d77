// Functions that stay functions: recursion, virtual calls, tables of function pointers, exit in a callee.
// Compile: nvcc -ptx -arch=sm_80 functions.cu -o functions.ptx
//          nvcc -ptx -arch=sm_75 -G functions.cu -o functions_debug.ptx
#include <cstdio>
__device__ __noinline__ int fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }

__device__ __noinline__ bool is_odd(unsigned n);
__device__ __noinline__ bool is_even(unsigned n) { return n == 0 ? true : is_odd(n - 1); }
__device__ __noinline__ bool is_odd(unsigned n) { return n == 0 ? false : is_even(n - 1); }

extern "C" __global__ void recursion(int* out) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t % 5 != 3) out[t] = fibonacci(t % 11) * 10 + is_even(t);
}

__device__ void quicksort(float* a, int low, int high) {
  int i = low, j = high;
  float pivot = a[(low + high) / 2];
  while (i <= j) {
    while (a[i] < pivot) i++;
    while (a[j] > pivot) j--;
    if (i <= j) { float x = a[i]; a[i] = a[j]; a[j] = x; i++; j--; }
  }
  if (low < j) quicksort(a, low, j);
  if (i < high) quicksort(a, i, high);
}
extern "C" __global__ void sort_rows(float* a, int n) { quicksort(a + threadIdx.x * n, 0, n - 1 - threadIdx.x % 3); }

struct Vec { double x, y; char tag; };
struct Shape {
  float size;
  __device__ Shape(float s) : size(s) {}
  __device__ virtual float area() const = 0;
  __device__ virtual Vec scaled(Vec v, float by) const { v.x *= by; v.y *= size; v.tag += 1; return v; }
};
struct Square : Shape {
  __device__ Square(float s) : Shape(s) {}
  __device__ float area() const override { return size * size; }
};
struct Circle : Shape {
  __device__ Circle(float s) : Shape(s) {}
  __device__ float area() const override { return 3.f * size * size; }
  __device__ Vec scaled(Vec v, float by) const override { v.x += by; v.tag += 2; return v; }
};
extern "C" __global__ void virtual_calls(float* areas, double* sums, int* tags) {
  int t = threadIdx.x;
  Square square(t + 1.f);
  Circle circle(t + 2.f);
  const Shape* shape = t % 3 == 1 ? (const Shape*)&circle : &square;
  areas[t] = shape->area();
  Vec v = {t * 0.5, t * 2.0, (char)t};
  v = shape->scaled(v, 3.f);
  sums[t] = v.x + v.y;
  tags[t] = v.tag;
}

typedef int (*Binary)(int, int);
__device__ int add(int a, int b) { return a + b; }
__device__ int subtract(int a, int b) { return a - b; }
__device__ int multiply(int a, int b) { return a * b; }
__device__ int leave(int a, int b) { if (a > b) asm volatile("exit;"); return 1000 + a; }
__device__ Binary table[4] = {add, subtract, multiply, leave};
extern "C" __global__ void pointers(int* out) {
  int t = threadIdx.x;
  out[t] = table[t % 4](t, 17);
}
extern "C" __global__ void wild(int* out, long long address) { out[threadIdx.x] = ((Binary)address)(1, 2); }

__device__ __noinline__ int deep(int n, int* p) { return n == 0 ? *p : deep(n + 1, p) * 3 + *p; }
extern "C" __global__ void bottomless(int* out) { out[threadIdx.x] = deep(threadIdx.x + 1, out); }
