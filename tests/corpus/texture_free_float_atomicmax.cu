// texture-free: float atomicMax trick, __int_as_float, isnan
extern "C" __global__ void texture_free_float_atomicmax(const float* x, int* c, float* m) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float v = x[i];
  if (isnan(v)) atomicAdd(&c[0], 1);
  else if (isinf(v)) atomicAdd(&c[1], 1);
  else if (v >= 0) atomicMax((int*)m, __float_as_int(v));
  if (signbit(v)) atomicAdd(&c[2], 1);
}
