// a whole Haar wavelet transform of 2 * blockDim values in shared memory
extern "C" __global__ void haar(const float* in, float* out) {
  extern __shared__ float s[];
  int t = threadIdx.x, n = 2 * blockDim.x;
  s[t] = in[blockIdx.x * n + t];
  s[t + n / 2] = in[blockIdx.x * n + t + n / 2];
  for (int m = n / 2; m; m /= 2) {
    __syncthreads();
    float a = 0, d = 0;
    if (t < m) a = (s[2 * t] + s[2 * t + 1]) * 0.5f, d = (s[2 * t] - s[2 * t + 1]) * 0.5f;
    __syncthreads();
    if (t < m) s[t] = a, out[blockIdx.x * n + m + t] = d;
  }
  if (t == 0) out[blockIdx.x * n] = s[0];
}
