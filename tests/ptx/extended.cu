// Double-precision functions with their slow paths, and 128-bit integers: carry chains, packing, local tables.
// Compile: nvcc -ptx -arch=compute_80 -O3 extended.cu -o extended.ptx
#include <math.h>
extern "C" __global__ void maths(int n, const double* x, double* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double v = x[i];
    out[i] = sin(v); out[n + i] = pow(fabs(v) + 0.5, 1.7); out[2 * n + i] = atan2(v, 2.0); out[3 * n + i] = fmod(v, 3.0); out[4*n+i] = cos(v) + hypot(v, 3.0);
}
extern "C" __global__ void wide(int n, const unsigned long long* a, const unsigned long long* b, unsigned long long* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned __int128 x = ((unsigned __int128)a[i] << 64) | b[i], y = ((unsigned __int128)b[i] << 64) | a[i];
    unsigned __int128 s = x + y, d = x - y, p = x * y;
    out[6 * i] = (unsigned long long)s; out[6 * i + 1] = s >> 64; out[6 * i + 2] = (unsigned long long)d; out[6 * i + 3] = d >> 64;
    out[6 * i + 4] = (unsigned long long)p; out[6 * i + 5] = p >> 64;
}
