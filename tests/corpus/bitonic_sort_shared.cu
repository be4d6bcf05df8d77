// bitonic sort shared
extern "C" __global__ void bitonic_sort_shared(unsigned* d) {
  __shared__ unsigned s[1024];
  int t = threadIdx.x;
  s[t] = d[blockIdx.x * blockDim.x + t];
  for (int k = 2; k <= blockDim.x; k <<= 1)
    for (int j = k >> 1; j > 0; j >>= 1) {
      __syncthreads();
      int p = t ^ j;
      if (p > t) {
        bool up = (t & k) == 0;
        unsigned a = s[t], b = s[p];
        if ((a > b) == up) {
          s[t] = b;
          s[p] = a;
        }
      }
    }
  __syncthreads();
  d[blockIdx.x * blockDim.x + t] = s[t];
}
