#include <mma.h>
using namespace nvcuda::wmma;
template <typename T, int K, typename Op>
__device__ void product(const void* a, const void* b, int* d, unsigned lda, unsigned ldb, unsigned ldd, Op op, layout_t layout) {
  fragment<matrix_a, 8, 8, K, T, row_major> fa;
  fragment<matrix_b, 8, 8, K, T, col_major> fb;
  fragment<accumulator, 8, 8, K, int> fc;
  load_matrix_sync(fa, a, lda);
  load_matrix_sync(fb, b, ldb);
  load_matrix_sync(fc, d, ldd, layout);
  op(fc, fa, fb);
  store_matrix_sync(d, fc, ldd, layout);
}
extern "C" __global__ void s4(const void* a, const void* b, int* d, unsigned lda, unsigned ldb, unsigned ldd) {
  product<experimental::precision::s4, 32>(a, b, d, lda, ldb, ldd, [](auto& c, auto& x, auto& y) { mma_sync(c, x, y, c); }, mem_row_major);
}
extern "C" __global__ void u4(const void* a, const void* b, int* d, unsigned lda, unsigned ldb, unsigned ldd) {
  product<experimental::precision::u4, 32>(a, b, d, lda, ldb, ldd, [](auto& c, auto& x, auto& y) { mma_sync(c, x, y, c, true); }, mem_col_major);
}
extern "C" __global__ void bx(const void* a, const void* b, int* d, unsigned lda, unsigned ldb, unsigned ldd) {
  product<experimental::precision::b1, 128>(a, b, d, lda, ldb, ldd, [](auto& c, auto& x, auto& y) { bmma_sync(c, x, y, c); }, mem_row_major);
}
extern "C" __global__ void ba(const void* a, const void* b, int* d, unsigned lda, unsigned ldb, unsigned ldd) {
  product<experimental::precision::b1, 128>(a, b, d, lda, ldb, ldd, [](auto& c, auto& x, auto& y) { bmma_sync(c, x, y, c, experimental::bmmaBitOpAND); }, mem_col_major);
}
