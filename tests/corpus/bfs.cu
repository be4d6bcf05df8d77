// one level of a breadth-first search, from a frontier to the next
extern "C" __global__ void bfs(int count, const int* frontier, const int* start, const int* target, int* distance,
                               int level, int* next, int* next_count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= count) return;
  int node = frontier[i];
  for (int e = start[node]; e < start[node + 1]; e++) {
    int to = target[e];
    if (atomicCAS(&distance[to], -1, level) == -1) next[atomicAdd(next_count, 1)] = to;
  }
}
