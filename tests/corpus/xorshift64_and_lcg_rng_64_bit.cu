// xorshift64* and LCG rng, 64-bit mul
typedef unsigned long long u64;
extern "C" __global__ void xorshift64_and_lcg_rng_64_bit(u64* o, unsigned* l, u64 seed, int it) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  u64 s = seed + i * 0x9E3779B97F4A7C15ull;
  unsigned c = i;
  for (int j = 0; j < it; j++) {
    s ^= s >> 12;
    s ^= s << 25;
    s ^= s >> 27;
    c = c * 1664525u + 1013904223u;
  }
  o[i] = s * 2685821657736338717ull;
  l[i] = c ^ (unsigned)__umul64hi(s, 0x9E3779B97F4A7C15ull);
}
