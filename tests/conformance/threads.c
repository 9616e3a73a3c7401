/* SPDX-License-Identifier: MIT */
/* Verbs from many threads at once, through both parties: nobody is let in beside another, and no request is lost. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "conformance/suite.h"

#define THREADS 6
#define ROUNDS 60

typedef struct crowd {
    suite_state      *state;
    const suite_kind *kind;
    const char       *name;
    atomic_int        inside, most, out_of_order, entered;
    atomic_llong      last_fence;
} crowd;

typedef struct member {
    crowd    *crowd;
    party    *p;
    pthread_t thread;
} member;

/* The checks of cmocka belong to the main thread, so that faults are counted and looked at in the end. */
static void go_in(crowd *c, int64_t fence)
{
    int now_inside = atomic_fetch_add(&c->inside, 1) + 1, most = atomic_load(&c->most);

    while (now_inside > most && !atomic_compare_exchange_weak(&c->most, &most, now_inside))
        continue;
    if (atomic_exchange(&c->last_fence, fence) >= fence && fence != 0)
        atomic_fetch_add(&c->out_of_order, 1);
    atomic_fetch_add(&c->entered, 1);
    atomic_fetch_sub(&c->inside, 1);
}

static void *run_member(void *arg)
{
    member *m = arg;
    crowd  *c = m->crowd;

    for (int i = 0; i < ROUNDS; i++) {
        hf_claim   one = claim_first(c->kind, c->name);
        hf_verdict v;
        do {
            v = attempt(m->p, &one, i % 3 != 0);
            if (v.answer == HF_REFUSED)
                sleep_ms(1);
        } while (v.answer == HF_REFUSED);
        if (v.answer == HF_GRANTED)
            go_in(c, v.fence);
        release(m->p, &one);
    }
    return NULL;
}

static void run_crowd(suite_state *s, const suite_kind *kind)
{
    crowd  c = {.state = s, .kind = kind, .name = fresh_name()};
    member members[THREADS];

    for (int i = 0; i < THREADS; i++) {
        members[i] = (member){.crowd = &c, .p = i % 2 == 0 ? s->a : s->b};
        assert_int_equal(pthread_create(&members[i].thread, NULL, run_member, &members[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(members[i].thread, NULL);
    assert_int_equal(atomic_load(&c.entered), THREADS * ROUNDS);
    assert_int_equal(atomic_load(&c.most), 1);
    assert_int_equal(atomic_load(&c.out_of_order), 0);
    assert_holds(s->a, c.name, 0, 0);
}

static void crowd_of_mutex(suite_state *s)
{
    run_crowd(s, &kind_mutex);
}

static void crowd_of_writers(suite_state *s)
{
    run_crowd(s, &kind_rw);
}

static void crowd_of_permits(suite_state *s)
{
    run_crowd(s, &kind_semaphore);
}

const suite_entry suite_threads[] = {
    {"many threads: mutex", crowd_of_mutex, false},
    {"many threads: writers", crowd_of_writers, false, HF_CAP_RW},
    {"many threads: permits", crowd_of_permits, false, HF_CAP_SEMAPHORE},
    {NULL, NULL, false},
};
