/* SPDX-License-Identifier: MIT */
/* See clib.h. The library stays loaded: its threads' keys and the table that points into it last as long. */
#include "stores/zookeeper/clib.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "stores/zookeeper/libcalls.h"

#define LIBRARY "libzookeeper_st.so.2"

hf__zk_clib hf__zk_c;

static bool is_loaded;

#define ENTRY(name)                                                                                                    \
    {                                                                                                                  \
#name, offsetof(hf__zk_clib, name)                                                                             \
    }

static const struct {
    const char *name;
    size_t      offset;
} functions[] = {
    ENTRY(zookeeper_init2),     ENTRY(zookeeper_close), ENTRY(zookeeper_interest),
    ENTRY(zookeeper_process),   ENTRY(zoo_set_servers), ENTRY(zoo_set_servers_resolution_delay),
    ENTRY(zoo_set_debug_level), ENTRY(zoo_client_id),   ENTRY(zoo_recv_timeout),
    ENTRY(zoo_add_auth),        ENTRY(zerror),          ENTRY(zoo_acreate2),
    ENTRY(zoo_adelete),         ENTRY(zoo_aexists),     ENTRY(zoo_aget),
    ENTRY(zoo_awget),           ENTRY(zoo_aset),        ENTRY(zoo_aget_children),
    ENTRY(zoo_awget_children),  ENTRY(zoo_async),
};

static void load(void)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);

    if (library == NULL)
        return;
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *function = dlsym(library, functions[i].name);
        if (function == NULL)
            return;
        memcpy((char *)&hf__zk_c + functions[i].offset, &function, sizeof function);
    }
    hf__zk_c.is_led = hf__zk_libcalls_lead(library);
    is_loaded = true;
}

bool hf__zk_clib_load(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load);
    return is_loaded;
}
