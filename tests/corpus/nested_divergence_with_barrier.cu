// nested divergence with barrier in uniform loop, early exit of some threads
extern "C" __global__ void nested_divergence_with_barrier(int* o, int n) {
  __shared__ int s[128];
  int t = threadIdx.x;
  if (t >= n) return;
  s[t] = t;
  for (int r = 0; r < 5; r++) {
    __syncthreads();
    int v = s[(t + 1) % n];
    __syncthreads();
    if (v & 1)
      for (int j = 0; j < v % 5; j++) v += j;
    s[t] = v;
  }
  o[t] = s[t];
}
