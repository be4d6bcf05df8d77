#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void gridsum(int *data, int *out, int n) {
  cg::grid_group g = cg::this_grid();
  int i = blockIdx.x*blockDim.x+threadIdx.x;
  for (int s = 1; s < n; s *= 2) {
     int v = i < n ? data[i] : 0; int w = i >= s && i < n ? data[i-s] : 0;
     g.sync();
     if (i < n) data[i] = v + w;
     g.sync();
  }
  if (i < n) out[i] = data[i];
}
extern "C" __global__ void count_votes(const int *in, int *out) {
  int t = threadIdx.x;
  int p = in[blockIdx.x*blockDim.x+t];
  int c = __syncthreads_count(p > 3);
  int a = __syncthreads_and(p > -5);
  int o = __syncthreads_or(p == 7);
  out[blockIdx.x*blockDim.x+t] = c*4 + (a?2:0) + (o?1:0);
}
extern "C" __global__ void vote_loop(const int *in, int *out, int n) {
  int t = threadIdx.x; int v = in[blockIdx.x*blockDim.x+t]; int rounds = 0;
  while (__syncthreads_or(v > 0)) { if (v > 0) v -= 3; rounds++; if (t == 5 && rounds == 2) break; }
  out[blockIdx.x*blockDim.x+t] = rounds*1000 + v;
}
extern "C" __global__ void warp_lock(int *lock, int *counter, int *order) {
  bool go = true;
  while (go) {
    if (atomicCAS(lock, 0, 1) == 0) { __threadfence(); int c = *(volatile int*)counter; *(volatile int*)counter = c + 1; order[c] = blockIdx.x*blockDim.x+threadIdx.x; __threadfence(); atomicExch(lock, 0); go = false; }
  }
}
extern "C" __global__ void spin_lock(int *lock, int *counter, int *order) {
  while (atomicCAS(lock, 0, 1) != 0) ;
  __threadfence();
  int c = *(volatile int*)counter; *(volatile int*)counter = c + 1; order[c] = blockIdx.x*blockDim.x+threadIdx.x;
  __threadfence();
  atomicExch(lock, 0);
}
extern "C" __global__ void flag_chain(volatile int *flags, int *out) { // each thread waits for the one before it, in one grid
  int i = blockIdx.x*blockDim.x+threadIdx.x;
  if (i > 0) while (flags[i-1] == 0) ;
  out[i] = i > 0 ? out[i-1] + i : 0;
  __threadfence();
  flags[i] = 1;
}
extern "C" __global__ void flag_chain_back(volatile int *flags, int *out, int n) { // waits for the *next* thread
  int i = blockIdx.x*blockDim.x+threadIdx.x;
  if (i < n-1) while (flags[i+1] == 0) ;
  out[i] = i < n-1 ? ((volatile int*)out)[i+1] + i : i;
  __threadfence();
  flags[i] = 1;
}
extern "C" __global__ void producer_consumer(const int *in, int *out, int rounds) { // 2 producers + 2 consumers warps, named barriers
  __shared__ int buf[2][64];
  int w = threadIdx.x / 64, t = threadIdx.x % 64;
  if (w == 0) {
    for (int r = 0; r < rounds; r++) {
      int b = r & 1;
      if (r >= 2) asm volatile("bar.sync %0, 128;" :: "r"(3 + b) : "memory");   // empty
      buf[b][t] = in[r*64 + t] * 2;
      asm volatile("bar.arrive %0, 128;" :: "r"(1 + b) : "memory");  // full
    }
  } else {
    for (int r = 0; r < rounds; r++) {
      int b = r & 1;
      asm volatile("bar.sync %0, 128;" :: "r"(1 + b) : "memory");
      out[r*64 + t] = buf[b][63 - t] + 1;
      if (r + 2 < rounds) asm volatile("bar.arrive %0, 128;" :: "r"(3 + b) : "memory");
    }
  }
}
extern "C" __global__ void half_exit(const int *in, int *out) {
  __shared__ int s[1024]; int t = threadIdx.x;
  s[t] = in[t];
  if (t % 2) return;
  __syncthreads();
  out[t] = s[t] + s[(t + 2) % blockDim.x & ~1];
}
extern "C" __global__ void matching(const int *in, unsigned *any, unsigned *all, unsigned long long *wide) {
  int t = threadIdx.x; int v = in[t]; int pred;
  any[t] = __match_any_sync(0xffffffff, v);
  unsigned m = __match_all_sync(0xffffffff, v >> 8, &pred);
  all[t] = m * 2 + pred;
  if (t % 32 < 20) wide[t] = __match_any_sync(0xfffff, (long long)v << 33 | 5);
}
extern "C" __global__ void deadlock(int *out) {
  if (threadIdx.x < 32) asm volatile("bar.sync 1, 64;"); else asm volatile("bar.sync 2, 64;");
  out[threadIdx.x] = 1;
}
extern "C" __global__ void shared_lock(int *out) {
  __shared__ int lock, count; if (threadIdx.x == 0) { lock = 0; count = 0; } __syncthreads();
  while (atomicCAS(&lock, 0, 1) != 0) __nanosleep(20);
  int c = *(volatile int *)&count; *(volatile int*)&count = c + 1;
  __threadfence_block(); atomicExch(&lock, 0);
  __syncthreads();
  int v = __shfl_xor_sync(0xffffffff, count + (int)threadIdx.x, 1);
  out[blockIdx.x*blockDim.x+threadIdx.x] = v;
}
extern "C" __global__ void half_waits(int *out) {  // warp 1 exits, warp 0 waits for 64 threads at barrier 3 for ever
  if (threadIdx.x >= 32) return;
  asm volatile("bar.sync 3, 96;");
  out[threadIdx.x] = 1;
}
extern "C" __global__ void apart_then_together(volatile int *flag, int *out) {
  // Lane 5 releases the others, which spin; then all meet in a shuffle.
  int lane = threadIdx.x % 32;
  if (lane == 5) { __threadfence(); flag[threadIdx.x / 32 + blockIdx.x * (blockDim.x / 32)] = 1; }
  else while (flag[threadIdx.x / 32 + blockIdx.x * (blockDim.x / 32)] == 0) ;
  int v = __shfl_sync(0xffffffff, threadIdx.x * 3, 5);
  unsigned b = __ballot_sync(0xffffffff, lane & 1);
  out[blockIdx.x * blockDim.x + threadIdx.x] = v * 2 + (b == 0xaaaaaaaau);
}
extern "C" __global__ void ticket(int *next, int *serving, int *order, int *count) {
  int mine = atomicAdd(next, 1);
  while (atomicAdd(serving, 0) != mine) __nanosleep(10);
  order[mine] = *(volatile int *)count; *(volatile int *)count = mine + 1;
  __threadfence();
  atomicAdd(serving, 1);
}
