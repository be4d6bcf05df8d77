// cooperative groups tiled partition reduce
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void cooperative_groups_tiled(const int* d, int* o) {
  auto b = cg::this_thread_block();
  auto t = cg::tiled_partition<8>(b);
  int v = d[b.thread_rank()];
  for (int i = t.size() / 2; i; i /= 2) v += t.shfl_down(v, i);
  if (t.thread_rank() == 0) o[b.thread_rank() / 8] = v;
  b.sync();
}
