// __syncthreads_count/and/or
extern "C" __global__ void syncthreads_count_and_or(const int* d, int* o) {
  int v = d[threadIdx.x];
  int c = __syncthreads_count(v > 0);
  int a = __syncthreads_and(v > -5);
  int r = __syncthreads_or(v == 3);
  o[threadIdx.x] = c * 100 + (a != 0) * 10 + (r != 0);
}
