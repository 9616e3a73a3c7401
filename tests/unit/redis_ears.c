/* SPDX-License-Identifier: MIT */
/* Channels and waiters of the Redis store: what is sent, what is confirmed, who may have missed something. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/id.h"
#include "stores/redis/ears.h"
#include "stores/redis/subscribe.h"

#define OWN "holdfast_news:me"
#define LINGER_US (HF__LINGER_MS * HF_US_PER_MS)

static const hf__ear_wish nothing = {0};

static hf__ear_wish channel(const char *text, bool fair)
{
    return (hf__ear_wish){.text = text, .len = strlen(text), .fair = fair};
}

static hf_claim claim_of(const char *name)
{
    hf_claim claim = {.name = name, .name_len = strlen(name)};

    assert_true(hf__id_random(&claim.id));
    return claim;
}

static void init(hf__ears *ears)
{
    assert_true(hf__ears_init(ears, OWN, strlen(OWN)));
}

static hf__ear *must_take(hf__ears *ears, int64_t now_us, const char *text, bool subscribe)
{
    hf__ear *ear = hf__ears_take(ears, now_us, false);

    assert_non_null(ear);
    assert_string_equal(ear->text, text);
    assert_int_equal(ear->wished, subscribe);
    return ear;
}

static void confirm(hf__ears *ears, const char *text)
{
    hf__ear *ear = must_take(ears, 0, text, true);

    assert_true(hf__ears_answered(ears, ear));
}

/* One more look is needed exactly where the confirmation came after the question. */
static void who_asked_before_the_confirmation_looks_again(void **state)
{
    hf__ears ears;
    hf_claim a = claim_of("a"), b = claim_of("b");
    int64_t  before, after;

    (void)state;
    init(&ears);
    before = ears.events;
    assert_false(hf__ears_watch(&ears, &a, before, true, &nothing)); /* its confirmation will tell it */
    confirm(&ears, OWN);
    after = ears.events;
    assert_true(after > before);
    assert_true(hf__ears_watch(&ears, &b, before, true, &nothing));
    assert_false(hf__ears_watch(&ears, &b, after, true, &nothing));
    assert_false(hf__ears_watch(&ears, &a, after, true, &nothing));
    assert_null(hf__ears_take(&ears, 0, false));
    hf__ears_finish(&ears);
}

static void one_subscription_for_many_waiters(void **state)
{
    hf__ears     ears;
    hf_claim     a[3] = {claim_of("s"), claim_of("s"), claim_of("s")};
    hf__ear_wish wish = channel("redisson_sc:{s}", false);
    size_t       count;
    hf_id       *claims;

    (void)state;
    init(&ears);
    for (int i = 0; i < 3; i++)
        assert_false(hf__ears_watch(&ears, &a[i], 0, true, &wish));
    confirm(&ears, OWN);
    assert_false(hf__ears_all_heard(&ears));
    confirm(&ears, "redisson_sc:{s}");
    assert_true(hf__ears_all_heard(&ears));
    assert_null(hf__ears_take(&ears, 0, false));
    claims = hf__ears_hearers(&ears, hf__ears_find(&ears, wish.text, wish.len), &count);
    assert_int_equal(count, 3);
    free(claims);
    claims = hf__ears_hearers(&ears, &ears.own, &count);
    assert_int_equal(count, 3);
    free(claims);
    hf__ears_unwatch(&ears, &a[1].id, 0);
    hf__ears_unwatch(&ears, &a[1].id, 0); /* allowed */
    claims = hf__ears_hearers(&ears, hf__ears_find(&ears, wish.text, wish.len), &count);
    assert_int_equal(count, 2);
    assert_memory_equal(&claims[0], &a[0].id, sizeof(hf_id));
    assert_memory_equal(&claims[1], &a[2].id, sizeof(hf_id));
    free(claims);
    hf__ears_finish(&ears);
}

static void two_names_of_one_channel(void **state)
{
    hf__ears     ears;
    hf_claim     a = claim_of("s"), b = claim_of("{s}");
    hf__ear_wish wish = channel("redisson_sc:{s}", false);

    (void)state;
    init(&ears);
    hf__ears_watch(&ears, &a, 0, true, &wish);
    assert_false(hf__ears_find(&ears, wish.text, wish.len)->many);
    hf__ears_watch(&ears, &b, 0, true, &wish);
    assert_true(hf__ears_find(&ears, wish.text, wish.len)->many);
    hf__ears_finish(&ears);
}

/* A channel is left a while after the last waiter, and not before. */
static void who_waits_again_finds_the_channel(void **state)
{
    hf__ears     ears;
    hf_claim     a = claim_of("s"), b = claim_of("t");
    hf__ear_wish wish = channel("ch:s", false);
    int64_t      then_us = 1000;
    hf__ear     *ear;

    (void)state;
    init(&ears);
    hf__ears_watch(&ears, &a, 0, true, &wish);
    hf__ears_watch(&ears, &b, 0, true, &nothing);
    confirm(&ears, OWN);
    confirm(&ears, "ch:s");
    hf__ears_unwatch(&ears, &a.id, then_us);
    assert_int_equal(hf__ears_due_us(&ears), then_us + LINGER_US);
    assert_null(hf__ears_take(&ears, then_us + LINGER_US - 1, false));
    assert_false(hf__ears_watch(&ears, &a, ears.events, true, &wish)); /* it was heard all along */
    assert_null(hf__ears_take(&ears, then_us + LINGER_US, false));
    hf__ears_unwatch(&ears, &a.id, then_us);
    ear = must_take(&ears, then_us + LINGER_US, "ch:s", false);
    assert_null(hf__ears_take(&ears, then_us + LINGER_US, false));
    assert_false(hf__ears_answered(&ears, ear));
    assert_null(hf__ears_find(&ears, "ch:s", 4));
    assert_false(hf__ears_quiet(&ears, HF_NEVER_US)); /* b waits */
    hf__ears_unwatch(&ears, &b.id, then_us);
    assert_false(hf__ears_quiet(&ears, then_us + LINGER_US - 1));
    assert_true(hf__ears_quiet(&ears, then_us + LINGER_US));
    assert_int_equal(hf__ears_due_us(&ears), then_us + LINGER_US);
    hf__ears_finish(&ears);
}

/* Subscribed, left and wanted again, all under way: only the last answer confirms, since nothing is heard between. */
static void only_the_last_answer_counts(void **state)
{
    hf__ears     ears;
    hf_claim     a = claim_of("s"), b = claim_of("t");
    hf__ear_wish wish = channel("ch:s", false);
    hf__ear     *ear;

    (void)state;
    init(&ears);
    hf__ears_watch(&ears, &b, 0, true, &nothing);
    confirm(&ears, OWN);
    hf__ears_watch(&ears, &a, ears.events, true, &wish);
    ear = must_take(&ears, 0, "ch:s", true);
    hf__ears_unwatch(&ears, &a.id, 0);
    must_take(&ears, LINGER_US, "ch:s", false);
    assert_false(hf__ears_watch(&ears, &a, ears.events, true, &wish));
    must_take(&ears, LINGER_US, "ch:s", true);
    assert_false(hf__ears_answered(&ears, ear));
    assert_false(hf__ears_all_heard(&ears));
    assert_false(hf__ears_answered(&ears, ear));
    assert_int_equal(ear->confirmed_at, 0);
    assert_true(hf__ears_answered(&ears, ear));
    assert_true(hf__ears_all_heard(&ears));
    hf__ears_finish(&ears);
}

static void what_was_never_asked_for_is_just_forgotten(void **state)
{
    hf__ears     ears;
    hf_claim     a = claim_of("s");
    hf__ear_wish wish = channel("ch:s", false);

    (void)state;
    init(&ears);
    hf__ears_watch(&ears, &a, 0, true, &wish);
    hf__ears_unwatch(&ears, &a.id, 5);
    assert_null(hf__ears_find(&ears, "ch:s", 4));
    assert_null(hf__ears_take(&ears, HF_NEVER_US, false));
    hf__ears_finish(&ears);
}

static void after_a_loss_everything_is_asked_again(void **state)
{
    hf__ears     ears;
    hf_claim     a = claim_of("s"), b = claim_of("t");
    hf__ear_wish s = channel("ch:s", false), t = channel("ch:t", false);
    int64_t      seen;

    (void)state;
    init(&ears);
    hf__ears_watch(&ears, &a, 0, true, &s);
    hf__ears_watch(&ears, &b, 0, true, &t);
    confirm(&ears, OWN);
    confirm(&ears, "ch:s");
    must_take(&ears, 0, "ch:t", true); /* its answer is lost with the connection */
    hf__ears_unwatch(&ears, &b.id, 0);
    seen = ears.events;
    hf__ears_lost(&ears);
    assert_null(hf__ears_find(&ears, "ch:t", 4));
    assert_false(hf__ears_all_heard(&ears));
    assert_false(hf__ears_watch(&ears, &a, seen, true, &s));
    confirm(&ears, OWN);
    confirm(&ears, "ch:s");
    assert_null(hf__ears_take(&ears, 0, false));
    assert_true(hf__ears_watch(&ears, &a, seen, true, &s)); /* that attempt was before the new subscription */
    assert_false(hf__ears_watch(&ears, &a, ears.events, true, &s));
    hf__ears_finish(&ears);
}

static void what_is_denied_is_asked_again_only_when_told(void **state)
{
    hf__ears     ears;
    hf_claim     a = claim_of("s"), b = claim_of("s");
    hf__ear_wish wish = channel("ch:s", false);
    int64_t      seen;

    (void)state;
    init(&ears);
    hf__ears_watch(&ears, &a, 0, true, &wish);
    confirm(&ears, OWN);
    seen = ears.events;
    hf__ears_denied(&ears, must_take(&ears, 0, "ch:s", true));
    hf__ears_refused(&ears);
    assert_true(hf__ears_watch(&ears, &b, seen, true, &wish)); /* it was refused without knowing that it must poll */
    assert_false(hf__ears_watch(&ears, &b, ears.events, true, &wish));
    assert_null(hf__ears_take(&ears, 0, false));
    assert_false(hf__ears_all_heard(&ears));
    hf__ears_retry(&ears);
    assert_null(hf__ears_take(&ears, 0, true)); /* not now */
    confirm(&ears, "ch:s");
    assert_true(hf__ears_all_heard(&ears));
    hf__ears_finish(&ears);
}

static void a_waiter_may_turn_to_another_channel(void **state)
{
    hf__ears     ears;
    hf_claim     a = claim_of("s");
    hf__ear_wish shared = channel("ch:s", false), fair = channel("ch:s:me", true);
    int64_t      now_us = hf__now_us();

    (void)state;
    init(&ears);
    hf__ears_watch(&ears, &a, 0, true, &shared);
    confirm(&ears, OWN);
    confirm(&ears, "ch:s");
    assert_false(hf__ears_watch(&ears, &a, ears.events, false, &fair));
    assert_int_equal(ears.undozed, 1);
    confirm(&ears, "ch:s:me");
    assert_true(hf__ears_find(&ears, fair.text, fair.len)->fair);
    must_take(&ears, now_us + 10 * LINGER_US, "ch:s", false);
    assert_false(hf__ears_watch(&ears, &a, ears.events, true, &nothing));
    assert_int_equal(ears.undozed, 0);
    must_take(&ears, now_us + 10 * LINGER_US, "ch:s:me", false);
    hf__ears_finish(&ears);
}

/* A random life, checked against what the server would believe. */
enum { NAMES = 8, CLAIMS = 40, STEPS = 200000 };

typedef struct life {
    hf__ears   ears;
    hf__asking asking;
    hf_claim   claims[CLAIMS];
    bool       subscribed[NAMES]; /* at the server */
    char       names[NAMES][16];
    int64_t    now_us;
    unsigned   dice;
} life;

static void life_lose(life *l)
{
    hf__ears_lost(&l->ears);
    hf__asking_clear(&l->asking);
    memset(l->subscribed, 0, sizeof l->subscribed);
}

static void life_send(life *l)
{
    hf__ear *ear;

    while (hf__asking_reserve(&l->asking) && (ear = hf__ears_take(&l->ears, l->now_us, false)) != NULL)
        hf__asking_add(&l->asking, &(hf__asked){.ear = ear, .subscribe = ear->wished, .sent_us = l->now_us});
}

static void life_answer(life *l)
{
    hf__asked asked;

    if (!hf__asking_take(&l->asking, &asked))
        return;
    if (asked.ear != &l->ears.own)
        l->subscribed[atoi(asked.ear->text + 3)] = asked.subscribe;
    hf__ears_answered(&l->ears, asked.ear);
}

static void life_step(life *l)
{
    int          at = rand_r(&l->dice) % CLAIMS;
    hf__ear_wish wish = channel(l->names[at % NAMES], false);

    l->now_us += rand_r(&l->dice) % 200000;
    switch (rand_r(&l->dice) % 4) {
    case 0:
        hf__ears_watch(&l->ears, &l->claims[at], l->ears.events, at % 2 == 0, &wish);
        break;
    case 1:
        hf__ears_unwatch(&l->ears, &l->claims[at].id, l->now_us);
        break;
    case 2:
        life_send(l);
        break;
    default:
        if (rand_r(&l->dice) % 500 == 0)
            life_lose(l);
        else
            life_answer(l);
    }
}

static void a_long_life(void **state)
{
    static life l;
    unsigned    confirmed = 0;

    (void)state;
    init(&l.ears);
    l.now_us = hf__now_us();
    l.dice = 12345;
    for (int i = 0; i < NAMES; i++)
        snprintf(l.names[i], sizeof l.names[i], "ch:%d", i);
    for (int i = 0; i < CLAIMS; i++)
        l.claims[i] = claim_of(l.names[i % NAMES]);
    for (int step = 0; step < STEPS; step++) {
        life_step(&l);
        for (hf__ear *e = l.ears.channels; e != NULL; e = e->hh.next) {
            confirmed += e->confirmed_at != 0;
            assert_true(e->confirmed_at == 0 || l.subscribed[atoi(e->text + 3)]);
        }
    }
    assert_true(confirmed > STEPS / 10);
    for (int i = 0; i < CLAIMS; i++)
        hf__ears_unwatch(&l.ears, &l.claims[i].id, l.now_us);
    l.now_us += 2 * LINGER_US;
    life_send(&l);
    while (l.asking.count > 0)
        life_answer(&l);
    assert_null(l.ears.channels);
    assert_null(l.ears.watchers);
    assert_int_equal(l.ears.undozed + l.ears.underway + l.ears.own.watching, 0);
    for (int i = 0; i < NAMES; i++)
        assert_false(l.subscribed[i]);
    hf__asking_finish(&l.asking);
    hf__ears_finish(&l.ears);
}

static void answers_come_in_the_order_of_questions(void **state)
{
    hf__asking asking = {0};
    hf__ear    ears[100];
    hf__asked  asked;

    (void)state;
    assert_null(hf__asking_oldest(&asking));
    for (int i = 0, taken = 0; i < 100; i++) {
        assert_true(hf__asking_reserve(&asking));
        hf__asking_add(&asking, &(hf__asked){.ear = &ears[i], .subscribe = true, .sent_us = i});
        if (i % 3 == 0) {
            assert_true(hf__asking_take(&asking, &asked));
            assert_ptr_equal(asked.ear, &ears[taken++]);
        }
    }
    for (int i = 34; i < 100; i++) {
        assert_true(hf__asking_take(&asking, &asked));
        assert_ptr_equal(asked.ear, &ears[i]);
    }
    assert_false(hf__asking_take(&asking, &asked));
    hf__asking_finish(&asking);
}

static hf__heard heard_of(const char *text)
{
    static redisReply *reply;
    redisReader       *reader = redisReaderCreate();
    void              *got = NULL;

    freeReplyObject(reply);
    redisReaderFeed(reader, text, strlen(text));
    assert_int_equal(redisReaderGetReply(reader, &got), REDIS_OK);
    redisReaderFree(reader);
    reply = got;
    assert_non_null(reply);
    return hf__heard_read(reply);
}

static void replies_are_told_apart(void **state)
{
    hf__ear   ear = {.text = (char *)"ch", .len = 2};
    hf__asked sub = {.ear = &ear, .subscribe = true}, unsub = {.ear = &ear}, ping = {0};
    hf__heard heard;

    (void)state;
    heard = heard_of("*3\r\n$7\r\nmessage\r\n$2\r\nch\r\n$1\r\n0\r\n");
    assert_int_equal(heard.what, HF__HEARD_MESSAGE);
    assert_memory_equal(heard.text, "0", 1);
    heard = heard_of("*3\r\n$9\r\nsubscribe\r\n$2\r\nch\r\n:1\r\n");
    assert_int_equal(heard.what, HF__HEARD_ANSWER);
    assert_true(hf__heard_fits(&heard, &sub));
    assert_false(hf__heard_fits(&heard, &unsub));
    assert_false(hf__heard_fits(&heard, &ping));
    heard = heard_of("*3\r\n$11\r\nunsubscribe\r\n$2\r\nch\r\n:0\r\n");
    assert_true(hf__heard_fits(&heard, &unsub));
    assert_false(hf__heard_fits(&heard, &sub));
    heard = heard_of("*2\r\n$4\r\npong\r\n$0\r\n\r\n");
    assert_true(hf__heard_fits(&heard, &ping));
    assert_false(hf__heard_fits(&heard, &sub));
    heard = heard_of("+PONG\r\n");
    assert_true(hf__heard_fits(&heard, &ping));
    assert_int_equal(heard_of("-NOPERM no\r\n").what, HF__HEARD_REFUSAL);
    assert_int_equal(heard_of("*3\r\n$7\r\nmessage\r\n$2\r\nch\r\n:0\r\n").what, HF__HEARD_NONSENSE);
    assert_int_equal(heard_of("*1\r\n$7\r\nmessage\r\n").what, HF__HEARD_NONSENSE);
    assert_int_equal(heard_of("*-1\r\n").what, HF__HEARD_NONSENSE);
    assert_int_equal(heard_of("*0\r\n").what, HF__HEARD_NONSENSE);
    assert_int_equal(heard_of(":1\r\n").what, HF__HEARD_NONSENSE);
    assert_int_equal(heard_of("$-1\r\n").what, HF__HEARD_NONSENSE);
    heard_of("+OK\r\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_asked_before_the_confirmation_looks_again),
        cmocka_unit_test(one_subscription_for_many_waiters),
        cmocka_unit_test(two_names_of_one_channel),
        cmocka_unit_test(who_waits_again_finds_the_channel),
        cmocka_unit_test(only_the_last_answer_counts),
        cmocka_unit_test(what_was_never_asked_for_is_just_forgotten),
        cmocka_unit_test(after_a_loss_everything_is_asked_again),
        cmocka_unit_test(what_is_denied_is_asked_again_only_when_told),
        cmocka_unit_test(a_waiter_may_turn_to_another_channel),
        cmocka_unit_test(a_long_life),
        cmocka_unit_test(answers_come_in_the_order_of_questions),
        cmocka_unit_test(replies_are_told_apart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
