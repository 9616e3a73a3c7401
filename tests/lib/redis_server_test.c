/* SPDX-License-Identifier: MIT */
/* Servers of the test's own: they start beside each other, come back with or without their data, and are gone at the
 * end, also when the test is killed. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/redis_server.h"

static void starts_beside_each_other(void **state)
{
    redis_server *a = redis_start(NULL), *b = redis_start(NULL);

    (void)state;
    redis_do(a, "SET x 1");
    assert_int_equal(redis_int(a, "GET x"), 1);
    assert_int_equal(redis_keys(b), 0);
    assert_int_equal(redis_pttl(a, "x"), -1);
    assert_int_equal(redis_pttl(b, "x"), -2);
    assert_true(redis_pid(a) != redis_pid(b));
    redis_end(a);
    redis_end(b);
}

static void comes_back_with_its_data(void **state)
{
    static const char *const args[] = {"--appendonly", "yes", NULL};
    redis_server            *s = redis_start(&(redis_setup){.args = args});
    int                      port = redis_port(s);

    (void)state;
    redis_do(s, "SET x 1 PX 60000");
    redis_again(s);
    assert_int_equal(redis_port(s), port);
    assert_int_equal(redis_int(s, "GET x"), 1);
    assert_in_range(redis_pttl(s, "x"), 1, 60000);
    redis_end(s);
}

static void comes_back_without(void **state)
{
    redis_server *s = redis_start(NULL);

    (void)state;
    redis_do(s, "SET x 1");
    redis_again(s);
    assert_int_equal(redis_keys(s), 0);
    redis_end(s);
}

static void counts_commands(void **state)
{
    redis_server *s = redis_start(NULL);

    (void)state;
    redis_forget(s);
    for (int i = 0; i < 3; i++)
        redis_do(s, "EVAL %s 0", "return redis.call('get', 'x')");
    assert_int_equal(redis_calls(s, "eval"), 3);
    assert_int_equal(redis_calls(s, "get"), 3);
    assert_string_equal(redis_text(s, "EVALSHA %s 0", "0123456789012345678901234567890123456789"),
                        "NOSCRIPT No matching script. Please use EVAL.");
    assert_int_equal(redis_errors(s, "NOSCRIPT"), 1);
    assert_int_equal(redis_clients(s), 0);
    assert_int_equal(redis_channels(s), 0);
    redis_end(s);
}

static void stops_and_continues(void **state)
{
    redis_server *s = redis_start(NULL);
    char          line[64], text[64] = "";

    (void)state;
    redis_stop(s);
    snprintf(line, sizeof(line), "/proc/%d/stat", (int)redis_pid(s));
    FILE *f = fopen(line, "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*d %*s %60s", text), 1);
    fclose(f);
    assert_string_equal(text, "T");
    redis_cont(s);
    assert_int_equal(redis_keys(s), 0);
    assert_false(redis_gone(s));
    redis_do(s, "CONFIG SET maxmemory 0");
    redis_ask(s, "SHUTDOWN NOSAVE");
    struct timespec t = {.tv_nsec = 5000000};
    for (int i = 0; i < 1000 && !redis_gone(s); i++)
        nanosleep(&t, NULL);
    assert_true(redis_gone(s));
    redis_end(s);
}

/* The server's pid comes from a child that is then killed. */
static void ends_with_its_test(void **state)
{
    int   ends[2];
    pid_t server = 0;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    pid_t pid = fork();
    if (pid == 0) {
        server = redis_pid(redis_start(NULL));
        if (write(ends[1], &server, sizeof(server)) != sizeof(server))
            _exit(1);
        pause();
    }
    assert_int_equal(read(ends[0], &server, sizeof(server)), sizeof(server));
    assert_int_equal(kill(server, 0), 0);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    struct timespec t = {.tv_nsec = 5000000};
    for (int i = 0; i < 1000 && kill(server, 0) == 0; i++) {
        char  path[64], how[8] = "";
        FILE *f;
        snprintf(path, sizeof(path), "/proc/%d/stat", (int)server);
        if ((f = fopen(path, "r")) != NULL) {
            int got = fscanf(f, "%*d %*s %7s", how);
            fclose(f);
            if (got == 1 && how[0] == 'Z') /* nobody here takes note of its end */
                break;
        }
        nanosleep(&t, NULL);
        assert_true(i < 999);
    }
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_beside_each_other), cmocka_unit_test(comes_back_with_its_data),
        cmocka_unit_test(comes_back_without),       cmocka_unit_test(counts_commands),
        cmocka_unit_test(stops_and_continues),      cmocka_unit_test(ends_with_its_test),
    };
    return cmocka_run_group_tests_name("redis-server", tests, NULL, NULL);
}
