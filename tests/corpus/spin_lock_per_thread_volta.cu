// spin lock per thread (Volta style)
extern "C" __global__ void spin_lock_per_thread_volta(int* lock, int* c) {
  bool done = false;
  while (!done) {
    if (atomicCAS(lock, 0, 1) == 0) {
      *(volatile int*)c = *(volatile int*)c + 1;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}
