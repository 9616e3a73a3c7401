/* SPDX-License-Identifier: MIT */
/*
 * The torture (torture.c) over a database server, with a nemesis of its own beside that of the processes: connections
 * are ended by KILL, one or all, and the server is killed and started again on its files. Before each death its own
 * count of deadlocks is read, since it begins anew. Afterwards everything that was left behind must go with the sweep.
 *
 *   torture_db mysql|postgresql [--crowd SECONDS] [TORTURE SECONDS [ARGUMENT OF TORTURE...]]
 *
 * --crowd: before that, 16 threads on 4 names, which must make no deadlock.
 *
 * Exit: as the torture; 1 when rows stayed, or when the server counted a deadlock.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/apitest.h"
#include "lib/dbserver.h"

static dbserver server;

typedef struct nemesis {
    uint64_t rng;
    int64_t  deadlocks; /* of the servers that died */
    int64_t  kills, cuts, ones;
} nemesis;

/* ---- What the server says --------------------------------------------------------------------------------------- */

static int64_t ask(const char *text)
{
    char answer[64] = "";

    return dbserver_sql(&server, text, answer, sizeof answer) ? atoll(answer) : -1;
}

static int64_t deadlocks_counted(void)
{
    return ask(server.postgres ? "SELECT sum(deadlocks) FROM pg_stat_database"
                               : "SELECT variable_value FROM information_schema.global_status"
                                 " WHERE variable_name='INNODB_DEADLOCKS'");
}

/* One of our connections, whichever the server names first in a random order. */
static void kill_one(void)
{
    if (server.postgres) {
        ask("SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity WHERE"
            " application_name='holdfast' ORDER BY random() LIMIT 1) one");
        return;
    }
    int64_t id = ask("SELECT id FROM information_schema.processlist WHERE db='locks' AND id<>CONNECTION_ID()"
                     " ORDER BY RAND() LIMIT 1");
    char    sql[64];
    snprintf(sql, sizeof sql, "KILL %lld", (long long)id);
    if (id > 0)
        ask(sql);
}

/* ---- The nemesis ------------------------------------------------------------------------------------------------ */

static bool server_die(nemesis *n)
{
    int64_t counted = deadlocks_counted();

    n->deadlocks += counted > 0 ? counted : 0;
    n->kills++;
    dbserver_kill(&server);
    sleep_ms(rng_below(&n->rng, 300));
    return dbserver_again(&server);
}

/* The first blow is the server's death, so that a short run has one. */
static bool rage(nemesis *n, int64_t seconds)
{
    int64_t until = now_ms() + seconds * 1000 - 1500, die_at = now_ms() + 1500;

    while (now_ms() < until) {
        sleep_ms(100 + rng_below(&n->rng, 500));
        if (now_ms() >= die_at) {
            if (!server_die(n))
                return false;
            die_at = now_ms() + 3000 + rng_below(&n->rng, 6000);
        } else if (rng_below(&n->rng, 4) == 0) {
            dbserver_cut(&server);
            n->cuts++;
        } else {
            kill_one();
            n->ones++;
        }
    }
    return true;
}

static pid_t torture_start(char **argv)
{
    pid_t parent = getpid(), pid = fork();

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(3);
    execv(argv[0], argv);
    perror(argv[0]);
    _exit(127);
}

/* ---- Afterwards ------------------------------------------------------------------------------------------------- */

/* Claims, and what is expired; what a release in doubt left may stay for its time. */
static int64_t rows_counted(void)
{
    return ask(server.postgres ? "SELECT count(*) FROM holdfast_claim WHERE mode<>0 OR"
                                 " expires_us<extract(epoch FROM clock_timestamp())*1000000"
                               : "SELECT count(*) FROM holdfast_claim WHERE mode<>0 OR"
                                 " expires_us<TIMESTAMPDIFF(MICROSECOND,'1970-01-01 00:00:00',UTC_TIMESTAMP(6))");
}

/* Rows that no sweep took. One open in twenty sweeps at once, when it is time for that. */
static int64_t rows_after_sweeps(int64_t *before)
{
    int64_t rows = *before = rows_counted();

    for (int opened = 0; rows > 0 && opened < 400; opened++) {
        hf_client *client;
        ask("UPDATE holdfast_meta SET swept_us=0");
        if (hf_open(&client, server.url, NULL, NULL) != HF_OK)
            continue;
        sleep_ms(20);
        hf_close(client, 1000);
        rows = rows_counted();
    }
    return rows;
}

/* `argv` ends with NULL: the torture, its seconds, its arguments. */
static int torture(char **argv)
{
    nemesis     n = {.rng = (uint64_t)now_us()};
    const char *args[48] = {argv[0], "--store", server.url, "--seconds", argv[1]};
    int64_t     before, rows;
    int         how = 0;

    for (int i = 2; argv[i] != NULL && i < 44; i++)
        args[i + 3] = argv[i];
    setenv("TORTURE_NO_REFUSALS", "1", 1);
    pid_t pid = torture_start((char **)args);
    bool  alive = rage(&n, atoll(argv[1]));
    while (waitpid(pid, &how, 0) < 0 && errno == EINTR)
        continue;
    if (!alive || !WIFEXITED(how))
        return 1;
    n.deadlocks += deadlocks_counted();
    rows = rows_after_sweeps(&before);
    printf("server: killed and started again %lld times; connections: %lld times one, %lld times all were ended\n",
           (long long)n.kills, (long long)n.ones, (long long)n.cuts);
    printf("deadlocks by the server's own count: %lld\n", (long long)n.deadlocks);
    printf("rows of claims left: %lld, after the sweep %lld   must be 0\n", (long long)before, (long long)rows);
    return WEXITSTATUS(how) != 0 ? WEXITSTATUS(how) : rows != 0;
}

/* ---- The crowd -------------------------------------------------------------------------------------------------- */

#define CROWD 16
#define CROWD_NAMES 4

typedef struct member {
    hf_client    *client;
    int           number;
    int64_t       until_ms, grants, failures;
    atomic_llong *fences;
    pthread_t     thread;
} member;

static void *member_run(void *arg)
{
    static const char *const names[CROWD_NAMES] = {"crowd/1", "crowd/2", "crowd/3", "crowd/4"};
    member                  *m = arg;
    uint64_t                 rng = (uint64_t)m->number + 1;
    hf_lock                 *locks[CROWD_NAMES];

    for (int i = 0; i < CROWD_NAMES; i++)
        if (hf_mutex(&locks[i], m->client, names[i], NULL, NULL) != HF_OK)
            return thread_error("no handle");
    while (now_ms() < m->until_ms) {
        int      i = (int)rng_below(&rng, CROWD_NAMES);
        hf_grant grant;
        if (hf_acquire(locks[i], 20000, &grant, NULL) != HF_OK) {
            m->failures++;
            continue;
        }
        m->failures += atomic_exchange(&m->fences[i], grant.fence) >= grant.fence;
        m->failures += hf_release(locks[i], NULL) != HF_OK;
        m->grants++;
    }
    for (int i = 0; i < CROWD_NAMES; i++)
        hf_free(locks[i]);
    return NULL;
}

/* Four clients of four threads each. */
static int crowd(int64_t seconds)
{
    hf_client   *clients[4];
    member       members[CROWD];
    atomic_llong fences[CROWD_NAMES] = {0};
    int64_t      grants = 0, failures = 0, until_ms = now_ms() + seconds * 1000;

    for (int i = 0; i < 4; i++)
        if (hf_open(&clients[i], server.url, NULL, NULL) != HF_OK)
            return 1;
    for (int i = 0; i < CROWD; i++) {
        members[i] = (member){.client = clients[i / 4], .number = i, .until_ms = until_ms, .fences = fences};
        pthread_create(&members[i].thread, NULL, member_run, &members[i]);
    }
    for (int i = 0; i < CROWD; i++) {
        void *error;
        pthread_join(members[i].thread, &error);
        failures += members[i].failures + (error != NULL);
        grants += members[i].grants;
    }
    for (int i = 0; i < 4; i++)
        hf_close(clients[i], 1000);
    int64_t deadlocks = deadlocks_counted();
    printf("%d threads on %d names, %lld s: %lld grants; failures and fences that did not rise %lld, deadlocks by the"
           " server's own count %lld   must be 0\n",
           CROWD, CROWD_NAMES, (long long)seconds, (long long)grants, (long long)failures, (long long)deadlocks);
    return grants == 0 || failures != 0 || deadlocks != 0;
}

int main(int argc, char **argv)
{
    bool   crowds = argc > 3 && strcmp(argv[2], "--crowd") == 0;
    char **rest = argv + (crowds ? 4 : 2);
    int    result = 3;

    if (argc < 4 || (rest[0] != NULL && rest[1] == NULL)) {
        fprintf(stderr, "usage: torture_db mysql|postgresql [--crowd SECONDS] [TORTURE SECONDS [ARGUMENT...]]\n");
        return 2;
    }
    if (dbserver_start(&server, argv[1], false)) {
        result = crowds ? crowd(atoll(argv[3])) : 0;
        if (result == 0 && rest[0] != NULL)
            result = torture(rest);
    }
    dbserver_end(&server);
    return result;
}
