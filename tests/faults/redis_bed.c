/* SPDX-License-Identifier: MIT */
/* The bed of the tests of the Redis store's faults; see the header. */
#include "redis_bed.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

redis_server      *server;
proxy             *way;
const char *const *bed_args;

const char *const bed_kind_names[BED_KINDS] = {"mutex", "fair mutex", "writer", "reader", "semaphore"};

static char url_thru[64];

int bed_begin(void **state)
{
    (void)state;
    server = redis_start(&(redis_setup){.args = bed_args});
    way = proxy_start(redis_upstream(server));
    store_begin(redis_url(server));
    snprintf(url_thru, sizeof(url_thru), "redis://127.0.0.1:%d", proxy_port(way));
    return 0;
}

int bed_end(void **state)
{
    (void)state;
    store_end();
    proxy_end(way);
    redis_end(server);
    return 0;
}

/* A test that failed may have left anything behind, so that the server is started anew unless it is as it was. */
static bool server_is_fine(void)
{
    if (redis_gone(server))
        return false;
    redis_cont(server);
    redisReply *reply = redis_ask(server, "CONFIG GET maxmemory");
    bool        fine =
        reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && strcmp(reply->element[1]->str, "0") == 0;
    if (reply)
        freeReplyObject(reply);
    return fine && strstr(redis_text(server, "INFO replication"), "role:master") != NULL;
}

int bed_make(void **state)
{
    (void)state;
    proxy_refuse(way, false);
    proxy_clear(way);
    proxy_drop(way, PROXY_RST);
    if (!server_is_fine()) {
        redis_change(server, bed_args);
        redis_again(server);
    }
    redis_text(server, "CLIENT UNPAUSE");
    redis_text(server, "CONFIG SET requirepass %s", "");
    redis_do(server, "FLUSHALL");
    redis_do(server, "SCRIPT FLUSH");
    redis_forget(server);
    return 0;
}

/* ------------------------------------------------------------------ clients ----------------------------------- */

const char *thru_url(void)
{
    return url_thru;
}

hf_client *thru_open_with(int64_t watchdog_ms)
{
    hf_client *client;
    hf_error   err;
    int        status = hf_open(&client, url_thru,
                                HF_CLIENT_OPTIONS(.server_timeout_ms = TIMEOUT_MS, .watchdog_ms = watchdog_ms), &err);

    assert_status_err(HF_OK, status, &err);
    return client;
}

hf_client *thru_open(void)
{
    return thru_open_with(0);
}

int thru_rule(int way_of, int what, int times)
{
    return proxy_add(way, &(proxy_rule){.way = way_of, .what = what, .times = times});
}

hf_lock *bed_lock(hf_client *client, int kind, const char *name, int64_t lease_ms)
{
    const hf_options *o = HF_OPTIONS(.lease_ms = lease_ms, .fair = kind == BED_FAIR);

    switch (kind) {
    case BED_WRITER:
        return must_writer(client, name, o);
    case BED_READER:
        return must_reader(client, name, o);
    case BED_SEMAPHORE:
        return must_semaphore(client, name, 1, o);
    default:
        return must_mutex(client, name, o);
    }
}

/* ------------------------------------------------------------------ looking ----------------------------------- */

static int count_on(hf_client *client, const char *name)
{
    return must_list(client, name)->total;
}

void must_be_free_within(const char *name, int64_t wait_ms)
{
    hf_client *client = must_open();
    int64_t    until = now_ms() + wait_ms;

    while (count_on(client, name) != 0 && now_ms() < until)
        sleep_ms(5);
    const seen_claims *seen = must_list(client, name);
    if (seen->total != 0)
        print_error("%s: %d held and %d waiting after %lld ms; left %lld ms\n", name, seen->held, seen->waiting,
                    (long long)wait_ms, (long long)seen->of[0].left_ms);
    assert_int_equal(seen->total, 0);
    must_close(client);
}

void must_be_had_within(int kind, const char *name, int64_t wait_ms)
{
    hf_client *client = must_open();
    hf_lock   *lock = bed_lock(client, kind == BED_READER ? BED_WRITER : kind, name, 0);

    must_acquire(lock, wait_ms);
    must_release(lock);
    hf_free(lock);
    must_close(client);
}

/* ------------------------------------------------------------------ keys without an end ----------------------- */

struct ttl_watch {
    pthread_t     thread;
    atomic_bool   ending;
    redis_server *of;
    int64_t       looks, endless;
    char          first[256];
};

/* Hashes are locks; the strings of readers have this in their names. What else has no end by design is left out. */
static const char look_script[] = "local found = {}\n"
                                  "for _, key in ipairs(redis.call('keys', '*')) do\n"
                                  "  local hash = redis.call('type', key).ok == 'hash'\n"
                                  "  if hash or string.find(key, 'rwlock_timeout', 1, true) then\n"
                                  "    if redis.call('pttl', key) == -1 then found[#found + 1] = key end\n"
                                  "  end\n"
                                  "end\n"
                                  "return found\n";

static void ttl_look(ttl_watch *w)
{
    redisReply *reply = redis_ask(w->of, "EVAL %s 0", look_script);

    if (reply && reply->type == REDIS_REPLY_ARRAY) {
        w->looks++;
        w->endless += (int64_t)reply->elements;
        if (reply->elements > 0 && w->first[0] == '\0')
            snprintf(w->first, sizeof(w->first), "%s", reply->element[0]->str);
    }
    if (reply)
        freeReplyObject(reply);
}

static void *ttl_run(void *arg)
{
    ttl_watch *w = arg;

    while (!atomic_load(&w->ending)) {
        ttl_look(w);
        sleep_ms(5);
    }
    return NULL;
}

ttl_watch *ttl_watch_begin(redis_server *of)
{
    ttl_watch *w = calloc(1, sizeof(*w));

    w->of = of;
    assert_int_equal(pthread_create(&w->thread, NULL, ttl_run, w), 0);
    return w;
}

int64_t ttl_watch_end(ttl_watch *w, int64_t *looks, char *first, size_t size)
{
    atomic_store(&w->ending, true);
    pthread_join(w->thread, NULL);
    int64_t endless = w->endless;
    if (looks)
        *looks = w->looks;
    if (first)
        snprintf(first, size, "%s", w->first);
    free(w);
    return endless;
}

void must_come_back_to(int fds, int threads)
{
    for (int i = 0; i < 400 && (fds_open() > fds || threads_running() > threads); i++)
        sleep_ms(5);
    assert_true(fds_open() <= fds);
    assert_true(threads_running() <= threads);
}
