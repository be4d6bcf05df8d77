// The benchmark kernels as good C: OpenMP threads, SIMD loops, tiles where they help.
#include <math.h>
#include <stdint.h>
#include <string.h>

void saxpy(int n, float a, const float *restrict x, float *restrict y) {
#pragma omp parallel for simd schedule(static)
    for (int i = 0; i < n; i++) y[i] = a * x[i] + y[i];
}

static inline float cnd(float d) {
    float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
    float tail = 1.781477937f + k * (-1.821255978f + k * 1.330274429f);
    float c = 0.39894228f * expf(-0.5f * d * d) * (k * (0.31938153f + k * (-0.356563782f + k * tail)));
    return d > 0 ? 1.0f - c : c;
}

void black_scholes(int n, const float *S, const float *X, const float *T, float r, float v, float *restrict call,
                   float *restrict put) {
#pragma omp parallel for simd schedule(static)
    for (int i = 0; i < n; i++) {
        float sq = sqrtf(T[i]);
        float d1 = (logf(S[i] / X[i]) + (r + 0.5f * v * v) * T[i]) / (v * sq), d2 = d1 - v * sq;
        float c1 = cnd(d1), c2 = cnd(d2), e = expf(-r * T[i]);
        call[i] = S[i] * c1 - X[i] * e * c2;
        put[i] = X[i] * e * (1.0f - c2) - S[i] * (1.0f - c1);
    }
}

typedef float floats __attribute__((vector_size(64)));
typedef int ints __attribute__((vector_size(64)));

static inline floats choose(ints mask, floats a, floats b) {
    return (floats)((mask & (ints)a) | (~mask & (ints)b));
}

void mandelbrot(int w, int h, float x0, float y0, float dx, float dy, int limit, int *restrict out) {
#pragma omp parallel for schedule(dynamic, 8)
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x += 16) {
            floats cx, zx = {0}, zy = {0};
            ints k = {0};
            float cy = y0 + y * dy;
            for (int l = 0; l < 16; l++) cx[l] = x0 + (x + l) * dx;
            for (int it = 0; it < limit; it++) {
                ints inside = zx * zx + zy * zy < 4.0f;
                int any = 0;
                for (int l = 0; l < 16; l++) any |= inside[l];
                if (!any) break;
                k -= inside;
                floats t = zx * zx - zy * zy + cx, u = 2.0f * zx * zy + cy;
                zx = choose(inside, t, zx);
                zy = choose(inside, u, zy);
            }
            for (int l = 0; l < 16; l++) out[y * w + x + l] = k[l];
        }
}

void nbody(int n, const float *restrict p, float *restrict acc, float eps2) {
#pragma omp parallel for schedule(static)
    for (int i0 = 0; i0 < n; i0 += 16) {
        float ax[16] = {0}, ay[16] = {0}, az[16] = {0}, mx[16], my[16], mz[16];
        for (int l = 0; l < 16; l++) {
            mx[l] = p[4 * (i0 + l)];
            my[l] = p[4 * (i0 + l) + 1];
            mz[l] = p[4 * (i0 + l) + 2];
        }
        for (int j = 0; j < n; j++) {
            float ox = p[4 * j], oy = p[4 * j + 1], oz = p[4 * j + 2], ow = p[4 * j + 3];
#pragma omp simd
            for (int l = 0; l < 16; l++) {
                float rx = ox - mx[l], ry = oy - my[l], rz = oz - mz[l];
                float inv = 1.0f / sqrtf(rx * rx + ry * ry + rz * rz + eps2), s = ow * inv * inv * inv;
                ax[l] += rx * s;
                ay[l] += ry * s;
                az[l] += rz * s;
            }
        }
        for (int l = 0; l < 16; l++) {
            acc[4 * (i0 + l)] = ax[l];
            acc[4 * (i0 + l) + 1] = ay[l];
            acc[4 * (i0 + l) + 2] = az[l];
            acc[4 * (i0 + l) + 3] = 0;
        }
    }
}

void matmul(int n, const float *restrict A, const float *restrict B, float *restrict C) {
#pragma omp parallel for schedule(static)
    for (int i0 = 0; i0 < n; i0 += 8)
        for (int j0 = 0; j0 < n; j0 += 32) {
            float c[8][32];
            memset(c, 0, sizeof c);
            for (int k = 0; k < n; k++)
                for (int i = 0; i < 8; i++) {
                    float a = A[(i0 + i) * n + k];
#pragma omp simd
                    for (int j = 0; j < 32; j++) c[i][j] += a * B[k * n + j0 + j];
                }
            for (int i = 0; i < 8; i++) memcpy(&C[(i0 + i) * n + j0], c[i], sizeof c[i]);
        }
}

void reduce_sum(int n, const float *restrict x, float *out) {
    float s = 0;
#pragma omp parallel for simd reduction(+ : s) schedule(static)
    for (int i = 0; i < n; i++) s += x[i];
    *out = s;
}

void histogram256(int n, const uint8_t *restrict data, uint32_t *bins) {
    memset(bins, 0, 256 * sizeof *bins);
#pragma omp parallel
    {
        uint32_t local[4][256];
        memset(local, 0, sizeof local);
#pragma omp for schedule(static)
        for (int i = 0; i < n / 4; i++)
            for (int part = 0; part < 4; part++) local[part][data[4 * i + part]]++;
#pragma omp critical
        for (int i = 0; i < 256; i++) bins[i] += local[0][i] + local[1][i] + local[2][i] + local[3][i];
    }
}

void heat2d(int w, int h, const double *restrict u, double *restrict v, double k) {
#pragma omp parallel for schedule(static)
    for (int y = 0; y < h; y++) {
        const double *c = u + (long)y * w, *t = y > 0 ? c - w : c, *b = y < h - 1 ? c + w : c;
        double *o = v + (long)y * w;
#pragma omp simd
        for (int x = 1; x < w - 1; x++) o[x] = c[x] + k * (c[x - 1] + c[x + 1] + t[x] + b[x] - 4.0 * c[x]);
        o[0] = c[0] + k * (c[0] + c[1] + t[0] + b[0] - 4.0 * c[0]);
        o[w - 1] = c[w - 1] + k * (c[w - 2] + c[w - 1] + t[w - 1] + b[w - 1] - 4.0 * c[w - 1]);
    }
}
