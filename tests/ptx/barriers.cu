// Barriers of warps and blocks where threads are apart: the same barrier is reached at different places.
// Compile: nvcc -ptx -arch=compute_80 -O3 barriers.cu -o barriers.ptx; nvcc -ptx -arch=compute_80 -G barriers.cu -o barriers_debug.ptx
extern "C" __global__ void warps(const int* in, int* out) {
    __shared__ int tile[256];
    int t = threadIdx.x, lane = t & 31, base = t & ~31;
    int value = in[blockIdx.x * blockDim.x + t];
    if (lane < 20) {
        for (int i = 0; i < (lane & 3) + 1; ++i) value = value * 3 + i;
        tile[t] = value;
        __syncwarp(0x000fffffu);
        value = tile[base + 19 - lane];
        __syncwarp(0x000fffffu);
        if (lane & 1) { tile[t] = value + 7; }
        __syncwarp(0x000fffffu);
        value += tile[base + (lane | 1) % 20];
    } else {
        tile[t] = value - 5;
        __syncwarp(0xfff00000u);
        value = tile[base + 51 - lane];
    }
    __syncthreads();
    tile[t] = value;
    if (t % 3 == 0) { __syncthreads(); value = tile[(t + 1) % blockDim.x]; }
    else { value *= 2; __syncthreads(); value += tile[(t + 2) % blockDim.x]; }
    __syncthreads();
    out[blockIdx.x * blockDim.x + t] = value;
}
