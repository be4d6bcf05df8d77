// Hashes, ciphers, encodings, strings, bits.

// MD5 of 64-byte messages, one per thread.
__constant__ unsigned md5_table[64];
__constant__ int md5_shifts[16] = {7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21};

__device__ void md5_block(unsigned *state, const unsigned *words) {
    unsigned a = state[0], b = state[1], c = state[2], d = state[3];
    for (int i = 0; i < 64; ++i) {
        unsigned f;
        int g;
        if (i < 16) f = (b & c) | (~b & d), g = i;
        else if (i < 32) f = (d & b) | (~d & c), g = (5 * i + 1) & 15;
        else if (i < 48) f = b ^ c ^ d, g = (3 * i + 5) & 15;
        else f = c ^ (b | ~d), g = (7 * i) & 15;
        f += a + md5_table[i] + words[g];
        a = d, d = c, c = b;
        b += __funnelshift_l(f, f, md5_shifts[(i >> 4) * 4 + (i & 3)]);
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
}

extern "C" __global__ void md5(const unsigned *messages, unsigned *digests, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned state[4] = {0x67452301u, 0xefcdab89u, 0x98badcfeu, 0x10325476u}, words[16];
    for (int j = 0; j < 16; ++j) words[j] = messages[16 * i + j];
    md5_block(state, words);
    for (int j = 0; j < 16; ++j) words[j] = 0;
    words[0] = 0x80u, words[14] = 512u;
    md5_block(state, words);
    for (int j = 0; j < 4; ++j) digests[4 * i + j] = state[j];
}

// AES-128 of single blocks: S-box in constant memory, round keys by the host.
__constant__ unsigned char sbox[256];
__constant__ unsigned char round_keys[176];

__device__ unsigned char times_two(unsigned char x) { return (unsigned char)((x << 1) ^ (x & 0x80 ? 0x1b : 0)); }

extern "C" __global__ void aes(const unsigned char *in, unsigned char *out, int blocks) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= blocks) return;
    unsigned char s[16], t[16];
    for (int j = 0; j < 16; ++j) s[j] = in[16 * i + j] ^ round_keys[j];
    for (int round = 1; round <= 10; ++round) {
        for (int j = 0; j < 16; ++j) t[j] = sbox[s[(j + 4 * (j % 4)) % 16]];
        for (int c = 0; c < 4 && round < 10; ++c) {
            unsigned char *q = t + 4 * c;
            const unsigned char all = q[0] ^ q[1] ^ q[2] ^ q[3], first = q[0];
            for (int r = 0; r < 3; ++r) q[r] ^= all ^ times_two((unsigned char)(q[r] ^ q[r + 1]));
            q[3] ^= all ^ times_two((unsigned char)(q[3] ^ first));
        }
        for (int j = 0; j < 16; ++j) s[j] = t[j] ^ round_keys[16 * round + j];
    }
    for (int j = 0; j < 16; ++j) out[16 * i + j] = s[j];
}

__constant__ char alphabet[65] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

extern "C" __global__ void base64(const unsigned char *in, int n, uchar4 *out) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, left = n - 3 * i;
    if (left <= 0) return;
    const unsigned bits = in[3 * i] << 16 | (left > 1 ? in[3 * i + 1] << 8 : 0) | (left > 2 ? in[3 * i + 2] : 0);
    out[i] = make_uchar4(alphabet[bits >> 18], alphabet[bits >> 12 & 63], left > 1 ? alphabet[bits >> 6 & 63] : '=',
                         left > 2 ? alphabet[bits & 63] : '=');
}

// Every bit operation that has an intrinsic.
extern "C" __global__ void bit_tricks(const unsigned *a, const unsigned *b, unsigned *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const unsigned x = a[i], y = b[i];
    unsigned *o = out + 12 * i;
    o[0] = __brev(x);
    o[1] = __clz(x);
    o[2] = __ffs(x);
    o[3] = __popc(x);
    o[4] = __byte_perm(x, y, y & 0xffff);
    o[5] = __funnelshift_l(x, y, y & 63);
    o[6] = __funnelshift_r(x, y, y & 63);
    o[7] = __funnelshift_lc(x, y, y & 63);
    o[8] = __funnelshift_rc(x, y, y & 63);
    o[9] = __umulhi(x, y);
    o[10] = __usad(x, y, 7u);
    o[11] = __uhadd(x, y) ^ __urhadd(x, y);
}

extern "C" __global__ void bit_tricks_long(const unsigned long long *a, unsigned long long *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const unsigned long long x = a[i];
    unsigned long long *o = out + 6 * i;
    o[0] = __brevll(x);
    o[1] = __clzll(x);
    o[2] = __ffsll(x);
    o[3] = __popcll(x);
    o[4] = __umul64hi(x, x ^ 0x123456789abcdefull);
    o[5] = __mul64hi((long long)x, (long long)(x * 3));
}

// Four and two numbers in a word.
extern "C" __global__ void packed(const unsigned *a, const unsigned *b, unsigned *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const unsigned x = a[i], y = b[i];
    unsigned *o = out + 8 * i;
    o[0] = __vadd4(x, y);
    o[1] = __vsubus4(x, y);
    o[2] = __vabsdiffu4(x, y);
    o[3] = __vmaxs4(x, y);
    o[4] = __vcmpgtu4(x, y);
    o[5] = __vsadu4(x, y);
    o[6] = __vaddss2(x, y);
    o[7] = __vavgu4(x, y);
}

// Edit distance of many pairs of short words: one per thread, a row in local memory.
extern "C" __global__ void levenshtein(const char *words, int width, const int2 *pairs, int *distance, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const char *a = words + pairs[i].x * width, *b = words + pairs[i].y * width;
    int row[33], length = 0;
    while (length < width && b[length]) ++length;
    for (int j = 0; j <= length; ++j) row[j] = j;
    for (int y = 0; y < width && a[y]; ++y) {
        int corner = row[0];
        row[0] = y + 1;
        for (int j = 0; j < length; ++j) {
            const int above = row[j + 1];
            row[j + 1] = min(min(above, row[j]) + 1, corner + (a[y] != b[j]));
            corner = above;
        }
    }
    distance[i] = row[length];
}

// Smith-Waterman local alignment, a block per pair, anti-diagonal by anti-diagonal in shared memory.
extern "C" __global__ void smith_waterman(const char *a, const char *b, int n, int *best) {
    __shared__ int diagonals[3][129];
    __shared__ int most;
    const int t = threadIdx.x;
    const char *rows = a + blockIdx.x * n, *columns = b + blockIdx.x * n;
    for (int d = 0; d < 3; ++d) diagonals[d][t] = 0;
    if (t == 0) most = 0, diagonals[0][128] = diagonals[1][128] = diagonals[2][128] = 0;
    __syncthreads();
    for (int d = 0; d < 2 * n - 1; ++d) {
        int *now = diagonals[d % 3];
        const int *before = diagonals[(d + 2) % 3], *earlier = diagonals[(d + 1) % 3], x = d - t;
        int score = 0;
        if (t < n && x >= 0 && x < n) {
            const int up = t ? before[t - 1] : 0, left = x ? before[t] : 0, corner = t && x ? earlier[t - 1] : 0;
            score = max(max(0, corner + (rows[t] == columns[x] ? 3 : -2)), max(up, left) - 4);
            if (score > 0) atomicMax(&most, score);
        }
        now[t] = score;
        __syncthreads();
    }
    if (t == 0) best[blockIdx.x] = most;
}

// Variable-length integers: lengths, a scan in one warp, and bytes written where they belong.
extern "C" __global__ void varint(const unsigned *in, unsigned char *out, int *total) {
    const unsigned value = in[threadIdx.x];
    const int bytes = max(1, (38 - __clz(value)) / 7);
    int end = bytes;
    for (int step = 1; step < 32; step *= 2) {
        const int left = __shfl_up_sync(~0u, end, step);
        if (threadIdx.x >= step) end += left;
    }
    for (int j = 0; j < bytes; ++j) out[end - bytes + j] = (unsigned char)((value >> (7 * j) & 127) | (j + 1 < bytes) << 7);
    if (threadIdx.x == 31) *total = end;
}

// Modular powers with a 64-bit modulus, products by __int128.
extern "C" __global__ void power_mod(const unsigned long long *base, const unsigned long long *exponent,
                                     const unsigned long long *modulus, unsigned long long *out, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const unsigned long long m = modulus[i];
    unsigned long long b = base[i] % m, result = 1 % m;
    for (unsigned long long e = exponent[i]; e; e >>= 1) {
        if (e & 1) result = (unsigned long long)((unsigned __int128)result * b % m);
        b = (unsigned long long)((unsigned __int128)b * b % m);
    }
    out[i] = result;
}
