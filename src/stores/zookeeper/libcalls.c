/* SPDX-License-Identifier: MIT */
/* See libcalls.h. */
#include "stores/zookeeper/libcalls.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/turn.h"

typedef struct table {
    const char *relocations; /* ElfW(Rela)s or ElfW(Rel)s */
    size_t      size, each;
} table;

typedef struct library {
    ElfW(Addr) base;
    const ElfW(Sym) * symbols;
    const char *strings;
    table       calls, addresses;
    ElfW(Addr) sealed_from, sealed_to; /* read-only since the loader was done */
    unsigned led;                      /* calls of the system */
    bool     failed;
} library;

#define FORK_WAITS_MS 2000 /* for a name that is being resolved */

static hf__turn resolving = {.mutex = PTHREAD_MUTEX_INITIALIZER}; /* had while the resolver runs, and by a fork */
static bool     fork_has_it, child_must_not;

static int socket_cloexec(int domain, int type, int protocol)
{
    return socket(domain, type | SOCK_CLOEXEC, protocol);
}

/* The length of a request goes alone, and the request follows at once. */
static ssize_t send_together(int fd, const void *data, size_t len, int flags)
{
    return send(fd, data, len, flags | MSG_NOSIGNAL | (len == 4 ? MSG_MORE : 0));
}

/* In a child that was forked in the midst of it the resolver's locks may be taken for ever. */
int hf__zk_resolve(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **res)
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
static const void *address(const library *lib, ElfW(Addr) value)
{
    return (const void *)(value < lib->base ? value + lib->base : value);
}

static void read_dynamic(library *lib, const ElfW(Dyn) * dynamic)
{
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        ElfW(Addr) value = dynamic->d_un.d_ptr;
        switch (dynamic->d_tag) {
        case DT_SYMTAB:
            lib->symbols = address(lib, value);
            break;
        case DT_STRTAB:
            lib->strings = address(lib, value);
            break;
        case DT_JMPREL:
            lib->calls.relocations = address(lib, value);
            break;
        case DT_PLTRELSZ:
            lib->calls.size = value;
            break;
        case DT_PLTREL:
            lib->calls.each = value == DT_RELA ? sizeof(ElfW(Rela)) : sizeof(ElfW(Rel));
            break;
        case DT_RELA:
        case DT_REL:
            lib->addresses.relocations = address(lib, value);
            break;
        case DT_RELASZ:
        case DT_RELSZ:
            lib->addresses.size = value;
            break;
        case DT_RELAENT:
        case DT_RELENT:
            lib->addresses.each = value;
            break;
        default:
            break;
        }
    }
}

static size_t symbol_of(ElfW(Xword) info)
{
    return sizeof(ElfW(Addr)) == 8 ? (size_t)(info >> 32) : (size_t)(info >> 8);
}

static bool lead(const library *lib, ElfW(Addr) slot, void *to)
{
    long  page = sysconf(_SC_PAGESIZE);
    void *start = (void *)(slot & ~((ElfW(Addr))page - 1));
    bool  sealed = slot >= lib->sealed_from && slot < lib->sealed_to;

    if (sealed && mprotect(start, (size_t)page, PROT_READ | PROT_WRITE) != 0)
        return false;
    __atomic_store_n((void **)slot, to, __ATOMIC_RELAXED);
    return !sealed || mprotect(start, (size_t)page, PROT_READ) == 0;
}

/* NULL: it stays as it is. */
static void *replacement(const char *name)
{
    int (*const on_socket)(int, int, int) = socket_cloexec;
    ssize_t (*const on_send)(int, const void *, size_t, int) = send_together;
    int (*const on_resolve)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = hf__zk_resolve;
    void *to = NULL;

    if (strcmp(name, "socket") == 0)
        memcpy(&to, &on_socket, sizeof to);
    else if (strcmp(name, "send") == 0)
        memcpy(&to, &on_send, sizeof to);
    else if (strcmp(name, "getaddrinfo") == 0)
        memcpy(&to, &on_resolve, sizeof to);
    return to;
}

/* What is at some distance of a symbol stays as it is. */
static bool is_of(const table *t, const ElfW(Rel) * relocation)
{
    return t->each != sizeof(ElfW(Rela)) || ((const ElfW(Rela) *)(const void *)relocation)->r_addend == 0;
}

/* The first two members of both kinds of relocation are alike. What has a symbol is the address of that symbol, be it
 * of a function or of a variable. */
static void lead_all(library *lib, const table *t)
{
    for (size_t at = 0; t->each > 0 && at + t->each <= t->size; at += t->each) {
        const ElfW(Rel) *relocation = (const void *)(t->relocations + at);
        const ElfW(Sym) *symbol = &lib->symbols[symbol_of(relocation->r_info)];
        void *to = replacement(lib->strings + symbol->st_name);
        if (to != NULL)
            lib->led++;
        else if (symbol->st_shndx != SHN_UNDEF && symbol->st_value != 0 && is_of(t, relocation))
            to = (void *)(lib->base + symbol->st_value);
        if (to != NULL && !lead(lib, lib->base + relocation->r_offset, to))
            lib->failed = true;
    }
}

static int look_at(struct dl_phdr_info *info, size_t size, void *arg)
{
    library *lib = arg;

    (void)size;
    if (info->dlpi_addr != lib->base)
        return 0;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        if (header->p_type != PT_GNU_RELRO)
            continue;
        lib->sealed_from = lib->base + header->p_vaddr;
        lib->sealed_to = lib->sealed_from + header->p_memsz;
    }
    return 1;
}

bool hf__zk_libcalls_lead(void *handle)
{
    library          lib = {0};
    struct link_map *map = NULL;

    pthread_atfork(before_fork, after_fork, in_child);
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0)
        return false;
    lib.base = map->l_addr;
    read_dynamic(&lib, map->l_ld);
    if (lib.symbols == NULL || lib.strings == NULL)
        return false;
    dl_iterate_phdr(look_at, &lib);
    lead_all(&lib, &lib.calls);
    lead_all(&lib, &lib.addresses);
    return lib.led == 3 && !lib.failed;
}
