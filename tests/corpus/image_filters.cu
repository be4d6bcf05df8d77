// Sobel edges and a 3x3 median by a sorting network, borders clamped
__device__ int at(const unsigned char* p, int w, int h, int x, int y) {
  return p[min(max(y, 0), h - 1) * w + min(max(x, 0), w - 1)];
}
extern "C" __global__ void sobel(const unsigned char* in, unsigned char* out, int w, int h) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  int gx = 0, gy = 0;
  for (int d = -1; d <= 1; d++) {
    int k = 2 - abs(d);
    gx += k * (at(in, w, h, x + 1, y + d) - at(in, w, h, x - 1, y + d));
    gy += k * (at(in, w, h, x + d, y + 1) - at(in, w, h, x + d, y - 1));
  }
  out[y * w + x] = min(255, abs(gx) + abs(gy));
}
extern "C" __global__ void median(const unsigned char* in, unsigned char* out, int w, int h) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  int v[9];
  for (int i = 0; i < 9; i++) v[i] = at(in, w, h, x + i % 3 - 1, y + i / 3 - 1);
  for (int i = 0; i < 9; i++)
    for (int j = 0; j + 1 < 9 - i; j++) {
      int a = min(v[j], v[j + 1]), b = max(v[j], v[j + 1]);
      v[j] = a, v[j + 1] = b;
    }
  out[y * w + x] = v[4];
}
