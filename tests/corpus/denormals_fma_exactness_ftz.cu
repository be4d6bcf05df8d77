// denormals, fma exactness, ftz off
extern "C" __global__ void denormals_fma_exactness_ftz(const float* a, const float* b, float* o) {
  int i = threadIdx.x;
  o[3 * i] = a[i] * b[i];
  o[3 * i + 1] = __fadd_rn(__fmul_rn(a[i], b[i]), a[i]);
  o[3 * i + 2] = a[i] / b[i];
}
