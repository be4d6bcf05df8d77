// use_fast_math nbody
extern "C" __global__ void use_fast_math_nbody(const float4* p, float3* a, int n) {
  extern __shared__ float4 sh[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float4 me = i < n ? p[i] : make_float4(0, 0, 0, 0);
  float3 acc = {0, 0, 0};
  for (int t = 0; t < n; t += blockDim.x) {
    sh[threadIdx.x] = t + threadIdx.x < n ? p[t + threadIdx.x] : make_float4(0, 0, 0, 0);
    __syncthreads();
    for (int j = 0; j < blockDim.x; j++) {
      float4 q = sh[j];
      float dx = q.x - me.x, dy = q.y - me.y, dz = q.z - me.z;
      float r = dx * dx + dy * dy + dz * dz + 1e-2f;
      float inv = rsqrtf(r);
      float s = q.w * inv * inv * inv;
      acc.x += dx * s;
      acc.y += dy * s;
      acc.z += dz * s;
    }
    __syncthreads();
  }
  if (i < n) a[i] = acc;
}
