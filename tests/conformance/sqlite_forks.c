/* SPDX-License-Identifier: MIT */
/*
 * Forked children that open the embedded store. SQLite's memory of locks passes to a child, and the locks do not: a
 * child is kept apart from others all the same, also when its parent has gone.
 */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance/helper.h"
#include "conformance/sqlite_fixture.h"
#include "conformance/sqlite_roles.h"

static const suite_spec spec = {"sqlite", &hf__sqlite_ops, PROCESS_URL};

static pid_t test_pid;

/* A child in which something failed goes no further. */
static int end_helpers(void **state)
{
    (void)state;
    if (getpid() != test_pid)
        _exit(99);
    helpers_end();
    return 0;
}

/* A child, and a byte each way. */
typedef struct kid {
    pid_t pid;
    int   tell, hear;
} kid;

static void tell(int fd)
{
    assert_int_equal(write(fd, "x", 1), 1);
}

static void hear(int fd)
{
    char c;

    assert_int_equal(read(fd, &c, 1), 1);
}

static kid start_kid(void (*life)(int hear, int tell), unsigned generations)
{
    int to[2], from[2];
    kid k;

    assert_int_equal(pipe(to), 0);
    assert_int_equal(pipe(from), 0);
    k.pid = fork();
    assert_true(k.pid >= 0);
    if (k.pid == 0) {
        alarm(60);
        close(to[1]);
        close(from[0]);
        for (; generations > 1; generations--) {
            pid_t pid = fork();
            int   how;
            if (pid == 0)
                continue;
            _exit(waitpid(pid, &how, 0) == pid && WIFEXITED(how) ? WEXITSTATUS(how) : 98);
        }
        life(to[0], from[1]);
        _exit(0);
    }
    close(to[0]);
    close(from[1]);
    k.tell = to[1];
    k.hear = from[0];
    return k;
}

static void expect_end(kid *k)
{
    int how;

    assert_int_equal(waitpid(k->pid, &how, 0), k->pid);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), 0);
    close(k->tell);
    close(k->hear);
}

static void expect_line(helper *h, const char *wanted)
{
    char line[64];

    assert_true(helper_line(h, line, sizeof line));
    assert_string_equal(line, wanted);
}

/* Opens; when the parent has closed its own, takes one name; when a stranger has another, is refused that. */
static void live(int from_parent, int to_parent)
{
    party   *p = party_open(&spec, "child");
    hf_claim mine = claim_first(&kind_mutex, "forks:mine"), theirs = claim_first(&kind_mutex, "forks:theirs");

    tell(to_parent);
    hear(from_parent);
    must_grant(p, &mine);
    tell(to_parent);
    hear(from_parent);
    if (attempt(p, &theirs, false).answer != HF_REFUSED)
        _exit(1);
    if (!release(p, &mine).found)
        _exit(2);
    party_close(p);
}

static void keep_apart(unsigned generations)
{
    party      *p = party_open(&spec, "parent"), *second = party_open(&spec, "parent's second");
    hf_claim    one = claim_first(&kind_mutex, "forks:parent");
    const char *try[] = {"try", "forks:mine", NULL}, *hold[] = {"hold", "forks:theirs", NULL};
    kid         k;

    must_grant(p, &one);
    assert_true(release(p, &one).found);
    k = start_kid(live, generations);
    hear(k.hear);
    party_close(p);
    party_close(second);
    tell(k.tell);
    hear(k.hear);
    expect_line(helper_start(try), "refused");
    expect_line(helper_start(hold), "held");
    tell(k.tell);
    expect_end(&k);
}

static void child_is_kept_apart(void **state)
{
    (void)state;
    keep_apart(1);
}

/* One whose parent, itself a child, has never opened anything. */
static void grandchild_is_kept_apart(void **state)
{
    (void)state;
    keep_apart(2);
}

static void live_and_fork(int from_parent, int to_parent)
{
    party *p = party_open(&spec, "parent, a child");
    kid    k = start_kid(live, 1);

    hear(k.hear);
    tell(to_parent);
    hear(from_parent);
    party_close(p);
    tell(k.tell);
    hear(k.hear);
    tell(to_parent);
    hear(from_parent);
    tell(k.tell);
    expect_end(&k);
}

/* A child that has clients of its own, and a child of that. */
static void child_of_a_child_with_clients_is_kept_apart(void **state)
{
    party      *p = party_open(&spec, "grandparent");
    const char *try[] = {"try", "forks:mine", NULL}, *hold[] = {"hold", "forks:theirs", NULL};
    kid         k = start_kid(live_and_fork, 1);

    (void)state;
    hear(k.hear);
    party_close(p);
    tell(k.tell);
    hear(k.hear);
    expect_line(helper_start(try), "refused");
    expect_line(helper_start(hold), "held");
    tell(k.tell);
    expect_end(&k);
}

static void live_shortly(int from_parent, int to_parent)
{
    party *p = party_open(&spec, "child");

    (void)from_parent;
    (void)to_parent;
    party_close(p);
}

/* What children close is theirs: the parent goes on, and nobody takes the log from it. */
static void children_leave_the_parent_alone(void **state)
{
    party      *p = party_open(&spec, "parent");
    hf_claim    one = claim_first(&kind_mutex, "forks:parent");
    const char *try[] = {"try", "forks:parent", NULL};

    (void)state;
    must_grant(p, &one);
    for (int i = 0; i < 20; i++) {
        kid k = start_kid(live_shortly, 1 + i % 3);
        expect_end(&k);
    }
    expect_line(helper_start(try), "refused");
    assert_int_equal(renew(p, &one, LONG_MS), HF_RENEWAL_RENEWED);
    assert_true(release(p, &one).found);
    party_close(p);
}

#define TEST(function) cmocka_unit_test_teardown(function, end_helpers)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(child_is_kept_apart),
        TEST(grandchild_is_kept_apart),
        TEST(child_of_a_child_with_clients_is_kept_apart),
        TEST(children_leave_the_parent_alone),
    };

    if (argc > 1)
        return play_process(argc, argv);
    test_pid = getpid();
    remove_database(PROCESS_FILE);
    return cmocka_run_group_tests_name("sqlite in forked children", tests, NULL, NULL);
}
