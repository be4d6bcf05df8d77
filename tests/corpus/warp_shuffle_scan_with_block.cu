// warp-shuffle scan with block totals
__device__ int wscan(int v) {
  int lane = threadIdx.x & 31;
  for (int o = 1; o < 32; o <<= 1) {
    int u = __shfl_up_sync(0xffffffffu, v, o);
    if (lane >= o) v += u;
  }
  return v;
}
extern "C" __global__ void warp_shuffle_scan_with_block(const int* in, int* out, int n) {
  __shared__ int tot[32];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int v = i < n ? in[i] : 0;
  v = wscan(v);
  int w = threadIdx.x >> 5;
  if ((threadIdx.x & 31) == 31) tot[w] = v;
  __syncthreads();
  if (w == 0) {
    int t = threadIdx.x < blockDim.x / 32 ? tot[threadIdx.x] : 0;
    t = wscan(t);
    tot[threadIdx.x] = t;
  }
  __syncthreads();
  if (w) v += tot[w - 1];
  if (i < n) out[i] = v;
}
