// math functions double
extern "C" __global__ void math_functions_double(const double* x, double* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  double v = x[i];
  double* p = o + i * 10;
  p[0] = sin(v);
  p[1] = cos(v);
  p[2] = exp(v * .01);
  p[3] = log(fabs(v) + 1e-3);
  p[4] = sqrt(fabs(v));
  p[5] = tanh(v);
  p[6] = pow(fabs(v), 1.7);
  p[7] = 1.0 / v;
  p[8] = lgamma(fabs(v) + 1);
  p[9] = v / 3.0;
}
