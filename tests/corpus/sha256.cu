// SHA-256 of one padded 64-byte block for each thread
__constant__ unsigned K[64];
__device__ unsigned rotate(unsigned x, int n) { return __funnelshift_r(x, x, n); }
extern "C" __global__ void sha256(const unsigned* blocks, unsigned* digests, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned w[64], h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  for (int t = 0; t < 16; t++) w[t] = __byte_perm(blocks[i * 16 + t], 0, 0x0123);
  for (int t = 16; t < 64; t++) {
    unsigned a = w[t - 15], b = w[t - 2];
    w[t] = w[t - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[t - 7] + (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
  }
  unsigned s[8];
  for (int j = 0; j < 8; j++) s[j] = h[j];
  for (int t = 0; t < 64; t++) {
    unsigned e = s[4], a = s[0];
    unsigned t1 = s[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & s[5]) ^ (~e & s[6])) + K[t] + w[t];
    unsigned t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & s[1]) ^ (a & s[2]) ^ (s[1] & s[2]));
    for (int j = 7; j; j--) s[j] = s[j - 1];
    s[4] += t1;
    s[0] = t1 + t2;
  }
  for (int j = 0; j < 8; j++) digests[i * 8 + j] = h[j] + s[j];
}
