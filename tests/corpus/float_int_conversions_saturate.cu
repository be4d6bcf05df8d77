// float->int conversions saturate, nan
extern "C" __global__ void float_int_conversions_saturate(const float* x, int* o, long long* l) {
  int i = threadIdx.x;
  float v = x[i];
  o[4 * i] = (int)v;
  o[4 * i + 1] = (int)(unsigned)v;
  o[4 * i + 2] = __float2int_rn(v);
  o[4 * i + 3] = (unsigned char)__float2uint_rz(v);
  l[i] = (long long)v;
}
