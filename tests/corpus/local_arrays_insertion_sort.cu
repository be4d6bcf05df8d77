// local arrays / insertion sort per thread / dynamic index
extern "C" __global__ void local_arrays_insertion_sort(float* d, int m) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float a[25];
  for (int j = 0; j < m; j++) a[j] = d[i * 25 + j];
  for (int j = 1; j < m; j++) {
    float v = a[j];
    int q = j - 1;
    while (q >= 0 && a[q] > v) {
      a[q + 1] = a[q];
      q--;
    }
    a[q + 1] = v;
  }
  for (int j = 0; j < m; j++) d[i * 25 + j] = a[j];
}
