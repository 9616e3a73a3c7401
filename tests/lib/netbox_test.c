/* SPDX-License-Identifier: MIT */
/* Hosts of the test's own: a server in one answers another, and a cut makes what goes one way vanish, without a word,
 * until it is mended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>

#include "lib/netbox.h"
#include "lib/redis_server.h"

static netbox       *box;
static redis_server *server;

enum { FINE = 0, REFUSED = 10, SILENT = 11 };

/* What a client in host `from` gets within 300 ms. */
static int ask_from(int from, int value)
{
    pid_t pid = fork();
    int   how = -1;

    if (pid == 0) {
        struct timeval limit = {.tv_usec = 300000};
        int            fd = open(netbox_path(box, from), O_RDONLY | O_CLOEXEC);
        if (setns(fd, CLONE_NEWNET) != 0)
            _exit(1);
        redisContext *c = redisConnectWithTimeout(netbox_address(box, 0), redis_port(server), limit);
        if (!c || c->err)
            _exit(strstr(c->errstr, "imed out") || strstr(c->errstr, "now in progress") ? SILENT : REFUSED);
        redisSetTimeout(c, limit);
        redisReply *reply = redisCommand(c, "SET x %d", value);
        _exit(reply && reply->type == REDIS_REPLY_STATUS ? FINE : SILENT);
    }
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFEXITED(how));
    return WEXITSTATUS(how);
}

static void cuts_and_mends(void **state)
{
    (void)state;
    assert_non_null(box);
    assert_int_equal(ask_from(1, 1), FINE);
    assert_int_equal(ask_from(2, 2), FINE);
    netbox_cut(box, 1, 0, true);
    netbox_apply(box);
    assert_int_equal(ask_from(1, 3), SILENT);
    assert_int_equal(ask_from(2, 4), FINE);
    assert_int_equal(redis_int(server, "GET x"), 4);
    netbox_cut(box, 1, 0, false);
    netbox_cut(box, 0, 2, true);
    netbox_apply(box);
    assert_int_equal(ask_from(1, 5), FINE);
    assert_int_equal(ask_from(2, 6), SILENT);
    netbox_cut(box, 0, 2, false);
    netbox_apply(box);
    assert_int_equal(ask_from(2, 7), FINE);
    redis_kill(server);
    assert_int_equal(ask_from(2, 8), REFUSED);
}

static int end(void **state)
{
    (void)state;
    redis_end(server);
    netbox_end(box);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(cuts_and_mends)};

    box = netbox_start(3);
    if (box)
        server = redis_start(&(redis_setup){.host = netbox_address(box, 0), .netns = netbox_fd(box, 0)});
    return cmocka_run_group_tests_name("netbox", tests, NULL, end);
}
