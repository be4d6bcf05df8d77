// Clusters of any shape: nvcc -arch=sm_90 -ptx distributed.cu
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

__device__ unsigned block_number() { return (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x; }

// Everybody passes a value on to the next block of the ring, as often as there are blocks.
extern "C" __global__ void pass_round(const int *in, int *out) {
  __shared__ int slots[2][48];
  cg::cluster_group c = cg::this_cluster();
  unsigned rank = c.block_rank(), n = c.num_blocks(), t = threadIdx.x;
  int own = in[block_number() * blockDim.x + t], sum = own;
  for (unsigned round = 0; round < n; round++) {
    c.map_shared_rank(&slots[round % 2][0], (rank + 1) % n)[blockDim.x - 1 - t] = own + round;
    c.sync();
    own = slots[round % 2][t];
    sum = sum * 3 + own;
  }
  out[block_number() * blockDim.x + t] = sum;
}

// All blocks add into the shared memory of the block of rank 0, which writes the result.
extern "C" __global__ void reduce(const int *in, int *out) {
  __shared__ int total, least;
  cg::cluster_group c = cg::this_cluster();
  if (threadIdx.x == 0) total = 0, least = 0x7fffffff;
  c.sync();
  int v = in[block_number() * blockDim.x + threadIdx.x];
  atomicAdd(c.map_shared_rank(&total, 0), v);
  atomicMin(c.map_shared_rank(&least, c.num_blocks() - 1), v);
  c.sync();
  int low = *c.map_shared_rank(&least, c.num_blocks() - 1);
  if (c.block_rank() == 0) out[block_number() * blockDim.x + threadIdx.x] = total * 10 + low;
  c.sync();
}

// Bins are spread over the blocks.
extern "C" __global__ void histogram(const int *in, int *out, int per_block, int bins) {
  extern __shared__ int part[];
  cg::cluster_group c = cg::this_cluster();
  for (int i = threadIdx.x; i < bins; i += blockDim.x) part[i] = 0;
  c.sync();
  const int *mine = in + block_number() * per_block;
  for (int i = threadIdx.x; i < per_block; i += blockDim.x) {
    unsigned bin = unsigned(mine[i]) % (bins * c.num_blocks());
    atomicAdd(c.map_shared_rank(part, bin / bins) + bin % bins, 1);
  }
  c.sync();
  for (int i = threadIdx.x; i < bins; i += blockDim.x) out[block_number() * bins + i] = part[i];
}

__device__ unsigned shared_address(void *p) { return (unsigned)__cvta_generic_to_shared(p); }

// Blocks fill the mailboxes of rank 0 and arrive at its barrier object; only rank 0 waits for them.
extern "C" __global__ void mailboxes(const int *in, int *out) {
  __shared__ unsigned long long barrier;
  __shared__ int box[8 * 40];
  unsigned rank, n, t = threadIdx.x;
  asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
  unsigned home = shared_address(&barrier), boxes = shared_address(box);
  if (rank == 0 && t == 0) asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(home), "r"(n * blockDim.x));
  asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
  unsigned theirs, there;
  asm("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(theirs) : "r"(home));
  asm("mapa.shared::cluster.u32 %0, %1, 0;" : "=r"(there) : "r"(boxes));
  for (int phase = 0; phase < 3; phase++) {
    int v = in[block_number() * blockDim.x + t] + phase;
    asm volatile("st.shared::cluster.b32 [%0], %1;" ::"r"(there + (rank * 40 + t) * 4), "r"(v) : "memory");
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(theirs) : "memory");
    if (rank == 0) {
      asm volatile("{ .reg .pred p; again: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%0], %1;\n"
                   "@!p bra again; }" ::"r"(home), "r"(phase & 1) : "memory");
      int sum = 0;
      for (unsigned r = 0; r < n; r++) sum = sum * 7 + box[r * 40 + (t + phase) % blockDim.x];
      out[(block_number() * 3 + phase) * blockDim.x + t] = sum;
    }
    asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory");
  }
}

// What a thread can know about its place, and about addresses.
extern "C" __global__ void place(unsigned *out) {
  __shared__ int here[32];
  cg::cluster_group c = cg::this_cluster();
  unsigned rank = c.block_rank(), n = c.num_blocks();
  unsigned *to = out + (block_number() * blockDim.x + threadIdx.x) * 8;
  dim3 index = c.block_index(), size = c.dim_blocks(), id, ids;
  asm("mov.u32 %0, %%clusterid.x;" : "=r"(id.x));
  asm("mov.u32 %0, %%clusterid.y;" : "=r"(id.y));
  asm("mov.u32 %0, %%clusterid.z;" : "=r"(id.z));
  asm("mov.u32 %0, %%nclusterid.x;" : "=r"(ids.x));
  asm("mov.u32 %0, %%nclusterid.y;" : "=r"(ids.y));
  asm("mov.u32 %0, %%nclusterid.z;" : "=r"(ids.z));
  int *other = c.map_shared_rank(here + threadIdx.x, (rank + n - 1) % n);
  int *own = c.map_shared_rank(here + threadIdx.x, rank);
  unsigned kinds[10];
  void *asked[2] = {other, here + threadIdx.x};
  for (int i = 0; i < 2; i++) {
    asm("{ .reg .pred p; isspacep.shared::cta p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(kinds[5 * i]) : "l"(asked[i]));
    asm("{ .reg .pred p; isspacep.shared::cluster p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(kinds[5 * i + 1]) : "l"(asked[i]));
    asm("{ .reg .pred p; isspacep.global p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(kinds[5 * i + 2]) : "l"(asked[i]));
    asm("{ .reg .pred p; isspacep.local p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(kinds[5 * i + 3]) : "l"(asked[i]));
    asm("{ .reg .pred p; isspacep.shared p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(kinds[5 * i + 4]) : "l"(asked[i]));
  }
  unsigned elsewhere;
  asm("{ .reg .pred p; isspacep.shared::cluster p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(elsewhere) : "l"(out));
  to[0] = rank * 100 + n;
  to[1] = index.x + 10 * index.y + 100 * index.z + 1000 * (size.x + 10 * size.y + 100 * size.z);
  to[2] = id.x + 10 * id.y + 100 * id.z + 1000 * (ids.x + 10 * ids.y + 100 * ids.z);
  to[3] = c.query_shared_rank(other) * 10 + c.query_shared_rank(own);
  to[4] = elsewhere;
  to[5] = to[6] = to[7] = 0;
  for (int i = 0; i < 5; i++) to[5] = to[5] * 2 + kinds[i];
  for (int i = 5; i < 10; i++) to[6] = to[6] * 2 + kinds[i];
  for (int axis = 0; axis < 1; axis++) asm("{ .reg .pred p; mov.pred p, %%is_explicit_cluster; selp.u32 %0, 1, 0, p; }" : "=r"(to[7]));
  c.sync();
}

// Some threads arrive and exit; the others wait for all that have not.
extern "C" __global__ void arrive_and_exit(const int *in, int *out) {
  __shared__ int kept[64];
  cg::cluster_group c = cg::this_cluster();
  unsigned rank = c.block_rank(), n = c.num_blocks(), t = threadIdx.x;
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
  if (t % 3 == 0) {
    c.map_shared_rank(kept, (rank + 1) % n)[t] = in[block_number() * blockDim.x + t];
    asm volatile("barrier.cluster.arrive;" ::: "memory");
    return;
  }
  for (int i = 0; i < (rank + 1) % n; i++) __syncwarp(__activemask());  // not all at once
  if (t % 3 == 1) __syncthreads();
  c.map_shared_rank(kept, (rank + 1) % n)[t] = in[block_number() * blockDim.x + t] * 2;
  if (t % 3 == 2) __syncthreads();
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
  int got = kept[t] + kept[t / 3 * 3];
  out[block_number() * blockDim.x + t] = got;
}

// Threads that have exited are not waited for.
extern "C" __global__ void leave_early(const int *in, int *out) {
  __shared__ int kept[64];
  cg::cluster_group c = cg::this_cluster();
  unsigned rank = c.block_rank(), n = c.num_blocks(), t = threadIdx.x;
  if (t % 4 == rank % 4) return;
  kept[t] = in[block_number() * blockDim.x + t];
  asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
  unsigned other = (rank + 1) % n;
  int got = t % 4 == other % 4 ? -1 : c.map_shared_rank(kept, other)[t];
  asm volatile("barrier.cluster.arrive.relaxed; barrier.cluster.wait;" ::: "memory");
  out[block_number() * blockDim.x + t] = got;
}
