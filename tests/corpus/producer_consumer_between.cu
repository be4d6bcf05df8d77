// producer/consumer between blocks (flag spin)
extern "C" __global__ void producer_consumer_between(volatile int* flag, volatile int* data) {
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    data[0] = 42;
    __threadfence();
    flag[0] = 1;
  } else {
    while (flag[0] == 0);
    data[blockIdx.x] = data[0];
  }
}
