// matmul tiled 16 float non-multiple
extern "C" __global__ void matmul_tiled_16_float_non(const float* A, const float* B, float* C, int M, int N,
                                                     int K) {
  __shared__ float a[16][16], b[16][16];
  int r = blockIdx.y * 16 + threadIdx.y, c = blockIdx.x * 16 + threadIdx.x;
  float s = 0;
  for (int t = 0; t < K; t += 16) {
    a[threadIdx.y][threadIdx.x] = r < M && t + threadIdx.x < K ? A[r * K + t + threadIdx.x] : 0;
    b[threadIdx.y][threadIdx.x] = c < N && t + threadIdx.y < K ? B[(t + threadIdx.y) * N + c] : 0;
    __syncthreads();
    for (int k = 0; k < 16; k++) s += a[threadIdx.y][k] * b[k][threadIdx.x];
    __syncthreads();
  }
  if (r < M && c < N) C[r * N + c] = s;
}
