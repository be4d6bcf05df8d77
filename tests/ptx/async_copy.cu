#include <cuda_pipeline.h>
#include <cuda/barrier>
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#pragma nv_diag_suppress static_var_with_dynamic_init
namespace cg = cooperative_groups;
extern "C" __global__ void staged_sum(const float4 *in, float *out, int tiles) {  // double-buffered 16-byte copies
  __shared__ float4 s[2][128];
  int t = threadIdx.x; float sum = 0;
  __pipeline_memcpy_async(&s[0][t], &in[t], 16); __pipeline_commit();
  for (int i = 0; i < tiles; i++) {
    if (i + 1 < tiles) __pipeline_memcpy_async(&s[(i + 1) & 1][t], &in[(i + 1) * 128 + t], 16);
    __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    float4 v = s[i & 1][127 - t];
    sum += v.x + 2 * v.y + 3 * v.z + 4 * v.w;
    __syncthreads();
  }
  out[t] = sum;
}
extern "C" __global__ void zero_filled(const unsigned char *in, unsigned *out, const int *used) {  // partial copies
  __shared__ __align__(16) unsigned s[32 * 4];
  int t = threadIdx.x;
  __pipeline_memcpy_async(&s[t * 4], in + t * 16, 16, 16 - used[t]);
  __pipeline_commit(); __pipeline_wait_prior(0);
  __syncthreads();
  for (int i = 0; i < 4; i++) out[t * 4 + i] = s[t * 4 + i];
}
extern "C" __global__ void small_copies(const int *in, int *out, int n) {  // 4 and 8 bytes, some threads only
  __shared__ __align__(16) int s[256]; int t = threadIdx.x;
  s[t] = -1; s[t + 128] = -2;
  __syncthreads();
  if (t < n) __pipeline_memcpy_async(&s[t], &in[127 - t], 4);
  if (t % 3 == 0 && t < 64) __pipeline_memcpy_async(&s[128 + 2 * t], &in[2 * t], 8);
  __pipeline_commit(); __pipeline_wait_prior(0);
  __syncthreads();
  out[t] = s[t]; out[t + 128] = s[t + 128];
}
extern "C" __global__ void producers(const int *in, int *out, int rounds) {  // cuda::barrier, full and empty
  using barrier = cuda::barrier<cuda::thread_scope_block>;
  __shared__ barrier full[2], empty[2];
  __shared__ int buffer[2][64];
  int w = threadIdx.x / 64, t = threadIdx.x % 64;
  if (threadIdx.x == 0) for (int i = 0; i < 2; i++) { init(&full[i], 128); init(&empty[i], 128); }
  __syncthreads();
  if (w == 0) {
    for (int r = 0; r < rounds; r++) {
      if (r >= 2) empty[r & 1].arrive_and_wait();
      buffer[r & 1][t] = in[r * 64 + t] * 3;
      (void)full[r & 1].arrive();
    }
    if (rounds >= 2) (void)empty[rounds & 1].arrive();
    (void)empty[(rounds + 1) & 1].arrive();
  } else {
    for (int r = 0; r < rounds; r++) {
      full[r & 1].arrive_and_wait();
      out[r * 64 + t] = buffer[r & 1][63 - t];
      (void)empty[r & 1].arrive();
    }
  }
}
extern "C" __global__ void group_copy(const int *in, int *out, int n) {  // cg::memcpy_async with a barrier object
  extern __shared__ int s[];
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  auto block = cg::this_thread_block();
  if (block.thread_rank() == 0) init(&bar, block.size());
  block.sync();
  for (int base = 0; base < n; base += 256) {
    cuda::memcpy_async(block, s, in + base, cuda::aligned_size_t<16>(256 * 4), bar);
    bar.arrive_and_wait();
    for (int i = block.thread_rank(); i < 256; i += block.size()) out[base + i] = s[255 - i];
    block.sync();
  }
}
extern "C" __global__ void dropping(int *out) {  // arrivals and drops by hand
  __shared__ unsigned long long bar;
  unsigned a = (unsigned)__cvta_generic_to_shared(&bar);
  int t = threadIdx.x;
  if (t == 0) asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(a), "r"(blockDim.x));
  __syncthreads();
  for (int round = 0; round < 4; round++) {
    unsigned long long state; unsigned pending; int done = 0, spins = 0;
    if (t % 4 == round && t != 0) {
      asm volatile("mbarrier.arrive_drop.shared.b64 %0, [%1];" : "=l"(state) : "r"(a));
      out[t] = round * 10;
      return;
    }
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(a));
    asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(pending) : "l"(state));
    while (!done) { asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.s32 %0, 1, 0, p; }" : "=r"(done) : "r"(a), "l"(state)); spins++; }
    if (pending == 0 || pending > blockDim.x) out[t] = -1;
  }
  out[t] = 100;
}
