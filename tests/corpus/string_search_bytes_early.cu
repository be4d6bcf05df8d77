// string search (bytes, early break)
extern "C" __global__ void string_search_bytes_early(const char* t, int n, const char* p, int m, int* pos,
                                                     int* cnt) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i > n - m) return;
  for (int j = 0; j < m; j++)
    if (t[i + j] != p[j]) return;
  pos[atomicAdd(cnt, 1)] = i;
}
