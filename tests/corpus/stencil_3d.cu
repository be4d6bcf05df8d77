// 3d stencil 7pt double, 3d grid
extern "C" __global__ void stencil_3d(const double* __restrict__ a, double* b, int X, int Y, int Z, double c0,
                                      double c1) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y,
      z = blockIdx.z * blockDim.z + threadIdx.z;
  if (x < 1 || y < 1 || z < 1 || x >= X - 1 || y >= Y - 1 || z >= Z - 1) return;
  long i = ((long)z * Y + y) * X + x;
  double s = a[i - 1] + a[i + 1];
  s = s + a[i - X];
  s = s + a[i + X];
  s = s + a[i - (long)X * Y];
  s = s + a[i + (long)X * Y];
  b[i] = __dadd_rn(__dmul_rn(c0, a[i]), __dmul_rn(c1, s));
}
