// Dense and sparse linear algebra.

constexpr unsigned ALL = 0xffffffffu;

extern "C" __global__ void matmul_naive(const double *a, const double *b, double *c, int m, int n, int k) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || column >= n) return;
    double sum = 0;
    for (int i = 0; i < k; ++i) sum += a[row * k + i] * b[i * n + column];
    c[row * n + column] = sum;
}

// 64x64 of the result by 16x16 threads, 4x4 each.
extern "C" __global__ void matmul_registers(const float *a, const float *b, float *c, int n) {
    __shared__ float tile_a[16][64 + 4], tile_b[16][64];
    const int tx = threadIdx.x, ty = threadIdx.y, t = ty * 16 + tx;
    const int row = blockIdx.y * 64, column = blockIdx.x * 64;
    float sums[4][4] = {};
    for (int k = 0; k < n; k += 16) {
        for (int i = t; i < 16 * 64; i += 256) {
            tile_a[i % 16][i / 16] = a[(row + i / 16) * n + k + i % 16];
            tile_b[i / 64][i % 64] = b[(k + i / 64) * n + column + i % 64];
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const float4 left = *(const float4 *)&tile_a[i][4 * ty], right = *(const float4 *)&tile_b[i][4 * tx];
            const float l[4] = {left.x, left.y, left.z, left.w}, r[4] = {right.x, right.y, right.z, right.w};
#pragma unroll
            for (int y = 0; y < 4; ++y)
#pragma unroll
                for (int x = 0; x < 4; ++x) sums[y][x] = fmaf(l[y], r[x], sums[y][x]);
        }
        __syncthreads();
    }
    for (int y = 0; y < 4; ++y)
        for (int x = 0; x < 4; ++x) c[(row + 4 * ty + y) * n + column + 4 * tx + x] = sums[y][x];
}

// Two tiles in turn: the next one is fetched into registers while this one is used.
extern "C" __global__ void matmul_double_buffered(const float *a, const float *b, float *c, int n) {
    __shared__ float tile_a[2][16][16], tile_b[2][16][17];
    const int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, column = blockIdx.x * 16 + tx;
    float next_a = a[row * n + tx], next_b = b[ty * n + column], sum = 0;
    for (int k = 0, now = 0; k < n; k += 16, now ^= 1) {
        tile_a[now][ty][tx] = next_a;
        tile_b[now][ty][tx] = next_b;
        __syncthreads();
        if (k + 16 < n) {
            next_a = a[row * n + k + 16 + tx];
            next_b = b[(k + 16 + ty) * n + column];
        }
#pragma unroll
        for (int i = 0; i < 16; ++i) sum = fmaf(tile_a[now][ty][i], tile_b[now][i][tx], sum);
    }
    c[row * n + column] = sum;
}

extern "C" __global__ void transpose_swizzled(const int *in, int *out, int n) {
    __shared__ int tile[32][32];
    const int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 32, column = blockIdx.x * 32;
    for (int j = y; j < 32; j += blockDim.y) tile[j][x ^ j] = in[(row + j) * n + column + x];
    __syncthreads();
    for (int j = y; j < 32; j += blockDim.y) out[(column + j) * n + row + x] = tile[x][j ^ x];
}

// LU decomposition in place, without pivoting: one step of Doolittle's method.
extern "C" __global__ void lu_column(double *a, int n, int k) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x + k + 1;
    if (i < n) a[i * n + k] /= a[k * n + k];
}

extern "C" __global__ void lu_update(double *a, int n, int k) {
    const int j = blockIdx.x * blockDim.x + threadIdx.x + k + 1, i = blockIdx.y * blockDim.y + threadIdx.y + k + 1;
    if (i < n && j < n) a[i * n + j] -= a[i * n + k] * a[k * n + j];
}

// Cholesky of one small matrix per block, in shared memory.
extern "C" __global__ void cholesky(float *matrices, int n) {
    __shared__ float a[24][25];
    float *own = matrices + blockIdx.x * n * n;
    const int t = threadIdx.x;
    for (int i = t; i < n * n; i += blockDim.x) a[i / n][i % n] = own[i];
    __syncthreads();
    for (int k = 0; k < n; ++k) {
        if (t == 0) a[k][k] = sqrtf(a[k][k]);
        __syncthreads();
        if (t > k && t < n) a[t][k] /= a[k][k];
        __syncthreads();
        if (t > k && t < n)
            for (int j = k + 1; j <= t; ++j) a[t][j] -= a[t][k] * a[j][k];
        __syncthreads();
    }
    for (int i = t; i < n * n; i += blockDim.x) own[i] = i % n <= i / n ? a[i / n][i % n] : 0.0f;
}

extern "C" __global__ void spmv_csr_vector(const int *starts, const int *columns, const float *values, const float *x,
                                           float *y, int rows) {
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x & 31;
    if (row >= rows) return;
    float sum = 0;
    for (int i = starts[row] + lane; i < starts[row + 1]; i += 32) sum = fmaf(values[i], x[columns[i]], sum);
    for (int step = 16; step; step /= 2) sum += __shfl_down_sync(ALL, sum, step);
    if (lane == 0) y[row] = sum;
}

extern "C" __global__ void spmv_coo(const int *rows, const int *columns, const double *values, const double *x,
                                    double *y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&y[rows[i]], values[i] * x[columns[i]]);
}

// Lower triangular solve: the rows of one level depend on earlier levels only.
extern "C" __global__ void triangular_level(const int *starts, const int *columns, const double *values,
                                            const double *b, double *x, const int *order, int first, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const int row = order[first + i], end = starts[row + 1] - 1;  // the diagonal is last
    double sum = b[row];
    for (int j = starts[row]; j < end; ++j) sum -= values[j] * x[columns[j]];
    x[row] = sum / values[end];
}

// The same without levels: a row waits until the rows that it needs have been solved.
extern "C" __global__ void triangular_waiting(const int *starts, const int *columns, const double *values,
                                              const double *b, double *x, int *solved, int n) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= n) return;
    double sum = b[row];
    volatile int *flags = solved;
    volatile double *answers = x;
    int j = starts[row];
    const int end = starts[row + 1] - 1;
    while (j < end) {
        if (flags[columns[j]]) {
            __threadfence();
            sum -= values[j] * answers[columns[j]];
            ++j;
        }
    }
    answers[row] = sum / values[end];
    __threadfence();
    flags[row] = 1;
}

// Conjugate gradients: the vector pieces, with scalars that stay on the device.
__device__ double block_sum(double value) {
    __shared__ double parts[256];
    parts[threadIdx.x] = value;
    __syncthreads();
    for (int step = blockDim.x / 2; step; step /= 2) {
        if (threadIdx.x < step) parts[threadIdx.x] += parts[threadIdx.x + step];
        __syncthreads();
    }
    const double sum = parts[0];
    __syncthreads();
    return sum;
}

// Solves the Poisson equation on a line (stencil -1 2 -1) in one block.
extern "C" __global__ void conjugate_gradient(const double *b, double *x, double *r, double *p, double *ap, int n,
                                              int limit, double goal, int *iterations) {
    double rr = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        x[i] = 0;
        r[i] = p[i] = b[i];
        rr += b[i] * b[i];
    }
    rr = block_sum(rr);
    int k = 0;
    for (; k < limit && rr > goal; ++k) {
        double pap = 0;
        for (int i = threadIdx.x; i < n; i += blockDim.x) {
            ap[i] = 2 * p[i] - (i > 0 ? p[i - 1] : 0) - (i + 1 < n ? p[i + 1] : 0);
            pap += p[i] * ap[i];
        }
        const double alpha = rr / block_sum(pap);
        double next = 0;
        for (int i = threadIdx.x; i < n; i += blockDim.x) {
            x[i] += alpha * p[i];
            r[i] -= alpha * ap[i];
            next += r[i] * r[i];
        }
        next = block_sum(next);
        for (int i = threadIdx.x; i < n; i += blockDim.x) p[i] = r[i] + next / rr * p[i];
        rr = next;
        __syncthreads();
    }
    if (threadIdx.x == 0) *iterations = k;
}

// Thomas algorithm: one tridiagonal system per thread, interleaved in memory.
extern "C" __global__ void tridiagonal(const float *lower, const float *diagonal, float *upper, float *right, int n,
                                       int count) {
    const int s = blockIdx.x * blockDim.x + threadIdx.x;
    if (s >= count) return;
    upper[s] /= diagonal[s];
    right[s] /= diagonal[s];
    for (int i = 1; i < n; ++i) {
        const int at = i * count + s, before = at - count;
        const float scale = 1.0f / (diagonal[at] - lower[at] * upper[before]);
        upper[at] *= scale;
        right[at] = (right[at] - lower[at] * right[before]) * scale;
    }
    for (int i = n - 2; i >= 0; --i) right[i * count + s] -= upper[i * count + s] * right[(i + 1) * count + s];
}

// Quantised product: four bytes at a time.
extern "C" __global__ void matmul_dp4a(const int *a, const int *b, int *c, const float *scale, float *out, int m, int n,
                                       int k4) {
    const int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || column >= n) return;
    int sum = 0;
    for (int i = 0; i < k4; ++i) sum = __dp4a(a[row * k4 + i], b[column * k4 + i], sum);
    c[row * n + column] = sum;
    out[row * n + column] = sum * scale[row];
}
