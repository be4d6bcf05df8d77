// Arrays on the stack whose size is known only when the program runs.
// Compile: nvcc -ptx -arch=sm_80 alloca.cu -o alloca.ptx
__device__ __noinline__ int sum(int n) {
  int* p = (int*)alloca(n * 4);
  for (int i = 0; i < n; i++) p[i] = i * n;
  int s = 0;
  for (int i = n; i--;) s += p[i];
  return s;
}
extern "C" __global__ void k(int n, int* out) {
  int t = threadIdx.x;
  long long* mine = (long long*)alloca((t % 5 + 1) * 8);
  for (int i = 0; i <= t % 5; i++) mine[i] = t + i;
  int total = 0;
  for (int i = 0; i < n; i++) total += sum(t % 60 + i % 7);
  for (int i = 0; i <= t % 5; i++) total += (int)mine[i];
  out[t] = total;
}
