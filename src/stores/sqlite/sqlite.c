/* SPDX-License-Identifier: MIT */
/*
 * The embedded store: the ticket design (stores/sql) on one SQLite file, for the processes of one machine.
 *
 * Each verb is one transaction on this client's connection, done in the call when it is its turn. Bells are rung and
 * news is posted after the commit, with no lock held.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <holdfast/store.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "base/turn.h"
#include "stores/sqlite/check.h"
#include "stores/sqlite/conn.h"
#include "stores/sqlite/fifo.h"
#include "stores/sqlite/lineage.h"
#include "stores/sqlite/news.h"
#include "stores/sqlite/path.h"

#define DEAD_AT_ONCE 64 /* clients cleared away by one open */

extern const hf_store_ops hf__sqlite_ops;

typedef struct sqlite_store {
    hf_store        base;
    hf__sqlite_path path;
    hf__fifos       fifos;
    hf__newsroom    news;
    hf__turn        turn; /* of conn and sql; before news.mutex */
    hf__conn        conn;
    hf__relative    relative;
    atomic_bool     left_behind; /* claims, perhaps: a release has failed */
    hf__sql         sql;
} sqlite_store;

/* ---- What the ticket design asks of us ------------------------------------------------------------------------ */

static hf__sql_alive hook_alive(void *owner, const hf__sql_life *life)
{
    sqlite_store *store = owner;

    return hf__fifos_alive(&store->fifos, life);
}

static bool hook_waits(void *owner, const hf_claim *claim, const hf__sql_life *lives, size_t count)
{
    sqlite_store *store = owner;

    return hf__newsroom_note(&store->news, claim, lives, count);
}

static void hook_settled(void *owner, const hf_claim *claim)
{
    sqlite_store *store = owner;

    hf__newsroom_forget(&store->news, claim);
}

static const hf__sql_hooks hooks = {hook_alive, hook_waits, hook_settled};

/* ---- The connection's turn, with a deadline ---------------------------------------------------------------------- */

static int lock_until(sqlite_store *store, int64_t deadline_us, hf_error *err)
{
    if (hf__turn_take(&store->turn, deadline_us))
        return HF_OK;
    return hf__fail(
        err, HF_EUNREACHABLE,
        "the lock database %s: this process's own calls before this one did not end in time; another process "
        "may hold the file's write lock and be stopped",
        store->path.text);
}

/* ---- Bells ------------------------------------------------------------------------------------------------------ */

/* Wakes those who can get in now. True: one of them is dead, so that its place has to be cleared for the next. */
static bool ring(sqlite_store *store, const hf__sql_bells *bells)
{
    const hf_store_env *env = store->base.env;
    bool                dead = false;

    for (size_t i = 0; i < bells->count; i++) {
        const hf__sql_bell *bell = &bells->list[i];
        if (hf__id_equal(&bell->life.client, &env->client))
            env->post_claim(env->core, &bell->claim);
        else if (bell->life.inode != 0 && hf__fifos_ring(&store->fifos, &bell->life, &bell->claim) == HF__DEAD)
            dead = true;
    }
    return dead;
}

static int reap(sqlite_store *store, const char *name, size_t len, int64_t deadline_us, hf__sql_bells *bells)
{
    int status = lock_until(store, deadline_us, NULL);

    if (status != HF_OK)
        return status;
    status = hf__sql_reap(&store->sql, name, len, deadline_us, bells, NULL);
    hf__turn_give(&store->turn);
    return status;
}

/* Ends with nobody dead among those who were let in, or with the deadline: then whoever waits behind them sees it. */
static void ring_living(sqlite_store *store, hf__sql_bells *bells, const char *name, size_t len, int64_t deadline_us)
{
    while (ring(store, bells)) {
        if (reap(store, name, len, deadline_us, bells) != HF_OK)
            return;
    }
}

/* ---- Verbs ------------------------------------------------------------------------------------------------------ */

static void do_bells(sqlite_store *store, hf_request *request, int (*verb)(hf__sql *, hf_request *, hf__sql_bells *),
                     const char *name, size_t len)
{
    hf__sql_bells bells = {.count = 0};

    request->status = lock_until(store, request->deadline_us, &request->err);
    if (request->status != HF_OK)
        return;
    request->status = verb(&store->sql, request, &bells);
    hf__turn_give(&store->turn);
    if (bells.count > 0)
        ring_living(store, &bells, name, len, request->deadline_us);
    free(bells.list);
}

static void do_renew(sqlite_store *store, hf_request *request)
{
    for (size_t i = 0; i < request->count; i++)
        request->renewals[i].answer = HF_RENEWAL_UNKNOWN;
    request->status = lock_until(store, request->deadline_us, &request->err);
    if (request->status != HF_OK)
        return;
    request->status = hf__sql_renew(&store->sql, request);
    hf__turn_give(&store->turn);
}

static void do_list(sqlite_store *store, hf_request *request)
{
    hf__sql_list *list = NULL;

    request->status = lock_until(store, request->deadline_us, &request->err);
    if (request->status != HF_OK)
        return;
    request->status = hf__sql_list_read(&store->sql, request, &list);
    hf__turn_give(&store->turn);
    if (request->status == HF_OK)
        hf__sql_list_tell(list, request);
    hf__sql_list_free(list);
}

static void do_check(sqlite_store *store, hf_request *request)
{
    hf__findings findings;

    request->status = lock_until(store, request->deadline_us, &request->err);
    if (request->status != HF_OK)
        return;
    request->status = hf__sqlite_check(&store->conn, &store->fifos, request->deadline_us, &findings, &request->err);
    hf__turn_give(&store->turn);
    if (request->status == HF_OK)
        hf__findings_tell(&findings, request);
}

/* A release that failed may leave its claim behind, for whoever comes later to see that its client is dead. */
static void do_release(sqlite_store *store, hf_request *request)
{
    do_bells(store, request, hf__sql_release, request->claim->name, request->claim->name_len);
    if (request->status != HF_OK)
        atomic_store(&store->left_behind, true);
}

static void sqlite_begin(hf_store *base, hf_request *request)
{
    sqlite_store *store = (sqlite_store *)base;

    memset(&request->verdict, 0, sizeof request->verdict);
    switch (request->verb) {
    case HF_VERB_ATTEMPT:
        do_bells(store, request, hf__sql_attempt, request->claim->name, request->claim->name_len);
        break;
    case HF_VERB_RELEASE:
        do_release(store, request);
        break;
    case HF_VERB_BREAK:
        do_bells(store, request, hf__sql_break, request->name, request->name_len);
        break;
    case HF_VERB_RENEW:
        do_renew(store, request);
        break;
    case HF_VERB_LIST:
        do_list(store, request);
        break;
    case HF_VERB_CHECK:
        do_check(store, request);
        break;
    default:
        request->status = hf__fail(&request->err, HF_EUNSUPPORTED, "the store sqlite: has no verb %d", request->verb);
    }
    request->done(request);
}

static void sqlite_watch(hf_store *base, hf_claim *claim, bool dozes)
{
    (void)dozes;
    hf__newsroom_watch(&((sqlite_store *)base)->news, claim);
}

static void sqlite_unwatch(hf_store *base, hf_claim *claim)
{
    hf__newsroom_unwatch(&((sqlite_store *)base)->news, claim);
}

static int64_t sqlite_clock_us(hf_store *base)
{
    (void)base;
    return hf__now_us();
}

/* ---- Open and close --------------------------------------------------------------------------------------------- */

typedef struct haunted {
    const hf__sql_life *dead;
    size_t              dead_count;
    struct {
        char  *text;
        size_t len;
    } * names;
    size_t count;
    bool   failed;
} haunted;

static bool is_one_of(const haunted *h, const hf__sql_value *client, int64_t inode)
{
    for (size_t i = 0; i < h->dead_count; i++) {
        if (client->len == sizeof h->dead[i].client && h->dead[i].inode == inode &&
            memcmp(client->bytes, h->dead[i].client.bytes, client->len) == 0)
            return true;
    }
    return false;
}

static bool note_haunted(void *arg, const hf__sql_value *columns, int count)
{
    haunted *h = arg;

    (void)count;
    if (!is_one_of(h, &columns[1], columns[2].number))
        return true;
    if (h->count > 0 && h->names[h->count - 1].len == columns[0].len &&
        memcmp(h->names[h->count - 1].text, columns[0].bytes, columns[0].len) == 0)
        return true;
    void *names = realloc(h->names, (h->count + 1) * sizeof h->names[0]);
    char *text = malloc(columns[0].len + 1);
    if (names != NULL)
        h->names = names;
    h->failed = names == NULL || text == NULL;
    if (h->failed) {
        free(text);
        return false;
    }
    memcpy(text, columns[0].bytes, columns[0].len);
    h->names[h->count].text = text;
    h->names[h->count++].len = columns[0].len;
    return true;
}

/* One pass over the table for all of them. */
static int find_haunted(sqlite_store *store, haunted *h, int64_t deadline_us)
{
    int status = lock_until(store, deadline_us, NULL);

    if (status != HF_OK)
        return status;
    status = hf__conn_ops.begin(&store->conn, false, deadline_us, NULL);
    if (status == HF_OK) {
        status = hf__conn_ops.run(&store->conn, HF__SQL_OWNERS, NULL, 0, note_haunted, h, NULL, NULL);
        hf__conn_ops.rollback(&store->conn);
    }
    hf__turn_give(&store->turn);
    return status == HF_OK && h->failed ? HF_EEXHAUSTED : status;
}

/*
 * Clears away what clients that were killed have left: first their claims, then their FIFOs. Nothing depends on it, so
 * what fails is left to the next open. A dead client makes no new claims, so none can appear between the two steps.
 */
static void clear_away(sqlite_store *store, int64_t deadline_us)
{
    hf__sql_life  dead[DEAD_AT_ONCE];
    haunted       h = {.dead = dead, .dead_count = hf__fifos_dead(&store->fifos, dead, DEAD_AT_ONCE)};
    hf__sql_bells bells = {.count = 0};
    int           status;

    if (h.dead_count == 0)
        return;
    status = find_haunted(store, &h, deadline_us);
    for (size_t i = 0; i < h.count && status == HF_OK; i++) {
        status = reap(store, h.names[i].text, h.names[i].len, deadline_us, &bells);
        if (status == HF_OK)
            ring_living(store, &bells, h.names[i].text, h.names[i].len, deadline_us);
    }
    for (size_t i = 0; i < h.dead_count && status == HF_OK; i++)
        hf__fifos_bury(&store->fifos, &dead[i]);
    for (size_t i = 0; i < h.count; i++)
        free(h.names[i].text);
    free(h.names);
    free(bells.list);
}

static int sqlite_open(hf_store *base, const hf_url *url, hf_error *err)
{
    sqlite_store *store = (sqlite_store *)base;
    int64_t       deadline_us = hf__after_ms(hf__now_us(), base->env->server_timeout_ms);
    int           status = hf__sqlite_path_open(&store->path, url, err);

    if (status != HF_OK)
        return status;
    hf__turn_init(&store->turn);
    store->relative = (hf__relative){.turn = &store->turn, .conn = &store->conn};
    status = hf__lineage_open(&store->relative, &store->path, deadline_us, err);
    if (status != HF_OK)
        goto finish_turn;
    status = hf__sqlite_path_side_files(&store->path, err); /* again: those that were made just now */
    if (status == HF_OK)
        status = hf__fifos_open(&store->fifos, &store->path, &base->env->client, err);
    if (status != HF_OK)
        goto close_conn;
    status = hf__newsroom_open(&store->news, base->env, &store->fifos, err);
    if (status != HF_OK)
        goto close_fifos;
    store->sql = (hf__sql){.ops = &hf__conn_ops,
                           .conn = &store->conn,
                           .hooks = &hooks,
                           .owner = store,
                           .env = base->env,
                           .self = store->fifos.self};
    clear_away(store, deadline_us);
    return HF_OK;

close_fifos:
    hf__fifos_close(&store->fifos, false);
close_conn:
    hf__lineage_close(&store->relative);
finish_turn:
    hf__turn_finish(&store->turn);
    return status;
}

/* The FIFO goes before the connection: once it is gone nobody takes us for dead. */
static void sqlite_close(hf_store *base)
{
    sqlite_store *store = (sqlite_store *)base;

    hf__newsroom_close(&store->news);
    hf__fifos_close(&store->fifos, store->left_behind);
    hf__sql_finish(&store->sql);
    hf__lineage_close(&store->relative);
    hf__turn_finish(&store->turn);
}

static const char *sqlite_where(hf_store *base)
{
    return ((sqlite_store *)base)->path.url;
}

const hf_store_ops hf__sqlite_ops = {
    .abi = HF_STORE_ABI,
    .scheme = "sqlite",
    .size = sizeof(sqlite_store),
    .caps = HF_CAP_IN_CALL | HF_CAP_FIFO | HF_CAP_FENCE | HF_CAP_KEEP | HF_CAP_SEMAPHORE | HF_CAP_RW | HF_CAP_FAIR |
            HF_CAP_SAME_CLOCK,
    .open = sqlite_open,
    .close = sqlite_close,
    .begin = sqlite_begin,
    .watch = sqlite_watch,
    .unwatch = sqlite_unwatch,
    .clock_us = sqlite_clock_us,
    .where = sqlite_where,
};
