#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void __cluster_dims__(4,1,1) cluster_hist(const int *in, int *out, int n, int bins) {
  extern __shared__ int smem[];
  cg::cluster_group c = cg::this_cluster();
  unsigned rank = c.block_rank(), size = c.num_blocks();
  for (int i = threadIdx.x; i < bins; i += blockDim.x) smem[i] = 0;
  c.sync();
  for (int i = blockIdx.x*blockDim.x+threadIdx.x; i < n; i += gridDim.x*blockDim.x) {
    int b = in[i] % (bins*size);
    int *dst = c.map_shared_rank(smem, b / bins);
    atomicAdd(dst + b % bins, 1);
  }
  c.sync();
  for (int i = threadIdx.x; i < bins; i += blockDim.x) atomicAdd(&out[rank*bins+i], smem[i]);
}
extern "C" __global__ void ring(const int *in, int *out) {  // cluster size from the launch
  __shared__ int v[64];
  cg::cluster_group c = cg::this_cluster();
  unsigned r = c.block_rank(), n = c.num_blocks();
  v[threadIdx.x] = in[(blockIdx.y*gridDim.x+blockIdx.x)*blockDim.x+threadIdx.x];
  auto tok = c.barrier_arrive();
  int mine = v[threadIdx.x];
  c.barrier_wait(static_cast<decltype(tok)&&>(tok));
  int *other = c.map_shared_rank(v, (r + 1) % n);
  int got = other[63 - threadIdx.x];
  unsigned who = c.query_shared_rank(other);
  c.sync();
  dim3 bi = c.block_index(), nb = c.dim_blocks();
  out[(blockIdx.y*gridDim.x+blockIdx.x)*blockDim.x+threadIdx.x] = got*1000 + mine%7 + who*100 + bi.x*10 + nb.y*50000;
}
