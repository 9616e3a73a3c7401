/* SPDX-License-Identifier: MIT */
/* A client of a store without a core: the environment that the core would give, with its news counted. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id.h"
#include "base/url.h"
#include "conformance/suite.h"

#define NEWS_MOST 64 /* beyond these, news counts as news of everything */

struct party {
    hf_store       *store;
    hf_store_env    env;
    hf_url          url;
    pthread_mutex_t mutex; /* of the rest */
    pthread_cond_t  moved;
    struct {
        char     name[HF_NAME_MAX + 1];
        unsigned count;
    } names[NEWS_MOST];
    struct {
        hf_id    id;
        unsigned count;
    } claims[NEWS_MOST];
    size_t   name_count, claim_count;
    unsigned for_all;
};

static void count_news(void *core, const char *name, size_t len)
{
    party *p = core;
    size_t i = 0;

    pthread_mutex_lock(&p->mutex);
    while (name != NULL && i < p->name_count &&
           (strlen(p->names[i].name) != len || memcmp(p->names[i].name, name, len) != 0))
        i++;
    if (name == NULL || i == NEWS_MOST) {
        p->for_all++;
    } else {
        if (i == p->name_count)
            memcpy(p->names[p->name_count++].name, name, len);
        p->names[i].count++;
    }
    pthread_cond_broadcast(&p->moved);
    pthread_mutex_unlock(&p->mutex);
}

static void count_claim_news(void *core, const hf_id *claim)
{
    party *p = core;
    size_t i = 0;

    pthread_mutex_lock(&p->mutex);
    while (i < p->claim_count && !hf__id_equal(&p->claims[i].id, claim))
        i++;
    if (i == NEWS_MOST) {
        p->for_all++;
    } else {
        if (i == p->claim_count)
            p->claims[p->claim_count++].id = *claim;
        p->claims[i].count++;
    }
    pthread_cond_broadcast(&p->moved);
    pthread_mutex_unlock(&p->mutex);
}

static unsigned news_of(const party *p, const hf_claim *claim)
{
    unsigned count = p->for_all;

    for (size_t i = 0; i < p->name_count; i++) {
        if (strcmp(p->names[i].name, claim->name) == 0)
            count += p->names[i].count;
    }
    for (size_t i = 0; i < p->claim_count; i++) {
        if (hf__id_equal(&p->claims[i].id, &claim->id))
            count += p->claims[i].count;
    }
    return count;
}

unsigned party_news(party *p, const hf_claim *claim)
{
    pthread_mutex_lock(&p->mutex);
    unsigned count = news_of(p, claim);
    pthread_mutex_unlock(&p->mutex);
    return count;
}

bool party_await(party *p, const hf_claim *claim, unsigned seen, int64_t wait_ms)
{
    struct timespec until;
    bool            there;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(wait_ms / 1000);
    until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&p->mutex);
    while (news_of(p, claim) == seen && pthread_cond_timedwait(&p->moved, &p->mutex, &until) != ETIMEDOUT)
        continue;
    there = news_of(p, claim) != seen;
    pthread_mutex_unlock(&p->mutex);
    return there;
}

static int open_party(party **out, const hf_store_ops *ops, const char *url, const char *note, hf_error *err)
{
    party *p = calloc(1, sizeof *p);
    int    status;

    assert_non_null(p);
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->moved, NULL);
    status = hf__url_parse(&p->url, url, err);
    if (status == HF_OK) {
        assert_true(hf__id_random(&p->env.client));
        p->env.core = p;
        p->env.post = count_news;
        p->env.post_claim = count_claim_news;
        p->env.post_claim = count_claim_news;
        p->env.host = "the-host";
        p->env.program = "the-program";
        p->env.note = note;
        p->env.pid = getpid();
        p->env.server_timeout_ms = 2000;
        p->store = calloc(1, ops->size);
        assert_non_null(p->store);
        p->store->ops = ops;
        p->store->caps = ops->caps;
        p->store->env = &p->env;
        status = ops->open(p->store, &p->url, err);
    }
    *out = p;
    return status;
}

static void free_party(party *p)
{
    hf__url_finish(&p->url);
    pthread_cond_destroy(&p->moved);
    pthread_mutex_destroy(&p->mutex);
    free(p->store);
    free(p);
}

unsigned party_caps(const party *p)
{
    return p->store->caps;
}

party *party_open(const suite_spec *spec, const char *note)
{
    hf_error err = {0};
    party   *p;

    if (open_party(&p, spec->ops, spec->url, note, &err) != HF_OK)
        fail_msg("cannot open %s: %s", spec->url, err.text);
    return p;
}

int party_refused(const hf_store_ops *ops, const char *url, hf_error *err)
{
    party *p;
    int    status;

    memset(err, 0, sizeof *err);
    status = open_party(&p, ops, url, "", err);
    if (status == HF_OK)
        ops->close(p->store);
    free_party(p);
    return status;
}

void party_close(party *p)
{
    p->store->ops->close(p->store);
    free_party(p);
}

hf_store *party_store(party *p)
{
    return p->store;
}

typedef struct completion {
    sem_t    done;
    unsigned times;
} completion;

static void complete(hf_request *request)
{
    completion *c = request->owner;

    c->times++;
    sem_post(&c->done);
}

void verb(party *p, hf_request *request)
{
    const hf_store_ops *ops = p->store->ops;
    completion          c = {.times = 0};
    struct timespec     until;

    sem_init(&c.done, 0, 0);
    if (request->deadline_us == 0)
        request->deadline_us = hf__after_ms(hf__now_us(), 10000);
    if (request->not_after_us == 0)
        request->not_after_us = ops->clock_us(p->store) + (request->deadline_us - hf__now_us());
    request->driven = ops->drive != NULL;
    request->done = complete;
    request->owner = &c;
    ops->begin(p->store, request);
    if (ops->drive != NULL)
        ops->drive(p->store, request);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += hf__ms_until(request->deadline_us, hf__now_us()) / 1000 + 10;
    while (sem_timedwait(&c.done, &until) != 0) {
        if (errno != EINTR)
            fail_msg("the request of verb %d was not completed", request->verb);
    }
    assert_int_equal(c.times, 1);
    sem_destroy(&c.done);
}
