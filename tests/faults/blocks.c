/* SPDX-License-Identifier: MIT */
/*
 * malloc and its kin of the whole process: they can be told to fail, and what they gave stands in a table until it is
 * freed. A lock of its own, which nothing is called under, guards the table.
 */
#include "blocks.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <holdfast.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t number, size_t size);
void *__libc_realloc(void *old, size_t size);
void  __libc_free(void *block);
void *__libc_memalign(size_t align, size_t size);

/* ---- who asks */
struct range {
    uintptr_t from, to;
};

static struct range library, loader;

static int range_find(struct dl_phdr_info *info, size_t size, void *arg)
{
    struct range *range = strstr(info->dlpi_name, "libholdfast.so") ? &library
                          : strstr(info->dlpi_name, "ld-linux")     ? &loader
                                                                    : NULL;

    (void)size;
    (void)arg;
    if (range == NULL)
        return 0;
    range->from = info->dlpi_addr;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD)
            range->to = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
    return 0;
}

__attribute__((constructor)) static void ranges_find(void)
{
    dl_iterate_phdr(range_find, NULL);
}

static bool asks(const struct range *range, const void *caller)
{
    return (uintptr_t)caller >= range->from && (uintptr_t)caller < range->to;
}

/* ---- failing */
static atomic_long countdown; /* > 0: so many allocations until one fails; 0: none fails */
static atomic_long in_a_row;  /* how many fail then */
static atomic_bool only_ours, has_failed;

void blocks_fail(long n, long row, bool ours)
{
    atomic_store(&only_ours, ours);
    atomic_store(&has_failed, false);
    atomic_store(&in_a_row, row);
    atomic_store(&countdown, n);
}

bool blocks_relent(void)
{
    atomic_store(&countdown, 0);
    return atomic_load(&has_failed);
}

static bool fails(const void *caller)
{
    if (atomic_load(&countdown) == 0 || (atomic_load(&only_ours) && !asks(&library, caller)))
        return false;
    long left = atomic_fetch_sub(&countdown, 1);
    if (left > 1)
        return false;
    if (left == 1 && atomic_fetch_sub(&in_a_row, 1) > 1)
        atomic_store(&countdown, 1); /* the next one fails as well */
    else if (left < 1)
        atomic_store(&countdown, 0);
    if (left != 1)
        return false;
    atomic_store(&has_failed, true);
    errno = ENOMEM;
    return true;
}

/* ---- the table: open addressing; what is freed leaves a grave */
#define SLOTS (1u << 18)
#define GRAVE ((void *)1)

static struct slot {
    void       *block;
    const void *caller;
    long        mark;
} slots[SLOTS];
static atomic_flag table = ATOMIC_FLAG_INIT;
static long        mark, count;

static void table_lock(void)
{
    while (atomic_flag_test_and_set(&table))
        sched_yield();
}

static void table_unlock(void)
{
    atomic_flag_clear(&table);
}

static unsigned slot_of(const void *block)
{
    return (unsigned)(((uintptr_t)block >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 40) % SLOTS;
}

static void *block_note(void *block, const void *caller)
{
    if (block == NULL || asks(&loader, caller))
        return block;
    table_lock();
    unsigned at = slot_of(block);
    while (slots[at].block != NULL && slots[at].block != GRAVE)
        at = (at + 1) % SLOTS;
    slots[at] = (struct slot){block, caller, mark};
    count++;
    table_unlock();
    return block;
}

/* Before it is freed: after that another thread may have it. False: it is not in the table. */
static bool block_forget(void *block, struct slot *was)
{
    bool found = false;

    table_lock();
    for (unsigned at = slot_of(block); !found && slots[at].block != NULL; at = (at + 1) % SLOTS) {
        if (slots[at].block != block)
            continue;
        found = true;
        *was = slots[at];
        count--;
        slots[at].block = slots[(at + 1) % SLOTS].block == NULL ? NULL : GRAVE;
    }
    table_unlock();
    return found;
}

/* A block that was moved counts from when it was made. */
static void block_moved(void *block, const void *caller, const struct slot *was, bool found)
{
    block_note(block, caller);
    if (!found || block == NULL)
        return;
    table_lock();
    unsigned at = slot_of(block);
    while (slots[at].block != block)
        at = (at + 1) % SLOTS;
    slots[at].mark = was->mark;
    table_unlock();
}

void blocks_mark(void)
{
    table_lock();
    mark++;
    table_unlock();
}

static void block_show(const struct slot *slot)
{
    Dl_info who;
    bool    known = dladdr(slot->caller, &who) != 0;

    dprintf(STDERR_FILENO, "still there: a block that %s+0x%lx (%s) asked for\n", known ? who.dli_fname : "?",
            known ? (unsigned long)((uintptr_t)slot->caller - (uintptr_t)who.dli_fbase) : 0,
            known && who.dli_sname ? who.dli_sname : "?");
}

void blocks_show(void)
{
    struct slot found[8];
    int         shown = 0;

    table_lock();
    for (unsigned i = 0; i < SLOTS && shown < 8; i++)
        if (slots[i].block != NULL && slots[i].block != GRAVE && slots[i].mark == mark)
            found[shown++] = slots[i];
    table_unlock();
    for (int i = 0; i < shown; i++)
        block_show(&found[i]);
}

long blocks_count(void)
{
    table_lock();
    long now = count;
    table_unlock();
    return now;
}

/* ---- the functions of the C library */
HF_API void *malloc(size_t size)
{
    const void *caller = __builtin_return_address(0);

    return fails(caller) ? NULL : block_note(__libc_malloc(size), caller);
}

HF_API void *calloc(size_t number, size_t size)
{
    const void *caller = __builtin_return_address(0);

    return fails(caller) ? NULL : block_note(__libc_calloc(number, size), caller);
}

HF_API void *realloc(void *old, size_t size)
{
    const void *caller = __builtin_return_address(0);
    struct slot was;

    if (fails(caller))
        return NULL;
    bool  found = old != NULL && block_forget(old, &was);
    void *block = __libc_realloc(old, size);
    block_moved(block, caller, &was, found);
    return block;
}

HF_API void free(void *block)
{
    struct slot was;

    if (block != NULL)
        block_forget(block, &was);
    __libc_free(block);
}

HF_API void *aligned_alloc(size_t align, size_t size)
{
    return block_note(__libc_memalign(align, size), __builtin_return_address(0));
}

HF_API int posix_memalign(void **block, size_t align, size_t size)
{
    *block = block_note(__libc_memalign(align, size), __builtin_return_address(0));
    return *block ? 0 : ENOMEM;
}
