// matvec warp per row
extern "C" __global__ void matvec_warp_per_row(const float4* A, const float4* x, float* y, int rows, int c4) {
  int r = (blockIdx.x * blockDim.x + threadIdx.x) / 32, l = threadIdx.x % 32;
  if (r >= rows) return;
  float s = 0;
  for (int j = l; j < c4; j += 32) {
    float4 a = A[r * c4 + j], b = x[j];
    s += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
  }
  for (int o = 16; o; o /= 2) s += __shfl_xor_sync(0xffffffff, s, o);
  if (l == 0) y[r] = s;
}
