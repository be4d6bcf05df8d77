// The benchmark kernels in OpenCL C, thread for thread what kernels.cu has.

kernel void saxpy(int n, float a, global const float *restrict x, global float *restrict y) {
    int i = get_global_id(0);
    if (i < n) y[i] = a * x[i] + y[i];
}

float cnd(float d) {
    float k = 1.0f / (1.0f + 0.2316419f * fabs(d));
    float tail = 1.781477937f + k * (-1.821255978f + k * 1.330274429f);
    float c = 0.39894228f * exp(-0.5f * d * d) * (k * (0.31938153f + k * (-0.356563782f + k * tail)));
    return d > 0 ? 1.0f - c : c;
}

kernel void black_scholes(int n, global const float *S, global const float *X, global const float *T, float r, float v,
                          global float *call, global float *put) {
    int i = get_global_id(0);
    if (i >= n) return;
    float sq = sqrt(T[i]);
    float d1 = (log(S[i] / X[i]) + (r + 0.5f * v * v) * T[i]) / (v * sq), d2 = d1 - v * sq;
    float c1 = cnd(d1), c2 = cnd(d2), e = exp(-r * T[i]);
    call[i] = S[i] * c1 - X[i] * e * c2;
    put[i] = X[i] * e * (1.0f - c2) - S[i] * (1.0f - c1);
}

kernel void mandelbrot(int w, int h, float x0, float y0, float dx, float dy, int limit, global int *out) {
    int px = get_global_id(0), py = get_global_id(1);
    if (px >= w || py >= h) return;
    float cx = x0 + px * dx, cy = y0 + py * dy, zx = 0, zy = 0;
    int k = 0;
    while (k < limit && zx * zx + zy * zy < 4.0f) {
        float t = zx * zx - zy * zy + cx;
        zy = 2.0f * zx * zy + cy;
        zx = t;
        ++k;
    }
    out[py * w + px] = k;
}

kernel void nbody(int n, global const float4 *restrict pos, global float4 *restrict acc, float eps2) {
    local float4 tile[256];
    int i = get_global_id(0), l = get_local_id(0);
    float4 me = pos[i];
    float ax = 0, ay = 0, az = 0;
    for (int base = 0; base < n; base += 256) {
        tile[l] = pos[base + l];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int j = 0; j < 256; ++j) {
            float4 o = tile[j];
            float rx = o.x - me.x, ry = o.y - me.y, rz = o.z - me.z;
            float inv = rsqrt(rx * rx + ry * ry + rz * rz + eps2), s = o.w * inv * inv * inv;
            ax += rx * s;
            ay += ry * s;
            az += rz * s;
        }
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    acc[i] = (float4)(ax, ay, az, 0);
}

kernel void matmul(int n, global const float *restrict A, global const float *restrict B, global float *restrict C) {
    local float a[16][16], b[16][16];
    int tx = get_local_id(0), ty = get_local_id(1), row = get_global_id(1), col = get_global_id(0);
    float s = 0;
    for (int t = 0; t < n; t += 16) {
        a[ty][tx] = A[row * n + t + tx];
        b[ty][tx] = B[(t + ty) * n + col];
        barrier(CLK_LOCAL_MEM_FENCE);
        for (int k = 0; k < 16; ++k) s += a[ty][k] * b[k][tx];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    C[row * n + col] = s;
}

// No shuffles in OpenCL C: the block's sum goes through local memory instead.
kernel void reduce_sum(int n, global const float *restrict x, global float *out) {
    local float part[256];
    int l = get_local_id(0);
    float s = 0;
    for (int i = get_global_id(0); i < n; i += get_global_size(0)) s += x[i];
    part[l] = s;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int o = 128; o; o >>= 1) {
        if (l < o) part[l] += part[l + o];
        barrier(CLK_LOCAL_MEM_FENCE);
    }
    if (l == 0) {
        volatile global int *target = (volatile global int *)out;
        int old, sum;
        do {
            old = *target;
            sum = as_int(as_float(old) + part[0]);
        } while (atomic_cmpxchg(target, old, sum) != old);
    }
}

kernel void histogram256(int n, global const uchar *restrict data, global uint *bins) {
    local uint counts[256];
    for (int i = get_local_id(0); i < 256; i += get_local_size(0)) counts[i] = 0;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = get_global_id(0); i < n; i += get_global_size(0)) atomic_inc(&counts[data[i]]);
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = get_local_id(0); i < 256; i += get_local_size(0)) atomic_add(&bins[i], counts[i]);
}

kernel void heat2d(int w, int h, global const double *restrict u, global double *restrict v, double k) {
    int x = get_global_id(0), y = get_global_id(1);
    if (x >= w || y >= h) return;
    int i = y * w + x;
    double c = u[i];
    double l = x > 0 ? u[i - 1] : c, r = x < w - 1 ? u[i + 1] : c;
    double t = y > 0 ? u[i - w] : c, b = y < h - 1 ? u[i + w] : c;
    v[i] = c + k * (l + r + t + b - 4.0 * c);
}
