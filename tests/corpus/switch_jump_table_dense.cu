// switch jump table dense returns (brx)
__device__ __noinline__ int f(int c, int x) {
  switch (c) {
    case 0:
      return x * 3;
    case 1:
      return x ^ 0x55;
    case 2:
      return x - (x >> 3);
    case 3:
      return __popc(x);
    case 4:
      return __clz(x);
    case 5:
      return __ffs(x);
    case 6:
      return __brev(x);
    case 7:
      return x / 7;
    case 8:
      return x % 11;
    case 9:
      return -x;
    case 10:
      return abs(x);
    case 11:
      return x << 5;
    case 12:
      return min(x, 100);
  }
  return -1;
}
extern "C" __global__ void switch_jump_table_dense(const int* c, const int* x, int* o) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  o[i] = f(c[i], x[i]);
}
