// all shortest paths: the whole algorithm in one cooperative launch
#include <cooperative_groups.h>
extern "C" __global__ void floyd_warshall(int n, int* d) {
  auto grid = cooperative_groups::this_grid();
  for (int k = 0; k < n; k++) {
    for (int i = grid.thread_rank(); i < n * n; i += grid.size()) {
      int through = d[i / n * n + k] + d[k * n + i % n];
      if (through < d[i]) d[i] = through;
    }
    grid.sync();
  }
}
