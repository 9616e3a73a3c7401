/* SPDX-License-Identifier: MIT */
/* First opens of the embedded store, by many at the same moment: all get in, and none of them harms another's locks. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conformance/helper.h"
#include "conformance/sqlite_fixture.h"
#include "conformance/sqlite_roles.h"

#define CROWD 30
#define ROUNDS 20
#define THREADS 2

static const suite_spec spec = {"sqlite", &hf__sqlite_ops, PROCESS_URL};

/* Opens when the pipe ends. */
_Noreturn static void open_at_the_end_of(int ends[2], const char *url)
{
    hf_error err;
    char     c;
    int      status;

    alarm(60);
    close(ends[1]);
    status = read(ends[0], &c, 1) == 0 ? party_refused(&hf__sqlite_ops, url, &err) : -1;
    if (status != HF_OK)
        fprintf(stderr, "%s\n", err.text);
    _exit(status == HF_OK ? 0 : 1);
}

static void a_crowd_of_processes_opens_first(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const char *url = url_in(fresh_folder(), "l.db");
        pid_t       pids[CROWD];
        int         ends[2], how, failed = 0;

        assert_int_equal(pipe(ends), 0);
        for (int i = 0; i < CROWD; i++) {
            pids[i] = fork();
            assert_true(pids[i] >= 0);
            if (pids[i] == 0)
                open_at_the_end_of(ends, url);
        }
        close(ends[0]);
        close(ends[1]);
        for (int i = 0; i < CROWD; i++) {
            assert_int_equal(waitpid(pids[i], &how, 0), pids[i]);
            failed += !WIFEXITED(how) || WEXITSTATUS(how) != 0;
        }
        assert_int_equal(failed, 0);
    }
}

static pthread_barrier_t barrier;

static void *open_together(void *arg)
{
    party **p = arg;

    pthread_barrier_wait(&barrier);
    *p = party_open(&spec, "thread");
    return NULL;
}

/* Somebody else comes and goes: where the threads had lost their locks on the file, it would take the log with it. */
static void come_and_go(void)
{
    const char *args[] = {"try", "threads", NULL};
    helper     *h = helper_start(args);

    assert_int_equal(helper_wait(h), 0);
    helpers_end();
}

static void two_threads_open_first(void **state)
{
    (void)state;
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[THREADS];
        party    *p[THREADS];

        remove_database(PROCESS_FILE);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, open_together, &p[i]), 0);
        for (int i = 0; i < THREADS; i++)
            pthread_join(threads[i], NULL);
        come_and_go();
        for (int i = 0; i < THREADS; i++) {
            hf_claim one = claim_first(&kind_mutex, "threads");
            must_grant(p[i], &one);
            assert_true(release(p[i], &one).found);
        }
        for (int i = 0; i < THREADS; i++)
            party_close(p[i]);
    }
    pthread_barrier_destroy(&barrier);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_crowd_of_processes_opens_first),
        cmocka_unit_test(two_threads_open_first),
    };

    if (argc > 1)
        return play_process(argc, argv);
    remove_database(PROCESS_FILE);
    return cmocka_run_group_tests_name("sqlite opened for the first time", tests, NULL, NULL);
}
