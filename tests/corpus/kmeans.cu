// nearest of k centres in shared memory, and sums for the next step by atomics
extern "C" __global__ void kmeans(int n, int k, const float* points, const float* centres, int* label, float* sums,
                                  int* counts) {
  extern __shared__ float c[];
  for (int i = threadIdx.x; i < k * 3; i += blockDim.x) c[i] = centres[i];
  __syncthreads();
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float x = points[i], y = points[n + i], z = points[2 * n + i], best = 3e38f;
  int which = 0;
  for (int j = 0; j < k; j++) {
    float dx = x - c[3 * j], dy = y - c[3 * j + 1], dz = z - c[3 * j + 2];
    float d = __fadd_rn(__fadd_rn(__fmul_rn(dx, dx), __fmul_rn(dy, dy)), __fmul_rn(dz, dz));
    if (d < best) best = d, which = j;
  }
  label[i] = which;
  atomicAdd(&sums[which * 3], x);
  atomicAdd(&sums[which * 3 + 1], y);
  atomicAdd(&sums[which * 3 + 2], z);
  atomicAdd(&counts[which], 1);
}
