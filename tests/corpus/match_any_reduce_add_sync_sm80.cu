// match_any / reduce_add sync (sm80)
extern "C" __global__ void match_any_reduce_add_sync_sm80(const int* d, unsigned* o) {
  int i = threadIdx.x;
  unsigned m = __match_any_sync(~0u, d[i]);
  o[i] = m;
}
