// named barrier asm bar.sync 1,64
extern "C" __global__ void named_barrier_asm_bar_sync_1(int* o) {
  __shared__ int s[128];
  int t = threadIdx.x;
  s[t] = t;
  if (t < 64) asm volatile("bar.sync 1,64;" ::: "memory");
  else asm volatile("bar.sync 2,64;" ::: "memory");
  o[t] = s[t ^ 33];
}
