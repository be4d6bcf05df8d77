// Image filters on packed pixels: 8 bits each of red, green, blue and alpha, red in the lowest byte.
//
// Every kernel takes an image of `width` by `height` pixels without padding between its rows, and any
// grid that covers it.  Beyond an edge the nearest pixel of the image counts.
// Rebuild image.ptx with `make kernels`.
#include <cstdint>

namespace {

constexpr int kTileWidth = 32;  // blocks of the stencil kernels are 32 by 8 threads
constexpr int kTileHeight = 8;

struct Color {
    unsigned red, green, blue;
};

__device__ Color unpack(uint32_t pixel) {
    return {pixel & 255u, (pixel >> 8) & 255u, (pixel >> 16) & 255u};
}

// An opaque pixel.
__device__ uint32_t pack(unsigned red, unsigned green, unsigned blue) {
    return red | green << 8 | blue << 16 | 255u << 24;
}

// Luminance by the weights of Rec. 601, in 256ths: 77 + 150 + 29 = 256, so white stays 255.
__device__ unsigned luminance(uint32_t pixel) {
    Color c = unpack(pixel);
    return (77u * c.red + 150u * c.green + 29u * c.blue) >> 8;
}

__device__ int clamped(int position, int size) {
    return min(max(position, 0), size - 1);
}

// One row or column of the binomial filter 1 4 6 4 1; the caller divides by 16 per direction.
__device__ unsigned binomial(unsigned a, unsigned b, unsigned c, unsigned d, unsigned e) {
    return a + e + 4u * (b + d) + 6u * c;
}

}  // namespace

extern "C" {

// The luminance of each pixel, as a byte.
__global__ void grayscale(int width, int height, const uint32_t* __restrict__ image, uint8_t* __restrict__ gray) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    gray[y * width + x] = static_cast<uint8_t>(luminance(image[y * width + x]));
}

// A 5x5 Gaussian blur, rows first, then columns, through shared memory.  Launch with blocks of 32 by 8.
__global__ void blur(int width, int height, const uint32_t* __restrict__ image, uint32_t* __restrict__ blurred) {
    constexpr int kHalo = 2;
    constexpr int kRows = kTileHeight + 2 * kHalo;
    __shared__ unsigned red[kRows][kTileWidth], green[kRows][kTileWidth], blue[kRows][kTileWidth];
    int x = blockIdx.x * kTileWidth + threadIdx.x;
    int top = blockIdx.y * kTileHeight;

    for (int row = threadIdx.y; row < kRows; row += kTileHeight) {
        const uint32_t* line = image + clamped(top + row - kHalo, height) * width;
        Color a = unpack(line[clamped(x - 2, width)]), b = unpack(line[clamped(x - 1, width)]);
        Color c = unpack(line[clamped(x, width)]);
        Color d = unpack(line[clamped(x + 1, width)]), e = unpack(line[clamped(x + 2, width)]);
        red[row][threadIdx.x] = binomial(a.red, b.red, c.red, d.red, e.red);
        green[row][threadIdx.x] = binomial(a.green, b.green, c.green, d.green, e.green);
        blue[row][threadIdx.x] = binomial(a.blue, b.blue, c.blue, d.blue, e.blue);
    }
    __syncthreads();

    int y = top + threadIdx.y;
    if (x >= width || y >= height) return;
    auto column = [&](unsigned (*rows)[kTileWidth]) {
        unsigned (*at)[kTileWidth] = rows + threadIdx.y;
        int lane = threadIdx.x;
        return (binomial(at[0][lane], at[1][lane], at[2][lane], at[3][lane], at[4][lane]) + 128u) >> 8;
    };
    blurred[y * width + x] = pack(column(red), column(green), column(blue));
}

// The strength of edges: the length of the Sobel gradient of the luminance, at most 255, as a gray pixel.
__global__ void sobel(int width, int height, const uint32_t* __restrict__ image, uint32_t* __restrict__ edges) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    int west = clamped(x - 1, width), east = clamped(x + 1, width);
    const uint32_t* above = image + clamped(y - 1, height) * width;
    const uint32_t* here = image + y * width;
    const uint32_t* below = image + clamped(y + 1, height) * width;

    int north_west = luminance(above[west]), north = luminance(above[x]), north_east = luminance(above[east]);
    int left = luminance(here[west]), right = luminance(here[east]);
    int south_west = luminance(below[west]), south = luminance(below[x]), south_east = luminance(below[east]);

    int across = north_east + 2 * right + south_east - north_west - 2 * left - south_west;
    int down = south_west + 2 * south + south_east - north_west - 2 * north - north_east;
    float length = sqrtf(static_cast<float>(across * across + down * down));
    unsigned strength = min(static_cast<unsigned>(length + 0.5f), 255u);
    edges[y * width + x] = pack(strength, strength, strength);
}

// Adds to `bins` how often each luminance occurs; 256 bins, cleared by the caller.  Any one-dimensional launch.
__global__ void histogram(int count, const uint32_t* __restrict__ image, unsigned* bins) {
    __shared__ unsigned counts[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x) counts[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        atomicAdd(&counts[luminance(image[i])], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        if (counts[i] != 0) atomicAdd(&bins[i], counts[i]);
}

}  // extern "C"
