/* SPDX-License-Identifier: MIT */
/* See raw.h. */
#include "zookeeper/raw.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/client.h"
#include "stores/zookeeper/store.h"

static void nothing(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    (void)handle;
    (void)type;
    (void)state;
    (void)path;
    (void)context;
}

zhandle_t *raw_open(int port, int session_ms, const clientid_t *id)
{
    char       hosts[40];
    zhandle_t *raw;

    snprintf(hosts, sizeof hosts, "127.0.0.1:%d", port);
    raw = zookeeper_init(hosts, nothing, session_ms, id, NULL, ZOO_NO_LOG_CLIENTENV);
    for (int i = 0; raw != NULL && i < 20000; i++) {
        if (zoo_state(raw) == ZOO_CONNECTED_STATE)
            return raw;
        if (zoo_state(raw) == ZOO_EXPIRED_SESSION_STATE)
            break;
        usleep(1000);
    }
    if (raw != NULL)
        zookeeper_close(raw);
    return NULL;
}

int raw_count(zhandle_t *raw, const char *path, char *first, size_t size)
{
    struct String_vector names;
    const char          *lowest = NULL;
    int                  count;

    if (zoo_get_children(raw, path, 0, &names) != ZOK)
        return -1;
    count = names.count;
    for (int i = 0; i < count; i++) {
        const char *name = names.data[i];
        size_t      len = strlen(name);
        if (len >= 10 && (lowest == NULL || strcmp(name + len - 10, lowest + strlen(lowest) - 10) < 0))
            lowest = name;
    }
    if (first != NULL)
        snprintf(first, size, "%s/%s", path, lowest != NULL ? lowest : "");
    deallocate_String_vector(&names);
    return count;
}

bool raw_comes_to(zhandle_t *raw, const char *path, int count)
{
    int seen = -2;

    for (int i = 0; i < 500; i++) {
        seen = raw_count(raw, path, NULL, 0);
        if (seen == count || (seen == -1 && count == 0))
            return true;
        usleep(20000);
    }
    fprintf(stderr, "%s: %d children, not %d\n", path, seen, count);
    return false;
}

int64_t raw_owner(zhandle_t *raw, const char *path, int64_t *czxid)
{
    struct Stat stat;

    if (zoo_exists(raw, path, 0, &stat) != ZOK)
        return -1;
    if (czxid != NULL)
        *czxid = stat.czxid;
    return stat.ephemeralOwner;
}

static clientid_t id_of(hf_client *client)
{
    hf__zk    *zk = (hf__zk *)client->store;
    clientid_t id;

    pthread_mutex_lock(&zk->mutex);
    id = *hf__zk_c.zoo_client_id(zk->handle);
    pthread_mutex_unlock(&zk->mutex);
    return id;
}

int64_t raw_session_of(hf_client *client)
{
    return id_of(client).client_id;
}

/* A second client of the session closes it; unless the first one has it back before that, which the next try shows. */
bool raw_expire(hf_client *client, int port)
{
    clientid_t id = id_of(client);
    zhandle_t *twin;

    for (int i = 0; i < 50; i++) {
        twin = raw_open(port, 60000, &id);
        if (twin == NULL)
            return i > 0;
        zookeeper_close(twin);
    }
    return false;
}
