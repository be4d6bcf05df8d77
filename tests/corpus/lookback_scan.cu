// single-pass scan: each block looks back at what the blocks before it have published
extern "C" __global__ void lookback_scan(int n, const int* in, int* out, int* ticket, volatile int* state,
                                         volatile int* aggregate, volatile int* prefix) {
  __shared__ int warp[32], block, before;
  if (threadIdx.x == 0) block = atomicAdd(ticket, 1);
  __syncthreads();
  int i = block * blockDim.x + threadIdx.x, lane = threadIdx.x % 32, w = threadIdx.x / 32;
  int v = i < n ? in[i] : 0;
  for (int o = 1; o < 32; o *= 2) {
    int u = __shfl_up_sync(0xffffffff, v, o);
    if (lane >= o) v += u;
  }
  if (lane == 31) warp[w] = v;
  __syncthreads();
  if (w == 0) {
    int s = lane < blockDim.x / 32 ? warp[lane] : 0;
    for (int o = 1; o < 32; o *= 2) {
      int u = __shfl_up_sync(0xffffffff, s, o);
      if (lane >= o) s += u;
    }
    warp[lane] = s;
  }
  __syncthreads();
  if (w) v += warp[w - 1];
  if (threadIdx.x == blockDim.x - 1) {
    aggregate[block] = v;
    __threadfence();
    state[block] = 1;
    int sum = 0;
    for (int b = block - 1; b >= 0;) {
      int s;
      while ((s = state[b]) == 0) {
      }
      __threadfence();
      if (s == 2) {
        sum += prefix[b];
        break;
      }
      sum += aggregate[b--];
    }
    prefix[block] = sum + v;
    __threadfence();
    state[block] = 2;
    before = sum;
  }
  __syncthreads();
  if (i < n) out[i] = v + before;
}
