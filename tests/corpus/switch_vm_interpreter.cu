// switch/VM interpreter divergent
extern "C" __global__ void switch_vm_interpreter(const int* prog, int len, int* out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int st[8];
  int sp = 0;
  st[sp++] = i;
  for (int pc = 0; pc < len;) {
    int op = prog[pc++];
    switch (op) {
      case 0:
        st[sp++] = prog[pc++];
        break;
      case 1:
        sp--;
        st[sp - 1] += st[sp];
        break;
      case 2:
        sp--;
        st[sp - 1] *= st[sp];
        break;
      case 3:
        st[sp] = st[sp - 1];
        sp++;
        break;
      case 4:
        if (st[sp - 1] & 1) pc += prog[pc];
        pc++;
        break;
      case 5:
        st[sp - 1] %= 17;
        break;
      case 6:
        st[sp - 1] /= -3;
        break;
      case 7: {
        int t = st[sp - 1];
        st[sp - 1] = st[sp - 2];
        st[sp - 2] = t;
        break;
      }
      case 8:
        st[sp - 1] = ~st[sp - 1];
        break;
      case 9:
        st[sp - 1] >>= 2;
        break;
      default:
        st[sp - 1] = -999;
    }
  }
  out[i] = st[0];
}
