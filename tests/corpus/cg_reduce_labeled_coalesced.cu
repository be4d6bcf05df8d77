// cg::reduce + labeled coalesced
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
extern "C" __global__ void cg_reduce_labeled_coalesced(const int* d, int* o) {
  auto b = cg::this_thread_block();
  auto t = cg::tiled_partition<32>(b);
  int v = d[b.thread_rank()];
  int s = cg::reduce(t, v, cg::plus<int>());
  if (v & 1) {
    auto c = cg::coalesced_threads();
    if (c.thread_rank() == 0) atomicAdd(&o[0], (int)c.size());
  }
  if (t.thread_rank() == 0) o[1 + b.thread_rank() / 32] = s;
}
