/* SPDX-License-Identifier: MIT */
/* The page that fork wipes. */
#include "base/fork.h"

#include <sys/mman.h>
#include <unistd.h>

struct hf__fork_guard {
    volatile int alive;
};

hf__fork_guard *hf__fork_guard_new(void)
{
    size_t          size = (size_t)sysconf(_SC_PAGESIZE);
    hf__fork_guard *guard = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (guard == MAP_FAILED)
        return NULL;
    if (madvise(guard, size, MADV_WIPEONFORK) != 0) {
        munmap(guard, size);
        return NULL;
    }
    guard->alive = 1;
    return guard;
}

void hf__fork_guard_free(hf__fork_guard *guard)
{
    if (guard != NULL)
        munmap(guard, (size_t)sysconf(_SC_PAGESIZE));
}

bool hf__forked(const hf__fork_guard *guard)
{
    return guard->alive == 0;
}
