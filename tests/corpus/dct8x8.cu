// the discrete cosine transform of JPEG: 8x8 blocks, rows then columns, in shared memory
extern "C" __global__ void dct8x8(const float* in, float* out, int width) {
  __shared__ float s[8][9], c[8][8];
  int x = threadIdx.x, y = threadIdx.y;
  c[y][x] = (y ? 0.5f : 0.35355339059327373f) * cospif((2 * x + 1) * y / 16.0f);
  int base = (blockIdx.y * 8 + y) * width + blockIdx.x * 8 + x;
  s[y][x] = in[base];
  __syncthreads();
  float sum = 0;
  for (int k = 0; k < 8; k++) sum += s[y][k] * c[x][k];
  __syncthreads();
  s[y][x] = sum;
  __syncthreads();
  sum = 0;
  for (int k = 0; k < 8; k++) sum += s[k][x] * c[y][k];
  out[base] = sum;
}
