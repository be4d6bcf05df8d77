// half-precision product with float accumulation of pairs, register-blocked 2x2
#include <cuda_fp16.h>
extern "C" __global__ void matmul_half2(int n, const __half2* a, const __half2* bt, float* c) {
  int row = (blockIdx.y * blockDim.y + threadIdx.y) * 2, col = (blockIdx.x * blockDim.x + threadIdx.x) * 2;
  if (row >= n || col >= n) return;
  float sum[2][2] = {};
  for (int k = 0; k < n / 2; k++)
    for (int i = 0; i < 2; i++)
      for (int j = 0; j < 2; j++) {
        float2 p = __half22float2(__hmul2(a[(row + i) * n / 2 + k], bt[(col + j) * n / 2 + k]));
        sum[i][j] += p.x + p.y;
      }
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 2; j++) c[(row + i) * n + col + j] = sum[i][j];
}
