// blelloch scan
extern "C" __global__ void scan(const int* in, int* out, int n) {
  extern __shared__ int tmp[];
  int t = threadIdx.x, off = 1;
  tmp[2 * t] = 2 * t < n ? in[2 * t] : 0;
  tmp[2 * t + 1] = 2 * t + 1 < n ? in[2 * t + 1] : 0;
  int N = 2 * blockDim.x;
  for (int d = N >> 1; d > 0; d >>= 1) {
    __syncthreads();
    if (t < d) {
      int ai = off * (2 * t + 1) - 1, bi = off * (2 * t + 2) - 1;
      tmp[bi] += tmp[ai];
    }
    off *= 2;
  }
  if (t == 0) tmp[N - 1] = 0;
  for (int d = 1; d < N; d *= 2) {
    off >>= 1;
    __syncthreads();
    if (t < d) {
      int ai = off * (2 * t + 1) - 1, bi = off * (2 * t + 2) - 1;
      int x = tmp[ai];
      tmp[ai] = tmp[bi];
      tmp[bi] += x;
    }
  }
  __syncthreads();
  if (2 * t < n) out[2 * t] = tmp[2 * t];
  if (2 * t + 1 < n) out[2 * t + 1] = tmp[2 * t + 1];
}
