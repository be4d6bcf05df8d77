// Twelve more kernels: patterns that the first eight do not have.
// Compile: nvcc -ptx -arch=compute_80 -O3 more.cu -o more.ptx
#include <cstdint>

extern "C" {

// inclusive scan of each block's 1024 values, by shuffles
__global__ void scan_blocks(int n, const int* __restrict__ in, int* __restrict__ out) {
    __shared__ int warps[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31, w = threadIdx.x >> 5;
    int v = i < n ? in[i] : 0;
    for (int o = 1; o < 32; o *= 2) {
        int u = __shfl_up_sync(0xffffffffu, v, o);
        if (lane >= o) v += u;
    }
    if (lane == 31) warps[w] = v;
    __syncthreads();
    if (w == 0) {
        int s = lane < blockDim.x / 32 ? warps[lane] : 0;
        for (int o = 1; o < 32; o *= 2) {
            int u = __shfl_up_sync(0xffffffffu, s, o);
            if (lane >= o) s += u;
        }
        warps[lane] = s;
    }
    __syncthreads();
    if (w) v += warps[w - 1];
    if (i < n) out[i] = v;
}

// 32x32 tiles through shared memory
__global__ void transpose(int w, int h, const float* __restrict__ in, float* __restrict__ out) {
    __shared__ float t[32][33];
    int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < w && y + j < h) t[threadIdx.y + j][threadIdx.x] = in[(y + j) * w + x];
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x, y = blockIdx.x * 32 + threadIdx.y;
    for (int j = 0; j < 32; j += 8)
        if (x < h && y + j < w) out[(y + j) * h + x] = t[threadIdx.x][threadIdx.y + j];
}

// 5x5 filter, borders clamped
__global__ void convolve5(int w, int h, const float* __restrict__ in, const float* __restrict__ f, float* __restrict__ out) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    float s = 0;
    for (int j = -2; j <= 2; j++)
        for (int i = -2; i <= 2; i++)
            s += f[(j + 2) * 5 + i + 2] * in[min(max(y + j, 0), h - 1) * w + min(max(x + i, 0), w - 1)];
    out[y * w + x] = s;
}

// sparse matrix times vector, a warp for each row
__global__ void spmv(int rows, const int* __restrict__ start, const int* __restrict__ column,
                     const float* __restrict__ value, const float* __restrict__ x, float* __restrict__ y) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
    if (row >= rows) return;
    float s = 0;
    for (int i = start[row] + lane; i < start[row + 1]; i += 32) s += value[i] * x[column[i]];
    for (int o = 16; o; o /= 2) s += __shfl_down_sync(0xffffffffu, s, o);
    if (lane == 0) y[row] = s;
}

// 7-point stencil, marching along z
__global__ void stencil7(int nx, int ny, int nz, const float* __restrict__ u, float* __restrict__ v, float k) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= nx - 1 || y >= ny - 1) return;
    int plane = nx * ny, i = plane + y * nx + x;
    float below = u[i - plane], here = u[i];
    for (int z = 1; z < nz - 1; z++, i += plane) {
        float above = u[i + plane];
        v[i] = here + k * (u[i - 1] + u[i + 1] + u[i - nx] + u[i + nx] + below + above - 6 * here);
        below = here, here = above;
    }
}

// sorts segments of 1024 in shared memory
__global__ void bitonic(unsigned* data) {
    __shared__ unsigned s[1024];
    unsigned t = threadIdx.x, *own = data + blockIdx.x * 1024;
    s[t] = own[t], s[t + 512] = own[t + 512];
    for (unsigned k = 2; k <= 1024; k *= 2)
        for (unsigned j = k / 2; j; j /= 2) {
            __syncthreads();
            unsigned i = 2 * t - (t & (j - 1)), p = i + j;
            unsigned a = s[i], b = s[p];
            if ((a > b) == ((i & k) == 0)) s[i] = b, s[p] = a;
        }
    __syncthreads();
    own[t] = s[t], own[t + 512] = s[t + 512];
}

// softmax of rows, a block a row
__device__ static float reduce(float v, bool most) {
    __shared__ float s[8];
    for (int o = 16; o; o /= 2) {
        float u = __shfl_xor_sync(0xffffffffu, v, o);
        v = most ? fmaxf(v, u) : v + u;
    }
    if ((threadIdx.x & 31) == 0) s[threadIdx.x / 32] = v;
    __syncthreads();
    v = s[0];
    for (int i = 1; i < 8; i++) v = most ? fmaxf(v, s[i]) : v + s[i];
    __syncthreads();
    return v;
}
__global__ void softmax(int n, const float* __restrict__ in, float* __restrict__ out) {
    const float* row = in + (size_t)blockIdx.x * n;
    float top = -3e38f, sum = 0;
    for (int i = threadIdx.x; i < n; i += 256) top = fmaxf(top, row[i]);
    top = reduce(top, true);
    for (int i = threadIdx.x; i < n; i += 256) sum += __expf(row[i] - top);
    sum = 1 / reduce(sum, false);
    for (int i = threadIdx.x; i < n; i += 256) out[(size_t)blockIdx.x * n + i] = __expf(row[i] - top) * sum;
}

// nearest of k centres in three dimensions
__global__ void nearest(int n, int k, const float* __restrict__ points, const float* __restrict__ centres, int* label) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = points[i], y = points[n + i], z = points[2 * n + i], best = 3e38f;
    int which = 0;
    for (int j = 0; j < k; j++) {
        float dx = x - centres[3 * j], dy = y - centres[3 * j + 1], dz = z - centres[3 * j + 2];
        float d = dx * dx + dy * dy + dz * dz;
        if (d < best) best = d, which = j;
    }
    label[i] = which;
}

// transforms of 1024 points in shared memory
__global__ void fft1024(const float2* __restrict__ in, float2* __restrict__ out, const float2* __restrict__ roots) {
    __shared__ float2 s[1024];
    int t = threadIdx.x;
    for (int i = t; i < 1024; i += 128) s[__brev(i) >> 22] = in[blockIdx.x * 1024 + i];
    for (int half = 1; half < 1024; half *= 2) {
        __syncthreads();
        for (int i = t; i < 512; i += 128) {
            int j = i & (half - 1), a = 2 * i - j, b = a + half;
            float2 r = roots[j * (512 / half)], u = s[a], v = s[b];
            float2 m = make_float2(v.x * r.x - v.y * r.y, v.x * r.y + v.y * r.x);
            s[a] = make_float2(u.x + m.x, u.y + m.y);
            s[b] = make_float2(u.x - m.x, u.y - m.y);
        }
    }
    __syncthreads();
    for (int i = t; i < 1024; i += 128) out[blockIdx.x * 1024 + i] = s[i];
}

// product of 8-bit matrices (b transposed), four products at a time
__global__ void gemm_i8(int n, const int* __restrict__ a, const int* __restrict__ bt, int* __restrict__ c) {
    __shared__ int sa[16][17], sb[16][17];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx, q = n / 4, sum = 0;
    for (int k = 0; k < q; k += 16) {
        sa[ty][tx] = a[row * q + k + tx];
        sb[ty][tx] = bt[(blockIdx.x * 16 + ty) * q + k + tx];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 16; i++) sum = __dp4a(sa[ty][i], sb[tx][i], sum);
        __syncthreads();
    }
    c[row * n + col] = sum;
}

// a keyed hash: rounds of adds, rotations and exclusive ors
__global__ void mix(int n, const unsigned* __restrict__ in, unsigned* __restrict__ out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned a = in[i], b = a ^ 0x61707865u, c = i, d = 0x3320646eu;
#pragma unroll 4
    for (int r = 0; r < 40; r++) {
        a += b, d = __funnelshift_l(d ^ a, d ^ a, 16);
        c += d, b = __funnelshift_l(b ^ c, b ^ c, 12);
        a += b, d = __funnelshift_l(d ^ a, d ^ a, 8);
        c += d, b = __funnelshift_l(b ^ c, b ^ c, 7);
    }
    out[i] = a ^ b ^ c ^ d;
}

// Monte Carlo: points in the quarter circle, random numbers by Philox
__global__ void pi_philox(int rounds, unsigned seed, unsigned* inside) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x, n = 0;
    for (int r = 0; r < rounds; r++) {
        unsigned x = i, y = r, z = 0, w = 0, k0 = seed, k1 = 1;
#pragma unroll
        for (int j = 0; j < 10; j++) {
            unsigned h0 = __umulhi(0xD2511F53u, x), l0 = 0xD2511F53u * x, h1 = __umulhi(0xCD9E8D57u, z), l1 = 0xCD9E8D57u * z;
            x = h1 ^ y ^ k0, y = l1, z = h0 ^ w ^ k1, w = l0;
            k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
        }
        float p = x * 0x1p-32f, q = y * 0x1p-32f, s = z * 0x1p-32f, t = w * 0x1p-32f;
        n += (p * p + q * q < 1) + (s * s + t * t < 1);
    }
    inside[i] = n;
}
}
