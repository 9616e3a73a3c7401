/* SPDX-License-Identifier: MIT */
/*
 * The session: handles of the C client are opened and closed on a thread of their own, since both may take long. Where
 * the server says that a session is over, the handle is closed and another one is opened.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "stores/zookeeper/hosts.h"
#include "stores/zookeeper/io.h"

#define TRUST_PART 4
#define REFUSED_MS 2000 /* after the servers refused the credentials */
#define RETRY_MS 200    /* between tries to make a handle (a name that does not resolve) */
#define RESOLVE_MS 5000 /* between looks at what the names mean, while there is no connection */

int64_t hf__zk_trust_ms(const hf__zk *zk)
{
    return zk->session_ms - zk->session_ms / TRUST_PART;
}

static bool is_traced(void)
{
    const char *trace = getenv("HOLDFAST_TRACE");

    return trace != NULL && trace[0] != '\0' && strcmp(trace, "0") != 0;
}

/* The C client's own log: with the trace, or nowhere. Its level is the process's. A line that nobody sees would take
 * locks of the C library, and a forked child would find them taken. */
static void log_line(const char *message)
{
    if (is_traced())
        fprintf(stderr, "zookeeper client: %s\n", message);
}

static void quiet(void)
{
    hf__zk_c.zoo_set_debug_level(is_traced() ? ZOO_LOG_LEVEL_INFO : (ZooLogLevel)0);
}

/* What the server makes of credentials shows itself by an event, or in the answers. */
static void authenticated(int rc, const void *data)
{
    hf__zk *zk = (hf__zk *)(uintptr_t)data;

    if (rc != ZAUTHFAILED)
        return;
    hf__zk_enter(zk);
    zk->refused = true;
    pthread_cond_broadcast(&zk->moved);
    hf__zk_leave(zk);
}

/* A handle connects when somebody does its I/O. */
static zhandle_t *make_handle(hf__zk *zk, const char *addresses)
{
    zhandle_t *handle = hf__zk_c.zookeeper_init2(addresses, hf__zk_session_event, zk->config.session_ms, NULL, zk,
                                                 ZOO_NO_LOG_CLIENTENV, log_line);

    if (handle == NULL)
        return NULL;
    hf__zk_c.zoo_set_servers_resolution_delay(handle, -1);
    if (zk->config.digest != NULL)
        hf__zk_c.zoo_add_auth(handle, "digest", zk->config.digest, (int)strlen(zk->config.digest), authenticated, zk);
    return handle;
}

static void open_handle(hf__zk *zk)
{
    char      *addresses = hf__zk_hosts_resolve(zk->config.hosts);
    zhandle_t *handle = addresses != NULL ? make_handle(zk, addresses) : NULL;

    free(zk->addresses);
    zk->addresses = addresses;
    hf__zk_lock(zk);
    zk->handle = handle;
    zk->apart_until_us = 0;
    zk->opening = handle == NULL;
    hf__zk_unlock(zk);
    hf__loop_wake(&zk->clock);
}

/* The handle's outstanding calls complete in here, with ZCLOSING. */
static void close_handle(hf__zk *zk)
{
    zhandle_t *handle;

    hf__zk_lock(zk);
    handle = hf__zk_io_take_handle(zk);
    hf__zk_unlock(zk);
    if (handle != NULL)
        hf__zk_c.zookeeper_close(handle);
    hf__zk_lock(zk);
    hf__zk_session_ended(zk);
    hf__zk_watches_drop(zk);
    zk->expired = false;
    zk->opening = true;
    hf__zk_unlock(zk);
}

/* Names may have come to mean other addresses since. The C client keeps its session when it is told new ones. */
static int64_t look_for_servers(hf__zk *zk)
{
    char *addresses;
    bool  apart;

    hf__zk_lock(zk);
    apart = zk->handle != NULL && !zk->connected && !zk->expired && !zk->closing;
    hf__zk_unlock(zk);
    if (!apart)
        return HF_NEVER_US;
    addresses = hf__zk_hosts_resolve(zk->config.hosts);
    if (addresses != NULL && strcmp(addresses, zk->addresses) != 0) {
        free(zk->addresses);
        zk->addresses = addresses;
        hf__zk_lock(zk);
        hf__zk_c.zoo_set_servers(zk->handle, addresses);
        hf__zk_unlock(zk);
    } else {
        free(addresses);
    }
    return hf__after_ms(hf__now_us(), RESOLVE_MS);
}

static int64_t link_step(void *arg)
{
    hf__zk *zk = arg;
    bool    expired, opening;

    hf__zk_lock(zk);
    expired = zk->expired && !zk->closing;
    hf__zk_unlock(zk);
    if (expired)
        close_handle(zk);
    hf__zk_lock(zk);
    if (expired && zk->refused) { /* not at once again */
        zk->refused = false;
        hf__zk_unlock(zk);
        return hf__after_ms(hf__now_us(), REFUSED_MS);
    }
    opening = zk->opening && !zk->closing;
    hf__zk_unlock(zk);
    if (opening)
        open_handle(zk);
    hf__zk_lock(zk);
    opening = zk->opening && !zk->closing;
    hf__zk_unlock(zk);
    return opening ? hf__after_ms(hf__now_us(), RETRY_MS) : look_for_servers(zk);
}

/* What is due: ops whose time is over, leases that have run out, and what came that nobody fetches. */
static int64_t clock_step(void *arg)
{
    hf__zk    *zk = arg;
    hf__timer *top;
    int64_t    next_us, now_us;

    hf__zk_lock(zk);
    zk->clock_us = 0;
    now_us = hf__now_us();
    while ((top = hf__heap_top(&zk->deadlines)) != NULL && top->at_us <= now_us)
        hf__zk_op_expire((hf__zk_op *)((char *)top - offsetof(hf__zk_op, deadline)));
    while ((top = hf__heap_top(&zk->leases)) != NULL && top->at_us <= now_us)
        hf__zk_bury(zk, (hf__zk_claim *)((char *)top - offsetof(hf__zk_claim, lease)));
    next_us = hf__zk_io_pump(zk);
    if ((top = hf__heap_top(&zk->deadlines)) != NULL && top->at_us < next_us)
        next_us = top->at_us;
    if ((top = hf__heap_top(&zk->leases)) != NULL && top->at_us < next_us)
        next_us = top->at_us;
    zk->clock_us = next_us;
    hf__zk_unlock(zk);
    return next_us;
}

static void await_session(hf__zk *zk)
{
    int64_t until_us = hf__after_ms(hf__now_us(), zk->base.env->server_timeout_ms);

    while (!zk->connected && !zk->refused && hf__now_us() < until_us)
        hf__cond_wait_until(&zk->moved, &zk->mutex, until_us);
}

static int open_failure(hf__zk *zk, hf_error *err)
{
    if (zk->refused)
        return hf__fail(err, HF_EREFUSED, "ZooKeeper at %.200s refused the user and password of the URL",
                        zk->config.hosts);
    return hf__fail(err, HF_EUNREACHABLE, "no ZooKeeper server at %.200s gave a session within %lld ms",
                    zk->config.hosts, (long long)zk->base.env->server_timeout_ms);
}

int hf__zk_link_open(hf__zk *zk, hf_error *err)
{
    bool connected;
    int  result;

    if (!hf__zk_clib_load())
        return hf__fail(err, HF_EUNSUPPORTED,
                        "the library libzookeeper_st.so.2 is not there; Debian has it in the package "
                        "libzookeeper-st2");
    quiet();
    zk->opening = true;
    hf__loop_init(&zk->clock, clock_step, zk);
    hf__loop_init(&zk->link, link_step, zk);
    if ((result = hf__loop_start(&zk->clock, "hf-zk-clock")) != 0 ||
        (result = hf__loop_start(&zk->link, "hf-zk-link")) != 0) {
        hf__zk_link_close(zk);
        return hf__fail_sys(err, HF_EEXHAUSTED, result, "cannot start a thread of the store");
    }
    hf__zk_lock(zk);
    await_session(zk);
    connected = zk->connected && !zk->refused;
    hf__zk_unlock(zk);
    if (connected)
        return HF_OK;
    open_failure(zk, err);
    hf__zk_link_close(zk);
    return err != NULL ? err->status : HF_EUNREACHABLE;
}

void hf__zk_link_close(hf__zk *zk)
{
    hf__zk_lock(zk);
    zk->closing = true;
    hf__zk_unlock(zk);
    hf__loop_stop(&zk->link);
    close_handle(zk);
    hf__loop_stop(&zk->clock);
    hf__loop_finish(&zk->link);
    hf__loop_finish(&zk->clock);
}
