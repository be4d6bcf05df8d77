// int8/int16 arithmetic, sign conversions, char4/short2
extern "C" __global__ void int8_int16_arithmetic_sign(const char4* a, const short2* b, int* o) {
  int i = threadIdx.x;
  char4 c = a[i];
  short2 s = b[i];
  signed char q = c.x + c.y;
  unsigned char u = c.z * c.w;
  short t = s.x * s.y;
  o[6 * i] = q;
  o[6 * i + 1] = u;
  o[6 * i + 2] = t;
  o[6 * i + 3] = (unsigned short)(s.x - s.y);
  o[6 * i + 4] = __dp4a(*(int*)&c, *(int*)&b[i], 5);
  o[6 * i + 5] = __byte_perm(*(unsigned*)&c, *(unsigned*)&s, 0x5170);
}
