// mandelbrot (divergent loop) double
extern "C" __global__ void mandelbrot_divergent_loop(int* o, int w, int h, int m) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  double cr = -2 + 3.0 * x / w, ci = -1.5 + 3.0 * y / h, a = 0, b = 0;
  int i = 0;
  for (; i < m; i++) {
    double aa = __dmul_rn(a, a), bb = __dmul_rn(b, b);
    if (__dadd_rn(aa, bb) > 4) break;
    b = __dadd_rn(__dmul_rn(__dmul_rn(2.0, a), b), ci);
    a = __dadd_rn(__dadd_rn(aa, -bb), cr);
  }
  o[y * w + x] = i;
}
