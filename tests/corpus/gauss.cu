// solves many small dense systems, one block each, with partial pivoting
extern "C" __global__ void gauss(int n, double* a, double* x) {
  __shared__ int pivot;
  double* m = a + blockIdx.x * n * (n + 1);
  int width = n + 1;
  for (int k = 0; k < n; k++) {
    if (threadIdx.x == 0) {
      int p = k;
      for (int i = k + 1; i < n; i++)
        if (fabs(m[i * width + k]) > fabs(m[p * width + k])) p = i;
      pivot = p;
    }
    __syncthreads();
    if (pivot != k)
      for (int j = k + threadIdx.x; j <= n; j += blockDim.x) {
        double t = m[k * width + j];
        m[k * width + j] = m[pivot * width + j];
        m[pivot * width + j] = t;
      }
    __syncthreads();
    for (int i = k + 1 + threadIdx.x; i < n; i += blockDim.x) {
      double f = m[i * width + k] / m[k * width + k];
      for (int j = k; j <= n; j++) m[i * width + j] -= f * m[k * width + j];
    }
    __syncthreads();
  }
  if (threadIdx.x == 0)
    for (int i = n - 1; i >= 0; i--) {
      double s = m[i * width + n];
      for (int j = i + 1; j < n; j++) s -= m[i * width + j] * x[blockIdx.x * n + j];
      x[blockIdx.x * n + i] = s / m[i * width + i];
    }
}
