// connected components of an image: label propagation in one cooperative launch
#include <cooperative_groups.h>
extern "C" __global__ void components(int w, int h, const unsigned char* image, int* label, int* changed) {
  auto grid = cooperative_groups::this_grid();
  for (int i = grid.thread_rank(); i < w * h; i += grid.size()) label[i] = image[i] ? i : -1;
  grid.sync();
  for (int round = 0; round < w * h; round++) {
    if (grid.thread_rank() == 0) *changed = 0;
    grid.sync();
    for (int i = grid.thread_rank(); i < w * h; i += grid.size()) {
      if (label[i] < 0) continue;
      int x = i % w, y = i / w, best = label[i];
      if (x > 0 && label[i - 1] >= 0) best = min(best, label[i - 1]);
      if (x < w - 1 && label[i + 1] >= 0) best = min(best, label[i + 1]);
      if (y > 0 && label[i - w] >= 0) best = min(best, label[i - w]);
      if (y < h - 1 && label[i + w] >= 0) best = min(best, label[i + w]);
      if (best < label[i]) {
        atomicMin(&label[i], best);
        *changed = 1;
      }
    }
    grid.sync();
    int again = *(volatile int*)changed;
    grid.sync();
    if (!again) return;
  }
}
