// math functions float
extern "C" __global__ void math_functions_float(const float* x, float* o, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  float* p = o + i * 16;
  p[0] = sinf(v);
  p[1] = cosf(v);
  p[2] = expf(v * .01f);
  p[3] = logf(fabsf(v) + 1e-3f);
  p[4] = sqrtf(fabsf(v));
  p[5] = tanhf(v);
  p[6] = powf(fabsf(v), 1.7f);
  p[7] = atan2f(v, 2.f);
  p[8] = floorf(v);
  p[9] = rintf(v);
  p[10] = fmodf(v, 3.f);
  p[11] = cbrtf(v);
  p[12] = erff(v * .01f);
  p[13] = rsqrtf(fabsf(v) + 1);
  p[14] = hypotf(v, 3);
  p[15] = log1pf(fabsf(v));
}
