/* SPDX-License-Identifier: MIT */
/* See libcalls.h. */
#include "stores/zookeeper/libcalls.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <netdb.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/turn.h"

typedef struct tables {
    ElfW(Addr) base;
    const ElfW(Sym) * symbols;
    const char *strings;
    const char *relocations; /* ElfW(Rela)s or ElfW(Rel)s */
    size_t      size, each;
    ElfW(Addr) sealed_from, sealed_to; /* read-only since the loader was done */
} tables;

#define FORK_WAITS_MS 2000 /* for a name that is being resolved */

static bool is_led; /* all of them */

static hf__turn resolving = {.mutex = PTHREAD_MUTEX_INITIALIZER}; /* had while the resolver runs, and by a fork */
static bool     fork_has_it, child_must_not;

static int socket_cloexec(int domain, int type, int protocol)
{
    return socket(domain, type | SOCK_CLOEXEC, protocol);
}

static int pipe_cloexec(int fds[2])
{
    return pipe2(fds, O_CLOEXEC);
}

/* In a child that was forked in the midst of it the resolver's locks may be taken for ever. */
static int getaddrinfo_alone(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **res)
{
    int result;

    hf__turn_take(&resolving, HF_NEVER_US);
    result = child_must_not ? EAI_AGAIN : getaddrinfo(node, service, hints, res);
    hf__turn_give(&resolving);
    return result;
}

static void before_fork(void)
{
    fork_has_it = hf__turn_take(&resolving, hf__after_ms(hf__now_us(), FORK_WAITS_MS));
}

static void after_fork(void)
{
    if (fork_has_it)
        hf__turn_give(&resolving);
}

static void in_child(void)
{
    child_must_not = child_must_not || !fork_has_it;
    hf__turn_init(&resolving);
}

/* Some loaders leave the addresses of this section as they stand in the file. */
static const void *address(const tables *t, ElfW(Addr) value)
{
    return (const void *)(value < t->base ? value + t->base : value);
}

static void read_dynamic(tables *t, const ElfW(Dyn) * dynamic)
{
    bool with_addends = true;

    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        if (dynamic->d_tag == DT_SYMTAB)
            t->symbols = address(t, dynamic->d_un.d_ptr);
        else if (dynamic->d_tag == DT_STRTAB)
            t->strings = address(t, dynamic->d_un.d_ptr);
        else if (dynamic->d_tag == DT_JMPREL)
            t->relocations = address(t, dynamic->d_un.d_ptr);
        else if (dynamic->d_tag == DT_PLTRELSZ)
            t->size = dynamic->d_un.d_val;
        else if (dynamic->d_tag == DT_PLTREL)
            with_addends = dynamic->d_un.d_val == DT_RELA;
    }
    t->each = with_addends ? sizeof(ElfW(Rela)) : sizeof(ElfW(Rel));
}

static size_t symbol_of(ElfW(Xword) info)
{
    return sizeof(ElfW(Addr)) == 8 ? (size_t)(info >> 32) : (size_t)(info >> 8);
}

static bool lead(const tables *t, ElfW(Addr) slot, void *to)
{
    long  page = sysconf(_SC_PAGESIZE);
    void *start = (void *)(slot & ~((ElfW(Addr))page - 1));
    bool  sealed = slot >= t->sealed_from && slot < t->sealed_to;

    if (sealed && mprotect(start, (size_t)page, PROT_READ | PROT_WRITE) != 0)
        return false;
    __atomic_store_n((void **)slot, to, __ATOMIC_RELAXED);
    return !sealed || mprotect(start, (size_t)page, PROT_READ) == 0;
}

/* The first two members of both kinds of relocation are alike. */
static void lead_all(const tables *t)
{
    int (*const on_socket)(int, int, int) = socket_cloexec;
    int (*const on_pipe)(int *) = pipe_cloexec;
    int (*const on_resolve)(const char *, const char *, const struct addrinfo *, struct addrinfo **) =
        getaddrinfo_alone;
    unsigned led = 0;

    for (size_t at = 0; at + t->each <= t->size; at += t->each) {
        const ElfW(Rel) *relocation = (const void *)(t->relocations + at);
        const char *name = t->strings + t->symbols[symbol_of(relocation->r_info)].st_name;
        ElfW(Addr) slot = t->base + relocation->r_offset;
        void *to = NULL;
        if (strcmp(name, "socket") == 0)
            memcpy(&to, &on_socket, sizeof to);
        else if (strcmp(name, "pipe") == 0)
            memcpy(&to, &on_pipe, sizeof to);
        else if (strcmp(name, "getaddrinfo") == 0)
            memcpy(&to, &on_resolve, sizeof to);
        if (to != NULL)
            led += lead(t, slot, to);
    }
    is_led = led == 3;
}

static int look_at(struct dl_phdr_info *info, size_t size, void *arg)
{
    tables t = {.base = info->dlpi_addr};
    const ElfW(Dyn) *dynamic = NULL;

    (void)size;
    (void)arg;
    if (strstr(info->dlpi_name, "libzookeeper_mt") == NULL)
        return 0;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type == PT_DYNAMIC)
            dynamic = (const void *)(t.base + header->p_vaddr);
        if (header->p_type != PT_GNU_RELRO)
            continue;
        t.sealed_from = t.base + header->p_vaddr;
        t.sealed_to = t.sealed_from + header->p_memsz;
    }
    if (dynamic != NULL)
        read_dynamic(&t, dynamic);
    if (t.symbols != NULL && t.strings != NULL && t.relocations != NULL)
        lead_all(&t);
    return 1;
}

static void lead_once(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
    dl_iterate_phdr(look_at, NULL);
}

bool hf__zk_libcalls_lead(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, lead_once);
    return is_led;
}
