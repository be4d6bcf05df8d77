// dot product shuffles + atomicAdd float/double
extern "C" __global__ void dot_product_shuffles_atomicadd(const float* a, const float* b, double* out,
                                                          int n) {
  double s = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    s += (double)a[i] * b[i];
  for (int o = 16; o; o >>= 1) s += __shfl_down_sync(~0u, s, o);
  __shared__ double p[32];
  if (!(threadIdx.x & 31)) p[threadIdx.x >> 5] = s;
  __syncthreads();
  if (threadIdx.x < 32) {
    s = threadIdx.x < blockDim.x / 32 ? p[threadIdx.x] : 0;
    for (int o = 16; o; o >>= 1) s += __shfl_xor_sync(~0u, s, o);
    if (!threadIdx.x) atomicAdd(out, s);
  }
}
