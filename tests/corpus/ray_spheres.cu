// a small ray tracer with shadows: divergent loops over spheres, early exits
struct Hit {
  float t;
  int which;
};
__device__ Hit cast(float3 o, float3 d, const float4* s, int n) {
  Hit hit = {1e30f, -1};
  for (int i = 0; i < n; i++) {
    float x = s[i].x - o.x, y = s[i].y - o.y, z = s[i].z - o.z;
    float b = x * d.x + y * d.y + z * d.z, c = x * x + y * y + z * z - s[i].w * s[i].w, q = b * b - c;
    if (q < 0) continue;
    float t = b - sqrtf(q);
    if (t > 1e-3f && t < hit.t) hit.t = t, hit.which = i;
  }
  return hit;
}
extern "C" __global__ void ray_spheres(int w, int h, const float4* spheres, int n, int* out) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x >= w || y >= h) return;
  float3 d = make_float3((x + 0.5f) / w * 2 - 1, (y + 0.5f) / h * 2 - 1, 1);
  float inv = rsqrtf(d.x * d.x + d.y * d.y + 1);
  d.x *= inv, d.y *= inv, d.z *= inv;
  Hit hit = cast(make_float3(0, 0, 0), d, spheres, n);
  int result = hit.which;
  if (hit.which >= 0) {
    float3 p = make_float3(d.x * hit.t, d.y * hit.t, d.z * hit.t);
    Hit shadow = cast(p, make_float3(0, -1, 0), spheres, n);
    if (shadow.which >= 0) result += 100;
  }
  out[y * w + x] = result;
}
