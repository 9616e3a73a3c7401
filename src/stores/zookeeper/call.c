/* SPDX-License-Identifier: MIT */
/* Calls of the C client, and what they answer. Answers come to whoever does the I/O (io.h), under the mutex. */
#include <stdlib.h>
#include <string.h>

#include "stores/zookeeper/path.h"
#include "stores/zookeeper/store.h"

#define BYTES_MAX (16U * 1024 * 1024) /* of one answer; the C client has no bound of its own */

void hf__zk_call_finish(hf__zk_call *call)
{
    for (size_t i = 0; i < call->count; i++)
        free(call->names[i]);
    free(call->names);
    free(call->path);
    free(call->data);
    memset(call, 0, sizeof *call);
}

static hf__zk_call *add(hf__zk_op *op)
{
    hf__zk_call *call = &op->calls[op->count++];

    memset(call, 0, sizeof *call);
    call->op = op;
    call->rc = HF__ZK_UNANSWERED;
    op->pending++;
    return call;
}

/* The C client takes no call while a handle is being closed, or opened. */
static bool is_open(const hf__zk_call *call)
{
    return call->op->zk->handle != NULL;
}

/* What could not even be queued is answered at once. */
static hf__zk_call *sent(hf__zk_call *call, int rc)
{
    if (rc == ZOK)
        return call;
    call->rc = rc;
    hf__zk_op_answered(call);
    return call;
}

static hf__zk *enter(hf__zk_call *call, int rc, const struct Stat *stat)
{
    hf__zk *zk = call->op->zk;

    hf__zk_enter(zk);
    call->rc = rc;
    if (rc == ZOK && stat != NULL)
        call->stat = *stat;
    return zk;
}

static void leave(hf__zk *zk, hf__zk_call *call)
{
    hf__zk_op_answered(call);
    hf__zk_leave(zk);
}

static void on_void(int rc, const void *data)
{
    hf__zk_call *call = (hf__zk_call *)(uintptr_t)data;

    leave(enter(call, rc, NULL), call);
}

static void on_stat(int rc, const struct Stat *stat, const void *data)
{
    hf__zk_call *call = (hf__zk_call *)(uintptr_t)data;

    leave(enter(call, rc, stat), call);
}

static void on_string(int rc, const char *value, const void *data)
{
    hf__zk_call *call = (hf__zk_call *)(uintptr_t)data;

    (void)value;
    leave(enter(call, rc, NULL), call);
}

static void on_created(int rc, const char *path, const struct Stat *stat, const void *data)
{
    hf__zk_call *call = (hf__zk_call *)(uintptr_t)data;
    hf__zk      *zk = enter(call, rc, stat);

    if (rc == ZOK)
        call->path = path != NULL ? strdup(path) : NULL;
    if (rc == ZOK && call->path == NULL)
        call->rc = ZSYSTEMERROR;
    leave(zk, call);
}

static void on_data(int rc, const char *value, int len, const struct Stat *stat, const void *data)
{
    hf__zk_call *call = (hf__zk_call *)(uintptr_t)data;
    hf__zk      *zk = enter(call, rc, stat);

    if (rc == ZOK && value != NULL && len > 0 && (unsigned)len < BYTES_MAX) {
        call->data = malloc((size_t)len);
        call->data_len = call->data != NULL ? (size_t)len : 0;
        if (call->data != NULL)
            memcpy(call->data, value, (size_t)len);
    }
    leave(zk, call);
}

static bool copy_names(hf__zk_call *call, const struct String_vector *strings)
{
    call->names = calloc((size_t)strings->count + 1, sizeof *call->names);
    if (call->names == NULL)
        return false;
    for (; call->count < (size_t)strings->count; call->count++) {
        call->names[call->count] = strdup(strings->data[call->count]);
        if (call->names[call->count] == NULL)
            return false;
    }
    return true;
}

static void on_names(int rc, const struct String_vector *strings, const void *data)
{
    hf__zk_call *call = (hf__zk_call *)(uintptr_t)data;
    hf__zk      *zk = enter(call, rc, NULL);

    if (rc == ZOK && strings != NULL && !copy_names(call, strings))
        call->rc = ZSYSTEMERROR;
    leave(zk, call);
}

/* The C client has these two as variables of its own. */
static char       world[] = "world", anyone[] = "anyone", auth[] = "auth", nobody[] = "";
static struct ACL everybody[] = {{HF__ZK_ALL_RIGHTS, {world, anyone}}},
                  ourselves[] = {{HF__ZK_ALL_RIGHTS, {auth, nobody}}};
static struct ACL_vector open_to_all = {1, everybody}, open_to_us = {1, ourselves};

static struct ACL_vector *acl_of(const hf__zk *zk)
{
    return zk->config.digest != NULL ? &open_to_us : &open_to_all;
}

hf__zk_call *hf__zk_create(hf__zk_op *op, const char *path, const char *data, size_t len, int mode)
{
    hf__zk_call *call = add(op);

    return sent(call, !is_open(call) ? ZCLOSING
                                     : hf__zk_c.zoo_acreate2(op->zk->handle, path, data != NULL ? data : "", (int)len,
                                                             acl_of(op->zk), mode, on_created, call));
}

hf__zk_call *hf__zk_create_claim(hf__zk_op *op, const char *dir, int role, const char *data, size_t len)
{
    const char  *mark = hf__zk_mark(op->zk->config.rules.layout, role);
    hf__zk_call *call = add(op);
    char         child[HF__ZK_PREFIX_SIZE + 16], *path;
    int          rc = ZSYSTEMERROR;

    strcpy(child, op->claim->prefix);
    strcat(child, mark);
    call->creates = true;
    op->claim->creating++;
    op->claim->doubt = true;
    path = hf__zk_join(dir, child);
    if (!is_open(call))
        rc = ZCLOSING;
    else if (path != NULL)
        rc = hf__zk_c.zoo_acreate2(op->zk->handle, path, data, (int)len, acl_of(op->zk),
                                   HF__ZK_EPHEMERAL_SEQUENTIAL_NODE, on_created, call);
    free(path);
    return sent(call, rc);
}

hf__zk_call *hf__zk_delete(hf__zk_op *op, const char *path)
{
    hf__zk_call *call = add(op);

    return sent(call, !is_open(call) ? ZCLOSING : hf__zk_c.zoo_adelete(op->zk->handle, path, -1, on_void, call));
}

hf__zk_call *hf__zk_exists(hf__zk_op *op, const char *path)
{
    hf__zk_call *call = add(op);

    return sent(call, !is_open(call) ? ZCLOSING : hf__zk_c.zoo_aexists(op->zk->handle, path, 0, on_stat, call));
}

static void set_watch(hf__zk_call *call, hf__zk_watch *watch)
{
    call->watch = watch;
    watch->setting++;
}

hf__zk_call *hf__zk_get(hf__zk_op *op, const char *path, hf__zk_watch *watch)
{
    hf__zk_call *call = add(op);

    if (watch == NULL)
        return sent(call, !is_open(call) ? ZCLOSING : hf__zk_c.zoo_aget(op->zk->handle, path, 0, on_data, call));
    set_watch(call, watch);
    return sent(call, !is_open(call)
                          ? ZCLOSING
                          : hf__zk_c.zoo_awget(op->zk->handle, path, hf__zk_watch_fired, watch, on_data, call));
}

hf__zk_call *hf__zk_set(hf__zk_op *op, const char *path, const char *data, size_t len)
{
    hf__zk_call *call = add(op);

    return sent(call,
                !is_open(call) ? ZCLOSING : hf__zk_c.zoo_aset(op->zk->handle, path, data, (int)len, -1, on_stat, call));
}

hf__zk_call *hf__zk_children(hf__zk_op *op, const char *path, hf__zk_watch *watch)
{
    hf__zk_call *call = add(op);

    if (watch == NULL)
        return sent(call,
                    !is_open(call) ? ZCLOSING : hf__zk_c.zoo_aget_children(op->zk->handle, path, 0, on_names, call));
    set_watch(call, watch);
    return sent(call, !is_open(call) ? ZCLOSING
                                     : hf__zk_c.zoo_awget_children(op->zk->handle, path, hf__zk_watch_fired, watch,
                                                                   on_names, call));
}

hf__zk_call *hf__zk_sync(hf__zk_op *op, const char *path)
{
    hf__zk_call *call = add(op);

    return sent(call, !is_open(call) ? ZCLOSING : hf__zk_c.zoo_async(op->zk->handle, path, on_string, call));
}

void hf__zk_create_folder(hf__zk_op *op, const char *path)
{
    hf__zk_call *call = add(op);

    call->optional = true;
    sent(call, !is_open(call) ? ZCLOSING
                              : hf__zk_c.zoo_acreate2(op->zk->handle, path, "", 0, acl_of(op->zk),
                                                      HF__ZK_CONTAINER_NODE, on_created, call));
}

size_t hf__zk_depth(const char *path)
{
    size_t depth = 0;

    for (; *path != '\0'; path++)
        depth += *path == '/';
    return depth;
}

void hf__zk_create_parents(hf__zk_op *op, const char *path)
{
    char *part = strdup(path);

    for (size_t i = 1; part != NULL; i++) {
        while (path[i] != '/' && path[i] != '\0')
            i++;
        part[i] = '\0';
        hf__zk_create_folder(op, part);
        if (path[i] == '\0')
            break;
        part[i] = '/';
    }
    free(part);
}
