// Pieces of neural networks in f32, f16 and bf16.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr unsigned ALL = 0xffffffffu;

// Attention with an online softmax: one warp per query, keys lane by lane.
extern "C" __global__ void attention(const float *q, const float *k, const float *v, float *out, int n, int d,
                                     float scale, int causal) {
    const int query = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
    if (query >= n) return;
    float most = -INFINITY, total = 0, sums[4] = {};
    for (int start = 0; start < n; start += 32) {
        const int key = start + lane;
        float score = -INFINITY;
        if (key < n && (!causal || key <= query)) {
            score = 0;
            for (int i = 0; i < d; ++i) score = fmaf(q[query * d + i], k[key * d + i], score);
            score *= scale;
        }
        float best = fmaxf(most, score);
        for (int step = 16; step; step /= 2) best = fmaxf(best, __shfl_xor_sync(ALL, best, step));
        if (best == -INFINITY) continue;
        const float shrink = __expf(most - best), weight = __expf(score - best);
        total = total * shrink + weight;
        for (int j = 0; j < 4; ++j) sums[j] *= shrink;
        for (int other = 0; other < 32 && start + other < n; ++other) {
            const float w = __shfl_sync(ALL, weight, other);
            for (int j = 0; j < 4; ++j)
                if (lane + 32 * j < d) sums[j] = fmaf(w, v[(start + other) * d + lane + 32 * j], sums[j]);
        }
        most = best;
    }
    for (int step = 16; step; step /= 2) total += __shfl_xor_sync(ALL, total, step);
    for (int j = 0; j < 4; ++j)
        if (lane + 32 * j < d) out[query * d + lane + 32 * j] = sums[j] / total;
}

extern "C" __global__ void rms_norm_half(const __half2 *in, const __half2 *gain, __half2 *out, int pairs, float epsilon) {
    __shared__ float parts[32];
    float sum = 0;
    for (int i = threadIdx.x; i < pairs; i += blockDim.x) {
        const float2 x = __half22float2(in[blockIdx.x * pairs + i]);
        sum += x.x * x.x + x.y * x.y;
    }
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(ALL, sum, step);
    if ((threadIdx.x & 31) == 0) parts[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int w = 0; w < blockDim.x / 32; ++w) sum += parts[w];
    const float scale = rsqrtf(sum / (2 * pairs) + epsilon);
    for (int i = threadIdx.x; i < pairs; i += blockDim.x)
        out[blockIdx.x * pairs + i] = __hmul2(__hmul2(in[blockIdx.x * pairs + i], __float2half2_rn(scale)), gain[i]);
}

extern "C" __global__ void gelu_bf16(const __nv_bfloat16 *in, __nv_bfloat16 *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float x = __bfloat162float(in[i]);
    out[i] = __float2bfloat16(0.5f * x * (1.0f + erff(x * 0.70710678f)));
}

extern "C" __global__ void softmax_half(const __half *in, __half *out, int width) {
    __shared__ float shared[32];
    const __half *row = in + (size_t)blockIdx.x * width;
    float most = -65504.0f;
    for (int i = threadIdx.x; i < width; i += blockDim.x) most = fmaxf(most, __half2float(row[i]));
    for (int step = 16; step; step /= 2) most = fmaxf(most, __shfl_xor_sync(ALL, most, step));
    if ((threadIdx.x & 31) == 0) shared[threadIdx.x / 32] = most;
    __syncthreads();
    for (int w = 0; w < blockDim.x / 32; ++w) most = fmaxf(most, shared[w]);
    __syncthreads();
    float sum = 0;
    for (int i = threadIdx.x; i < width; i += blockDim.x) sum += expf(__half2float(row[i]) - most);
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(ALL, sum, step);
    if ((threadIdx.x & 31) == 0) shared[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = 0;
    for (int w = 0; w < blockDim.x / 32; ++w) sum += shared[w];
    for (int i = threadIdx.x; i < width; i += blockDim.x)
        out[(size_t)blockIdx.x * width + i] = __float2half(expf(__half2float(row[i]) - most) / sum);
}

extern "C" __global__ void half_intrinsics(const __half2 *a, const __half2 *b, __half2 *out, int *truths, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const __half2 x = a[i], y = b[i];
    __half2 *o = out + 8 * i;
    o[0] = __hadd2(x, y);
    o[1] = __hsub2(x, y);
    o[2] = __hmul2(x, y);
    o[3] = __hfma2(x, y, x);
    o[4] = __hmax2(x, y);
    o[5] = __hmin2(x, y);
    o[6] = __habs2(__hneg2(x));
    o[7] = __lowhigh2highlow(__hadd2_sat(x, y));
    truths[i] = __hblt2(x, y) | __hbeq2(x, x) << 1 | __hge(__low2half(x), __high2half(y)) << 2 |
                __half2int_rn(__low2half(x)) << 8;
}

extern "C" __global__ void bf16_intrinsics(const __nv_bfloat162 *a, const __nv_bfloat162 *b, __nv_bfloat162 *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const __nv_bfloat162 x = a[i], y = b[i];
    __nv_bfloat162 *o = out + 5 * i;
    o[0] = __hadd2(x, y);
    o[1] = __hmul2(x, y);
    o[2] = __hfma2(x, y, x);
    o[3] = __hmax2(x, y);
    o[4] = __hneg2(y);
}

// Momentum and adaptive steps of an optimiser (Adam), with global norms clipped.
extern "C" __global__ void adam(float *weights, const float *gradients, float *first, float *second, int n, float rate,
                                float b1, float b2, float c1, float c2) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        const float g = gradients[i], m = b1 * first[i] + (1 - b1) * g, v = b2 * second[i] + (1 - b2) * g * g;
        first[i] = m;
        second[i] = v;
        weights[i] -= rate * (m / c1) / (sqrtf(v / c2) + 1e-8f);
    }
}

// 3x3 convolution over channels, pooling and a rectifier in one.
extern "C" __global__ void conv_relu_pool(const float *in, const float *filters, const float *bias, float *out,
                                          int channels, int size) {
    const int x = threadIdx.x, y = threadIdx.y, f = blockIdx.x, half = (size - 2) / 2;
    if (x >= half || y >= half) return;
    float best = 0;
    for (int dy = 0; dy < 2; ++dy)
        for (int dx = 0; dx < 2; ++dx) {
            float sum = bias[f];
            for (int c = 0; c < channels; ++c)
                for (int j = 0; j < 9; ++j)
                    sum += in[(c * size + 2 * y + dy + j / 3) * size + 2 * x + dx + j % 3] * filters[(f * channels + c) * 9 + j];
            best = fmaxf(best, sum);
        }
    out[(f * half + y) * half + x] = best;
}
