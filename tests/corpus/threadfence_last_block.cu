// threadfence last block reduction, volatile
__device__ unsigned cnt = 0;
__device__ volatile float part[64];
extern "C" __global__ void threadfence_last_block(const float* d, float* o, int n) {
  __shared__ float s[128];
  __shared__ bool last;
  float v = 0;
  for (int i = blockIdx.x * 128 + threadIdx.x; i < n; i += gridDim.x * 128) v += d[i];
  s[threadIdx.x] = v;
  __syncthreads();
  for (int k = 64; k; k >>= 1) {
    if (threadIdx.x < k) s[threadIdx.x] += s[threadIdx.x + k];
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    part[blockIdx.x] = s[0];
    __threadfence();
    last = atomicInc(&cnt, gridDim.x) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    float t = 0;
    for (int i = 0; i < gridDim.x; i++) t += part[i];
    *o = t;
    cnt = 0;
  }
}
