// launch_bounds + reqntid
extern "C" __global__ void __launch_bounds__(128, 2) launch_bounds_reqntid(int* o) {
  o[threadIdx.x] = threadIdx.x;
}
