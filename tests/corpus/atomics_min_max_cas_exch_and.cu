// atomics min/max/cas/exch/and/or/xor/inc/dec, 64-bit
extern "C" __global__ void atomics_min_max_cas_exch_and(const int* d, int n, int* r, unsigned long long* q,
                                                        float* fm, unsigned* inc) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  int v = d[i];
  atomicMin(&r[0], v);
  atomicMax(&r[1], v);
  atomicAnd(&r[2], v);
  atomicOr(&r[3], v);
  atomicXor(&r[4], v);
  atomicSub(&r[5], v);
  atomicMax(&q[0], (unsigned long long)(long long)v);
  atomicMin((long long*)&q[1], (long long)v * 1000000007LL);
  atomicAdd(&q[2], (unsigned long long)v);
  int* a = (int*)fm;
  int old = *a, as;
  do {
    as = old;
    old = atomicCAS(a, as, __float_as_int(fmaxf((float)v * .5f, __int_as_float(as))));
  } while (as != old);
  atomicInc(&inc[0], 99u);
  atomicDec(&inc[1], 50u);
  atomicAdd(&fm[1], 1.0f);
  if (i == 0) { inc[2] = atomicExch(&inc[3], 777u); }
  unsigned long long o = q[3], s;
  do {
    s = o;
    o = atomicCAS(&q[3], s, s + 3);
  } while (s != o);
}
