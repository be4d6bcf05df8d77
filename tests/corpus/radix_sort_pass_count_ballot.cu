// radix sort pass (count, ballot rank)
extern "C" __global__ void radix_sort_pass_count_ballot(const unsigned* in, unsigned* out, int n) {
  __shared__ unsigned a[1024], zs;
  int t = threadIdx.x;
  unsigned v = t < n ? in[t] : ~0u;
  __shared__ int wsum[32];
  for (int b = 0; b < 32; b++) {
    int bit = (v >> b) & 1;
    unsigned m = __ballot_sync(~0u, !bit);
    int lane = t & 31, w = t >> 5;
    int r = __popc(m & ((1u << lane) - 1));
    if (lane == 0) wsum[w] = __popc(m);
    __syncthreads();
    int base = 0, tot = 0;
    for (int i = 0; i < (blockDim.x >> 5); i++) {
      if (i < w) base += wsum[i];
      tot += wsum[i];
    }
    int zr = base + r;
    int pos = bit ? tot + t - zr : zr;
    a[pos] = v;
    __syncthreads();
    v = a[t];
    __syncthreads();
  }
  if (t < n) out[t] = v;
}
