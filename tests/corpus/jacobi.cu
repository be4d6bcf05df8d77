// Jacobi iterations until the change is small, tested by a block-wide vote
extern "C" __global__ void jacobi(int n, const double* b, double* x, int* rounds) {
  extern __shared__ double s[];
  int t = threadIdx.x, r = 0;
  double mine = 0, rest = b[t];
  s[t] = 0;
  while (true) {
    __syncthreads();
    double left = t > 0 ? s[t - 1] : 0, right = t < n - 1 ? s[t + 1] : 0;
    double now = (rest + left + right) / 4;
    __syncthreads();
    s[t] = now;
    r++;
    int moving = __syncthreads_or(fabs(now - mine) > 1e-9);
    mine = now;
    if (!moving) break;
  }
  x[t] = mine;
  if (t == 0) *rounds = r;
}
