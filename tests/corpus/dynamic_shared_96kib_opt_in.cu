// dynamic shared 96KiB opt-in
extern "C" __global__ void dynamic_shared_96kib_opt_in(int* o) {
  extern __shared__ int s[];
  for (int i = threadIdx.x; i < 24576; i += blockDim.x) s[i] = i;
  __syncthreads();
  int t = 0;
  for (int i = threadIdx.x; i < 24576; i += blockDim.x) t += s[24575 - i];
  atomicAdd(o, t);
}
