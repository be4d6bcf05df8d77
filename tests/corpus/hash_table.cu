// open addressing: insert keys with counts, then look others up
extern "C" __global__ void hash_insert(int n, const unsigned* keys, unsigned* table, unsigned* counts, unsigned size) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned key = keys[i], h = key * 2654435769u % size;
  while (true) {
    unsigned old = atomicCAS(&table[h], 0xffffffffu, key);
    if (old == 0xffffffffu || old == key) break;
    h = (h + 1) % size;
  }
  atomicAdd(&counts[h], 1u);
}
extern "C" __global__ void hash_lookup(int n, const unsigned* keys, const unsigned* table, const unsigned* counts,
                                       unsigned size, unsigned* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  unsigned h = keys[i] * 2654435769u % size, found = 0;
  for (; table[h] != 0xffffffffu; h = (h + 1) % size)
    if (table[h] == keys[i]) {
      found = counts[h];
      break;
    }
  out[i] = found;
}
