// malloc and free in kernels: linked lists, exhaustion, blocks that outlive their launch.
// Compile: nvcc -ptx -arch=sm_80 heap.cu -o heap.ptx
#include <cstdlib>
struct Node { int value; Node* next; };

extern "C" __global__ void lists(int n, int* sums, int* bad) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  Node* head = nullptr;
  for (int i = 0; i < t % n; i++) {
    Node* node = (Node*)malloc(sizeof(Node));
    if (!node || (size_t)node % 16) { atomicAdd(bad, 1); return; }
    node->value = t * i; node->next = head; head = node;
    if (i % 3 == 2) { Node* gone = head->next; head->next = gone->next; free(gone); }
  }
  int sum = 0;
  while (head) { sum += head->value; Node* next = head->next; free(head); head = next; }
  free(nullptr);
  sums[t] = sum;
}

extern "C" __global__ void take(size_t size, void** blocks) { blocks[threadIdx.x] = malloc(size); }
extern "C" __global__ void fill(size_t words, int** blocks) {
  if (blocks[threadIdx.x]) for (size_t i = 0; i < words; i++) blocks[threadIdx.x][i] = threadIdx.x * 1000 + i;
}
extern "C" __global__ void give(size_t words, int** blocks, int* bad) {
  int* block = blocks[threadIdx.x];
  if (!block) return;
  for (size_t i = 0; i < words; i++) if (block[i] != (int)(threadIdx.x * 1000 + i)) atomicAdd(bad, 1);
  free(block);
}
