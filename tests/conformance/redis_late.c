/* SPDX-License-Identifier: MIT */
/*
 * Contract 3 at the wire. A request is held back on its way, and its connection fails; it is asked again over another
 * one, and the claim goes its way; then the network delivers the first request after all. An attempt must find its id
 * dead, a renewal must revive nothing, and a release must not touch the next holder.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "conformance/suite.h"
#include "lib/proxy.h"
#include "lib/redis_server.h"

extern const hf_store_ops hf__redis_ops;

static redis_server *server;
static proxy        *way; /* to it, of the party under test */
static suite_spec    through, direct;

static int begin(void **state)
{
    static char url[64];

    (void)state;
    server = redis_start(NULL);
    way = proxy_start(redis_upstream(server));
    snprintf(url, sizeof url, "redis://127.0.0.1:%d", proxy_port(way));
    through = (suite_spec){"redis", &hf__redis_ops, url};
    direct = (suite_spec){"redis", &hf__redis_ops, redis_url(server)};
    return 0;
}

static int end(void **state)
{
    (void)state;
    proxy_end(way);
    redis_end(server);
    return 0;
}

/* ---- a request on a thread of its own, so that the test may let the world go on meanwhile ---- */

typedef struct sent {
    party     *p;
    hf_request request;
    pthread_t  thread;
} sent;

static void *send_it(void *arg)
{
    sent *s = arg;

    verb(s->p, &s->request);
    return NULL;
}

/*
 * Sends the request, which goes no further than the proxy, and lets its connection fail. It must be told as open, and
 * its not-after is still to come: only what is done about the claim can keep it from being carried out later.
 */
static void lose(party *p, const hf_request *request)
{
    sent s = {.p = p, .request = *request};
    int rule = proxy_add(way, &(proxy_rule){.way = PROXY_UP, .what = PROXY_HOLD, .match = "the-late-name", .times = 1});

    s.request.deadline_us = hf__after_ms(hf__now_us(), 20000);
    assert_int_equal(pthread_create(&s.thread, NULL, send_it, &s), 0);
    assert_true(proxy_await(way, rule, 1, 5000));
    proxy_drop_clients(way, PROXY_RST);
    pthread_join(s.thread, NULL);
    if (request->verb == HF_VERB_RENEW) {
        assert_int_equal(request->renewals[0].answer, HF_RENEWAL_UNKNOWN);
    } else {
        assert_int_equal(s.request.status, HF_EUNREACHABLE);
        assert_true(s.request.err.text[0] != '\0');
    }
    proxy_remove(way, rule);
}

/* Delivers what was held, and waits until the server has carried it out. */
static void deliver(void)
{
    int64_t before = redis_calls(server, "evalsha") + redis_calls(server, "eval");

    proxy_let_go(way);
    for (int i = 0; i < 1000 && redis_calls(server, "evalsha") + redis_calls(server, "eval") == before; i++)
        sleep_ms(5);
    assert_true(redis_calls(server, "evalsha") + redis_calls(server, "eval") > before);
}

static void assert_free(party *p, const suite_kind *kind)
{
    hf_claim probe = claim_first(kind, "the-late-name");

    if (kind->kind == HF_KIND_RW)
        probe.mode = HF_MODE_EXCLUSIVE;
    assert_holds(p, "the-late-name", 0, 0);
    must_grant(p, &probe);
    release(p, &probe);
    assert_holds(p, "the-late-name", 0, 0);
}

typedef struct scene {
    party   *a, *b;
    hf_claim one;
} scene;

static scene scene_begin(const suite_kind *kind)
{
    scene    s = {party_open(&through, "a"), party_open(&direct, "b"), claim_first(kind, "the-late-name")};
    hf_claim warm = claim_first(kind, "warm");

    redis_do(server, "FLUSHALL");
    must_grant(s.a, &warm); /* so that the scripts are known, and one request is one command */
    assert_int_equal(renew(s.a, &warm, LONG_MS), HF_RENEWAL_RENEWED);
    release(s.a, &warm);
    return s;
}

static void scene_end(scene *s)
{
    proxy_clear(way);
    proxy_drop(way, PROXY_FIN);
    party_close(s->a);
    party_close(s->b);
}

static bool release_unanswered(party *p, hf_claim *claim)
{
    hf_request request = {.verb = HF_VERB_RELEASE, .claim = claim, .unanswered = true};

    request.deadline_us = hf__after_ms(hf__now_us(), 20000); /* its not-after is that of the attempt, or later */
    verb(p, &request);
    assert_int_equal(request.status, HF_OK);
    return request.verdict.found;
}

/* ---- attempts ---- */

static void attempt_after_its_release(const suite_kind *kind)
{
    scene      s = scene_begin(kind);
    hf_request attempt_it = {.verb = HF_VERB_ATTEMPT, .claim = &s.one, .queue = true};

    lose(s.a, &attempt_it);
    assert_holds(s.b, "the-late-name", 0, 0);
    must_grant(s.a, &s.one); /* repeated */
    assert_true(release_unanswered(s.a, &s.one));
    deliver();
    assert_free(s.b, kind);
    scene_end(&s);
}

static void attempt_after_a_release_that_found_nothing(const suite_kind *kind)
{
    scene      s = scene_begin(kind);
    hf_request attempt_it = {.verb = HF_VERB_ATTEMPT, .claim = &s.one, .queue = true};

    lose(s.a, &attempt_it);
    assert_false(release_unanswered(s.a, &s.one));
    deliver();
    assert_free(s.b, kind);
    scene_end(&s);
}

/* The claim is still wanted: the one that comes late finds its grant, and there is one, with one fence. */
static void attempt_beside_its_grant(const suite_kind *kind)
{
    scene      s = scene_begin(kind);
    hf_request attempt_it = {.verb = HF_VERB_ATTEMPT, .claim = &s.one, .queue = true};

    lose(s.a, &attempt_it);
    int64_t fence = must_grant(s.a, &s.one);
    deliver();
    assert_holds(s.b, "the-late-name", 1, 0);
    assert_int_equal(must_grant(s.a, &s.one), fence);
    assert_true(release(s.a, &s.one).found);
    assert_free(s.b, kind);
    scene_end(&s);
}

/* A waiter's: no place must be left by it. */
static void attempt_of_a_waiter_that_gave_up(const suite_kind *kind)
{
    scene      s = scene_begin(kind);
    hf_claim   holder = claim_first(kind, "the-late-name");
    hf_request attempt_it = {.verb = HF_VERB_ATTEMPT, .claim = &s.one, .queue = true};

    s.one.mode = kind->second_mode;
    must_grant(s.b, &holder);
    lose(s.a, &attempt_it);
    assert_false(release_unanswered(s.a, &s.one));
    deliver();
    assert_holds(s.b, "the-late-name", 1, 0);
    assert_true(release(s.b, &holder).found);
    assert_free(s.b, kind);
    scene_end(&s);
}

/* Its time is over: nothing else has to be done about it. */
static void attempt_after_its_time(const suite_kind *kind)
{
    scene      s = scene_begin(kind);
    hf_request late = {.verb = HF_VERB_ATTEMPT, .claim = &s.one, .queue = true};
    int rule = proxy_add(way, &(proxy_rule){.way = PROXY_UP, .what = PROXY_HOLD, .match = "the-late-name", .times = 1});

    late.deadline_us = hf__after_ms(hf__now_us(), 250);
    verb(s.a, &late);
    assert_int_equal(late.status, HF_EUNREACHABLE);
    assert_int_equal(proxy_hits(way, rule), 1);
    sleep_ms(100); /* the store's idea of the server's clock may be off by a little */
    deliver();
    assert_free(s.b, kind);
    scene_end(&s);
}

/* ---- renewals and releases ---- */

static void renewal_after_the_release(const suite_kind *kind)
{
    scene      s = scene_begin(kind);
    hf_renewal renewal = {.claim = &s.one, .lease_ms = LONG_MS, .answer = 77};
    hf_request renew_it = {.verb = HF_VERB_RENEW, .renewals = &renewal, .count = 1};

    must_grant(s.a, &s.one);
    lose(s.a, &renew_it);
    assert_true(release(s.a, &s.one).found);
    deliver();
    assert_free(s.b, kind);
    scene_end(&s);
}

static void release_beside_the_next(const suite_kind *kind)
{
    scene      s = scene_begin(kind);
    hf_claim   next = claim_first(kind, "the-late-name");
    hf_request release_it = {.verb = HF_VERB_RELEASE, .claim = &s.one};

    must_grant(s.a, &s.one);
    lose(s.a, &release_it);
    assert_true(release(s.a, &s.one).found);
    must_grant(s.b, &next);
    int64_t pttl = redis_pttl(server, "the-late-name");
    deliver();
    assert_true(holds_claim(s.b, &next, true));
    assert_true(redis_pttl(server, "the-late-name") > pttl - 5000);
    assert_true(release(s.b, &next).found);
    assert_free(s.b, kind);
    scene_end(&s);
}

/* ---- each of them for each kind ---- */

static void each_kind(void (*run)(const suite_kind *))
{
    for (size_t i = 0; i < suite_kind_count; i++) {
        print_message("           %s\n", suite_kinds[i].name);
        run(&suite_kinds[i]);
    }
}

#define EACH_KIND(what)                                                                                                \
    static void c3_late_##what(void **state)                                                                           \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        each_kind(what);                                                                                               \
    }

EACH_KIND(attempt_after_its_release)
EACH_KIND(attempt_after_a_release_that_found_nothing)
EACH_KIND(attempt_beside_its_grant)
EACH_KIND(attempt_of_a_waiter_that_gave_up)
EACH_KIND(attempt_after_its_time)
EACH_KIND(renewal_after_the_release)
EACH_KIND(release_beside_the_next)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(c3_late_attempt_after_its_release),
        cmocka_unit_test(c3_late_attempt_after_a_release_that_found_nothing),
        cmocka_unit_test(c3_late_attempt_beside_its_grant),
        cmocka_unit_test(c3_late_attempt_of_a_waiter_that_gave_up),
        cmocka_unit_test(c3_late_attempt_after_its_time),
        cmocka_unit_test(c3_late_renewal_after_the_release),
        cmocka_unit_test(c3_late_release_beside_the_next),
    };
    return cmocka_run_group_tests_name("redis, late", tests, begin, end);
}
