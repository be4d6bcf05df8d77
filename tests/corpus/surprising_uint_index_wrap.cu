// surprising: uint index wrap, negative modulo, shift >=32
extern "C" __global__ void surprising_uint_index_wrap(const unsigned* x, const int* sh, int* o) {
  int i = threadIdx.x;
  unsigned v = x[i];
  int s = sh[i];
  unsigned a, b, c;
  asm("shl.b32 %0,%1,%2;" : "=r"(a) : "r"(v), "r"(s));
  asm("shr.u32 %0,%1,%2;" : "=r"(b) : "r"(v), "r"(s));
  asm("shr.s32 %0,%1,%2;" : "=r"(c) : "r"(v), "r"(s));
  o[4 * i] = a;
  o[4 * i + 1] = b;
  o[4 * i + 2] = c;
  o[4 * i + 3] = __funnelshift_l(v, ~v, s);
}
