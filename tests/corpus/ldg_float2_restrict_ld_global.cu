// __ldg, float2, __restrict__, ld.global.nc vec, int4 stores
extern "C" __global__ void ldg_float2_restrict_ld_global(const int4* __restrict__ a, int4* __restrict__ o,
                                                         const float2* f, double2* g) {
  int i = threadIdx.x;
  int4 v = __ldg(&a[i]);
  o[i] = make_int4(v.w, v.z, v.y, v.x);
  float2 q = __ldg(&f[i]);
  g[i] = make_double2(q.y, q.x);
}
