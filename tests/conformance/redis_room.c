/* SPDX-License-Identifier: MIT */
/* See redis_room.h. */
#include "conformance/redis_room.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/url.h"

#define LONG_MS 10000 /* an order more than anything here takes */

static _Atomic int64_t jumped_us;

static int64_t real_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * HF_US_PER_S + t.tv_nsec / 1000;
}

static int64_t jumping_us(void)
{
    return real_us() + jumped_us;
}

void clock_jump_ms(int64_t ms)
{
    jumped_us += ms * HF_US_PER_MS;
}

int64_t since_ms(void)
{
    return real_us() / HF_US_PER_MS;
}

int64_t cpu_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void rest_ms(int64_t ms)
{
    struct timespec t = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&t, NULL);
}

/* ---- the book ---- */

static void note(room *r)
{
    r->last_thread = pthread_self();
    pthread_cond_broadcast(&r->noted);
}

static void post(void *core, const char *name, size_t len)
{
    room *r = core;

    pthread_mutex_lock(&r->mutex);
    if (name == NULL)
        r->every++;
    else
        r->names++;
    if (name != NULL && len < sizeof r->last_name) {
        memcpy(r->last_name, name, len);
        r->last_name[len] = '\0';
    }
    note(r);
    pthread_mutex_unlock(&r->mutex);
}

static void post_claim(void *core, const hf_id *claim)
{
    room *r = core;

    pthread_mutex_lock(&r->mutex);
    r->claims++;
    r->last_claim = *claim;
    note(r);
    pthread_mutex_unlock(&r->mutex);
}

int room_posts(room *r)
{
    int posts;

    pthread_mutex_lock(&r->mutex);
    posts = r->every + r->names + r->claims;
    pthread_mutex_unlock(&r->mutex);
    return posts;
}

bool room_await(room *r, int posts)
{
    int64_t until_ms = since_ms() + LONG_MS;

    while (room_posts(r) < posts && since_ms() < until_ms)
        rest_ms(1);
    return room_posts(r) >= posts;
}

void room_forget(room *r)
{
    pthread_mutex_lock(&r->mutex);
    r->every = r->names = r->claims = 0;
    r->last_name[0] = '\0';
    pthread_mutex_unlock(&r->mutex);
}

/* ---- the room ---- */

void room_open(room *r, redis_server *server, const char *options, bool direct)
{
    static const hf__clock clock = {.now_us = jumping_us};
    hf__text               own = {0};
    hf_error               err;
    hf_url                 url;
    char                   text[256];

    memset(r, 0, sizeof *r);
    hf__clock_replace(&clock);
    pthread_mutex_init(&r->mutex, NULL);
    pthread_cond_init(&r->noted, NULL);
    r->server = server;
    r->proxy = direct ? NULL : proxy_start(redis_upstream(server));
    r->env = (hf_store_env){.core = r,
                            .post = post,
                            .post_claim = post_claim,
                            .host = "host",
                            .program = "test",
                            .server_timeout_ms = 1500};
    assert_true(hf__id_random(&r->env.client));
    snprintf(text, sizeof text, "redis://127.0.0.1:%d%s%s", direct ? redis_port(server) : proxy_port(r->proxy),
             options[0] != '\0' ? "?" : "", options);
    assert_int_equal(hf__url_parse(&url, text, &err), HF_OK);
    assert_int_equal(hf__redis_config_read(&r->config, &url, &r->env, &err), HF_OK);
    hf__url_finish(&url);
    assert_true(hf__layout_own_channel(&own, &r->env.client));
    snprintf(r->channel, sizeof r->channel, "%s", own.bytes);
    hf__text_finish(&own);
    assert_true(hf__at_init(&r->at, r->config.hosts, r->config.host_count));
    assert_int_equal(hf__pump_open(&r->pump, &err), HF_OK);
    assert_int_equal(hf__news_open(&r->news, &r->config, &r->at, &r->env, r->pump, NULL, &err), HF_OK);
}

void room_close(room *r)
{
    hf__news_close(r->news);
    hf__pump_close(r->pump);
    hf__at_finish(&r->at);
    hf__redis_config_finish(&r->config);
    proxy_end(r->proxy);
    pthread_cond_destroy(&r->noted);
    pthread_mutex_destroy(&r->mutex);
    hf__clock_replace(NULL);
}

hf_claim claim_refused(const room *r, const char *name, enum hf__redis_ear ear)
{
    hf_claim claim = {.name = name, .name_len = strlen(name), .mode = HF_MODE_EXCLUSIVE};

    assert_true(hf__id_random(&claim.id));
    claim.mark = hf__mark_make(ear, hf__news_seen(r->news));
    return claim;
}

bool room_await_channels(room *r, int64_t channels, int64_t wait_ms)
{
    int64_t until_ms = since_ms() + wait_ms;

    while (redis_channels(r->server) != channels) {
        if (since_ms() > until_ms)
            return false;
        rest_ms(10);
    }
    return true;
}

void room_must_hear(room *r)
{
    assert_true(room_await(r, 1));
    assert_int_equal(redis_int(r->server, "PUBLISH %s x", r->channel), 1);
    rest_ms(20);
    room_forget(r);
}

void publish(room *r, const char *kind, const char *what)
{
    redis_do(r->server, "PUBLISH %s %s%s", r->channel, kind, what);
}

void publish_claim(room *r, const hf_claim *claim)
{
    char owner[HF__OWNER_TEXT];

    hf__layout_owner(&r->env.client, claim, owner);
    publish(r, "c", owner + HF__UUID_TEXT);
}
