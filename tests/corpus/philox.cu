// the counter-based random numbers of curand's Philox4x32-10
__device__ uint4 philox(uint4 c, uint2 k) {
  for (int r = 0; r < 10; r++) {
    unsigned a = __umulhi(0xD2511F53u, c.x), b = 0xD2511F53u * c.x, d = __umulhi(0xCD9E8D57u, c.z), e = 0xCD9E8D57u * c.z;
    c = make_uint4(d ^ c.y ^ k.x, e, a ^ c.w ^ k.y, b);
    k.x += 0x9E3779B9u, k.y += 0xBB67AE85u;
  }
  return c;
}
extern "C" __global__ void philox_bits(uint4* out, unsigned seed) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = philox(make_uint4(i, 0, 7, 0), make_uint2(seed, 0));
}
extern "C" __global__ void pi(int rounds, unsigned seed, unsigned long long* inside) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, n = 0;
  for (int r = 0; r < rounds; r++) {
    uint4 u = philox(make_uint4(i, r, 0, 0), make_uint2(seed, 1));
    float x = u.x * 0x1p-32f, y = u.y * 0x1p-32f, z = u.z * 0x1p-32f, w = u.w * 0x1p-32f;
    n += (x * x + y * y < 1) + (z * z + w * w < 1);
  }
  n = __reduce_add_sync(0xffffffff, n);
  if (threadIdx.x % 32 == 0) atomicAdd(inside, n);
}
