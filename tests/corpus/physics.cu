// Stencils, flows and particles.

extern "C" __global__ void heat_temporal(const float *in, float *out, int w, int h) {
    // Two time steps at once: the first on the tile with a halo of two, the second on the tile.
    __shared__ float before[20][20], after[20][20];
    const int x0 = blockIdx.x * 16 - 2, y0 = blockIdx.y * 16 - 2, t = threadIdx.y * 16 + threadIdx.x;
    for (int i = t; i < 400; i += 256) {
        const int x = x0 + i % 20, y = y0 + i / 20;
        before[i / 20][i % 20] = x >= 0 && y >= 0 && x < w && y < h ? in[y * w + x] : 0.0f;
    }
    __syncthreads();
    for (int i = t; i < 18 * 18; i += 256) {
        const int x = i % 18 + 1, y = i / 18 + 1, gx = x0 + x, gy = y0 + y;
        const bool inside = gx > 0 && gy > 0 && gx < w - 1 && gy < h - 1;
        const float around = before[y][x - 1] + before[y][x + 1] + before[y - 1][x] + before[y + 1][x];
        after[y][x] = inside ? before[y][x] + 0.125f * (around - 4.0f * before[y][x]) : before[y][x];
    }
    __syncthreads();
    const int x = threadIdx.x + 2, y = threadIdx.y + 2, gx = x0 + x, gy = y0 + y;
    if (gx >= w || gy >= h) return;
    const bool inside = gx > 0 && gy > 0 && gx < w - 1 && gy < h - 1;
    const float around = after[y][x - 1] + after[y][x + 1] + after[y - 1][x] + after[y + 1][x];
    out[gy * w + gx] = inside ? after[y][x] + 0.125f * (around - 4.0f * after[y][x]) : after[y][x];
}

// Temperature of a chip: power in, conduction, loss upward.
extern "C" __global__ void hotspot(const float *power, const float *in, float *out, int w, int h, float step, float rx,
                                   float ry, float rz, float ambient) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    const int i = y * w + x;
    const float own = in[i];
    const float north = in[max(y - 1, 0) * w + x], south = in[min(y + 1, h - 1) * w + x];
    const float west = in[y * w + max(x - 1, 0)], east = in[y * w + min(x + 1, w - 1)];
    out[i] = own + step * (power[i] + (south + north - 2.0f * own) * ry + (east + west - 2.0f * own) * rx +
                           (ambient - own) * rz);
}

// Wave equation in three dimensions, a column of z in registers.
extern "C" __global__ void wave3d(const float *now, float *old, int nx, int ny, int nz, float speed) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < 1 || y < 1 || x >= nx - 1 || y >= ny - 1) return;
    const int plane = nx * ny;
    int i = y * nx + x + plane;
    float behind = now[i - plane], own = now[i], front;
    for (int z = 1; z < nz - 1; ++z, i += plane) {
        front = now[i + plane];
        const float laplace = behind + front + now[i - 1] + now[i + 1] + now[i - nx] + now[i + nx] - 6.0f * own;
        old[i] = 2.0f * own - old[i] + speed * laplace;
        behind = own;
        own = front;
    }
}

// Lattice Boltzmann, nine directions: pull, collide, bounce back at walls; periodic in x and y.
__constant__ int lbm_x[9] = {0, 1, 0, -1, 0, 1, -1, -1, 1}, lbm_y[9] = {0, 0, 1, 0, -1, 1, 1, -1, -1};
__constant__ double lbm_weight[9] = {4.0 / 9,  1.0 / 9,  1.0 / 9,  1.0 / 9, 1.0 / 9,
                                     1.0 / 36, 1.0 / 36, 1.0 / 36, 1.0 / 36};
__constant__ int lbm_back[9] = {0, 3, 4, 1, 2, 7, 8, 5, 6};

extern "C" __global__ void lbm(const double *in, double *out, const unsigned char *wall, int w, int h, double omega) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    const int n = w * h, cell = y * w + x;
    double f[9], density = 0, ux = 0, uy = 0;
#pragma unroll
    for (int d = 0; d < 9; ++d) {
        f[d] = in[d * n + (y - lbm_y[d] + h) % h * w + (x - lbm_x[d] + w) % w];
        density += f[d];
        ux += f[d] * lbm_x[d];
        uy += f[d] * lbm_y[d];
    }
    if (wall[cell]) {
        for (int d = 0; d < 9; ++d) out[lbm_back[d] * n + cell] = f[d];
        return;
    }
    ux /= density;
    uy /= density;
    const double square = 1.5 * (ux * ux + uy * uy);
    for (int d = 0; d < 9; ++d) {
        const double along = 3.0 * (lbm_x[d] * ux + lbm_y[d] * uy);
        const double rest = lbm_weight[d] * density * (1.0 + along + 0.5 * along * along - square);
        out[d * n + cell] = f[d] + omega * (rest - f[d]);
    }
}

// Particles in boxes: forces from the 27 boxes around (Lennard-Jones), positions kept box by box.
extern "C" __global__ void molecular(const float4 *position, const int *count, float4 *force, int boxes, int room,
                                     float cutoff2) {
    __shared__ float4 others[32];
    const int bx = blockIdx.x, by = blockIdx.y, bz = blockIdx.z, own = (bz * boxes + by) * boxes + bx;
    const int t = threadIdx.x;
    const bool active = t < count[own];
    const float4 me = active ? position[own * room + t] : make_float4(0, 0, 0, 0);
    float3 sum = {0, 0, 0};
    for (int d = 0; d < 27; ++d) {
        const int x = bx + d % 3 - 1, y = by + d / 3 % 3 - 1, z = bz + d / 9 - 1;
        if (x < 0 || y < 0 || z < 0 || x >= boxes || y >= boxes || z >= boxes) continue;
        const int box = (z * boxes + y) * boxes + x, n = count[box];
        __syncthreads();
        if (t < n) others[t] = position[box * room + t];
        __syncthreads();
        if (!active) continue;
        for (int j = 0; j < n; ++j) {
            const float dx = me.x - others[j].x, dy = me.y - others[j].y, dz = me.z - others[j].z;
            const float r2 = dx * dx + dy * dy + dz * dz;
            if (r2 >= cutoff2 || r2 == 0.0f) continue;
            const float i2 = 1.0f / r2, i6 = i2 * i2 * i2, strength = 24.0f * i2 * i6 * (2.0f * i6 - 1.0f);
            sum.x += strength * dx;
            sum.y += strength * dy;
            sum.z += strength * dz;
        }
    }
    if (active) force[own * room + t] = make_float4(sum.x, sum.y, sum.z, 0);
}

// Bodies that attract each other, all in shared memory, several leapfrog steps in one launch.
extern "C" __global__ void leapfrog(double3 *position, double3 *velocity, int n, int steps, double dt) {
    __shared__ double3 all[64];
    const int t = threadIdx.x;
    double3 p = {}, v = {};
    if (t < n) p = position[t], v = velocity[t];
    for (int s = 0; s < steps; ++s) {
        __syncthreads();
        all[t] = p;
        __syncthreads();
        double3 a = {0, 0, 0};
        for (int j = 0; j < n; ++j) {
            const double dx = all[j].x - p.x, dy = all[j].y - p.y, dz = all[j].z - p.z;
            const double inverse = rsqrt(dx * dx + dy * dy + dz * dz + 0.01);
            const double s3 = inverse * inverse * inverse;
            a.x += dx * s3, a.y += dy * s3, a.z += dz * s3;
        }
        v.x += a.x * dt, v.y += a.y * dt, v.z += a.z * dt;
        p.x += v.x * dt, p.y += v.y * dt, p.z += v.z * dt;
    }
    if (t < n) position[t] = p, velocity[t] = v;
}

// Red-black Gauss-Seidel.
extern "C" __global__ void red_black(double *u, const double *f, int n, int colour) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x + 1, y = blockIdx.y * blockDim.y + threadIdx.y + 1;
    if (x < n - 1 && y < n - 1 && ((x + y) & 1) == colour)
        u[y * n + x] = 0.25 * (u[y * n + x - 1] + u[y * n + x + 1] + u[(y - 1) * n + x] + u[(y + 1) * n + x] - f[y * n + x]);
}
