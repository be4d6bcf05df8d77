// Threads that work together, and what C++ offers them.
#include <cassert>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cstdio>

namespace cg = cooperative_groups;
constexpr unsigned ALL = 0xffffffffu;

extern "C" __global__ void group_reduce16(const int *in, int *sums, int *most, int *prefix) {
    const auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    const int i = blockIdx.x * blockDim.x + threadIdx.x, value = in[i];
    const int sum = cg::reduce(tile, value, cg::plus<int>()), top = cg::reduce(tile, value, cg::greater<int>());
    prefix[i] = cg::inclusive_scan(tile, value, cg::plus<int>());
    if (tile.thread_rank() == 0) sums[i / 16] = sum, most[i / 16] = top;
}

// Threads that agree on a remainder add up their values together, one atomic for all.
extern "C" __global__ void aggregated_atomics(const int *in, int *sums, int n, int classes) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int value = in[i], kind = value % classes;
    for (int k = 0; k < classes; ++k)
        if (kind == k) {
            const auto together = cg::coalesced_threads();
            if (together.thread_rank() == 0) atomicAdd(&sums[k], (int)together.size());
            const int first = together.shfl(value, 0);
            if (value == first) atomicAdd(&sums[classes + k], 1);
        }
}

// Grid-wide steps: Hillis-Steele over the whole array.
extern "C" __global__ void grid_scan(int *a, int *b, int n) {
    const auto grid = cg::this_grid();
    int *from = a, *to = b;
    for (int step = 1; step < n; step *= 2) {
        for (int i = (int)grid.thread_rank(); i < n; i += (int)grid.size()) to[i] = i >= step ? from[i] + from[i - step] : from[i];
        grid.sync();
        int *other = from;
        from = to, to = other;
    }
    if (from != a)
        for (int i = (int)grid.thread_rank(); i < n; i += (int)grid.size()) a[i] = from[i];
}

// Half of the warps make numbers, half use them; two slots, named barriers in both directions.
extern "C" __global__ void producer_consumer(int *out, int rounds) {
    __shared__ int slots[2][64];
    const int t = threadIdx.x;
    if (t < 64) {
        for (int r = 0; r < rounds; ++r) {
            if (r >= 2) asm volatile("barrier.sync %0, 128;" ::"r"(3 + (r & 1)) : "memory");  // the slot is free again
            slots[r & 1][t] = r * 1000 + t;
            asm volatile("barrier.arrive %0, 128;" ::"r"(1 + (r & 1)) : "memory");
        }
    } else {
        int sum = 0;
        for (int r = 0; r < rounds; ++r) {
            asm volatile("barrier.sync %0, 128;" ::"r"(1 + (r & 1)) : "memory");
            sum += slots[r & 1][127 - t];
            if (r + 2 < rounds) asm volatile("barrier.arrive %0, 128;" ::"r"(3 + (r & 1)) : "memory");
        }
        out[t - 64] = sum;
    }
}

// A lock per bucket, taken by single threads of diverged warps; the critical section is not atomic.
extern "C" __global__ void bucket_lists(const int *keys, int n, int *locks, volatile int *counts, volatile int *lists,
                                        int buckets, int room) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const int bucket = (unsigned)keys[i] % buckets;
    bool done = false;
    while (!done) {
        if (atomicCAS(&locks[bucket], 0, 1) == 0) {
            __threadfence();
            const int at = counts[bucket];
            lists[bucket * room + at] = keys[i];
            counts[bucket] = at + 1;
            __threadfence();
            atomicExch(&locks[bucket], 0);
            done = true;
        }
    }
}

// Threads take work from a shared counter until there is none: Collatz lengths.
extern "C" __global__ void work_queue(unsigned *next, unsigned n, int *lengths) {
    for (;;) {
        const unsigned task = atomicAdd(next, 1u);
        if (task >= n) return;
        unsigned long long x = task + 1;
        int steps = 0;
        while (x != 1) x = x & 1 ? 3 * x + 1 : x / 2, ++steps;
        lengths[task] = steps;
    }
}

// Peers with the same key elect a leader that adds for all of them.
extern "C" __global__ void match_histogram(const int *keys, int *bins, int *ranks, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
    const unsigned active = __ballot_sync(ALL, i < n);
    if (i >= n) return;
    const unsigned peers = __match_any_sync(active, keys[i]);
    const int leader = __ffs(peers) - 1;
    int base = 0;
    if (lane == leader) base = atomicAdd(&bins[keys[i]], __popc(peers));
    base = __shfl_sync(peers, base, leader);
    ranks[i] = base + __popc(peers & ((1u << lane) - 1));
}

extern "C" __global__ void votes(const int *in, int *out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, value = in[i];
    const int count = __syncthreads_count(value > 0), every = __syncthreads_and(value < 90), some = __syncthreads_or(value == 7);
    int same;
    __match_all_sync(ALL, value / 100, &same);
    out[i] = count * 8 + (every != 0) * 4 + (some != 0) * 2 + (same != 0);
}

// A tree walked by recursion: sums of binary heaps.
__device__ __noinline__ int heap_sum(const int *heap, int n, int node) {
    if (node >= n) return 0;
    return heap[node] + heap_sum(heap, n, 2 * node + 1) + heap_sum(heap, n, 2 * node + 2);
}

extern "C" __global__ void recursive_sum(const int *heap, int n, int *out) {
    out[threadIdx.x] = heap_sum(heap, n, threadIdx.x);
}

__device__ __noinline__ int ackermann(int m, int n) {
    return m == 0 ? n + 1 : n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}

extern "C" __global__ void ackermann_table(int *out) { out[threadIdx.x] = ackermann(threadIdx.x / 4, threadIdx.x % 4); }

// Reflections by recursion, four deep.
struct Ray { float ox, oy, oz, dx, dy, dz; };

__device__ __noinline__ float trace(const float4 *spheres, int n, Ray ray, int depth) {
    float nearest = 1e30f;
    int hit = -1;
    for (int i = 0; i < n; ++i) {
        const float4 s = spheres[i];
        const float x = ray.ox - s.x, y = ray.oy - s.y, z = ray.oz - s.z;
        const float b = x * ray.dx + y * ray.dy + z * ray.dz, c = x * x + y * y + z * z - s.w * s.w, d = b * b - c;
        if (d <= 0) continue;
        const float t = -b - sqrtf(d);
        if (t > 1e-3f && t < nearest) nearest = t, hit = i;
    }
    if (hit < 0) return 0.5f + 0.5f * ray.dy;
    const float4 s = spheres[hit];
    const float px = ray.ox + nearest * ray.dx, py = ray.oy + nearest * ray.dy, pz = ray.oz + nearest * ray.dz;
    const float nx = (px - s.x) / s.w, ny = (py - s.y) / s.w, nz = (pz - s.z) / s.w;
    const float light = fmaxf(0.0f, 0.57735f * (nx + ny - nz));
    if (depth == 0) return light;
    const float k = 2.0f * (ray.dx * nx + ray.dy * ny + ray.dz * nz);
    const Ray next = {px, py, pz, ray.dx - k * nx, ray.dy - k * ny, ray.dz - k * nz};
    return 0.6f * light + 0.4f * trace(spheres, n, next, depth - 1);
}

extern "C" __global__ void reflections(const float4 *spheres, int n, float *image, int w, int h, int depth) {
    const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= w || y >= h) return;
    const float u = (x + 0.5f) / w - 0.5f, v = (y + 0.5f) / h - 0.5f, inverse = rsqrtf(u * u + v * v + 1.0f);
    const Ray ray = {0, 0, -3, u * inverse, v * inverse, inverse};
    image[y * w + x] = trace(spheres, n, ray, depth);
}

// Shapes with virtual functions, made and used on the device.
struct Shape {
    float size;
    __device__ Shape(float s) : size(s) {}
    __device__ virtual float area() const = 0;
    __device__ virtual int corners() const { return 0; }
    __device__ virtual ~Shape() {}
};
struct Circle : Shape {
    using Shape::Shape;
    __device__ float area() const override { return 3.0f * size * size; }
};
struct Square : Shape {
    using Shape::Shape;
    __device__ float area() const override { return size * size; }
    __device__ int corners() const override { return 4; }
};
struct Diamond : Square {
    using Square::Square;
    __device__ float area() const override { return 0.5f * Square::area(); }
};

extern "C" __global__ void shapes(const int *kinds, const float *sizes, float *areas, int *corners, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    Shape *shape = nullptr;
    switch (kinds[i]) {
    case 0: shape = new Circle(sizes[i]); break;
    case 1: shape = new Square(sizes[i]); break;
    default: shape = new Diamond(sizes[i]);
    }
    areas[i] = shape->area();
    corners[i] = shape->corners();
    delete shape;
}

// A table of operations.
typedef double (*Operation)(double, double);
__device__ double plus(double a, double b) { return a + b; }
__device__ double minus(double a, double b) { return a - b; }
__device__ double times(double a, double b) { return a * b; }
__device__ double larger(double a, double b) { return a > b ? a : b; }
__device__ Operation operations[4] = {plus, minus, times, larger};

extern "C" __global__ void calculator(const int *program, int length, const double *in, double *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double value = in[i];
    for (int j = 0; j < length; ++j) value = operations[(program[j] + i) & 3](value, in[(i + j) % n]);
    out[i] = value;
}

// Linked lists on the device's heap.
struct Node { int value; Node *next; };

extern "C" __global__ void heap_lists(int *sums, int length) {
    Node *head = nullptr;
    for (int i = 0; i < length; ++i) {
        Node *node = (Node *)malloc(sizeof(Node));
        assert(node);
        node->value = i * (int)threadIdx.x;
        node->next = head;
        head = node;
    }
    int sum = 0;
    while (head) {
        sum += head->value;
        Node *next = head->next;
        free(head);
        head = next;
    }
    sums[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

extern "C" __global__ void talkative(int n) {
    if (threadIdx.x < n) printf("thread %d of %s: %5.2f %llx\n", threadIdx.x, "block", threadIdx.x * 0.5, 1ull << 40);
}

extern "C" __global__ void checked(const int *in) { assert(in[threadIdx.x] >= 0); }
