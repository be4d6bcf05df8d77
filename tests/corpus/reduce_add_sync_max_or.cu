// __reduce_add_sync / max / or
extern "C" __global__ void reduce_add_sync_max_or(const unsigned* d, unsigned* o) {
  int i = threadIdx.x;
  o[3 * i] = __reduce_add_sync(~0u, d[i]);
  o[3 * i + 1] = __reduce_max_sync(~0u, (int)d[i]);
  o[3 * i + 2] = __reduce_or_sync(~0u, d[i]);
}
