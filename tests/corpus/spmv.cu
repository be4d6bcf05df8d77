// sparse matrix times vector: CSR with a warp for each row, and ELLPACK with a thread for each row
extern "C" __global__ void spmv_csr(int rows, const int* start, const int* column, const double* value,
                                    const double* x, double* y) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  double sum = 0;
  for (int i = start[row] + lane; i < start[row + 1]; i += 32) sum += value[i] * x[column[i]];
  for (int o = 16; o; o /= 2) sum += __shfl_down_sync(0xffffffff, sum, o);
  if (lane == 0) y[row] = sum;
}
extern "C" __global__ void spmv_ell(int rows, int width, const int* column, const double* value, const double* x,
                                    double* y) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  double sum = 0;
  for (int i = 0; i < width; i++) {
    int c = column[i * rows + row];
    if (c >= 0) sum += value[i * rows + row] * x[c];
  }
  y[row] = sum;
}
