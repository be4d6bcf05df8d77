// Calls of device functions: structs by value, early returns, a table in local memory, shared memory in a callee.
// Compile: nvcc -ptx -arch=compute_80 -O3 calls.cu -o calls.ptx
//          nvcc -ptx -arch=compute_80 -G calls.cu -o calls_debug.ptx
struct Item {
    float x, y;
    int k;
    unsigned char tag;
};

__device__ __noinline__ float sum_until(float a, int n) {
    float s = 0;
    for (int i = 0; i < n; ++i) {
        s += a * i;
        if (s > 100.f) return s;
    }
    return s;
}

__device__ __noinline__ Item change(Item item, const float* p) {
    Item result;
    result.x = item.x + p[0];
    result.y = sum_until(item.y, item.k);
    result.k = item.k * 2;
    result.tag = item.tag + 250;
    return result;
}

__device__ __noinline__ int pick(int i) {
    const int table[5] = {3, 1, 4, 1, 5};
    return table[i % 5];
}

__device__ __noinline__ float exchange(float mine) {
    __shared__ float tile[64];
    tile[threadIdx.x] = mine;
    __syncthreads();
    return tile[63 - threadIdx.x];
}

extern "C" __global__ void calls(int n, const float* in, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float other = exchange(in[i]);
    if (i >= n) return;
    Item item{in[i], in[i] * 2, i % 7, (unsigned char)i};
    if (i & 1) item = change(item, in);
    out[i] = item.x + sum_until(item.y, item.k + 3) + pick(i) + other + item.tag;
}
