// Random numbers and finance.

struct Xorwow {
    unsigned x[5], counter;
    __device__ unsigned next() {
        const unsigned t = x[0] ^ (x[0] >> 2);
        x[0] = x[1], x[1] = x[2], x[2] = x[3], x[3] = x[4];
        x[4] = (x[4] ^ (x[4] << 4)) ^ (t ^ (t << 1));
        counter += 362437u;
        return x[4] + counter;
    }
};

extern "C" __global__ void xorwow(Xorwow *states, unsigned *out, int draws) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    Xorwow state = states[i];
    for (int j = 0; j < draws; ++j) out[j * n + i] = state.next();
    states[i] = state;
}

// L'Ecuyer's combined recursion, by 64-bit remainders.
extern "C" __global__ void mrg32k3a(unsigned *states, double *out, int draws) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, n = gridDim.x * blockDim.x;
    long long a[3], b[3];
    for (int j = 0; j < 3; ++j) a[j] = states[6 * i + j], b[j] = states[6 * i + 3 + j];
    const long long m1 = 4294967087ll, m2 = 4294944443ll;
    for (int j = 0; j < draws; ++j) {
        long long p = (1403580ll * a[1] - 810728ll * a[0]) % m1, q = (527612ll * b[2] - 1370589ll * b[0]) % m2;
        if (p < 0) p += m1;
        if (q < 0) q += m2;
        a[0] = a[1], a[1] = a[2], a[2] = p;
        b[0] = b[1], b[1] = b[2], b[2] = q;
        out[j * n + i] = (p <= q ? p - q + m1 : p - q) * 2.328306549295728e-10;
    }
    for (int j = 0; j < 3; ++j) states[6 * i + j] = (unsigned)a[j], states[6 * i + 3 + j] = (unsigned)b[j];
}

// MT19937: one block renews the whole state together, then tempers.
extern "C" __global__ void mersenne_twister(unsigned *state, unsigned *out, int rounds) {
    __shared__ unsigned mt[624];
    for (int i = threadIdx.x; i < 624; i += blockDim.x) mt[i] = state[i];
    for (int round = 0; round < rounds; ++round) {
        // Word i needs words i+1 and i+397: three phases, so that all of them have the age they must have.
        for (int phase = 0; phase < 3; ++phase) {
            const int first = phase == 0 ? 0 : phase == 1 ? 227 : 454, last = phase == 0 ? 227 : phase == 1 ? 454 : 624;
            for (int start = first; start < last; start += blockDim.x) {
                const int i = start + threadIdx.x;
                unsigned fresh = 0;
                __syncthreads();
                if (i < last) {
                    const unsigned y = (mt[i] & 0x80000000u) | (mt[(i + 1) % 624] & 0x7fffffffu);
                    fresh = mt[(i + 397) % 624] ^ (y >> 1) ^ (y & 1 ? 0x9908b0dfu : 0);
                }
                __syncthreads();
                if (i < last) mt[i] = fresh;
            }
        }
        __syncthreads();
        for (int i = threadIdx.x; i < 624; i += blockDim.x) {
            unsigned y = mt[i];
            y ^= y >> 11;
            y ^= (y << 7) & 0x9d2c5680u;
            y ^= (y << 15) & 0xefc60000u;
            out[round * 624 + i] = y ^ (y >> 18);
        }
    }
    for (int i = threadIdx.x; i < 624; i += blockDim.x) state[i] = mt[i];
}

// Quasi-random points of Sobol's first two dimensions, by Gray code.
extern "C" __global__ void sobol(const unsigned *directions, unsigned *out, int n) {
    __shared__ unsigned v[32];
    if (threadIdx.x < 32) v[threadIdx.x] = directions[32 * blockIdx.y + threadIdx.x];
    __syncthreads();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned gray = i ^ (i >> 1), x = 0;
    while (gray) {
        const int bit = __ffs(gray) - 1;
        x ^= v[bit];
        gray &= gray - 1;
    }
    out[blockIdx.y * n + i] = x;
}

// Normal numbers from pairs of uniform ones.
extern "C" __global__ void box_muller(const float2 *uniform, float2 *normal, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float radius = sqrtf(-2.0f * logf(uniform[i].x));
    float s, c;
    sincosf(6.2831853f * uniform[i].y, &s, &c);
    normal[i] = make_float2(radius * c, radius * s);
}

__device__ double cumulative_normal(double x) { return 0.5 * erfc(-x * 0.70710678118654752440); }

extern "C" __global__ void black_scholes_double(const double *spot, const double *strike, const double *years,
                                                double *call, double *put, int n, double rate, double volatility) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const double root = volatility * sqrt(years[i]);
    const double d1 = (log(spot[i] / strike[i]) + (rate + 0.5 * volatility * volatility) * years[i]) / root;
    const double discounted = strike[i] * exp(-rate * years[i]);
    call[i] = spot[i] * cumulative_normal(d1) - discounted * cumulative_normal(d1 - root);
    put[i] = discounted * cumulative_normal(root - d1) - spot[i] * cumulative_normal(-d1);
}

// American put by a binomial tree: a block per option, the tree folded back in shared memory.
extern "C" __global__ void binomial_option(const float *spot, const float *strike, float *price, int steps, float up,
                                           float probability, float discount) {
    extern __shared__ float value[];
    const float s = spot[blockIdx.x], k = strike[blockIdx.x];
    for (int i = threadIdx.x; i <= steps; i += blockDim.x) value[i] = fmaxf(k - s * powf(up, 2 * i - steps), 0.0f);
    for (int step = steps - 1; step >= 0; --step) {
        for (int start = 0; start <= step; start += blockDim.x) {
            const int i = start + threadIdx.x;
            float next = 0;
            __syncthreads();
            if (i <= step) {
                const float hold = discount * (probability * value[i + 1] + (1 - probability) * value[i]);
                next = fmaxf(hold, k - s * powf(up, 2 * i - step));
            }
            __syncthreads();
            if (i <= step) value[i] = next;
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) price[blockIdx.x] = value[0];
}

// A path-dependent option: arithmetic Asian call, paths from given normal numbers, mean by block sums.
extern "C" __global__ void asian_option(const float *normals, int paths, int steps, float drift, float spread,
                                        float strike, double *sum) {
    __shared__ double parts[128];
    double total = 0;
    for (int p = blockIdx.x * 128 + threadIdx.x; p < paths; p += gridDim.x * 128) {
        float level = 1.0f, mean = 0;
        for (int s = 0; s < steps; ++s) {
            level *= expf(drift + spread * normals[s * paths + p]);
            mean += level;
        }
        total += fmaxf(mean / steps - strike, 0.0f);
    }
    parts[threadIdx.x] = total;
    __syncthreads();
    for (int step = 64; step; step /= 2) {
        if (threadIdx.x < step) parts[threadIdx.x] += parts[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(sum, parts[0]);
}
