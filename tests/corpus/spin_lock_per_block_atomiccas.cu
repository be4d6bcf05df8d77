// spin lock per block atomicCAS
extern "C" __global__ void spin_lock_per_block_atomiccas(int* lock, int* c) {
  if (threadIdx.x == 0) {
    while (atomicCAS(lock, 0, 1));
    __threadfence();
    *c = *(volatile int*)c + 1;
    __threadfence();
    atomicExch(lock, 0);
  }
}
