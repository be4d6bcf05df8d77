// Kernels that launch kernels.
__global__ void child(int *out, int depth) {
    atomicAdd(out, 1);
    if (depth) child<<<2, 1>>>(out, depth - 1);
}

extern "C" __global__ void parent(int *out, int depth) { child<<<1, 1>>>(out, depth); }
