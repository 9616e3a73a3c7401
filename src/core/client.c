/* SPDX-License-Identifier: MIT */
/* Opening and closing clients: the order in which threads and the store begin and end. */
#include "core/client.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "base/options.h"
#include "base/url.h"
#include "core/acquire.h"
#include "core/debt.h"
#include "core/release.h"
#include "core/stores.h"

#define WATCHDOG_MS 30000
#define SERVER_TIMEOUT_MS 2000
#define TIMEOUT_MIN_MS 10
#define TIMEOUT_MAX_MS 600000

uint32_t hf_version(void)
{
    return HF_VERSION;
}

static void core_post(void *core, const char *name, size_t name_len)
{
    hf_client *client = core;

    pthread_mutex_lock(&client->mutex);
    hf__hub_post(&client->hub, name, name_len);
    pthread_mutex_unlock(&client->mutex);
}

static void core_post_claim(void *core, const hf_id *claim)
{
    hf_client *client = core;

    pthread_mutex_lock(&client->mutex);
    if (!hf__hub_post_claim(&client->hub, claim))
        hf__holds_look(client, claim, hf__now_us());
    pthread_mutex_unlock(&client->mutex);
}

static int check_options(const hf_client_options *options, hf_error *err)
{
    if (options->watchdog_ms != 0 && (options->watchdog_ms < HF_LEASE_MIN_MS || options->watchdog_ms > HF_LEASE_MAX_MS))
        return hf__fail(err, HF_EINVALID,
                        "a watchdog's lease of %" PRId64 " ms is out of range: %" PRId64 " to %" PRId64,
                        options->watchdog_ms, HF_LEASE_MIN_MS, HF_LEASE_MAX_MS);
    if (options->server_timeout_ms != 0 &&
        (options->server_timeout_ms < TIMEOUT_MIN_MS || options->server_timeout_ms > TIMEOUT_MAX_MS))
        return hf__fail(err, HF_EINVALID, "a server timeout of %" PRId64 " ms is out of range: %d to %d",
                        options->server_timeout_ms, TIMEOUT_MIN_MS, TIMEOUT_MAX_MS);
    return HF_OK;
}

static void fill_self(hf_holder *self, const char *note)
{
    if (gethostname(self->host, sizeof self->host - 1) != 0)
        self->host[0] = '\0';
    strncpy(self->program, program_invocation_short_name, sizeof self->program - 1);
    if (note != NULL)
        strncpy(self->note, note, sizeof self->note - 1);
    self->pid = getpid();
}

static void client_free(hf_client *client)
{
    hf__fork_guard_free(client->guard);
    pthread_cond_destroy(&client->idle);
    pthread_mutex_destroy(&client->mutex);
    free(client->url);
    free(client);
}

static hf_client *client_new(const hf_client_options *options, bool manual)
{
    hf_client *client = calloc(1, sizeof *client);

    if (client == NULL)
        return NULL;
    pthread_mutex_init(&client->mutex, NULL);
    hf__cond_init(&client->idle);
    client->refs = 1;
    client->close_by_us = HF_NEVER_US;
    client->manual = manual;
    client->watchdog_ms = options->watchdog_ms != 0 ? options->watchdog_ms : WATCHDOG_MS;
    client->server_timeout_ms = options->server_timeout_ms != 0 ? options->server_timeout_ms : SERVER_TIMEOUT_MS;
    fill_self(&client->self, options->note);
    client->env = (hf_store_env){
        .core = client,
        .post = core_post,
        .post_claim = core_post_claim,
        .host = client->self.host,
        .program = client->self.program,
        .note = client->self.note,
        .pid = client->self.pid,
        .server_timeout_ms = client->server_timeout_ms,
    };
    client->guard = hf__fork_guard_new();
    if (client->guard == NULL || !hf__id_random(&client->env.client)) {
        client_free(client);
        return NULL;
    }
    return client;
}

/* The store may know better than its URL where it is. */
static int take_place(hf_client *client, hf_error *err)
{
    hf_store *store = client->store;
    char     *url;

    if (store->ops->where == NULL)
        return HF_OK;
    url = strdup(store->ops->where(store));
    if (url == NULL)
        return hf__fail(err, HF_EEXHAUSTED, "out of memory for a client");
    free(client->url);
    client->url = url;
    return HF_OK;
}

static int store_open(hf_client *client, const hf_store_ops *ops, const hf_url *url, hf_error *err)
{
    const char *trace = getenv("HOLDFAST_TRACE");
    int         status;

    client->store = calloc(1, ops->size);
    if (client->store == NULL)
        return hf__fail(err, HF_EEXHAUSTED, "out of memory for a store");
    client->store->ops = ops;
    client->store->env = &client->env;
    client->store->caps = ops->caps;
    status = ops->open(client->store, url, err);
    if (status != HF_OK) {
        free(client->store);
        client->store = NULL;
        return status;
    }
    client->caps = client->store->caps;
    client->dozes = ops->doze != NULL && !client->manual;
    status = take_place(client, err);
    if (status != HF_OK || trace == NULL || trace[0] == '\0' || strcmp(trace, "0") == 0)
        return status;
    return hf__store_trace(&client->store, err);
}

static void store_close(hf_client *client)
{
    if (client->store == NULL)
        return;
    client->store->ops->close(client->store);
    free(client->store);
    client->store = NULL;
}

/* From here on, what was started is stopped by client_stop(). */
static int client_start(hf_client *client, const hf_url *url, hf_error *err)
{
    const hf_store_ops *ops;
    int                 status, result;

    hf__worker_init(&client->worker, client);
    hf__teller_init(&client->teller);
    client->url = strdup(url->text);
    if (!hf__keeper_init(&client->keeper, client) || client->url == NULL)
        return hf__fail(err, HF_EEXHAUSTED, "out of memory for a client");
    ops = hf__store_find(url->scheme, err, &status);
    if (ops == NULL)
        return status;
    client->scheme = ops->scheme;
    if ((status = store_open(client, ops, url, err)) != HF_OK)
        return status;
    if (client->manual || (result = hf__loop_start(&client->keeper.loop, "hf-keeper")) == 0)
        return HF_OK;
    return hf__fail_sys(err, HF_EEXHAUSTED, result, "cannot start the thread that renews leases");
}

/* Threads first, since they use the store; then the store, which completes what is begun; then what that wakes. */
static void client_stop(hf_client *client)
{
    hf__loop_stop(&client->worker.loop);
    hf__loop_stop(&client->keeper.loop);
    store_close(client);
    pthread_mutex_lock(&client->mutex);
    hf__debts_drop(client);
    pthread_mutex_unlock(&client->mutex);
    hf__worker_finish(&client->worker);
    hf__keeper_finish(&client->keeper);
    hf__teller_finish(client);
}

int hf__client_open(hf_client **client, const char *text, const hf_client_options *given, bool manual, hf_error *err)
{
    hf_client_options options;
    hf_url            url;
    int               status;

    *client = NULL;
    if ((status = hf__options_copy(&options, sizeof options, given, "the client's options", err)) != HF_OK ||
        (status = check_options(&options, err)) != HF_OK || (status = hf__url_parse(&url, text, err)) != HF_OK)
        return status;
    *client = client_new(&options, manual);
    if (*client == NULL) {
        hf__url_finish(&url);
        return hf__fail(err, HF_EEXHAUSTED, "out of memory for a client");
    }
    status = client_start(*client, &url, err);
    hf__url_finish(&url);
    if (status != HF_OK) {
        client_stop(*client);
        client_free(*client);
        *client = NULL;
    }
    return status;
}

int hf_open(hf_client **client, const char *url, const hf_client_options *options, hf_error *err)
{
    const char *from_env = getenv("HOLDFAST_STORE");

    if (client == NULL)
        return hf__fail(err, HF_EINVALID, "there is no place for the new client");
    if (url == NULL || url[0] == '\0')
        url = from_env != NULL && from_env[0] != '\0' ? from_env : "sqlite:";
    return hf__client_open(client, url, options, false, err);
}

const char *hf_client_url(const hf_client *client)
{
    return client != NULL ? client->url : "";
}

bool hf__client_new_id(hf_client *client, hf_id *id)
{
    if (client->ids_left == 0) {
        if (!hf__random_fill(client->ids, sizeof client->ids))
            return false;
        client->ids_left = sizeof client->ids / sizeof client->ids[0];
    }
    *id = client->ids[--client->ids_left];
    return true;
}

void hf__client_ref(hf_client *client)
{
    client->refs++;
}

void hf__client_unref(hf_client *client)
{
    unsigned refs;

    pthread_mutex_lock(&client->mutex);
    refs = --client->refs;
    pthread_mutex_unlock(&client->mutex);
    if (refs == 0)
        client_free(client);
}

int hf__client_check_fork(const hf_client *client, hf_error *err)
{
    if (!hf__forked(client->guard))
        return HF_OK;
    return hf__fail(err, HF_EFORKED, "this client belongs to the parent process; open one in the child");
}

int hf__client_enter(hf_client *client, hf_error *err)
{
    if (client->closed)
        return hf__fail(err, HF_ECLOSED, "the client was closed");
    client->active++;
    return HF_OK;
}

void hf__client_leave(hf_client *client)
{
    if (--client->active == 0)
        pthread_cond_broadcast(&client->idle);
}

int64_t hf__client_step(hf_client *client)
{
    int64_t keeper_us, worker_us;

    do {
        worker_us = hf__worker_step(client);
        keeper_us = hf__keeper_step(client);
    } while (hf__teller_step(client) || hf_dispatch(client) > 0);
    return worker_us < keeper_us ? worker_us : keeper_us;
}

/* Under the mutex. The calls inside end within one server timeout: their waits see that the client is closed, and their
 * requests end at close_by_us; what is to be undone later is owed. */
static void wait_for_calls(hf_client *client)
{
    while (client->active > 0) {
        if (client->manual) {
            pthread_mutex_unlock(&client->mutex);
            hf__client_step(client);
            pthread_mutex_lock(&client->mutex);
        } else {
            pthread_cond_wait(&client->idle, &client->mutex);
        }
    }
}

/* Under the mutex. The keeper delivers meanwhile. */
static unsigned wait_for_debts(hf_client *client, int64_t bound_us)
{
    while (client->keeper.debt_count > 0 && hf__now_us() < bound_us && !client->manual)
        hf__cond_wait_until(&client->idle, &client->mutex, bound_us);
    return client->keeper.debt_count;
}

void hf__client_kept(hf_client *client, const hf_request *release, int64_t now_us)
{
    int64_t until_us = hf__after_ms(now_us, release->keep_ms);

    if (release->keep_ms > 0 && release->verdict.found && hf__client_can(client, HF_CAP_LINGER) &&
        until_us > client->lingers_until_us)
        client->lingers_until_us = until_us;
}

/* Under the mutex. */
static void linger(hf_client *client, int64_t bound_us)
{
    int64_t until_us = client->lingers_until_us < bound_us ? client->lingers_until_us : bound_us;

    while (hf__now_us() < until_us && !client->manual)
        hf__cond_wait_until(&client->idle, &client->mutex, until_us);
}

int hf_close(hf_client *client, int64_t drain_ms)
{
    unsigned undelivered;
    int64_t  bound_us, held_bound_us;

    if (client == NULL)
        return HF_OK;
    if (hf__client_check_fork(client, NULL) != HF_OK)
        return HF_EFORKED;
    bound_us = hf__after_ms(hf__now_us(), drain_ms > 0 ? drain_ms : 0);
    held_bound_us = hf__after_ms(bound_us, client->server_timeout_ms);
    pthread_mutex_lock(&client->mutex);
    client->closed = true;
    client->close_by_us = hf__after_ms(hf__now_us(), client->server_timeout_ms);
    hf__acquires_nudge_all(client);
    wait_for_calls(client);
    pthread_mutex_unlock(&client->mutex);
    hf__release_everything(client, held_bound_us);
    pthread_mutex_lock(&client->mutex);
    undelivered = wait_for_debts(client, bound_us);
    linger(client, bound_us);
    pthread_mutex_unlock(&client->mutex);
    hf__loop_stop(&client->worker.loop);
    hf_dispatch(client);
    client_stop(client);
    hf__client_unref(client);
    return undelivered == 0 ? HF_OK : HF_EUNREACHABLE;
}
