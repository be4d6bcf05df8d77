// keep what satisfies a condition, in order within a warp, warps in any order; and count runs
extern "C" __global__ void compact(int n, const int* in, int* out, int* count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
  bool keep = i < n && in[i] % 3 == 0;
  unsigned mask = __ballot_sync(0xffffffff, keep);
  int base = 0, leader = __ffs(mask) - 1;
  if (lane == leader) base = atomicAdd(count, __popc(mask));
  base = __shfl_sync(0xffffffff, base, max(leader, 0));
  if (keep) out[base + __popc(mask & ((1u << lane) - 1))] = in[i];
}
extern "C" __global__ void run_starts(int n, const int* in, int* is_start, int* runs) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int start = i < n && (i == 0 || in[i] != in[i - 1]);
  if (i < n) is_start[i] = start;
  int total = __syncthreads_count(start);
  if (threadIdx.x == 0) atomicAdd(runs, total);
}
