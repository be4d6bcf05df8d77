// Prefix sums, reductions, compaction.

constexpr unsigned ALL = 0xffffffffu;

// Every step adds what lies 1, 2, 4... to the left; two buffers in turn.
extern "C" __global__ void scan_hillis_steele(const float *in, float *out, int n) {
    extern __shared__ float buffers[];
    const int t = threadIdx.x;
    int now = 0;
    buffers[t] = t < n ? in[t] : 0.0f;
    __syncthreads();
    for (int step = 1; step < blockDim.x; step *= 2) {
        const float *from = buffers + now * blockDim.x;
        float *to = buffers + (1 - now) * blockDim.x;
        to[t] = t >= step ? from[t] + from[t - step] : from[t];
        now = 1 - now;
        __syncthreads();
    }
    if (t < n) out[t] = buffers[now * blockDim.x + t];
}

__device__ int warp_scan(int value) {
    const int lane = threadIdx.x & 31;
    for (int step = 1; step < 32; step *= 2) {
        const int left = __shfl_up_sync(ALL, value, step);
        if (lane >= step) value += left;
    }
    return value;
}

__device__ int block_scan(int value, int *totals) {
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    value = warp_scan(value);
    if (lane == 31) totals[warp] = value;
    __syncthreads();
    if (warp == 0) totals[lane] = warp_scan(lane < blockDim.x / 32 ? totals[lane] : 0);
    __syncthreads();
    return warp ? value + totals[warp - 1] : value;
}

// Inclusive scan within segments that begin where `head` is set.
extern "C" __global__ void scan_segmented(const int *in, const unsigned char *head, int *out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
    int value = in[i];
    const unsigned heads = __ballot_sync(ALL, head[i]) | 1u;
    const int start = 31 - __clz(heads & (ALL >> (31 - lane)));
    for (int step = 1; step < 32; step *= 2) {
        const int left = __shfl_up_sync(ALL, value, step);
        if (lane - step >= start) value += left;
    }
    out[i] = value;
}

extern "C" __global__ void reduce_interleaved(const int *in, int *out) {
    extern __shared__ int part[];
    const int t = threadIdx.x;
    part[t] = in[blockIdx.x * blockDim.x + t];
    __syncthreads();
    for (int step = 1; step < blockDim.x; step *= 2) {
        if (t % (2 * step) == 0) part[t] += part[t + step];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = part[0];
}

extern "C" __global__ void reduce_sequential(const int *in, int *out) {
    extern __shared__ int part[];
    const int t = threadIdx.x, i = 2 * blockIdx.x * blockDim.x + t;
    part[t] = in[i] + in[i + blockDim.x];
    __syncthreads();
    for (int step = blockDim.x / 2; step > 0; step >>= 1) {
        if (t < step) part[t] += part[t + step];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = part[0];
}

// The classic with the last warp unrolled and volatile shared memory, here with the warp barriers it needs today.
extern "C" __global__ void reduce_unrolled(const int *in, int *out) {
    __shared__ volatile int part[256];
    const int t = threadIdx.x;
    part[t] = in[blockIdx.x * 256 + t];
    __syncthreads();
    if (t < 128) part[t] += part[t + 128];
    __syncthreads();
    if (t < 64) part[t] += part[t + 64];
    __syncthreads();
    if (t < 32) {
#pragma unroll
        for (int step = 32; step > 0; step >>= 1) {
            const int sum = part[t] + part[t + step];
            __syncwarp();
            part[t] = sum;
            __syncwarp();
        }
    }
    if (t == 0) out[blockIdx.x] = part[0];
}

// Position and value of the largest element, first one among equals.
extern "C" __global__ void argmax(const float *in, int n, float *value, int *index) {
    __shared__ float best[32];
    __shared__ int place[32];
    float most = -INFINITY;
    int at = -1;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        if (in[i] > most) most = in[i], at = i;
    for (int step = 16; step; step /= 2) {
        const float other = __shfl_down_sync(ALL, most, step);
        const int where = __shfl_down_sync(ALL, at, step);
        if (other > most || (other == most && (unsigned)where < (unsigned)at)) most = other, at = where;
    }
    if ((threadIdx.x & 31) == 0) best[threadIdx.x / 32] = most, place[threadIdx.x / 32] = at;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int w = 1; w < blockDim.x / 32; ++w)
            if (best[w] > most || (best[w] == most && (unsigned)place[w] < (unsigned)at)) most = best[w], at = place[w];
        *value = most;
        *index = at;
    }
}

// Keep the odd elements, in order: flags, a scan by the block, and a loop over its tiles.
extern "C" __global__ void compact_stable(const int *in, int *out, int *count, int n) {
    __shared__ int totals[32];
    int base = 0;
    for (int start = 0; start < n; start += blockDim.x) {
        const int i = start + threadIdx.x;
        const int keep = i < n && (in[i] & 1);
        const int rank = block_scan(keep, totals);
        if (keep) out[base + rank - 1] = in[i];
        base += totals[blockDim.x / 32 - 1];
        __syncthreads();
    }
    if (threadIdx.x == 0) *count = base;
}

// Run-length encoding of one block's elements.
extern "C" __global__ void run_length(const int *in, int n, int *values, int *lengths, int *runs) {
    __shared__ int totals[32];
    __shared__ int starts[1025];
    const int t = threadIdx.x;
    const int head = t < n && (t == 0 || in[t] != in[t - 1]);
    const int rank = block_scan(head, totals);
    if (head) starts[rank - 1] = t;
    if (t == blockDim.x - 1) starts[rank] = n, *runs = rank;
    __syncthreads();
    if (head) values[rank - 1] = in[t], lengths[rank - 1] = starts[rank] - t;
}
