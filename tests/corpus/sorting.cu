// Sorts, merges and searches that take several kernels.

constexpr unsigned ALL = 0xffffffffu;
constexpr int DIGITS = 16;

// Radix sort, 4 bits at a time: digits counted per block, counts scanned, elements scattered stably.
extern "C" __global__ void radix_count(const unsigned *keys, unsigned *counts, int shift, int n) {
    __shared__ unsigned local[DIGITS];
    if (threadIdx.x < DIGITS) local[threadIdx.x] = 0;
    __syncthreads();
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&local[(keys[i] >> shift) & (DIGITS - 1)], 1u);
    __syncthreads();
    if (threadIdx.x < DIGITS) counts[threadIdx.x * gridDim.x + blockIdx.x] = local[threadIdx.x];
}

extern "C" __global__ void radix_scan(unsigned *counts, int n) {
    __shared__ unsigned warp_sums[32];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    unsigned base = 0;
    for (int start = 0; start < n; start += blockDim.x) {
        const int i = start + threadIdx.x;
        const unsigned own = i < n ? counts[i] : 0;
        unsigned sum = own;
        for (int step = 1; step < 32; step *= 2) {
            const unsigned left = __shfl_up_sync(ALL, sum, step);
            if (lane >= step) sum += left;
        }
        if (lane == 31) warp_sums[warp] = sum;
        __syncthreads();
        unsigned before = 0, total = 0;
        for (int w = 0; w < blockDim.x / 32; ++w) {
            if (w < warp) before += warp_sums[w];
            total += warp_sums[w];
        }
        if (i < n) counts[i] = base + before + sum - own;
        base += total;
        __syncthreads();
    }
}

extern "C" __global__ void radix_scatter(const unsigned *keys, const unsigned *values, unsigned *keys_out,
                                         unsigned *values_out, const unsigned *counts, int shift, int n) {
    __shared__ unsigned short per_warp[32][DIGITS];
    const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (lane < DIGITS) per_warp[warp][lane] = 0;
    __syncwarp();
    const unsigned key = i < n ? keys[i] : ALL, digit = (key >> shift) & (DIGITS - 1);
    unsigned peers = __ballot_sync(ALL, i < n);
#pragma unroll
    for (int bit = 0; bit < 4; ++bit) {
        const unsigned votes = __ballot_sync(ALL, digit >> bit & 1);
        peers &= digit >> bit & 1 ? votes : ~votes;
    }
    const int rank = __popc(peers & ((1u << lane) - 1));
    if (i < n && rank == 0) per_warp[warp][digit] = (unsigned short)__popc(peers);
    __syncthreads();
    if (i < n) {
        unsigned place = counts[digit * gridDim.x + blockIdx.x] + rank;
        for (int w = 0; w < warp; ++w) place += per_warp[w][digit];
        keys_out[place] = key;
        values_out[place] = values[i];
    }
}

// One step of a bitonic sort in global memory.
extern "C" __global__ void bitonic_step(float *data, int distance, int span) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, partner = i ^ distance;
    if (partner <= i) return;
    const float a = data[i], b = data[partner];
    if ((a > b) == ((i & span) == 0)) {
        data[i] = b;
        data[partner] = a;
    }
}

// Odd-even transposition within a block, pairs of key and value.
extern "C" __global__ void odd_even(int2 *data, int n) {
    __shared__ int2 pairs[512];
    const int t = threadIdx.x;
    if (t < n) pairs[t] = data[t];
    __syncthreads();
    for (int round = 0; round < n; ++round) {
        if ((t & 1) == (round & 1) && t + 1 < n && pairs[t].x > pairs[t + 1].x) {
            const int2 other = pairs[t];
            pairs[t] = pairs[t + 1];
            pairs[t + 1] = other;
        }
        __syncthreads();
    }
    if (t < n) data[t] = pairs[t];
}

// Merge path: each thread finds where its diagonal crosses the path, then merges its share.
extern "C" __global__ void merge_path(const int *a, int na, const int *b, int nb, int *out, int share) {
    const int first = (blockIdx.x * blockDim.x + threadIdx.x) * share, total = na + nb;
    if (first >= total) return;
    int low = max(0, first - nb), high = min(first, na);
    while (low < high) {
        const int middle = (low + high) / 2;
        if (a[middle] <= b[first - 1 - middle]) low = middle + 1;
        else high = middle;
    }
    int i = low, j = first - low;
    for (int k = first; k < min(first + share, total); ++k) out[k] = j >= nb || (i < na && a[i] <= b[j]) ? a[i++] : b[j++];
}

// Sort by counting how many elements are smaller.
extern "C" __global__ void rank_sort(const short *in, short *out, int n) {
    __shared__ short tile[128];
    const int i = blockIdx.x * 128 + threadIdx.x;
    const short own = i < n ? in[i] : 0;
    int rank = 0;
    for (int start = 0; start < n; start += 128) {
        tile[threadIdx.x] = start + threadIdx.x < n ? in[start + threadIdx.x] : 0;
        __syncthreads();
        for (int j = 0; j < min(128, n - start); ++j) rank += tile[j] < own || (tile[j] == own && start + j < i);
        __syncthreads();
    }
    if (i < n) out[rank] = own;
}

// Lower bounds of many needles in a sorted array.
extern "C" __global__ void lower_bound(const double *sorted, int n, const double *needles, int *where, int count) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    int low = 0, size = n;
    while (size > 0) {
        const int half = size / 2;
        if (sorted[low + half] < needles[i]) low += half + 1, size -= half + 1;
        else size = half;
    }
    where[i] = low;
}

// Quicksort of each thread's own row with an explicit stack.
extern "C" __global__ void quicksort_rows(int *rows, int width, int count) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= count) return;
    int *data = rows + row * width;
    int stack[64], top = 0;
    stack[top++] = 0, stack[top++] = width - 1;
    while (top > 0) {
        const int high = stack[--top], low = stack[--top];
        if (low >= high) continue;
        const int pivot = data[(low + high) / 2];
        int i = low, j = high;
        while (i <= j) {
            while (data[i] < pivot) ++i;
            while (data[j] > pivot) --j;
            if (i <= j) {
                const int other = data[i];
                data[i++] = data[j];
                data[j--] = other;
            }
        }
        stack[top++] = low, stack[top++] = j;
        stack[top++] = i, stack[top++] = high;
    }
}
