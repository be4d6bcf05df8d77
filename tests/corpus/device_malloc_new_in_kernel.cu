// device malloc/new in kernel
extern "C" __global__ void device_malloc_new_in_kernel(int* o) {
  int* p = new int[3];
  p[1] = threadIdx.x;
  o[threadIdx.x] = p[1];
  delete[] p;
}
