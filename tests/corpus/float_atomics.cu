// maximum of floats and sum of doubles by compare-and-swap
__device__ void atomic_max(float* p, float v) {
  int old = __float_as_int(*p), seen;
  while (__int_as_float(old) < v && (seen = atomicCAS((int*)p, old, __float_as_int(v))) != old) old = seen;
}
__device__ void atomic_add(double* p, double v) {
  unsigned long long *a = (unsigned long long*)p, old = *a, seen;
  do {
    seen = old;
    old = atomicCAS(a, seen, __double_as_longlong(v + __longlong_as_double(seen)));
  } while (old != seen);
}
extern "C" __global__ void float_atomics(int n, const float* in, float* most, double* sum) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  atomic_max(most, in[i]);
  atomic_add(sum, in[i]);
}
