// radix-2 FFT of 1024 points in shared memory, one block a transform
extern "C" __global__ void fft(const float2* in, float2* out) {
  __shared__ float2 s[1024];
  const int n = 1024;
  for (int i = threadIdx.x; i < n; i += blockDim.x) s[__brev(i) >> 22] = in[blockIdx.x * n + i];
  for (int half = 1; half < n; half *= 2) {
    __syncthreads();
    for (int i = threadIdx.x; i < n / 2; i += blockDim.x) {
      int j = i % half, a = (i / half) * half * 2 + j, b = a + half;
      float c, d;
      sincospif(-(float)j / half, &d, &c);
      float2 u = s[a], v = s[b];
      float2 t = make_float2(v.x * c - v.y * d, v.x * d + v.y * c);
      s[a] = make_float2(u.x + t.x, u.y + t.y);
      s[b] = make_float2(u.x - t.x, u.y - t.y);
    }
  }
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[blockIdx.x * n + i] = s[i];
}
