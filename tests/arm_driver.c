// Runs one launch of a kernel that was compiled for this processor: driver KERNEL.so JOB.
// JOB: counts and addresses, then for each region its address, size and whether its bytes follow; then the bytes.
// Regions are mapped where the job says; those whose bytes came with the job are written back to it.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

struct region { uint64_t address, size, has_bytes; };

static void fail(const char *what) { fprintf(stderr, "%s\n", what); exit(3); }

int main(int count, char **arguments) {
    uint64_t head[3];  // regions, launch, worker
    void *library = count == 3 ? dlopen(arguments[1], RTLD_NOW) : 0;
    if (!library) fail(dlerror());
    int (*entry)(uint64_t, uint64_t) = (int (*)(uint64_t, uint64_t))dlsym(library, "zcuda_kernel");
    FILE *job = fopen(arguments[2], "r+b");
    if (!entry || !job || fread(head, sizeof head, 1, job) != 1) fail("no entry or no job");
    struct region *regions = calloc(head[0], sizeof *regions);
    if (fread(regions, sizeof *regions, head[0], job) != head[0]) fail("a short job");
    long bytes = ftell(job);
    for (uint64_t i = 0; i < head[0]; i++) {
        struct region *r = regions + i;
        uint64_t start = r->address & ~4095ull, end = (r->address + r->size + 4095) & ~4095ull;
        void *at = (void *)start;
        if (mmap(at, end - start, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) != at)
            fail("an address is taken");
        if (r->has_bytes && fread((void *)r->address, 1, r->size, job) != r->size) fail("a short job");
    }
    if (entry(head[1], head[2]) != 1) fail("the only worker of a launch is its last");
    fseek(job, bytes, SEEK_SET);
    for (uint64_t i = 0; i < head[0]; i++)
        if (regions[i].has_bytes && fwrite((void *)regions[i].address, 1, regions[i].size, job) != regions[i].size)
            fail("cannot write the answer");
    return fclose(job);
}
