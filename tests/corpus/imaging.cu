// Filters and transforms of images.

constexpr int RADIUS = 4;
__constant__ float row_filter[2 * RADIUS + 1];
__constant__ float square_filter[5][5];

// Separable convolution with zero edges: rows with a halo in shared memory, then columns.
extern "C" __global__ void convolve_rows(const float *in, float *out, int w, int h) {
    __shared__ float tile[4][64 + 2 * RADIUS];
    const int y = blockIdx.y * 4 + threadIdx.y, start = blockIdx.x * 64 - RADIUS;
    for (int i = threadIdx.x; i < 64 + 2 * RADIUS; i += 64) {
        const int x = start + i;
        tile[threadIdx.y][i] = y < h && x >= 0 && x < w ? in[y * w + x] : 0.0f;
    }
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (int i = 0; i <= 2 * RADIUS; ++i) sum = fmaf(tile[threadIdx.y][threadIdx.x + i], row_filter[i], sum);
    const int x = blockIdx.x * 64 + threadIdx.x;
    if (x < w && y < h) out[y * w + x] = sum;
}

extern "C" __global__ void convolve_columns(const float *in, float *out, int w, int h) {
    __shared__ float tile[32 + 2 * RADIUS][16];
    const int x = blockIdx.x * 16 + threadIdx.x, start = blockIdx.y * 32 - RADIUS;
    for (int i = threadIdx.y; i < 32 + 2 * RADIUS; i += blockDim.y) {
        const int y = start + i;
        tile[i][threadIdx.x] = x < w && y >= 0 && y < h ? in[y * w + x] : 0.0f;
    }
    __syncthreads();
    for (int j = threadIdx.y; j < 32; j += blockDim.y) {
        float sum = 0;
        for (int i = 0; i <= 2 * RADIUS; ++i) sum = fmaf(tile[j + i][threadIdx.x], row_filter[i], sum);
        const int y = blockIdx.y * 32 + j;
        if (x < w && y < h) out[y * w + x] = sum;
    }
}

// 5x5 with repeated edges, tile and halo in shared memory.
extern "C" __global__ void convolve_square(const float *in, float *out, int w, int h) {
    __shared__ float tile[20][20];
    const int x0 = blockIdx.x * 16 - 2, y0 = blockIdx.y * 16 - 2;
    for (int i = threadIdx.y * 16 + threadIdx.x; i < 400; i += 256)
        tile[i / 20][i % 20] = in[min(max(y0 + i / 20, 0), h - 1) * w + min(max(x0 + i % 20, 0), w - 1)];
    __syncthreads();
    const int x = x0 + 2 + threadIdx.x, y = y0 + 2 + threadIdx.y;
    if (x >= w || y >= h) return;
    float sum = 0;
    for (int j = 0; j < 5; ++j)
        for (int i = 0; i < 5; ++i) sum = fmaf(tile[threadIdx.y + j][threadIdx.x + i], square_filter[j][i], sum);
    out[y * w + x] = sum;
}

extern "C" __global__ void bilateral(const float *in, float *out, int w, int h, int radius, float space, float range) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    const float centre = in[y * w + x];
    float sum = 0, weights = 0;
    for (int j = max(y - radius, 0); j <= min(y + radius, h - 1); ++j)
        for (int i = max(x - radius, 0); i <= min(x + radius, w - 1); ++i) {
            const float value = in[j * w + i], difference = value - centre;
            const float away = (float)((i - x) * (i - x) + (j - y) * (j - y));
            const float weight = expf(-away * space - difference * difference * range);
            sum += weight * value;
            weights += weight;
        }
    out[y * w + x] = sum / weights;
}

// Lines through the set pixels: votes for (angle, distance).
extern "C" __global__ void hough(const unsigned char *image, int w, int h, int *votes, int angles, int distances) {
    extern __shared__ int local[];
    const int angle = blockIdx.x;
    for (int i = threadIdx.x; i < distances; i += blockDim.x) local[i] = 0;
    __syncthreads();
    const double theta = angle * 3.14159265358979323846 / angles, c = cos(theta), s = sin(theta);
    for (int i = threadIdx.x; i < w * h; i += blockDim.x)
        if (image[i]) atomicAdd(&local[(int)floor(i % w * c + i / w * s + 0.5) + distances / 2], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < distances; i += blockDim.x) votes[angle * distances + i] = local[i];
}

// Colours to grey and to YCbCr, four bytes at a time.  With literal weights nvcc 13.0 makes a dp2a of packed bytes
// out of the sums, which is not what the source says; so the weights are data.
__constant__ int weights[3][3] = {{77, 150, 29}, {-43, -85, 128}, {128, -107, -21}};

extern "C" __global__ void colours(const uchar4 *in, unsigned char *grey, uchar4 *ycc, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const uchar4 p = in[i];
    int sums[3];
    for (int j = 0; j < 3; ++j) sums[j] = (weights[j][0] * p.x + weights[j][1] * p.y + weights[j][2] * p.z + 128) >> 8;
    grey[i] = (unsigned char)sums[0];
    const int cb = min(255, sums[1] + 128), cr = min(255, sums[2] + 128);
    ycc[i] = make_uchar4((unsigned char)sums[0], (unsigned char)cb, (unsigned char)cr, p.w);
}

// Bilinear scaling.
extern "C" __global__ void resize(const float *in, int w, int h, float *out, int ow, int oh) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= ow || y >= oh) return;
    const double fx = (double)x * (w - 1) / (ow - 1), fy = (double)y * (h - 1) / (oh - 1);
    const int x0 = min((int)fx, w - 2), y0 = min((int)fy, h - 2);
    const double ax = fx - x0, ay = fy - y0;
    const double top = in[y0 * w + x0] * (1 - ax) + in[y0 * w + x0 + 1] * ax;
    const double bottom = in[(y0 + 1) * w + x0] * (1 - ax) + in[(y0 + 1) * w + x0 + 1] * ax;
    out[y * ow + x] = (float)(top * (1 - ay) + bottom * ay);
}

// Integral image: prefix sums of rows, then of columns.
extern "C" __global__ void integral_rows(const unsigned char *in, unsigned *out, int w, int h) {
    const int y = blockIdx.x * blockDim.x + threadIdx.x;
    if (y >= h) return;
    unsigned sum = 0;
    for (int x = 0; x < w; ++x) out[y * w + x] = sum += in[y * w + x];
}

extern "C" __global__ void integral_columns(unsigned *data, int w, int h) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x;
    if (x >= w) return;
    for (int y = 1; y < h; ++y) data[y * w + x] += data[(y - 1) * w + x];
}

// Marching squares: the case of each cell, and crossings on its edges appended to a list.
extern "C" __global__ void marching_squares(const float *field, int w, int h, float level, unsigned char *cases,
                                            float2 *points, int *count) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w - 1 || y >= h - 1) return;
    const float corner[4] = {field[y * w + x], field[y * w + x + 1], field[(y + 1) * w + x + 1], field[(y + 1) * w + x]};
    int code = 0;
    for (int i = 0; i < 4; ++i) code |= (corner[i] > level) << i;
    cases[y * (w - 1) + x] = (unsigned char)code;
    const int dx[4] = {0, 1, 1, 0}, dy[4] = {0, 0, 1, 1};
    for (int i = 0; i < 4; ++i) {
        const int j = (i + 1) & 3;
        if ((code >> i & 1) == (code >> j & 1)) continue;
        const float t = (level - corner[i]) / (corner[j] - corner[i]);
        points[atomicAdd(count, 1)] = make_float2(x + dx[i] + t * (dx[j] - dx[i]), y + dy[i] + t * (dy[j] - dy[i]));
    }
}

// Binary erosion and dilation with a 3x3 square, packed 32 pixels to a word.
extern "C" __global__ void morphology(const unsigned *in, unsigned *eroded, unsigned *dilated, int words, int h) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y;
    if (i >= words) return;
    unsigned least = ~0u, most = 0;
    for (int j = y - 1; j <= y + 1; ++j) {
        const unsigned own = j >= 0 && j < h ? in[j * words + i] : 0;
        const unsigned before = j >= 0 && j < h && i > 0 ? in[j * words + i - 1] : 0;
        const unsigned after = j >= 0 && j < h && i + 1 < words ? in[j * words + i + 1] : 0;
        const unsigned left = __funnelshift_l(before, own, 1), right = __funnelshift_r(own, after, 1);
        least &= own & left & right;
        most |= own | left | right;
    }
    eroded[y * words + i] = least;
    dilated[y * words + i] = most;
}
