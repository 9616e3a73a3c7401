/* SPDX-License-Identifier: MIT */
/*
 * Rights on a Redis server: passwords, users, and the least rights of docs/stores/redis.md, which are read from there:
 * with exactly these everything works, and each of them is needed. What is denied in the middle of a script leaves
 * nothing behind that has no end.
 *
 *   redis_rights PAGE        the page of the store
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "redis_bed.h"

static const char *page;
static char        least[2048]; /* the rules of the page's ACL line, without user and password */

/* The first line of the page that begins with "ACL SETUSER", less its user and its password. */
static void least_read(void)
{
    char  line[2048];
    FILE *f = fopen(page, "r");

    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        char *at = strstr(line, "ACL SETUSER ");
        if (!at)
            continue;
        at += strlen("ACL SETUSER ");
        strtok(at, " \n"); /* the user */
        for (char *word; (word = strtok(NULL, " \n`")) != NULL;) {
            if (word[0] == '>' || word[0] == '<' || strcmp(word, "on") == 0)
                continue;
            strcat(least, least[0] ? " " : "");
            strcat(least, word);
        }
        break;
    }
    fclose(f);
    if (least[0] == '\0')
        fail_msg("%s has no line with ACL SETUSER", page);
}

static void user_set(const char *rules, const char *more)
{
    const char *words[128] = {"ACL", "SETUSER", "locker", "reset", "on", ">pw"};
    char        all[4096];
    int         n = 6;
    char       *save = NULL;

    snprintf(all, sizeof(all), "%s %s", rules, more);
    for (char *w = strtok_r(all, " ", &save); w && n < 128; w = strtok_r(NULL, " ", &save))
        words[n++] = w;
    redisContext *c = redisConnect("127.0.0.1", redis_port(server));
    redisReply   *reply = redisCommandArgv(c, n, words, NULL);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR)
        fail_msg("ACL SETUSER: %s", reply->str);
    freeReplyObject(reply);
    redisFree(c);
}

static const char *user_url(const char *options)
{
    static char url[256];

    snprintf(url, sizeof(url), "redis://locker:pw@127.0.0.1:%d%s", redis_port(server), options);
    return url;
}

static int open_user(hf_client **client, const char *options, hf_error *err)
{
    memset(err, 0, sizeof(*err));
    return hf_open(client, user_url(options), HF_CLIENT_OPTIONS(.watchdog_ms = 600, .server_timeout_ms = 1000), err);
}

/* ------------------------------------------------------------------ everything that a client does ------------- */

static bool take_entry(const hf_entry *entry, void *arg)
{
    (void)entry;
    ++*(int *)arg;
    return true;
}

static bool take_finding(const hf_finding *finding, void *arg)
{
    char *worst = arg;

    if (strcasestr(finding->topic, "right") != NULL && finding->severity > 0)
        snprintf(worst, 400, "check: %s: %s", finding->topic, finding->text);
    return true;
}

#define DO(call)                                                                                                       \
    do {                                                                                                               \
        memset(&err, 0, sizeof(err));                                                                                  \
        status = (call);                                                                                               \
        if (status != HF_OK) {                                                                                         \
            snprintf(said, size, "%s: %s: %s", #call, hf_status_name(status), err.text);                               \
            goto out;                                                                                                  \
        }                                                                                                              \
    } while (0)

/* One kind: taken, waited for by another client, renewed, listed, released, broken. True where all of it works. */
static bool kind_works(hf_client *a, hf_client *b, int kind, char *said, size_t size)
{
    hf_lock *holder = bed_lock(a, kind, "rights", 0);
    hf_lock *waiter = bed_lock(b, kind == BED_READER ? BED_WRITER : kind, "rights", 0);
    hf_error err;
    int      status, seen = 0;
    acquirer w = {.status = HF_OK};
    int64_t  removed = 0;

    DO(hf_acquire(holder, 0, NULL, &err));
    acquirer_start(&w, waiter, 8000, 0);
    sleep_ms(60);
    DO(hf_renew(holder, 2000, &err));
    DO(hf_list(a, "rights", take_entry, &seen, &err));
    int64_t from = now_ms();
    DO(hf_release(holder, &err));
    acquirer_join(&w);
    err = w.err;
    if (w.status != HF_OK || now_ms() - from > 1500) {
        snprintf(said, size, "the waiter: %s after %lld ms: %s", hf_status_name(w.status), (long long)(now_ms() - from),
                 err.text);
        status = 1;
        w.lock = NULL;
        goto out;
    }
    w.lock = NULL;
    DO(hf_acquire(holder, 1000, NULL, &err));
    DO(hf_break(b, "rights", NULL, &removed, &err));
    hf_release(holder, NULL);
    DO(hf_list(a, NULL, take_entry, &seen, &err));
out:
    if (w.lock) {
        hf_cancel(waiter);
        acquirer_join(&w);
    }
    hf_release(holder, NULL);
    hf_free(holder);
    hf_free(waiter);
    return status == HF_OK;
}

static bool all_works(const char *options, int kinds, char *said, size_t size)
{
    hf_client *a = NULL, *b = NULL;
    hf_error   err;
    int        status;
    bool       fine = true;

    said[0] = '\0';
    DO(open_user(&a, options, &err));
    DO(open_user(&b, options, &err));
    for (int kind = 0; kind < kinds && fine; kind++)
        fine = kind_works(a, b, kind, said, size);
    if (fine)
        DO(hf_check(a, take_finding, said, &err));
    fine = fine && said[0] == '\0';
out:
    hf_close(a, 1000);
    hf_close(b, 1000);
    return fine && status == HF_OK;
}

static void the_documented_rights_are_enough(void **state)
{
    char said[800];

    (void)state;
    user_set(least, "");
    if (!all_works("", BED_KINDS, said, sizeof(said)))
        fail_msg("%s", said);
    if (!all_works("?layout=plain", 1, said, sizeof(said)))
        fail_msg("plain: %s", said);
    assert_int_equal(redis_int(server, "EXISTS rights"), 0);
}

/* Without these everything works, but waiters poll, the dead in a fair queue are known later, and less is shown. */
static bool is_a_nicety(const char *command)
{
    static const char *const niceties[] = {"subscribe",     "unsubscribe",    "publish",
                                           "pubsub|numsub", "client|setname", "hstrlen"};

    for (size_t i = 0; i < sizeof(niceties) / sizeof(niceties[0]); i++)
        if (strcmp(niceties[i], command) == 0)
            return true;
    return false;
}

static void each_documented_right_is_needed(void **state)
{
    char  all[2048], said[800], less[64];
    char *save = NULL;
    int   needless = 0;

    (void)state;
    snprintf(all, sizeof(all), "%s", least);
    for (char *word = strtok_r(all, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        if (word[0] != '+' || word[1] == '@')
            continue;
        snprintf(less, sizeof(less), "-%s", word + 1);
        user_set(least, less);
        redis_do(server, "FLUSHALL");
        bool fine = all_works("", BED_KINDS, said, sizeof(said)) && all_works("?layout=plain", 1, said, sizeof(said));
        if (fine && !is_a_nicety(word + 1)) {
            print_error("everything works without %s\n", word);
            needless++;
        } else if (!fine && is_a_nicety(word + 1)) {
            print_error("without %s: %s\n", word, said);
            needless++;
        }
    }
    assert_int_equal(needless, 0);
}

/* F18: whatever is denied in the middle of a script: the answer names it, no key is left without an end, the name comes
 * free within a lease, and the server is not stormed. */
static void f18_a_right_denied_in_the_middle_of_a_script(void **state)
{
    static const char *const denied[] = {"hset",   "hincrby", "pexpire", "del",    "publish", "zadd", "zrem",
                                         "rpush",  "lpop",    "lrem",    "set",    "get",     "hdel", "hget",
                                         "zscore", "zincrby", "decrby",  "incrby", "time",    "pttl", "exists"};
    char                     less[64], first[256];

    (void)state;
    for (size_t i = 0; i < sizeof(denied) / sizeof(denied[0]); i++) {
        snprintf(less, sizeof(less), "-%s", denied[i]);
        user_set("~* &* +@all", less);
        for (int kind = 0; kind < BED_KINDS; kind++) {
            hf_client *client;
            hf_error   err;
            if (open_user(&client, "", &err) != HF_OK)
                continue; /* told at once */
            hf_lock *lock = bed_lock(client, kind, "denied", 400);
            redis_do(server, "FLUSHALL");
            redis_forget(server);
            int status = hf_acquire(lock, 200, NULL, &err);
            if (status < 0 && strcasestr(err.text, denied[i]) == NULL && strcasestr(err.text, "right") == NULL &&
                strcasestr(err.text, "ACL") == NULL)
                fail_msg("-%s, %s: '%s' does not name what is missing", denied[i], bed_kind_names[kind], err.text);
            if (status < 0)
                assert_status_err(HF_EREFUSED, status, &err);
            ttl_watch *w = ttl_watch_begin(server);
            sleep_ms(15);
            if (status == HF_OK)
                hf_release(lock, NULL);
            sleep_ms(15);
            if (ttl_watch_end(w, NULL, first, sizeof(first)) != 0)
                fail_msg("-%s, %s: %s has no end", denied[i], bed_kind_names[kind], first);
            assert_true(redis_calls(server, "evalsha") < 60);
            hf_free(lock);
            hf_close(client, 100);
        }
    }
    user_set("~* &* +@all", "");
    redis_text(server, "ACL DELUSER locker");
    must_be_had_within(BED_MUTEX, "denied", 3000);
}

/* ------------------------------------------------------------------ who are you ------------------------------- */

static void must_be_refused(const char *url, const char *word, const char *secret)
{
    hf_client *client;
    hf_error   err = {0};
    int64_t    from = now_ms();
    int        status = hf_open(&client, url, HF_CLIENT_OPTIONS(.server_timeout_ms = 1000), &err);

    if (status == HF_OK)
        hf_close(client, 0);
    assert_status_err(HF_EREFUSED, status, &err);
    assert_true(now_ms() - from < 3000);
    if (strcasestr(err.text, word) == NULL)
        fail_msg("'%s' does not say '%s'", err.text, word);
    assert_null(strstr(err.text, secret));
}

static void f18_noauth_and_wrongpass(void **state)
{
    char url[128];

    (void)state;
    redis_do(server, "CONFIG SET requirepass sesame");
    snprintf(url, sizeof(url), "redis://127.0.0.1:%d", redis_port(server));
    must_be_refused(url, "wants a password", "sesame");
    snprintf(url, sizeof(url), "redis://:se-same@127.0.0.1:%d", redis_port(server));
    must_be_refused(url, "password", "se-same");
    snprintf(url, sizeof(url), "redis://nobody:se-same@127.0.0.1:%d", redis_port(server));
    must_be_refused(url, "password", "se-same");

    hf_client *client;
    hf_error   err = {0};
    snprintf(url, sizeof(url), "redis://:sesame@127.0.0.1:%d", redis_port(server));
    assert_status_err(HF_OK, hf_open(&client, url, NULL, &err), &err);
    assert_null(strstr(hf_client_url(client), "sesame"));
    hf_lock *lock = must_mutex(client, "auth", NULL);
    must_acquire(lock, 1000);
    must_release(lock);

    /* A password that is changed meanwhile: the link that stands goes on, the next one is told why it may not. */
    redis_text(server, "AUTH sesame");
    redis_do(server, "CONFIG SET requirepass changed");
    redis_text(server, "AUTH changed");
    redis_do(server, "CLIENT KILL TYPE normal SKIPME yes");
    int status = hf_acquire(lock, 300, NULL, &err);
    assert_true(status == HF_EREFUSED || status == HF_EUNREACHABLE);
    if (strcasestr(err.text, "password") == NULL)
        fail_msg("'%s' does not speak of the password", err.text);
    assert_null(strstr(err.text, "sesame"));
    redis_do(server, "CONFIG SET requirepass %s", "");
    hf_free(lock);
    hf_close(client, 500);
}

/* NOPERM for a whole key: the name is outside of what the user may touch. */
static void f18_noperm_for_a_key(void **state)
{
    hf_client *client;
    hf_error   err;

    (void)state;
    user_set("~lock:* ~*{lock:* &* +@all", "");
    assert_status_err(HF_OK, open_user(&client, "", &err), &err);
    hf_lock *lock = must_mutex(client, "outside", NULL);
    int      status = hf_acquire(lock, 500, NULL, &err);
    assert_status_err(HF_EREFUSED, status, &err);
    assert_int_equal(redis_int(server, "EXISTS outside"), 0);
    hf_free(lock);
    hf_close(client, 500);
    redis_text(server, "ACL DELUSER locker");
}

static int begin(void **state)
{
    int status = bed_begin(state);

    least_read();
    return status;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        bed_test(the_documented_rights_are_enough),
        bed_test(each_documented_right_is_needed),
        bed_test(f18_a_right_denied_in_the_middle_of_a_script),
        bed_test(f18_noauth_and_wrongpass),
        bed_test(f18_noperm_for_a_key),
    };
    if (argc != 2) {
        fprintf(stderr, "usage: redis_rights PAGE\n");
        return 2;
    }
    page = argv[1];
    return cmocka_run_group_tests_name("redis, rights", tests, begin, bed_end);
}
