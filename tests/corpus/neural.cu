// softmax and layer normalisation of rows, a block a row
#include <cuda_fp16.h>
__device__ float block_reduce(float v, bool take_max) {
  __shared__ float s[32];
  for (int o = 16; o; o /= 2) {
    float u = __shfl_xor_sync(0xffffffff, v, o);
    v = take_max ? fmaxf(v, u) : v + u;
  }
  if (threadIdx.x % 32 == 0) s[threadIdx.x / 32] = v;
  __syncthreads();
  v = s[0];
  for (int i = 1; i < blockDim.x / 32; i++) v = take_max ? fmaxf(v, s[i]) : v + s[i];
  __syncthreads();
  return v;
}
extern "C" __global__ void softmax(int n, const float* in, float* out) {
  const float* row = in + blockIdx.x * n;
  float top = -INFINITY, sum = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) top = fmaxf(top, row[i]);
  top = block_reduce(top, true);
  for (int i = threadIdx.x; i < n; i += blockDim.x) sum += __expf(row[i] - top);
  sum = block_reduce(sum, false);
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[blockIdx.x * n + i] = __expf(row[i] - top) / sum;
}
extern "C" __global__ void layernorm(int n, const __half2* in, const __half2* gain, __half2* out) {
  const __half2* row = in + blockIdx.x * n;
  float sum = 0, squares = 0;
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    float2 v = __half22float2(row[i]);
    sum += v.x + v.y;
    squares += v.x * v.x + v.y * v.y;
  }
  float mean = block_reduce(sum, false) / (2 * n), square = block_reduce(squares, false) / (2 * n);
  __half2 shift = __float2half2_rn(-mean), scale = __float2half2_rn(rsqrtf(square - mean * mean + 1e-5f));
  for (int i = threadIdx.x; i < n; i += blockDim.x)
    out[blockIdx.x * n + i] = __hmul2(__hmul2(__hadd2(row[i], shift), scale), gain[i]);
}
