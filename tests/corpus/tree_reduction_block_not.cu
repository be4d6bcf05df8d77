// tree reduction, block not multiple of 32
extern "C" __global__ void tree_reduction_block_not(const int* d, int* o, int n) {
  __shared__ int s[1024];
  int t = threadIdx.x, g = blockIdx.x * blockDim.x + t;
  s[t] = g < n ? d[g] : 0;
  __syncthreads();
  for (int m = blockDim.x; m > 1;) {
    int h = (m + 1) / 2;
    if (t + h < m) s[t] += s[t + h];
    __syncthreads();
    m = h;
  }
  if (!t) o[blockIdx.x] = s[0];
}
