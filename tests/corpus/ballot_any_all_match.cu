// ballot/any/all/match/activemask/reduce divergent
extern "C" __global__ void ballot_any_all_match(const int* d, unsigned* o) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int v = d[i];
  unsigned b = __ballot_sync(~0u, v > 0);
  int any = __any_sync(~0u, v == 5), all = __all_sync(~0u, v > -3);
  unsigned r = 0;
  if (v & 1) { unsigned m = __ballot_sync(b & 0, 0) * 0; }
  o[4 * i] = b;
  o[4 * i + 1] = any * 2 + all;
  o[4 * i + 2] = __popc(b & ((1u << (threadIdx.x & 31)) - 1));
  unsigned act = __ballot_sync(~0u, v & 1);
  if (v & 1) { r = __shfl_sync(act, v, __ffs(act) - 1) + 1000 * __popc(__activemask() & act); }
  o[4 * i + 3] = r;
}
