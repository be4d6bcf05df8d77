// The twelve more kernels as good C: OpenMP threads, SIMD loops, blocking where it helps.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

void scan_blocks(int n, const int *restrict in, int *restrict out) {
#pragma omp parallel for schedule(static)
    for (int b = 0; b < n; b += 1024) {
        int sum = 0, end = b + 1024 < n ? b + 1024 : n;
#pragma omp simd reduction(inscan, + : sum)
        for (int i = b; i < end; i++) {
            sum += in[i];
#pragma omp scan inclusive(sum)
            out[i] = sum;
        }
    }
}

void transpose(int w, int h, const float *restrict in, float *restrict out) {
#pragma omp parallel for schedule(static) collapse(2)
    for (int y = 0; y < h; y += 16)
        for (int x = 0; x < w; x += 16) {
            int ye = y + 16 < h ? y + 16 : h, xe = x + 16 < w ? x + 16 : w;
            for (int i = x; i < xe; i++)
#pragma omp simd
                for (int j = y; j < ye; j++) out[i * h + j] = in[j * w + i];
        }
}

static inline int clamp(int i, int n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

void convolve5(int w, int h, const float *restrict in, const float *restrict f, float *restrict out) {
#pragma omp parallel for schedule(static)
    for (int y = 0; y < h; y++) {
        const float *r[5];
        for (int j = 0; j < 5; j++) r[j] = in + clamp(y + j - 2, h) * w;
        float *o = out + y * w;
#pragma omp simd
        for (int x = 2; x < w - 2; x++) {
            float s = 0;
            for (int j = 0; j < 5; j++)
                for (int i = 0; i < 5; i++) s += f[j * 5 + i] * r[j][x + i - 2];
            o[x] = s;
        }
        for (int e = 0; e < 4; e++) {
            int x = e < 2 ? e : w - 4 + e;
            float s = 0;
            for (int j = 0; j < 5; j++)
                for (int i = 0; i < 5; i++) s += f[j * 5 + i] * r[j][clamp(x + i - 2, w)];
            o[x] = s;
        }
    }
}

void spmv(int rows, const int *restrict start, const int *restrict column, const float *restrict value,
          const float *restrict x, float *restrict y) {
#pragma omp parallel for schedule(static)
    for (int row = 0; row < rows; row++) {
        float s = 0;
#pragma omp simd reduction(+ : s)
        for (int i = start[row]; i < start[row + 1]; i++) s += value[i] * x[column[i]];
        y[row] = s;
    }
}

void stencil7(int nx, int ny, int nz, const float *restrict u, float *restrict v, float k) {
    int plane = nx * ny;
#pragma omp parallel for schedule(static) collapse(2)
    for (int z = 1; z < nz - 1; z++)
        for (int y = 1; y < ny - 1; y++) {
            const float *c = u + z * plane + y * nx;
            float *o = v + z * plane + y * nx;
#pragma omp simd
            for (int x = 1; x < nx - 1; x++)
                o[x] = c[x] + k * (c[x - 1] + c[x + 1] + c[x - nx] + c[x + nx] + c[x - plane] + c[x + plane] - 6 * c[x]);
        }
}

// sixteen segments at once, one in each lane
void bitonic(unsigned *data, int segments) {
#pragma omp parallel for schedule(static)
    for (int b = 0; b < segments; b += 16) {
        unsigned s[1024][16], *own = data + b * 1024;
        int lanes = segments - b < 16 ? segments - b : 16;
        memset(s, 0, sizeof s);
        for (int i0 = 0; i0 < 1024; i0 += 16)
            for (int l = 0; l < lanes; l++)
                for (int i = i0; i < i0 + 16; i++) s[i][l] = own[l * 1024 + i];
        for (unsigned k = 2; k <= 1024; k *= 2)
            for (unsigned j = k / 2; j; j /= 2)
                for (unsigned base = 0; base < 1024; base += 2 * j) {
                    unsigned up = (base & k) == 0, low = up ? 0 : j, high = up ? j : 0;
                    for (unsigned i = base; i < base + j; i++)
#pragma omp simd
                        for (int l = 0; l < 16; l++) {
                            unsigned p = s[i][l], q = s[i + j][l];
                            s[i + low][l] = p < q ? p : q;
                            s[i + high][l] = p < q ? q : p;
                        }
                }
        for (int i0 = 0; i0 < 1024; i0 += 16)
            for (int l = 0; l < lanes; l++)
                for (int i = i0; i < i0 + 16; i++) own[l * 1024 + i] = s[i][l];
    }
}

void softmax(int n, const float *restrict in, float *restrict out, int rows) {
#pragma omp parallel for schedule(static)
    for (int r = 0; r < rows; r++) {
        const float *a = in + (size_t)r * n;
        float *o = out + (size_t)r * n, top = -3e38f, sum = 0;
#pragma omp simd reduction(max : top)
        for (int i = 0; i < n; i++) top = a[i] > top ? a[i] : top;
#pragma omp simd reduction(+ : sum)
        for (int i = 0; i < n; i++) sum += o[i] = expf(a[i] - top);
        float scale = 1 / sum;
#pragma omp simd
        for (int i = 0; i < n; i++) o[i] *= scale;
    }
}

// n is a multiple of 64, here and in the hash
void nearest(int n, int k, const float *restrict p, const float *restrict c, int *restrict label) {
#pragma omp parallel for schedule(static)
    for (int i0 = 0; i0 < n; i0 += 64) {
        float best[64];
        int which[64];
        for (int l = 0; l < 64; l++) best[l] = 3e38f, which[l] = 0;
        for (int j = 0; j < k; j++)
#pragma omp simd
            for (int l = 0; l < 64; l++) {
                float dx = p[i0 + l] - c[3 * j], dy = p[n + i0 + l] - c[3 * j + 1], dz = p[2 * n + i0 + l] - c[3 * j + 2];
                float d = dx * dx + dy * dy + dz * dz;
                which[l] = d < best[l] ? j : which[l];
                best[l] = d < best[l] ? d : best[l];
            }
        for (int l = 0; l < 64; l++) label[i0 + l] = which[l];
    }
}

void fft1024(const float *restrict in, float *restrict out, const float *restrict roots, int count) {
    uint16_t reversed[1024];
    for (int i = 0; i < 1024; i++) {
        int r = 0;
        for (int b = 0; b < 10; b++) r |= (i >> b & 1) << (9 - b);
        reversed[i] = r;
    }
#pragma omp parallel for schedule(static)
    for (int t = 0; t < count; t++) {
        float re[1024], im[1024], cr[512], ci[512];
        const float *a = in + t * 2048;
        for (int i = 0; i < 1024; i++) re[reversed[i]] = a[2 * i], im[reversed[i]] = a[2 * i + 1];
        for (int half = 1; half < 1024; half *= 2) {
            for (int j = 0; j < half; j++) cr[j] = roots[2 * j * (512 / half)], ci[j] = roots[2 * j * (512 / half) + 1];
            for (int base = 0; base < 1024; base += 2 * half)
#pragma omp simd
                for (int j = 0; j < half; j++) {
                    int p = base + j, q = p + half;
                    float mr = re[q] * cr[j] - im[q] * ci[j], mi = re[q] * ci[j] + im[q] * cr[j];
                    re[q] = re[p] - mr, im[q] = im[p] - mi;
                    re[p] += mr, im[p] += mi;
                }
        }
        float *o = out + t * 2048;
        for (int i = 0; i < 1024; i++) o[2 * i] = re[i], o[2 * i + 1] = im[i];
    }
}

// widened once to 16 bits, so that two products go into one sum at a time
void gemm_i8(int n, const int8_t *restrict a, const int8_t *restrict bt, int *restrict c) {
    int16_t *wide = malloc(2 * sizeof *wide * n * n), *wa = wide, *wb = wide + n * n;
#pragma omp parallel
    {
#pragma omp for simd schedule(static)
        for (int i = 0; i < n * n; i++) wa[i] = a[i], wb[i] = bt[i];
#pragma omp for schedule(static)
        for (int i = 0; i < n; i += 4)
            for (int j = 0; j < n; j += 4)
#pragma GCC unroll 4
                for (int x = 0; x < 4; x++)
#pragma GCC unroll 4
                    for (int y = 0; y < 4; y++) {
                        int t = 0;
                        for (int k = 0; k < n; k++) t += wa[(i + x) * n + k] * wb[(j + y) * n + k];
                        c[(i + x) * n + j + y] = t;
                    }
    }
    free(wide);
}

#define ROTATE(v, n) ((v) << (n) | (v) >> (32 - (n)))

void mix(int n, const unsigned *restrict in, unsigned *restrict out) {
#pragma omp parallel for schedule(static)
    for (int i0 = 0; i0 < n; i0 += 64) {
        unsigned a[64], b[64], c[64], d[64];
        for (int l = 0; l < 64; l++) a[l] = in[i0 + l], b[l] = a[l] ^ 0x61707865u, c[l] = i0 + l, d[l] = 0x3320646eu;
        for (int r = 0; r < 40; r++)
#pragma omp simd
            for (int l = 0; l < 64; l++) {
                a[l] += b[l], d[l] = ROTATE(d[l] ^ a[l], 16);
                c[l] += d[l], b[l] = ROTATE(b[l] ^ c[l], 12);
                a[l] += b[l], d[l] = ROTATE(d[l] ^ a[l], 8);
                c[l] += d[l], b[l] = ROTATE(b[l] ^ c[l], 7);
            }
        for (int l = 0; l < 64; l++) out[i0 + l] = a[l] ^ b[l] ^ c[l] ^ d[l];
    }
}

void pi_philox(int rounds, unsigned seed, unsigned *restrict inside, int n) {
#pragma omp parallel for simd schedule(static)
    for (int i = 0; i < n; i++) {
        unsigned hits = 0;
        for (int r = 0; r < rounds; r++) {
            unsigned x = i, y = r, z = 0, w = 0, k0 = seed, k1 = 1;
            for (int j = 0; j < 10; j++) {
                uint64_t p = (uint64_t)0xD2511F53u * x, q = (uint64_t)0xCD9E8D57u * z;
                x = (unsigned)(q >> 32) ^ y ^ k0, y = (unsigned)q, z = (unsigned)(p >> 32) ^ w ^ k1, w = (unsigned)p;
                k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
            }
            float a = x * 0x1p-32f, b = y * 0x1p-32f, c = z * 0x1p-32f, d = w * 0x1p-32f;
            hits += (a * a + b * b < 1) + (c * c + d * d < 1);
        }
        inside[i] = hits;
    }
}
