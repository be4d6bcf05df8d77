// cub BlockReduce/BlockScan
#include <cub/cub.cuh>
extern "C" __global__ void cub_blockreduce_blockscan(const int* d, int* o) {
  typedef cub::BlockScan<int, 128> BS;
  typedef cub::BlockReduce<int, 128> BR;
  __shared__ union {
    typename BS::TempStorage s;
    typename BR::TempStorage r;
  } t;
  int v = d[threadIdx.x], r;
  BS(t.s).InclusiveSum(v, r);
  o[threadIdx.x] = r;
  __syncthreads();
  int q = BR(t.r).Sum(v);
  if (!threadIdx.x) o[128] = q;
}
