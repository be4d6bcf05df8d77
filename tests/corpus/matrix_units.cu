// Matrix products by tensor-core instructions.
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;

// One warp per 16x16 of the result; A is m by k, B is k by n, all row by row.
extern "C" __global__ void wmma_half(const __half *a, const __half *b, float *c, int n, int k) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    const int row = 16 * blockIdx.y, column = 16 * (blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32);
    for (int i = 0; i < k; i += 16) {
        wmma::load_matrix_sync(left, a + row * k + i, k);
        wmma::load_matrix_sync(right, b + i * n + column, n);
        wmma::mma_sync(sum, left, right, sum);
    }
    wmma::store_matrix_sync(c + row * n + column, sum, n, wmma::mem_row_major);
}

extern "C" __global__ void wmma_int8(const signed char *a, const signed char *b, int *c, int n, int k) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> left;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, signed char, wmma::col_major> right;
    wmma::fragment<wmma::accumulator, 16, 16, 16, int> sum;
    wmma::fill_fragment(sum, 0);
    for (int i = 0; i < k; i += 16) {
        wmma::load_matrix_sync(left, a + 16 * blockIdx.y * k + i, k);
        wmma::load_matrix_sync(right, b + 16 * blockIdx.x * k + i, k);
        wmma::mma_sync(sum, left, right, sum);
    }
    wmma::store_matrix_sync(c + 16 * blockIdx.y * n + 16 * blockIdx.x, sum, n, wmma::mem_row_major);
}

// One warp, 16x8 of the result at a time, fragments loaded by hand; B is given column by column.
extern "C" __global__ void mma_half(const unsigned *a, const unsigned *b, float *c, int n, int k) {
    const int lane = threadIdx.x & 31, group = lane / 4, quad = lane % 4, pairs = k / 2;
    const int row = 16 * blockIdx.y + group, column = 8 * blockIdx.x;
    float d[4] = {};
    for (int i = 0; i < pairs; i += 4) {
        const unsigned a0 = a[row * pairs + i + quad], a1 = a[(row + 8) * pairs + i + quad];
        const unsigned b0 = b[(column + group) * pairs + i + quad];
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a0), "r"(a1), "r"(b0));
    }
    c[row * n + column + 2 * quad] = d[0];
    c[row * n + column + 2 * quad + 1] = d[1];
    c[(row + 8) * n + column + 2 * quad] = d[2];
    c[(row + 8) * n + column + 2 * quad + 1] = d[3];
}
