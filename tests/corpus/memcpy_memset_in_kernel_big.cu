// memcpy/memset in kernel, big struct local
struct S {
  int a[40];
};
extern "C" __global__ void memcpy_memset_in_kernel_big(const S* s, S* d) {
  S t = s[threadIdx.x];
  memset(&t.a[3], 0xff, 40);
  d[threadIdx.x] = t;
  memcpy(d[threadIdx.x].a + 30, s[0].a, 16);
}
