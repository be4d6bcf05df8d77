// Batcher's odd-even merge sort of key-value pairs in shared memory
extern "C" __global__ void odd_even_merge(unsigned long long* pairs) {
  __shared__ unsigned long long s[512];
  int t = threadIdx.x, n = 512;
  unsigned long long* own = pairs + blockIdx.x * n;
  s[t] = own[t], s[t + 256] = own[t + 256];
  for (int p = 1; p < n; p *= 2)
    for (int k = p; k >= 1; k /= 2) {
      __syncthreads();
      for (int i = t; i < n; i += blockDim.x) {
        int j = i - k % p;
        bool first = j >= 0 && j % (2 * k) < k && i + k < n && i / (2 * p) == (i + k) / (2 * p);
        if (first && s[i] > s[i + k]) {
          unsigned long long x = s[i];
          s[i] = s[i + k], s[i + k] = x;
        }
      }
    }
  __syncthreads();
  own[t] = s[t], own[t + 256] = s[t + 256];
}
