// Half precision, bfloat16, 8-bit floats and SIMD-in-word as CUDA C++ uses them.
// Compile: nvcc -ptx -arch=compute_90 -O3 half.cu -o half.ptx
//          nvcc -ptx -arch=compute_75 -O3 half.cu -o half_75.ptx
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

// y = A x, with A in half2 and partial sums of 64 products in half, then in float.
extern "C" __global__ void gemv(int rows, int pairs, const half2* a, const half2* x, float* y) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float total = 0.0f;
    for (int start = 0; start < pairs; start += 32) {
        half2 sum = __float2half2_rn(0.0f);
        for (int k = start; k < min(start + 32, pairs); ++k) sum = __hfma2(a[row * pairs + k], x[k], sum);
        total += __low2float(sum) + __high2float(sum);
    }
    y[row] = total;
}

// Four-bit weights with a scale for each 32 of them: eight weights a word, low nibble first.
extern "C" __global__ void dequantise(int words, const unsigned* q, const half* scale, half* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= words) return;
    unsigned w = q[i];
    half2 s = __half2half2(scale[i / 4]);
    half2 magic = __halves2half2(__ushort_as_half(0x6408), __ushort_as_half(0x6408));
    half2* to = reinterpret_cast<half2*>(out + 8 * i);
    unsigned order[4] = {w & 0x000f000fu, w >> 4 & 0x000f000fu, w >> 8 & 0x000f000fu, w >> 12 & 0x000f000fu};
    half2 v[4];
    for (int k = 0; k < 4; ++k) {
        unsigned bits = order[k] | 0x64006400u;
        v[k] = __hmul2(__hsub2(*reinterpret_cast<half2*>(&bits), magic), s);
    }
    to[0] = __lows2half2(v[0], v[1]); to[1] = __lows2half2(v[2], v[3]);
    to[2] = __highs2half2(v[0], v[1]); to[3] = __highs2half2(v[2], v[3]);
}

// Softmax over rows of 128 bfloat16 values, one block of 128 threads a row.
extern "C" __global__ void softmax(const __nv_bfloat16* in, __nv_bfloat16* out) {
    __shared__ float part[4];
    int i = blockIdx.x * 128 + threadIdx.x;
    float v = __bfloat162float(in[i]), top = v;
    for (int d = 16; d; d >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, d));
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = top;
    __syncthreads();
    top = fmaxf(fmaxf(part[0], part[1]), fmaxf(part[2], part[3]));
    __syncthreads();
    float e = exp2f((v - top) * 1.44269504f), sum = e;
    for (int d = 16; d; d >>= 1) sum += __shfl_xor_sync(~0u, sum, d);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = part[0] + part[1] + part[2] + part[3];
    out[i] = __float2bfloat16(e / sum);
}

// Relu, minimum and maximum, comparison masks, and sums that many threads make in one place.
extern "C" __global__ void reduce(int n, const half2* in, half2* sums, __nv_bfloat162* brain, half* single, int* counts) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    half2 v = in[i];
    half2 bounded = __hmin2(__hmax2(v, __float2half2_rn(-2.0f)), __float2half2_rn(2.0f));
    atomicAdd(&sums[i % 4], bounded);
    atomicAdd(&brain[i % 4], __floats2bfloat162_rn(__low2float(bounded), __high2float(bounded)));
    atomicAdd(&single[i % 2], __low2half(bounded));
    if (__hbgt2(v, __float2half2_rn(0.0f))) atomicAdd(&counts[0], 1);
    if (__hge(__low2half(v), __high2half(v))) atomicAdd(&counts[1], 1);
    half2 above = __hgt2(v, __float2half2_rn(1.0f));
    atomicAdd(&counts[2], int(__half2float(__low2half(above)) + __half2float(__high2half(above))));
}

// Elementwise half functions: exponential, logarithm, root, reciprocal, rounding and conversion.
extern "C" __global__ void functions(int n, const half* in, half* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    half v = in[i];
    out[i] = hexp2(v); out[n + i] = hsqrt(__habs(v)); out[2 * n + i] = hrcp(v); out[3 * n + i] = htanh(v);
    out[4 * n + i] = hfloor(v); out[5 * n + i] = hrint(v); out[6 * n + i] = __int2half_rn(__half2int_rz(v));
    out[7 * n + i] = __hneg(__hmul_sat(v, v)); out[8 * n + i] = hexp(v); out[9 * n + i] = hlog(__habs(v));
}

// Bytes: sums of absolute differences, saturating sums, dot products, and 8-bit floats there and back.
extern "C" __global__ void bytes(int n, const unsigned* a, const unsigned* b, unsigned* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned x = a[i], y = b[i];
    out[i] = __vsadu4(x, y); out[n + i] = __vaddus4(x, y); out[2 * n + i] = __vabsdiffu4(x, y);
    out[3 * n + i] = __vmaxs2(x, y); out[4 * n + i] = __vcmpgtu4(x, y); out[5 * n + i] = __vavgu4(x, y);
    out[6 * n + i] = __dp4a(x, y, 7u); out[7 * n + i] = __dp4a(int(x), int(y), -7); out[8 * n + i] = __dp2a_lo(x, y, 1u);
    unsigned d; asm("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;" : "=r"(d) : "r"(x), "r"(y), "r"(5u)); out[9 * n + i] = d;
    asm("vadd.s32.s32.u32.sat %0, %1.b1, %2.h1;" : "=r"(d) : "r"(x), "r"(y)); out[10 * n + i] = d;
}

extern "C" __global__ void eight(int n, const float2* in, unsigned short* codes, float2* back) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __nv_fp8x2_e4m3 small(in[i]);
    __nv_fp8x2_e5m2 wide(in[i]);
    codes[i] = small.__x; codes[n + i] = wide.__x;
    back[i] = float2(small); back[n + i] = float2(wide);
}
