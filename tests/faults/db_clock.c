/* SPDX-License-Identifier: MIT */
/*
 * A client whose wall clock is an hour off, in another time zone, or passes through a change of summer time while it
 * holds: none of it has an effect, since the server's clock counts. The client is a process of its own, this program
 * once more, with a library preloaded that sets its clock (lib/skew.c).
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "db_bed.h"

#define LEASE_MS 1200
#define ZONE "EST5EDT,M3.2.0,M11.1.0"

static const char *library;

static const struct wrong {
    const char *name, *zone;
    int64_t     off_s; /* from the true time */
    int64_t     at_s;  /* or: this time, since 1970 */
    bool        changes;
} wrongs[] = {
    {"ahead", "IST-5:30", 3600, 0, false},
    {"behind", ZONE, -3600, 0, false},
    {"summer ends", ZONE, 0, 1793512800 - 1, true},   /* 2026-11-01 06:00:00 UTC */
    {"summer begins", ZONE, 0, 1772953200 - 1, true}, /* 2026-03-08 07:00:00 UTC */
};
#define WRONGS (sizeof wrongs / sizeof wrongs[0])

typedef struct other {
    pid_t pid;
    FILE *to, *from;
} other;

/* ---- The other process ------------------------------------------------------------------------------------------ */

static void tell(const char *what, int64_t number)
{
    time_t    now = time(NULL);
    struct tm local;

    localtime_r(&now, &local);
    printf("%s %lld %lld %d\n", what, (long long)number, (long long)now, local.tm_isdst > 0);
    fflush(stdout);
}

/* --clock-child URL NAME hold|wait */
int db_clock_child(int argc, char **argv)
{
    hf_client *client;
    hf_lock   *lock;
    hf_grant   grant;
    hf_error   err;
    char       line[16];

    if (argc != 5 || hf_open(&client, argv[2], HF_CLIENT_OPTIONS(.watchdog_ms = LEASE_MS), &err) != HF_OK ||
        hf_mutex(&lock, client, argv[3], NULL, &err) != HF_OK)
        return 1;
    tell("ready", 0);
    if (hf_acquire(lock, 20000, &grant, &err) != HF_OK)
        return 1;
    tell("held", grant.fence);
    if (strcmp(argv[4], "hold") == 0 && fgets(line, sizeof line, stdin) == NULL)
        return 1;
    tell("left", hf_left(lock));
    tell("released", hf_release(lock, NULL));
    hf_free(lock);
    return hf_close(client, 1000) != HF_OK;
}

/* ---- Ours ------------------------------------------------------------------------------------------------------- */

static void skew_file(const struct wrong *wrong, char path[1100])
{
    char    here[1000];
    int64_t off_us = 1000000 * (wrong->at_s != 0 ? wrong->at_s - (int64_t)time(NULL) : wrong->off_s);
    int     fd;

    assert_non_null(getcwd(here, sizeof here));
    snprintf(path, 1100, "%s/skew-%s", here, wrong->name);
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && write(fd, &off_us, sizeof off_us) == (ssize_t)sizeof off_us);
    close(fd);
}

static other other_start(const struct wrong *wrong, const char *role)
{
    char        skew[1100];
    const char *url = db_url("app", server.postgres ? "postgres" : "locks", "");
    pid_t       parent = getpid();
    int         down[2], up[2];
    other       o;

    skew_file(wrong, skew);
    assert_true(pipe2(down, O_CLOEXEC) == 0 && pipe2(up, O_CLOEXEC) == 0);
    o.pid = fork();
    if (o.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setenv("LD_PRELOAD", library, 1);
        setenv("HF_SKEW", skew, 1);
        setenv("TZ", wrong->zone, 1);
        if (getppid() != parent || dup2(down[0], 0) < 0 || dup2(up[1], 1) < 0)
            _exit(126);
        execl("/proc/self/exe", "db_ways", "--clock-child", url, wrong->name, role, (char *)NULL);
        _exit(127);
    }
    close(down[0]);
    close(up[1]);
    o.to = fdopen(down[1], "w");
    o.from = fdopen(up[0], "r");
    return o;
}

typedef struct told {
    int64_t number, clock_s;
    int     summer;
} told;

static told hear(const other *o, const char *what)
{
    char      line[128] = "", word[32] = "";
    long long number = 0, clock_s = 0;
    told      t = {0};

    assert_non_null(fgets(line, sizeof line, o->from));
    assert_int_equal(sscanf(line, "%31s %lld %lld %d", word, &number, &clock_s, &t.summer), 4);
    assert_string_equal(word, what);
    t.number = number;
    t.clock_s = clock_s;
    return t;
}

static void other_end(other *o)
{
    int how = 0;

    fclose(o->to);
    fclose(o->from);
    assert_int_equal(waitpid(o->pid, &how, 0), o->pid);
    assert_int_equal(how, 0);
    o->pid = 0;
}

/* It holds for two leases by its watchdog; nobody gets in beside it, and what others see of it is in true time. */
static void f22_holders_whose_clock_is_wrong(void **state)
{
    other      others[WRONGS];
    int64_t    fences[WRONGS];
    int        summers[WRONGS];
    hf_client *client = db_open(db_url("app", server.postgres ? "postgres" : "locks", ""));

    (void)state;
    for (size_t i = 0; i < WRONGS; i++)
        others[i] = other_start(&wrongs[i], "hold");
    for (size_t i = 0; i < WRONGS; i++) {
        told t = hear(&others[i], "ready");
        summers[i] = t.summer;
        assert_true(llabs(t.clock_s - (int64_t)time(NULL)) > 3000); /* its clock is wrong indeed */
        fences[i] = hear(&others[i], "held").number;
    }
    for (int64_t until = now_ms() + 2 * LEASE_MS; now_ms() < until; sleep_ms(200))
        for (size_t i = 0; i < WRONGS; i++) {
            hf_lock *lock = must_mutex(client, wrongs[i].name, NULL);
            hf_error err;
            assert_status(HF_BUSY, hf_acquire(lock, HF_NOWAIT, NULL, &err));
            assert_in_range(err.holder.left_ms, 0, LEASE_MS);
            assert_true(llabs(err.holder.since_ms / 1000 - (int64_t)time(NULL)) < 120);
            hf_free(lock);
        }
    for (size_t i = 0; i < WRONGS; i++) {
        hf_lock *lock = must_mutex(client, wrongs[i].name, NULL);
        fputs("go\n", others[i].to);
        fflush(others[i].to);
        told t = hear(&others[i], "left");
        assert_in_range(t.number, 1, LEASE_MS);
        assert_int_equal(t.summer != summers[i], wrongs[i].changes); /* that hour came and went meanwhile */
        assert_int_equal(hear(&others[i], "released").number, HF_OK);
        assert_true(must_acquire(lock, 5000).fence > fences[i]);
        must_release(lock);
        hf_free(lock);
        other_end(&others[i]);
    }
    must_close(client);
}

/* They wait for a lease of ours: not an hour less or more. */
static void f22_waiters_whose_clock_is_wrong(void **state)
{
    other      others[WRONGS];
    hf_grant   grants[WRONGS];
    hf_lock   *locks[WRONGS];
    hf_client *client = db_open(db_url("app", server.postgres ? "postgres" : "locks", ""));

    (void)state;
    for (size_t i = 0; i < WRONGS; i++) {
        locks[i] = must_mutex(client, wrongs[i].name, HF_OPTIONS(.lease_ms = 2 * LEASE_MS));
        grants[i] = must_acquire(locks[i], 5000);
    }
    int64_t begun = now_ms();
    for (size_t i = 0; i < WRONGS; i++)
        others[i] = other_start(&wrongs[i], "wait");
    for (size_t i = 0; i < WRONGS; i++) {
        hear(&others[i], "ready");
        told t = hear(&others[i], "held");
        assert_true(hf_left(locks[i]) == 0);
        assert_true(t.number > grants[i].fence);
        assert_true(now_ms() - begun < 2 * LEASE_MS + 15000);
        hear(&others[i], "left");
        assert_int_equal(hear(&others[i], "released").number, HF_OK);
        other_end(&others[i]);
        assert_status(HF_LOST, hf_release(locks[i], NULL));
        hf_free(locks[i]);
    }
    must_close(client);
}

int db_clock_group(const char *skew)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f22_holders_whose_clock_is_wrong),
        cmocka_unit_test(f22_waiters_whose_clock_is_wrong),
    };

    library = skew;
    return cmocka_run_group_tests_name("clocks", tests, NULL, NULL);
}
