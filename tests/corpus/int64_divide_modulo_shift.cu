// int64 divide/modulo/shift/signed
extern "C" __global__ void int64_divide_modulo_shift(const long long* a, const long long* b, long long* o) {
  int i = threadIdx.x;
  long long x = a[i], y = b[i];
  o[8 * i] = x / y;
  o[8 * i + 1] = x % y;
  o[8 * i + 2] = (unsigned long long)x / (unsigned long long)y;
  o[8 * i + 3] = x >> (y & 63);
  o[8 * i + 4] = (unsigned long long)x >> (y & 63);
  o[8 * i + 5] = x * y;
  o[8 * i + 6] = __mul64hi(x, y);
  o[8 * i + 7] = __clzll(x) * 100 + __popcll(y);
}
