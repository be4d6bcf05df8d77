// 256-bit by 256-bit multiplication and addition with carry chains
extern "C" __global__ void big_multiply(const unsigned* a, const unsigned* b, unsigned* out) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned r[16] = {};
  for (int i = 0; i < 8; i++) {
    unsigned long long carry = 0;
    for (int j = 0; j < 8; j++) {
      carry += (unsigned long long)a[t * 8 + i] * b[t * 8 + j] + r[i + j];
      r[i + j] = carry;
      carry >>= 32;
    }
    r[i + 8] = carry;
  }
  for (int i = 0; i < 16; i++) out[t * 16 + i] = r[i];
}
extern "C" __global__ void big_add(const unsigned* a, const unsigned* b, unsigned* out) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned r[5];
  const unsigned *x = a + t * 4, *y = b + t * 4;
  asm("add.cc.u32 %0,%5,%9;addc.cc.u32 %1,%6,%10;addc.cc.u32 %2,%7,%11;addc.cc.u32 %3,%8,%12;addc.u32 %4,0,0;"
      : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4])
      : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3]));
  for (int i = 0; i < 5; i++) out[t * 5 + i] = r[i];
}
