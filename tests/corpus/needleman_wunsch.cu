// global alignment of two strings: anti-diagonals of the score matrix, one block
extern "C" __global__ void needleman_wunsch(int n, int m, const char* a, const char* b, int* score) {
  int width = m + 1;
  for (int i = threadIdx.x; i <= n; i += blockDim.x) score[i * width] = -i;
  for (int j = threadIdx.x; j <= m; j += blockDim.x) score[j] = -j;
  for (int d = 2; d <= n + m; d++) {
    __syncthreads();
    for (int i = max(1, d - m) + threadIdx.x; i <= min(n, d - 1); i += blockDim.x) {
      int j = d - i;
      int match = score[(i - 1) * width + j - 1] + (a[i - 1] == b[j - 1] ? 2 : -1);
      score[i * width + j] = max(match, max(score[(i - 1) * width + j], score[i * width + j - 1]) - 1);
    }
  }
}
