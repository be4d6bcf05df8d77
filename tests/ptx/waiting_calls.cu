// Functions that stay functions and wait: barriers and spin loops in recursion and behind pointers.
// nvcc -arch=sm_90 -ptx waiting_calls.cu
// A call through a pointer is compiled for all functions of its signature, so each kernel's has one of its own.
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

// Halves the numbers until one is left; a barrier before and behind each call.
__device__ __noinline__ int total(int *s, int n, int *depth) {
  if (n == 1) { *depth = 0; return s[0]; }
  int half = (n + 1) / 2, t = threadIdx.x;
  if (t < n - half) s[t] += s[t + half];
  __syncthreads();
  int below = 0, r = total(s, half, &below);
  __syncthreads();
  if (t < half) s[t] += r;
  __syncthreads();
  *depth = below + 1;
  return r;
}
extern "C" __global__ void recursive_total(const int *in, int *out) {
  extern __shared__ int s[];
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t, depth;
  s[t] = in[i];
  __syncthreads();
  int r = total(s, blockDim.x - blockIdx.x, &depth);
  __syncthreads();
  out[i] = r * 3 + s[t] + depth * 1000000;
}

typedef int (*Phase)(int *, int);
__device__ int rotate(int *s, int by) {
  int v = s[(threadIdx.x + by) % blockDim.x];
  __syncthreads();
  s[threadIdx.x] = v;
  __syncthreads();
  return v;
}
__device__ int vote(int *s, int by) { return __syncthreads_count(s[threadIdx.x] > by) * 10 + (__syncthreads_or(s[threadIdx.x] == by) ? 1 : 0); }
__device__ int split(int *s, int by) {  // two barriers that threads meet at
  int t = threadIdx.x, v = 0;
  if (t % 2) { s[t] += by; __syncthreads(); v = s[t - 1]; } else { s[t] -= by; __syncthreads(); v = t + 1 < blockDim.x ? s[t + 1] : 7; }
  __syncthreads();
  return v;
}
__device__ int plain(int *s, int by) { return s[threadIdx.x] + by; }
__device__ Phase phases[4] = {rotate, vote, split, plain};
extern "C" __global__ void pipeline(const int *in, int *out, const int *plan, int steps, int used) {
  extern __shared__ int s[];
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t, sum = 0;
  s[t] = in[i];
  __syncthreads();
  if (t >= used) return;  // whoever has exited is not waited for
#pragma unroll 1
  for (int k = 0; k < steps; k++) sum = sum * 5 + phases[plan[(k + blockIdx.x) % steps]](s, k + 1);
  out[i] = sum + s[t];
}

// Threads meet at barriers in different functions.
__device__ int left(int *s, int by, int) {
  __syncthreads();
  int v = s[(threadIdx.x + by) % blockDim.x];
  __syncthreads();
  s[threadIdx.x] = v * 3;
  __syncthreads();
  return v;
}
__device__ int right(int *s, int by, int) {
  int v = s[(threadIdx.x + blockDim.x - by) % blockDim.x];
  __syncthreads();
  v += by;
  __syncthreads();
  s[threadIdx.x] += v;
  __syncthreads();
  return v;
}
__device__ int both(int *s, int by, int) { return left(s, by, 0) * 5 + right(s, by, 0); }
__device__ int again(int *s, int by, int n) {  // three barriers at every level
  int v = left(s, by, 0);
  return n > 0 ? v + again(s, by, n - 1) : v;
}
__device__ int none(int *s, int by, int n) { return by + n; }
typedef int (*Side)(int *, int, int);
__device__ Side sides[5] = {left, right, both, again, none};
extern "C" __global__ void apart(const int *in, int *out, const int *which) {
  extern __shared__ int s[];
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
  s[t] = in[i];
  __syncthreads();
  int sum = 0, k = which[t];
  if (k < 5) sum = sides[k](s, 1, k == 3 ? t % 3 : 0);
  else if (k == 5) {
    __syncthreads();
    sum = s[(t + 3) % blockDim.x];
    __syncthreads();
    s[t] -= 1;
    __syncthreads();
  } else if (k == 6) {
    sum = right(s, 2, 0) + sides[t % 2](s, 1, 0);
  } else return;
  // Whoever has met fewer than nine barriers, three at a time, meets the rest here, one by one.
  int met = k == 2 || k == 6 ? 2 : k == 3 ? 1 + t % 3 : k == 4 ? 0 : 1;
#pragma unroll 1
  for (int n = met * 3; n < 9; n++) __syncthreads();
  out[i] = sum * 7 + s[t];
}

struct Worker { int *s; __device__ virtual int work(short n) { __syncthreads(); return s[threadIdx.x] * n; } };
struct Swapper : Worker {
  __device__ int work(short n) override {
    int kept[4];
    for (int i = 0; i < 4; i++) kept[i] = s[(threadIdx.x + i * n) % blockDim.x];
    __syncthreads();
    s[threadIdx.x] = kept[n % 4];
    int below = n > 0 ? Worker::work(n) + work(n - 1) : 0;
    __syncthreads();
    return below + kept[(n + 1) % 4] + s[threadIdx.x];
  }
};
extern "C" __global__ void virtual_work(const int *in, int *out, int n) {
  extern __shared__ int s[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  Worker plain; Swapper swapper;
  plain.s = swapper.s = s;
  s[threadIdx.x] = in[i];
  __syncthreads();
  Worker *w = (n + blockIdx.x) % 2 ? &plain : (Worker *)&swapper;
  out[i] = w->work(n);
}

// Blocks wait for the one behind them.
typedef int (*Waiter)(int, volatile int *);
__device__ int wait_for(int value, volatile int *flag) {
  while (*flag < value) __threadfence();
  return *flag;
}
__device__ int no_wait(int value, volatile int *flag) { return value; }
__device__ Waiter waiters[2] = {wait_for, no_wait};
extern "C" __global__ void chain(int *flags, int *out, int kind) {
  int b = blockIdx.x, got = 0;
  if (b + 1 < gridDim.x) got = waiters[kind](b + 1, flags + b + 1);
  if (threadIdx.x == 0) { __threadfence(); atomicExch(flags + b, got + 1 > b ? got + 1 : b); }
  out[b * blockDim.x + threadIdx.x] = got;
}

// Neighbours wait for each other, one in a function, the other in the kernel.
typedef int (*Ping)(volatile int *);
__device__ int ping(volatile int *f) {
  f[0] = 1;
  while (f[1] == 0) __threadfence();
  f[0] = 2;
  return f[1];
}
__device__ int pong(volatile int *f) { return f[0]; }
__device__ Ping pings[2] = {ping, pong};
extern "C" __global__ void neighbours(int *out, int kind) {
  __shared__ volatile int flags[256];
  int t = threadIdx.x, got;
  flags[t] = 0;
  __syncthreads();
  if (t % 2 == 0) got = pings[kind](flags + t) * 10;
  else {
    while (flags[t - 1] == 0) __threadfence();
    flags[t] = t;
    while (flags[t - 1] == 1) __threadfence();
    got = flags[t - 1];
  }
  out[blockIdx.x * blockDim.x + t] = got;
}

// Teams of two warps, at barriers for 64 threads whose numbers are computed; then one warp waits for another's arrival.
typedef int (*Team)(int *, short, short);
__device__ int meet(int *s, short team, short) {
  asm volatile("bar.sync %0, 64;" ::"r"(team + 1) : "memory");
  int v = s[threadIdx.x ^ 32];
  asm volatile("bar.sync %0, 64;" ::"r"(team + 1) : "memory");
  return v;
}
__device__ int hand_over(int *s, short team, short first) {
  int t = threadIdx.x, v = s[t] * 2;
  if (team == 0) {
    asm volatile("bar.sync 5, 128;" ::: "memory");
    v = s[t ^ 1];
  } else asm volatile("bar.arrive 5, 128;" ::: "memory");
  return v;
}
__device__ Team meetings[2] = {meet, hand_over};
extern "C" __global__ void teams(const int *in, int *out, int gone) {
  extern __shared__ int s[];
  int t = threadIdx.x, i = blockIdx.x * blockDim.x + t, sum = t / 64;
  s[t] = in[i];
  if (t == gone) return;
#pragma unroll 1
  for (int k = 0; k < 2; k++) sum += meetings[k](s, t / 64, t / 32) * (k ? 1 : 100);
  out[i] = sum;
}

// A lock that is taken at every level of a recursion.
__device__ __noinline__ int locked(int *lock, int *counter, int n) {
  if (n == 0) return 0;
  int ticket = -1;
  bool done = false;
  while (!done) {
    if (atomicCAS(lock, 0, 1) == 0) {
      __threadfence();
      ticket = *(volatile int *)counter;
      *(volatile int *)counter = ticket + n;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
  return ticket + locked(lock, counter, n - 1) * 2;
}
extern "C" __global__ void locks(int *lock, int *out, int n) {
  int r = locked(lock, lock + 1, n + threadIdx.x % 3);
  out[blockIdx.x * blockDim.x + threadIdx.x] = r >= 0;
}

// The cluster's barrier, at every level.
__device__ __noinline__ int around(int *mine, int n) {
  cg::cluster_group c = cg::this_cluster();
  if (n == 0) return mine[threadIdx.x];
  int v = c.map_shared_rank(mine, (c.block_rank() + 1) % c.num_blocks())[threadIdx.x];
  c.sync();
  mine[threadIdx.x] = v + n;
  c.sync();
  int below = around(mine, n - 1);
  return below * 2 + v;
}
extern "C" __global__ void cluster_around(const int *in, int *out, int n) {
  __shared__ int mine[64];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  mine[threadIdx.x] = in[i];
  cg::this_cluster().sync();
  int r = around(mine, n);
  cg::this_cluster().sync();
  out[i] = r;
}

// The threads that call meet one barrier more than the others, which wait elsewhere then.
extern "C" __global__ void stuck(int *out, const int *plan) {
  extern __shared__ int s[];
  s[threadIdx.x] = threadIdx.x;
  __syncthreads();
  if (threadIdx.x < 40) out[threadIdx.x] = phases[plan[0]](s, 1);
  else { __syncthreads(); asm volatile("bar.sync 1;"); }
  out[threadIdx.x] = s[threadIdx.x];
}
