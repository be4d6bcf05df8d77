// Textures and surfaces through their handles.
#include <cuda_runtime.h>

extern "C" __global__ void texture_rotate(cudaTextureObject_t image, float *out, int w, int h, float c, float s) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    const float u = x - 0.5f * w, v = y - 0.5f * h;
    out[y * w + x] = tex2D<float>(image, u * c - v * s + 0.5f * w + 0.5f, u * s + v * c + 0.5f * h + 0.5f);
}

extern "C" __global__ void texture_gather(cudaTextureObject_t table, const int *where, int *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = tex1Dfetch<int>(table, where[i]);
}

extern "C" __global__ void surface_invert(cudaSurfaceObject_t in, cudaSurfaceObject_t out, int w, int h) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    uchar4 pixel;
    surf2Dread(&pixel, in, x * 4, y);
    surf2Dwrite(make_uchar4(255 - pixel.x, 255 - pixel.y, 255 - pixel.z, pixel.w), out, x * 4, y);
}
