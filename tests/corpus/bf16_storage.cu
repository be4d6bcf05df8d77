// bf16 storage
#include <cuda_bf16.h>
extern "C" __global__ void bf16_storage(const __nv_bfloat16* a, __nv_bfloat16* o) {
  int i = threadIdx.x;
  o[i] = __float2bfloat16(__bfloat162float(a[i]) * 3.f);
}
