// constant table initialised, struct of arrays
struct E {
  int a;
  short b;
  char c;
  double d;
};
__constant__ E tab[4] = {
    {1, -2, 3, 4.5}, {-10, 20, -30, 1e300}, {7, 8, 9, -0.25}, {2147483647, -32768, -128, 3.14}};
__device__ unsigned char bytes[5] = {1, 2, 3, 250, 255};
extern "C" __global__ void constant_table_initialised(double* o, int* p) {
  int t = threadIdx.x;
  E e = tab[t & 3];
  o[t] = e.a + e.b * 2.0 + e.c * 3.0 + e.d;
  p[t] = bytes[t % 5];
}
