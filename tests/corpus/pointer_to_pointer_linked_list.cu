// pointer to pointer / linked list / generic addressing of shared+local
struct N {
  int v;
  N* next;
};
__device__ __noinline__ int sum(N* p) {
  int s = 0;
  while (p) {
    s += p->v;
    p = p->next;
  }
  return s;
}
extern "C" __global__ void pointer_to_pointer_linked_list(N* g, int* o, int n) {
  __shared__ N s[8];
  N l[4];
  int t = threadIdx.x;
  if (t < n) {
    g[t].v = t;
    g[t].next = t + 1 < n ? &g[t + 1] : nullptr;
  }
  if (t < 8) {
    s[t].v = 10 * t;
    s[t].next = t < 7 ? &s[t + 1] : 0;
  }
  for (int i = 0; i < 4; i++) {
    l[i].v = t + i;
    l[i].next = i < 3 ? &l[i + 1] : 0;
  }
  __syncthreads();
  N* p = t % 3 == 0 ? g : t % 3 == 1 ? s : l;
  o[t] = sum(p);
}
