// warp-specialized producer/consumer w/ shared volatile + syncwarp
extern "C" __global__ void warp_specialized_producer(int* o) {
  __shared__ volatile int s[32];
  int t = threadIdx.x;
  if (t < 32) {
    s[t] = t;
    __syncwarp();
    int v = s[t ^ 1];
    __syncwarp();
    s[t] = v * 2;
    __syncwarp();
    o[t] = s[31 - t];
  } else o[t] = -t;
}
