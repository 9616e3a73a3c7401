/* SPDX-License-Identifier: MIT */
/* See db.h: who runs a request, opening and closing. */
#include "stores/sql/db.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "base/thread.h"

#define CREW_MOST 2 /* the other slots are for those who drive */
#define VERB_SWEEP 100
#define SWEEP_MS INT64_C(600000)      /* between two sweeps of one database, whoever makes them */
#define IDLE_MS INT64_C(86400000)     /* a name's row goes a day after its last ticket */
#define FIRST_SWEEP_MS INT64_C(60000) /* of a client that lives on */
#define SHORT_LIVED_PART 20           /* of those that may not live on, one in so many sweeps at once */

/* ---- Running one request ---------------------------------------------------------------------------------------- */

static int check(hf__db *db, hf_request *request)
{
    hf__slot *slot;
    hf__batch batch;
    int       status = hf__db_enter(db, HF__POOL_ANY, request->deadline_us, &slot, &batch, &request->err);

    if (status != HF_OK)
        return status;
    status = db->check(db, slot, request);
    hf__db_leave(db, slot, &batch);
    return status;
}

static int sweep(hf__db *db, hf_request *request)
{
    hf__slot *slot;
    hf__batch batch;
    int       status = hf__db_enter(db, HF__POOL_ANY, request->deadline_us, &slot, &batch, &request->err);

    if (status != HF_OK)
        return status;
    status =
        hf__db_sweep(db, slot, IDLE_MS * HF_US_PER_MS, SWEEP_MS * HF_US_PER_MS, request->deadline_us, &request->err);
    hf__db_leave(db, slot, &batch);
    return status;
}

static int run_verb(hf__db *db, hf_request *request)
{
    switch (request->verb) {
    case HF_VERB_ATTEMPT:
        return hf__db_attempt(db, request);
    case HF_VERB_RELEASE:
        return hf__db_release(db, request);
    case HF_VERB_RENEW:
        return hf__db_renew(db, request);
    case HF_VERB_LIST:
        return hf__db_list(db, request);
    case HF_VERB_BREAK:
        return hf__db_break(db, request);
    case HF_VERB_CHECK:
        return check(db, request);
    case VERB_SWEEP:
        return sweep(db, request);
    default:
        return hf__fail(&request->err, HF_EUNSUPPORTED, "the store %s: has no verb %d", db->base.ops->scheme,
                        request->verb);
    }
}

static void run(hf__db *db, hf_request *request)
{
    request->status = run_verb(db, request);
    request->done(request);
}

/* ---- The inbox and the crew ------------------------------------------------------------------------------------- */

static hf_request *next_of(const hf_request *request)
{
    return request->store_data;
}

/* Under the mutex. False: it is not there any more. */
static bool take_out(hf__db *db, hf_request *request)
{
    hf_request *before = NULL;

    for (hf_request *at = db->inbox; at != NULL; before = at, at = next_of(at)) {
        if (at != request)
            continue;
        if (before == NULL)
            db->inbox = next_of(at);
        else
            before->store_data = at->store_data;
        return true;
    }
    return false;
}

static void *crew_run(void *arg)
{
    hf__db     *db = arg;
    hf_request *request;

    pthread_mutex_lock(&db->crew_mutex);
    while (!db->closing) {
        request = db->inbox;
        if (request == NULL) {
            db->crew_idle++;
            pthread_cond_wait(&db->crew_wake, &db->crew_mutex);
            db->crew_idle--;
            continue;
        }
        db->inbox = next_of(request);
        pthread_mutex_unlock(&db->crew_mutex);
        run(db, request);
        pthread_mutex_lock(&db->crew_mutex);
    }
    pthread_mutex_unlock(&db->crew_mutex);
    return NULL;
}

/* Under the mutex. False: there is nobody to run it. */
static bool call_crew(hf__db *db)
{
    if (db->crew_idle > 0) {
        pthread_cond_signal(&db->crew_wake);
        return true;
    }
    if (db->crew_count < CREW_MOST && hf__thread_start(&db->crew[db->crew_count], crew_run, db, "hf-crew") == 0)
        db->crew_count++;
    return db->crew_count > 0;
}

/* It is whole when it goes into the list: from then on it is another thread's. */
static bool put_in(hf__db *db, hf_request *request)
{
    hf_request *last;
    bool        first, there;

    request->store_data = NULL;
    pthread_mutex_lock(&db->crew_mutex);
    there = call_crew(db);
    first = db->inbox == NULL;
    for (last = db->inbox; last != NULL && next_of(last) != NULL;)
        last = next_of(last);
    if (there && last != NULL)
        last->store_data = request;
    else if (there)
        db->inbox = request;
    pthread_mutex_unlock(&db->crew_mutex);
    if (there && first)
        hf__loop_wake(&db->clerk);
    return there;
}

void hf__db_begin(hf_store *store, hf_request *request)
{
    hf__db *db = (hf__db *)store;

    memset(&request->verdict, 0, sizeof request->verdict);
    if (request->verb == HF_VERB_RENEW)
        for (size_t i = 0; i < request->count; i++)
            request->renewals[i].answer = HF_RENEWAL_UNKNOWN;
    if (request->driven || put_in(db, request))
        return;
    request->status = hf__fail(&request->err, HF_EEXHAUSTED, "no thread could be started for a request");
    request->done(request);
}

void hf__db_drive(hf_store *store, hf_request *request)
{
    hf__db *db = (hf__db *)store;
    bool    ours = request->driven;

    if (!ours) {
        pthread_mutex_lock(&db->crew_mutex);
        ours = take_out(db, request);
        pthread_mutex_unlock(&db->crew_mutex);
    }
    if (ours)
        run(db, request);
}

static void sweep_done(hf_request *request)
{
    hf__db *db = request->owner;

    pthread_mutex_lock(&db->crew_mutex);
    db->sweeps = false;
    pthread_mutex_unlock(&db->crew_mutex);
}

/* Under the mutex: the requests that are past their deadline, and when the next one will be. */
static hf_request *take_overdue(hf__db *db, int64_t now_us, int64_t *next_us)
{
    hf_request *overdue = NULL, *request, *next;

    for (request = db->inbox; request != NULL; request = next) {
        next = next_of(request);
        if (request->deadline_us > now_us) {
            *next_us = request->deadline_us < *next_us ? request->deadline_us : *next_us;
            continue;
        }
        take_out(db, request);
        request->store_data = overdue;
        overdue = request;
    }
    return overdue;
}

static void complete_all(hf_request *list, const char *why)
{
    while (list != NULL) {
        hf_request *request = list;
        list = next_of(request);
        request->status = hf__fail(&request->err, HF_EUNREACHABLE, "%s", why);
        request->done(request);
    }
}

static void begin_sweep(hf__db *db, int64_t now_us)
{
    memset(&db->sweep, 0, sizeof db->sweep);
    db->sweep.verb = VERB_SWEEP;
    db->sweep.deadline_us = hf__after_ms(now_us, db->base.env->server_timeout_ms);
    db->sweep.owner = db;
    db->sweep.done = sweep_done;
    if (!put_in(db, &db->sweep))
        sweep_done(&db->sweep);
}

/* A crew that has long work must not make others' answers late. */
static int64_t clerk_step(void *arg)
{
    hf__db     *db = arg;
    int64_t     now_us = hf__now_us(), next_us = HF_NEVER_US;
    hf_request *overdue;
    bool        sweeps = false;

    pthread_mutex_lock(&db->crew_mutex);
    overdue = take_overdue(db, now_us, &next_us);
    if (now_us >= db->sweep_us) {
        db->sweep_us = hf__after_ms(now_us, SWEEP_MS);
        sweeps = !db->sweeps;
        db->sweeps = true;
    }
    if (db->sweep_us < next_us)
        next_us = db->sweep_us;
    pthread_mutex_unlock(&db->crew_mutex);
    complete_all(overdue, "the database's earlier answers did not come in time");
    if (sweeps)
        begin_sweep(db, now_us);
    return next_us;
}

/* ---- Open and close --------------------------------------------------------------------------------------------- */

static int make_tables(hf__db *db, hf__slot *slot, int64_t deadline_us, hf_error *err)
{
    hf__batch batch;
    hf__reply reply = {.row = NULL};
    int       status;

    hf__batch_init(&batch, db->driver->dialect, false);
    hf__batch_add_text(&batch, db->driver->dialect->schema);
    status = hf__db_trip(db, slot, &batch, deadline_us, &reply, err);
    if (status == HF_OK) { /* the view is for people: who may not make one does without */
        reply = (hf__reply){.row = NULL};
        hf__batch_clear(&batch);
        hf__batch_add_text(&batch, db->driver->dialect->view);
        hf__db_trip(db, slot, &batch, deadline_us, &reply, NULL);
    }
    hf__batch_free(&batch);
    return status;
}

#define SCHEMA_VERSION "1"

static int check_version(const hf__db *db, const char *version, hf_error *err)
{
    if (strcmp(version, SCHEMA_VERSION) == 0)
        return HF_OK;
    if (version[0] == '\0')
        return hf__fail(err, HF_EREFUSED,
                        "the lock database %s: the table holdfast_meta is empty; run the statements of "
                        "`holdfast schema` again",
                        db->url);
    return hf__fail(err, HF_EREFUSED, "the lock database %s: its tables have version %.20s, this library knows %s",
                    db->url, version, SCHEMA_VERSION);
}

static const char ask_version[] = "SELECT version FROM holdfast_meta WHERE id = 1";

static int prepare_tables(hf__db *db, hf__slot *slot, int64_t deadline_us, hf_error *err)
{
    char version[32];
    int  status = hf__db_ask(db, slot, ask_version, version, sizeof version, deadline_us, err);

    bool absent = status == HF_OK ? version[0] == '\0' : slot->trouble == HF__TROUBLE_ABSENT;
    if (absent && db->create) {
        status = make_tables(db, slot, deadline_us, err);
        if (status == HF_OK)
            status = hf__db_ask(db, slot, ask_version, version, sizeof version, deadline_us, err);
    }
    return status == HF_OK ? check_version(db, version, err) : status;
}

static bool take_clock(void *arg, const hf__sql_value *columns, int count)
{
    (void)count;
    hf__db_saw_clock(arg, columns[0].number);
    return true;
}

static int read_clock(hf__db *db, hf__slot *slot, hf__batch *batch, int64_t deadline_us, hf_error *err)
{
    hf__reply reply = {.row = take_clock, .arg = db};

    hf__batch_add(batch, HF__DB_CLOCK, NULL, 0);
    return hf__db_trip(db, slot, batch, deadline_us, &reply, err);
}

static int first_trip(hf__db *db, hf_error *err)
{
    int64_t   deadline_us = hf__db_soon(db);
    hf__slot *slot;
    hf__batch batch;
    int       status = hf__db_enter(db, HF__POOL_ANY, deadline_us, &slot, &batch, err);

    if (status != HF_OK)
        return status;
    status = prepare_tables(db, slot, deadline_us, err);
    if (status == HF_OK)
        status = read_clock(db, slot, &batch, deadline_us, err);
    hf__db_leave(db, slot, &batch);
    return status;
}

int hf__db_open(hf__db *db, hf_error *err)
{
    int64_t now_us = hf__now_us();
    int     status;

    pthread_mutex_init(&db->crew_mutex, NULL);
    hf__cond_init(&db->crew_wake);
    hf__waiters_init(&db->waiters);
    hf__loop_init(&db->clerk, clerk_step, db);
    db->sweep_us = hf__random_below(SHORT_LIVED_PART) == 0
                       ? now_us
                       : hf__after_ms(now_us, FIRST_SWEEP_MS + hf__random_below(FIRST_SWEEP_MS));
    status =
        hf__pool_init(&db->pool, db->driver) ? HF_OK : hf__fail(err, HF_EEXHAUSTED, "out of memory for connections");
    if (status == HF_OK)
        status = first_trip(db, err);
    if (status != HF_OK)
        hf__db_close(db);
    return status;
}

int hf__db_go(hf__db *db, hf_error *err)
{
    return hf__loop_start(&db->clerk, "hf-clerk") == 0
               ? HF_OK
               : hf__fail(err, HF_EEXHAUSTED, "no thread could be started for the store");
}

/* Our own threads end first, since they use all the rest. */
void hf__db_close(hf__db *db)
{
    hf_request *left;

    hf__loop_stop(&db->clerk);
    pthread_mutex_lock(&db->crew_mutex);
    db->closing = true;
    pthread_cond_broadcast(&db->crew_wake);
    pthread_mutex_unlock(&db->crew_mutex);
    for (int i = 0; i < db->crew_count; i++)
        pthread_join(db->crew[i], NULL);
    left = db->inbox;
    db->inbox = NULL;
    complete_all(left, "the client was closed");
    if (db->news != NULL)
        db->news->close(db);
    hf__pool_finish(&db->pool);
    hf__waiters_finish(&db->waiters);
    hf__loop_finish(&db->clerk);
    pthread_cond_destroy(&db->crew_wake);
    pthread_mutex_destroy(&db->crew_mutex);
}

/* What is listened for was settled with the verdict, and begun; so nothing is left to do, and nothing was missed. */
void hf__db_watch(hf_store *store, hf_claim *claim, bool dozes)
{
    hf__db *db = (hf__db *)store;

    (void)claim;
    (void)dozes;
    if (db->news != NULL)
        db->news->wake(db);
}

void hf__db_unwatch(hf_store *store, hf_claim *claim)
{
    hf__db *db = (hf__db *)store;

    hf__waiters_forget(&db->waiters, &claim->id);
    if (db->news != NULL)
        db->news->wake(db);
}

int64_t hf__db_clock_us(hf_store *store)
{
    return hf__now_us() + atomic_load(&((hf__db *)store)->offset_us);
}

int64_t hf__db_soon(const hf__db *db)
{
    return hf__after_ms(hf__now_us(), db->base.env->server_timeout_ms);
}
