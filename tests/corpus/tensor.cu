// half-precision matrix products on tensor cores: wmma, and mma with ldmatrix and asynchronous copies
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void gemm_wmma(int n, const __half* a, const __half* b, float* c) {
  int row = (blockIdx.y * blockDim.y + threadIdx.y) * 16, col = (blockIdx.x * blockDim.x + threadIdx.x) / 32 * 16;
  wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
  wmma::fill_fragment(sum, 0.0f);
  for (int k = 0; k < n; k += 16) {
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> fb;
    wmma::load_matrix_sync(fa, a + row * n + k, n);
    wmma::load_matrix_sync(fb, b + k * n + col, n);
    wmma::mma_sync(sum, fa, fb, sum);
  }
  for (int i = 0; i < sum.num_elements; i++) sum.x[i] *= 0.5f;
  wmma::store_matrix_sync(c + row * n + col, sum, n, wmma::mem_row_major);
}
// 64x64 of c for a block of 4 warps, 32 columns of k at a time in two buffers
extern "C" __global__ void gemm_mma(int n, const __half* a, const __half* b, float* c) {
  __shared__ __align__(16) __half sa[2][64][40], sb[2][32][72];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = blockIdx.y * 64, col = blockIdx.x * 64;
  float sum[8][4] = {};
  auto fetch = [&](int buffer, int k) {
    for (int i = threadIdx.x; i < 256; i += 128) {
      __pipeline_memcpy_async(&sa[buffer][i / 4][i % 4 * 8], &a[(row + i / 4) * n + k + i % 4 * 8], 16);
      __pipeline_memcpy_async(&sb[buffer][i / 8][i % 8 * 8], &b[(k + i / 8) * n + col + i % 8 * 8], 16);
    }
    __pipeline_commit();
  };
  fetch(0, 0);
  for (int k = 0; k < n; k += 32) {
    int now = k / 32 & 1;
    if (k + 32 < n) fetch(now ^ 1, k + 32); else __pipeline_commit();
    __pipeline_wait_prior(1);
    __syncthreads();
    for (int kk = 0; kk < 32; kk += 16) {
      unsigned fa[4];
      unsigned at = __cvta_generic_to_shared(&sa[now][warp * 16 + lane % 16][kk + lane / 16 * 8]);
      asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                   : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3]) : "r"(at));
      for (int j = 0; j < 8; j++) {
        unsigned fb[2];
        unsigned bt = __cvta_generic_to_shared(&sb[now][kk + lane % 16][j * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                     : "=r"(fb[0]), "=r"(fb[1]) : "r"(bt));
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(sum[j][0]), "+f"(sum[j][1]), "+f"(sum[j][2]), "+f"(sum[j][3])
                     : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
      }
    }
    __syncthreads();
  }
  for (int j = 0; j < 8; j++)
    for (int i = 0; i < 4; i++)
      c[(row + warp * 16 + lane / 4 + i / 2 * 8) * n + col + j * 8 + lane % 4 * 2 + i % 2] = sum[j][i];
}
