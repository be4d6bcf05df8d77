// 128-bit int (__int128)
extern "C" __global__ void int128(const unsigned long long* a, unsigned long long* o) {
  int i = threadIdx.x;
  unsigned __int128 p = (unsigned __int128)a[i] * a[i];
  p += a[i];
  p += ((unsigned __int128)a[i]) << 64;
  o[2 * i] = (unsigned long long)p;
  o[2 * i + 1] = p >> 64;
}
