// clock, smid, laneid, warpid special regs
extern "C" __global__ void clock_smid_laneid_warpid(unsigned* o) {
  unsigned l, w;
  asm("mov.u32 %0,%%laneid;" : "=r"(l));
  asm volatile("mov.u32 %0,%%warpid;" : "=r"(w));
  o[2 * threadIdx.x] = l;
  o[2 * threadIdx.x + 1] = w;
  long long c = clock64();
  unsigned s;
  asm volatile("mov.u32 %0,%%smid;" : "=r"(s));
  if (c < 0 || s > 1000000) o[0] = 99;
}
