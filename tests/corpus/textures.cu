// Textures and surfaces through their handles.
#include <cuda_runtime.h>

#define PIXEL                                            \
    const int x = blockIdx.x * blockDim.x + threadIdx.x; \
    const int y = blockIdx.y * blockDim.y + threadIdx.y; \
    if (x >= w || y >= h) return

extern "C" __global__ void texture_rotate(cudaTextureObject_t image, float *out, int w, int h, float c, float s) {
    PIXEL;
    const float u = x - 0.5f * w, v = y - 0.5f * h;
    out[y * w + x] = tex2D<float>(image, u * c - v * s + 0.5f * w + 0.5f, u * s + v * c + 0.5f * h + 0.5f);
}

extern "C" __global__ void texture_gather(cudaTextureObject_t table, const int *where, int *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = tex1Dfetch<int>(table, where[i]);
}

extern "C" __global__ void surface_invert(cudaSurfaceObject_t in, cudaSurfaceObject_t out, int w, int h) {
    PIXEL;
    uchar4 pixel;
    surf2Dread(&pixel, in, x * 4, y);
    surf2Dwrite(make_uchar4(255 - pixel.x, 255 - pixel.y, 255 - pixel.z, pixel.w), out, x * 4, y);
}

// A picture twice as large, by the weights of a cubic B-spline, four linear fetches for each pixel.
extern "C" __global__ void texture_enlarge(cudaTextureObject_t image, float4 *out, int w, int h, float scale) {
    PIXEL;
    const float u = (x + 0.5f) * scale - 0.5f, v = (y + 0.5f) * scale - 0.5f;
    const float i = floorf(u), j = floorf(v), a = u - i, b = v - j;
    float g[2][2], at[2][2];
    const float f[2] = {a, b}, from[2] = {i, j};
    for (int axis = 0; axis < 2; axis++) {
        const float t = f[axis], r = 1 - t;
        const float w0 = r * r * r / 6, w1 = (3 * t * t * t - 6 * t * t + 4) / 6, w3 = t * t * t / 6;
        const float w2 = 1 - w0 - w1 - w3;
        g[axis][0] = w0 + w1;
        g[axis][1] = w2 + w3;
        at[axis][0] = from[axis] - 1 + w1 / g[axis][0] + 0.5f;
        at[axis][1] = from[axis] + 1 + w3 / g[axis][1] + 0.5f;
    }
    float4 sum = make_float4(0, 0, 0, 0);
    for (int q = 0; q < 2; q++)
        for (int p = 0; p < 2; p++) {
            const float4 c = tex2D<float4>(image, at[0][p], at[1][q]);
            const float k = g[0][p] * g[1][q];
            sum.x += k * c.x, sum.y += k * c.y, sum.z += k * c.z, sum.w += k * c.w;
        }
    out[y * w + x] = sum;
}

// The brightest point along each ray through a volume.
extern "C" __global__ void texture_project(cudaTextureObject_t volume, float *out, int w, int h, int steps, float tilt) {
    PIXEL;
    float most = 0;
    for (int i = 0; i < steps; i++) {
        const float t = (i + 0.5f) / steps;
        most = fmaxf(most, tex3D<float>(volume, (x + 0.5f) / w + tilt * (t - 0.5f), (y + 0.5f) / h, t));
    }
    out[y * w + x] = most;
}

// The next level of a mipmap, then a blur by reading it.
extern "C" __global__ void texture_halve(cudaSurfaceObject_t fine, cudaSurfaceObject_t coarse, int w, int h) {
    PIXEL;
    float sum = 0, value;
    for (int dy = 0; dy < 2; dy++)
        for (int dx = 0; dx < 2; dx++) {
            surf2Dread(&value, fine, (2 * x + dx) * 4, 2 * y + dy);
            sum += value;
        }
    surf2Dwrite(sum / 4, coarse, x * 4, y);
}

extern "C" __global__ void texture_blur(cudaTextureObject_t image, const float *level, float *out, int w, int h) {
    PIXEL;
    out[y * w + x] = tex2DLod<float>(image, (x + 0.5f) / w, (y + 0.5f) / h, level[y * w + x]);
}

extern "C" __global__ void texture_shrink(cudaTextureObject_t image, float *out, int w, int h) {
    PIXEL;
    const float2 dx = make_float2(1.0f / w, 0), dy = make_float2(0, 1.0f / h);
    out[y * w + x] = tex2DGrad<float>(image, (x + 0.5f) / w, (y + 0.5f) / h, dx, dy);
}

extern "C" __global__ void texture_sky(cudaTextureObject_t sky, const float3 *direction, float4 *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = texCubemap<float4>(sky, direction[i].x, direction[i].y, direction[i].z);
}

// The largest difference among four neighbours, which come with one fetch.
extern "C" __global__ void texture_edges(cudaTextureObject_t image, unsigned *out, int w, int h) {
    PIXEL;
    const uint4 v = tex2Dgather<uint4>(image, x + 1.0f, y + 1.0f, 1);
    out[y * w + x] = max(max(v.x, v.y), max(v.z, v.w)) - min(min(v.x, v.y), min(v.z, v.w));
}

extern "C" __global__ void texture_layers(cudaTextureObject_t stack, float *out, int w, int h, int layers) {
    PIXEL;
    float sum = 0;
    for (int i = 0; i < layers; i++) sum += tex2DLayered<float>(stack, x + 0.25f, y + 0.75f, i) * (i + 1);
    out[y * w + x] = sum;
}

extern "C" __global__ void surface_layers(cudaSurfaceObject_t stack, int w, int h, int layers) {
    PIXEL;
    short2 before = make_short2(0, 0), own;
    for (int i = 0; i < layers; i++) {
        surf2DLayeredread(&own, stack, x * 4, y, i);
        before.x += own.x, before.y += own.y;
        surf2DLayeredwrite(before, stack, x * 4, y, i);
    }
}

extern "C" __global__ void surface_volume(cudaSurfaceObject_t volume, int w, int h, int d) {
    PIXEL;
    for (int z = 0; z < d; z++) {
        float2 value;
        surf3Dread(&value, volume, (x - 1) * 8, y, z, cudaBoundaryModeClamp);
        surf3Dwrite(make_float2(value.x + z, -value.y), volume, (x + 1) * 8, y, z, cudaBoundaryModeZero);
    }
}
