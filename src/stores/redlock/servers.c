/* SPDX-License-Identifier: MIT */
/*
 * The servers: made from the URL, met when the store is opened, and judged: which are silent, and which may vote. What
 * a connection told of its server is looked at when an answer comes, since a connection is made anew without us.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "base/url.h"
#include "stores/redlock/redlock.h"
#include "stores/redlock/urls.h"

#define SILENT_US 50000 /* something is under way for so long, and nothing has come meanwhile */
#define PROBE_US 50000  /* a silent server is asked so often */
#define GRACE_MIN_US 20000
#define GRACE_MAX_US 300000

extern const hf_store_ops hf__redis_ops;

/* ---- silence ---- */

bool hf__server_is_silent(const hf__server *server, int64_t now_us)
{
    if (atomic_load(&server->silent))
        return true;
    return atomic_load(&server->pending) > 0 && now_us - atomic_load(&server->heard_us) > SILENT_US;
}

bool hf__server_is_spare(const hf__server *server, int64_t now_us)
{
    const hf__redlock *store = server->store;
    size_t             speaking = 0;

    if (!hf__server_is_silent(server, now_us))
        return false;
    for (size_t i = 0; i < store->count; i++)
        speaking += !hf__server_is_silent(&store->servers[i], now_us);
    return speaking >= store->majority;
}

bool hf__server_may_ask(hf__server *server, int64_t now_us)
{
    if (!hf__server_is_spare(server, now_us))
        return true;
    return atomic_load(&server->pending) == 0 && now_us >= atomic_load(&server->probe_us);
}

void hf__server_asked(hf__server *server, int64_t now_us)
{
    if (atomic_fetch_add(&server->pending, 1) == 0)
        atomic_store(&server->heard_us, now_us);
    if (atomic_load(&server->silent))
        atomic_store(&server->probe_us, now_us + PROBE_US);
}

/* A server that refuses speaks. One that was given up, or whose connection is gone, does not. */
void hf__server_ended(hf__server *server, int status, int64_t deadline_us)
{
    int64_t now_us = hf__now_us();
    bool    spoke = status == HF_OK ||
                 (status != HF_ECLOSED && now_us < deadline_us && hf__conn_is_open(hf__member_conn(server->member)));

    atomic_fetch_sub(&server->pending, 1);
    if (spoke) {
        atomic_store(&server->heard_us, now_us);
        if (atomic_exchange(&server->silent, false)) {
            pthread_mutex_lock(&server->store->mutex);
            if (server->debts != NULL)
                hf__redlock_want(server->store, 0);
            pthread_mutex_unlock(&server->store->mutex);
        }
    } else if (!atomic_exchange(&server->silent, true)) {
        atomic_store(&server->probe_us, now_us + PROBE_US);
    }
}

/* ---- votes ---- */

static const hf__server *namesake(const hf__server *server)
{
    hf__redlock *store = server->store;

    for (size_t i = 0; i < store->count; i++)
        if (i != server->index && server->run_id[0] != '\0' && strcmp(store->servers[i].run_id, server->run_id) == 0)
            return &store->servers[i];
    return NULL;
}

/* Under the mutex: what the connection of this generation told. */
static void judge(hf__server *server, uint64_t generation)
{
    hf__redlock    *store = server->store;
    int64_t         now_us = hf__now_us();
    hf__redis_facts facts;

    hf__conn_facts(hf__member_conn(server->member), &facts);
    server->generation = generation;
    server->judged = true;
    snprintf(server->run_id, sizeof server->run_id, "%s", facts.run_id);
    server->begun_us = facts.run_id[0] != '\0' ? now_us - facts.uptime_s * HF_US_PER_S : HF_NEVER_US;
    if (store->durable)
        atomic_store(&server->votes_from_us, 0);
    else if (server->begun_us == HF_NEVER_US)
        atomic_store(&server->votes_from_us, HF_NEVER_US);
    else
        atomic_store(&server->votes_from_us, hf__after_ms(server->begun_us, store->max_lease_ms));
    for (size_t i = 0; i < store->count; i++) /* the later one of two names */
        store->servers[i].is_double = namesake(&store->servers[i]) != NULL && namesake(&store->servers[i])->index < i;
    atomic_store(&server->seen_generation, generation);
}

static void say_why(const hf__server *server, int64_t now_us, char *why, size_t size)
{
    int64_t votes_us = atomic_load(&server->votes_from_us);

    if (server->is_double)
        snprintf(why, size, "is the same server as %.60s", namesake(server)->label);
    else if (votes_us == HF_NEVER_US)
        snprintf(why, size, "does not say when it was started (INFO), so it cannot vote");
    else
        snprintf(why, size, "restarted %" PRId64 " s ago, votes in %" PRId64 " s",
                 (now_us - server->begun_us) / HF_US_PER_S, (votes_us - now_us) / HF_US_PER_S + 1);
}

bool hf__server_votes(hf__server *server, char *why, size_t size)
{
    uint64_t generation = hf__conn_generation(hf__member_conn(server->member));
    int64_t  now_us = hf__now_us();
    bool     votes;

    if (generation == atomic_load(&server->seen_generation) && !atomic_load(&server->is_double) &&
        now_us >= atomic_load(&server->votes_from_us))
        return true;
    pthread_mutex_lock(&server->store->mutex);
    if (!server->judged || server->generation != generation)
        judge(server, generation);
    votes = !server->is_double && now_us >= atomic_load(&server->votes_from_us);
    if (!votes && why != NULL)
        say_why(server, now_us, why, size);
    pthread_mutex_unlock(&server->store->mutex);
    return votes;
}

int64_t hf__server_not_after_us(const hf__server *server, int64_t at_us)
{
    return hf__redis_ops.clock_us(server->member) + (at_us - hf__now_us());
}

/* ---- making ---- */

int hf__servers_make(hf__redlock *store, const hf_url *url, hf_error *err)
{
    hf__urls urls;
    int      status = hf__urls_read(&urls, url, err);

    for (size_t i = 0; status == HF_OK && i < urls.count; i++) {
        hf__server *server = &store->servers[i];
        server->store = store;
        server->index = i;
        server->env = *store->base.env;
        server->env.core = server;
        server->env.post = hf__waits_post;
        server->env.post_claim = hf__waits_post_claim;
        atomic_init(&server->votes_from_us, HF_NEVER_US);
        atomic_init(&server->seen_generation, UINT64_MAX);
        status = hf__member_open(&server->member, &urls.list[i], &server->env, store->pump, err);
        if (status == HF_OK) {
            hf__member_name(server->member, server->label, sizeof server->label);
            store->count++;
        }
    }
    store->majority = hf__majority(store->count);
    hf__urls_finish(&urls);
    return status;
}

/* The completion of what one was asked looks at the others. */
void hf__servers_close(hf__redlock *store)
{
    for (size_t i = 0; i < store->count; i++)
        hf__member_end(store->servers[i].member);
    for (size_t i = 0; i < store->count; i++)
        hf__member_close(store->servers[i].member);
}

/* ---- meeting ---- */

typedef struct meeting meeting;

typedef struct guest {
    hf__command command;
    meeting    *meeting;
    bool        came, ended;
    hf_error    err;
} guest;

struct meeting {
    pthread_mutex_t mutex;
    pthread_cond_t  cond;
    guest           guests[HF__MEMBERS_MAX];
    size_t          came, ended;
};

static void guest_done(hf__command *command, redisReply *reply, const hf_error *err)
{
    guest   *g = command->owner;
    meeting *m = g->meeting;

    pthread_mutex_lock(&m->mutex);
    g->ended = true;
    g->came = reply != NULL;
    if (reply == NULL)
        g->err = *err;
    m->came += g->came;
    m->ended++;
    pthread_cond_signal(&m->cond);
    pthread_mutex_unlock(&m->mutex);
    if (reply != NULL)
        freeReplyObject(reply);
}

static int tell_absent(hf__redlock *store, const meeting *m, hf_error *err)
{
    char   text[sizeof err->text];
    size_t used, each;
    int    status = HF_ENOQUORUM;

    used = (size_t)snprintf(text, sizeof text, "%zu of %zu Redis servers can be used, and it takes %zu:", m->came,
                            store->count, store->majority);
    each = (sizeof text - used) / (store->count - m->came) - 1;
    for (size_t i = 0; i < store->count; i++) {
        const guest *g = &m->guests[i];
        if (g->came || used + 4 >= sizeof text)
            continue;
        used += (size_t)snprintf(text + used, sizeof text - used, " %.*s;", (int)each - 2, g->err.text);
        used = used < sizeof text ? used : sizeof text - 1;
    }
    if (used > 0 && text[used - 1] == ';')
        text[used - 1] = '\0';
    return hf__fail(err, status, "%s", text);
}

static int check_doubles(hf__redlock *store, const meeting *m, hf_error *err)
{
    for (size_t i = 0; i < store->count; i++)
        if (m->guests[i].came)
            hf__server_votes(&store->servers[i], NULL, 0);
    for (size_t i = 0; i < store->count; i++)
        if (store->servers[i].is_double)
            return hf__fail(err, HF_EINVALID,
                            "%s and %s are one Redis server (run id %.8s...): each server has one vote; name each once",
                            namesake(&store->servers[i])->label, store->servers[i].label, store->servers[i].run_id);
    return HF_OK;
}

/* Under the meeting's mutex. The quick ones of the rest are waited for as well: as long again as it took. */
static void await(hf__redlock *store, meeting *m, int64_t deadline_us)
{
    int64_t begun_us = hf__now_us(), grace_us;

    while (m->came < store->majority && m->ended < store->count && hf__now_us() < deadline_us)
        hf__cond_wait_until(&m->cond, &m->mutex, deadline_us);
    grace_us = hf__now_us() - begun_us;
    grace_us = grace_us < GRACE_MIN_US ? GRACE_MIN_US : grace_us > GRACE_MAX_US ? GRACE_MAX_US : grace_us;
    if (hf__now_us() + grace_us < deadline_us)
        deadline_us = hf__now_us() + grace_us;
    while (m->came >= store->majority && m->ended < store->count && hf__now_us() < deadline_us)
        hf__cond_wait_until(&m->cond, &m->mutex, deadline_us);
}

int hf__servers_meet(hf__redlock *store, hf_error *err)
{
    static const char text[] = "*1\r\n$4\r\nPING\r\n";
    int64_t           deadline_us = hf__after_ms(hf__now_us(), store->base.env->server_timeout_ms);
    meeting          *m = calloc(1, sizeof *m);
    int               status;

    if (m == NULL)
        return hf__fail(err, HF_EEXHAUSTED, "out of memory for a store of several servers");
    pthread_mutex_init(&m->mutex, NULL);
    hf__cond_init(&m->cond);
    for (size_t i = 0; i < store->count; i++) {
        guest *g = &m->guests[i];
        g->meeting = m;
        g->command =
            (hf__command){.text = text, .len = sizeof text - 1, .deadline_us = deadline_us, .done = guest_done};
        g->command.owner = g;
        hf__fail(&g->err, HF_EUNREACHABLE, "%s did not answer in time", store->servers[i].label);
        hf__conn_submit(hf__member_conn(store->servers[i].member), &g->command, false);
    }
    pthread_mutex_lock(&m->mutex);
    await(store, m, deadline_us);
    for (size_t i = 0; i < store->count; i++)
        atomic_store(&store->servers[i].silent, !m->guests[i].came);
    status = m->came >= store->majority ? HF_OK : tell_absent(store, m, err);
    store->meeting = m; /* until the last guest has come, or is given up by the closing */
    pthread_mutex_unlock(&m->mutex);
    return status == HF_OK ? check_doubles(store, m, err) : status;
}

void hf__servers_forget_meeting(hf__redlock *store)
{
    meeting *m = store->meeting;

    if (m == NULL)
        return;
    pthread_mutex_destroy(&m->mutex);
    pthread_cond_destroy(&m->cond);
    free(m);
}
