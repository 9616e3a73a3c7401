/* SPDX-License-Identifier: MIT */
/*
 * The ways to a Redis server, and from one to another: socket, database, prefix, names of clients, several hosts, a
 * server that was demoted, one that lost power, hosts that do not answer a SYN, signals in the middle of a connect; and
 * where the keys of a lock lie in a cluster.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "redis_bed.h"

static hf_client *open_url(const char *url)
{
    hf_client *client;
    hf_error   err;
    int        status = hf_open(&client, url, HF_CLIENT_OPTIONS(.server_timeout_ms = 1000), &err);

    if (status != HF_OK)
        print_error("%s\n", url);
    assert_status_err(HF_OK, status, &err);
    return client;
}

/* Taken through one way, the name is busy through the plain one exactly where both mean the same keys. */
static void must_exclude(const char *url, bool same)
{
    hf_client *a = open_url(url), *b = must_open();

    for (int kind = 0; kind < BED_KINDS; kind++) {
        hf_lock *lock = bed_lock(a, kind, "ways", 0),
                *other = bed_lock(b, kind == BED_READER ? BED_WRITER : kind, "ways", 0);
        must_acquire(lock, 1000);
        int status = hf_acquire(other, HF_NOWAIT, NULL, NULL);
        assert_status(same ? HF_BUSY : HF_OK, status);
        if (!same)
            must_release(other);
        assert_int_equal(must_list(a, NULL)->held, 1);
        must_release(lock);
        assert_int_equal(must_list(a, NULL)->total, 0);
        hf_free(lock);
        hf_free(other);
    }
    must_close(a);
    must_close(b);
}

static void a_unix_socket(void **state)
{
    char url[5000];

    (void)state;
    snprintf(url, sizeof(url), "redis+unix://%s", redis_socket(server));
    must_exclude(url, true);
    snprintf(url, sizeof(url), "redis+unix://%s?db=2", redis_socket(server));
    must_exclude(url, false);
}

static void a_database_and_a_prefix(void **state)
{
    char url[200];

    (void)state;
    snprintf(url, sizeof(url), "%s/3", redis_url(server));
    must_exclude(url, false);
    hf_client *client = open_url(url);
    hf_lock   *lock = must_mutex(client, "in-three", NULL);
    must_acquire(lock, 1000);
    assert_int_equal(redis_int(server, "EXISTS in-three"), 0);
    redis_do(server, "CLIENT KILL TYPE normal SKIPME yes"); /* the next connection goes there, too */
    int status = HF_EUNREACHABLE;
    for (int i = 0; i < 50 && status == HF_EUNREACHABLE; i++)
        status = hf_renew(lock, 60000, NULL);
    assert_status(HF_OK, status);
    redis_do(server, "SELECT 3");
    assert_int_equal(redis_int(server, "EXISTS in-three"), 1);
    redis_do(server, "SELECT 0");
    must_release(lock);
    hf_free(lock);
    must_close(client);

    snprintf(url, sizeof(url), "%s?prefix=app:", redis_url(server));
    must_exclude(url, false);
    client = open_url(url);
    lock = must_mutex(client, "prefixed", NULL);
    must_acquire(lock, 1000);
    assert_int_equal(redis_int(server, "EXISTS app:prefixed"), 1);
    assert_string_equal(must_list(client, NULL)->of[0].name, "prefixed");
    must_release(lock);
    hf_free(lock);
    must_close(client);
}

static void a_name_for_the_client(void **state)
{
    char url[200];

    (void)state;
    snprintf(url, sizeof(url), "%s?client-name=settler-7", redis_url(server));
    hf_client *client = open_url(url);
    assert_non_null(strstr(redis_text(server, "CLIENT LIST"), "name=settler-7"));
    must_close(client);
}

/* F14, B56: demoted under us: the connection is given up and the other host is taken, without a loop on the old one. */
static void f14_b56_a_demoted_server(void **state)
{
    redis_server *other = redis_start(NULL);
    char          url[200];

    (void)state;
    snprintf(url, sizeof(url), "redis://%s,%s", redis_upstream(server), redis_upstream(other));
    hf_client *client = open_url(url);
    hf_lock   *lock = must_mutex(client, "failover", NULL);
    must_acquire(lock, 1000);
    must_release(lock);
    assert_int_equal(redis_calls(other, "evalsha") + redis_calls(other, "eval"), 0);
    redis_do(server, "REPLICAOF 127.0.0.1 %d", redis_port(other));
    int64_t from = now_ms();
    must_acquire(lock, 5000);
    assert_true(now_ms() - from < 4000);
    assert_int_equal(redis_int(other, "EXISTS failover"), 1);
    must_release(lock);
    for (int i = 0; i < 20; i++) {
        must_acquire(lock, 1000);
        must_release(lock);
    }
    hf_free(lock);
    must_close(client);
    redis_do(server, "REPLICAOF NO ONE");
    redis_end(other);
}

/* Several hosts, the first ones dead in each way; all inside one budget. */
static void the_first_hosts_are_dead(void **state)
{
    redis_server *dead = redis_start(NULL);
    char          url[200];

    (void)state;
    snprintf(url, sizeof(url), "redis://127.0.0.1:1,%s", redis_upstream(server));
    must_exclude(url, true);
    redis_stop(dead);
    snprintf(url, sizeof(url), "redis://%s,%s", redis_upstream(dead), redis_upstream(server));
    int64_t    from = now_ms();
    hf_client *client = open_url(url);
    assert_true(now_ms() - from < 5000);
    must_close(client);
    redis_cont(dead);
    redis_end(dead);
}

/* F04: power is lost, and with it what was written last: told as lost, and another may have it. */
static void f04_power_is_lost(void **state)
{
    static const char *const args[] = {"--appendonly", "yes", "--appendfsync", "no", NULL};
    redis_server            *s = redis_start(&(redis_setup){.args = args});
    char                     path[5000];
    struct stat              st;
    hf_client               *client;

    (void)state;
    redis_do(s, "SET older 1");
    snprintf(path, sizeof(path), "%s/appendonlydir/appendonly.aof.1.incr.aof", redis_folder(s));
    assert_int_equal(stat(path, &st), 0);
    assert_status(HF_OK, hf_open(&client, redis_url(s), HF_CLIENT_OPTIONS(.watchdog_ms = 1500), NULL));
    hf_lock *lock = must_mutex(client, "power", NULL);
    must_acquire(lock, 1000);
    redis_kill(s);
    assert_int_equal(truncate(path, st.st_size), 0);
    redis_again(s);
    assert_int_equal(redis_int(s, "EXISTS older"), 1);
    assert_int_equal(redis_int(s, "EXISTS power"), 0);
    for (int i = 0; i < 600 && hf_left(lock) > 0; i++)
        sleep_ms(5);
    assert_int_equal(hf_left(lock), 0);
    sleep_ms(5); /* the last millisecond counts as none */
    assert_status(HF_LOST, hf_release(lock, NULL));
    must_acquire(lock, 2000);
    must_release(lock);
    hf_free(lock);
    must_close(client);
    redis_end(s);
}

/* ------------------------------------------------------------------ connecting -------------------------------- */

/* A port whose queue of connections is full: a SYN to it has no answer. */
static int deaf_port(int fds[16])
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t          len = sizeof(a);

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fds[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fds[0], (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(fds[0], 0), 0);
    getsockname(fds[0], (struct sockaddr *)&a, &len);
    for (int i = 1; i < 16; i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (connect(fds[i], (struct sockaddr *)&a, sizeof(a)) != 0)
            assert_int_equal(errno, EINPROGRESS);
    }
    sleep_ms(20);
    return ntohs(a.sin_port);
}

static void on_alarm(int sig)
{
    (void)sig;
}

/* N02, B60: connects under a storm of signals: a good host is always had, a deaf one takes its time and no more. */
static void b60_n02_signals_while_connecting(void **state)
{
    struct sigaction storm = {.sa_handler = on_alarm}, before;
    struct itimerval each = {{0, 10000}, {0, 10000}}, none = {{0, 0}, {0, 0}};
    int              fds[16], port = deaf_port(fds);
    hf_client       *client;
    hf_error         err;
    char             url[64];

    (void)state;
    snprintf(url, sizeof(url), "redis://127.0.0.1:%d", port);
    sigaction(SIGALRM, &storm, &before);
    setitimer(ITIMER_REAL, &each, NULL);
    for (int i = 0; i < 20; i++) {
        int status = hf_open(&client, redis_url(server), NULL, &err);
        assert_status_err(HF_OK, status, &err);
        hf_lock *lock = must_mutex(client, "b60", NULL);
        must_acquire(lock, 1000);
        must_release(lock);
        hf_free(lock);
        must_close(client);
    }
    int64_t from = now_ms();
    int     status = hf_open(&client, url, HF_CLIENT_OPTIONS(.server_timeout_ms = 500), &err);
    int64_t took = now_ms() - from;
    setitimer(ITIMER_REAL, &none, NULL);
    sigaction(SIGALRM, &before, NULL);
    for (int i = 0; i < 16; i++)
        close(fds[i]);
    assert_status_err(HF_EUNREACHABLE, status, &err);
    assert_in_range(took, 400, 4000);
}

/* N14, B20: no descriptor left: a clear error, no spin, and it works when there is one again. */
static void n14_no_descriptor_left(void **state)
{
    hf_client *client;
    hf_error   err;
    int        taken[2000], n = 0;

    (void)state;
    while (n < 2000 && (taken[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        n++;
    int status = hf_open(&client, redis_url(server), HF_CLIENT_OPTIONS(.server_timeout_ms = 300), &err);
    while (n > 0)
        close(taken[--n]);
    if (status == HF_OK) { /* more descriptors than we could take */
        must_close(client);
        return;
    }
    assert_true(status == HF_EEXHAUSTED || status == HF_EUNREACHABLE);
    client = open_url(redis_url(server));
    must_close(client);
}

/* ------------------------------------------------------------------ a cluster's slots ------------------------- */

/* B15: one server that has all slots of a cluster refuses a script whose keys lie in two of them. */
static void b15_all_keys_of_a_lock_lie_in_one_slot(void **state)
{
    static const char *const args[] = {"--cluster-enabled", "yes", NULL};
    static const char *const odd[] = {"a",   "a{b}c", "{a}{b}", "a b", "}{",     "{}x",
                                      "a{b", "{",     "}",      "{}",  "x{}{y}", "{{a}}"};
    redis_server            *s = redis_start(&(redis_setup){.args = args});
    int                      unsupported = 0;

    (void)state;
    redis_do(s, "CLUSTER ADDSLOTSRANGE 0 16383");
    for (int i = 0; i < 1000 && strstr(redis_text(s, "CLUSTER INFO"), "cluster_state:ok") == NULL; i++)
        sleep_ms(5);
    hf_client *client = open_url(redis_url(s)), *other = open_url(redis_url(s));
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        for (int kind = 0; kind < BED_KINDS; kind++) {
            hf_lock *lock = bed_lock(client, kind, odd[i], 0);
            hf_lock *also = bed_lock(other, kind == BED_READER ? BED_WRITER : kind, odd[i], 0);
            hf_error err = {0};
            int      status = hf_acquire(lock, 1000, NULL, &err);
            if (i < 4 || status == HF_OK) {
                assert_status_err(HF_OK, status, &err);
                assert_status(HF_BUSY, hf_acquire(also, 30, NULL, NULL));
                assert_status(HF_OK, hf_renew(lock, 60000, NULL));
                must_release(lock);
                must_acquire(also, 1000);
                must_release(also);
            } else { /* a name whose keys cannot lie together is refused, and said to be */
                if (status != HF_EINVALID && status != HF_EUNSUPPORTED && status != HF_EREFUSED)
                    fail_msg("%s, %s: %s: %s", odd[i], bed_kind_names[kind], hf_status_name(status), err.text);
                unsupported++;
            }
            hf_free(lock);
            hf_free(also);
        }
    }
    print_message("%d names and kinds refused in a cluster\n", unsupported);
    hf_close(client, 100); /* what was refused is owed, since an attempt's failure leaves its outcome open */
    hf_close(other, 100);
    redis_end(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        bed_test(a_unix_socket),
        bed_test(a_database_and_a_prefix),
        bed_test(a_name_for_the_client),
        bed_test(f14_b56_a_demoted_server),
        bed_test(the_first_hosts_are_dead),
        bed_test(f04_power_is_lost),
        bed_test(b60_n02_signals_while_connecting),
        bed_test(n14_no_descriptor_left),
        bed_test(b15_all_keys_of_a_lock_lie_in_one_slot),
    };
    return cmocka_run_group_tests_name("redis, ways", tests, bed_begin, bed_end);
}
