// virtual functions
struct A {
  __device__ virtual int f(int x) { return x; }
};
struct B : A {
  __device__ int f(int x) override { return x * 5; }
};
extern "C" __global__ void virtual_functions(int* o) {
  A a;
  B b;
  A* p = threadIdx.x & 1 ? &b : &a;
  o[threadIdx.x] = p->f(threadIdx.x);
}
