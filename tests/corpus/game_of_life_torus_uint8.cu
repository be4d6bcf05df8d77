// game of life torus uint8
extern "C" __global__ void game_of_life_torus_uint8(const unsigned char* a, unsigned char* b, int w, int h) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  int c = 0;
  for (int dy = -1; dy <= 1; dy++)
    for (int dx = -1; dx <= 1; dx++)
      if (dx || dy) c += a[((y + dy + h) % h) * w + (x + dx + w) % w];
  b[y * w + x] = c == 3 || (c == 2 && a[y * w + x]);
}
