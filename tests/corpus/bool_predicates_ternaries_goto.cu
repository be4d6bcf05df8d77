// bool/predicates & ternaries & goto
extern "C" __global__ void bool_predicates_ternaries_goto(int* o, int n) {
  int i = threadIdx.x;
  int s = 0;
  int j = i;
again:
  s += j & 3;
  j = (j & 1) ? 3 * j + 1 : j / 2;
  if (s > n) goto out;
  if (j > 1) goto again;
  s += 1000;
out:
  o[i] = s * 10 + (j == 1);
}
