/* SPDX-License-Identifier: MIT */
/*
 * Where sessions are not what they seem: a pooler in front of PostgreSQL that gives each transaction another session,
 * and a cluster of MariaDB, in which a named lock is its node's own. Locks work there, waiters ask, and doctor says so.
 */
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "db_bed.h"

/* ---- PgBouncer -------------------------------------------------------------------------------------------------- */

static int pooler_port;

static void pooler_write(const char *name, const char *text)
{
    FILE *file = fopen(name, "we");

    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static _Noreturn void pooler_run(pid_t parent)
{
    uid_t user;
    gid_t group;

    if (freopen("pooler.log", "w", stderr) == NULL)
        _exit(126);
    if (geteuid() == 0 && dbserver_owner(&server, &user, &group) &&
        (setgroups(0, NULL) != 0 || setgid(group) != 0 || setuid(user) != 0)) /* it does not run as root */
        _exit(126);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(126);
    execl("/usr/sbin/pgbouncer", "pgbouncer", "-q", "pooler.ini", (char *)NULL);
    execlp("pgbouncer", "pgbouncer", "-q", "pooler.ini", (char *)NULL);
    _exit(127);
}

/* Few sessions for many clients, so that each meets all of them. */
static pid_t pooler_start(void)
{
    char  text[1024];
    pid_t parent = getpid(), pid;

    pooler_port = dbserver_free_port();
    snprintf(text, sizeof text,
             "[databases]\npostgres = host=127.0.0.1 port=%d dbname=postgres\n[pgbouncer]\nlisten_addr=127.0.0.1\n"
             "listen_port=%d\nunix_socket_dir=\nauth_type=trust\nauth_file=pooler.users\npool_mode=transaction\n"
             "default_pool_size=4\n",
             server.port, pooler_port);
    pooler_write("pooler.ini", text);
    pooler_write("pooler.users", "\"app\" \"\"\n");
    pid = fork();
    if (pid == 0)
        pooler_run(parent);
    return pid;
}

static const char *pooler_url(const char *more)
{
    static char url[256];

    snprintf(url, sizeof url, "postgresql://app@127.0.0.1:%d/postgres%s", pooler_port, more);
    return url;
}

#define THREADS 6

typedef struct visitor {
    hf_client *client;
    int64_t    count, failed;
    pthread_t  thread;
} visitor;

static _Atomic int64_t inside; /* by whoever holds the lock */

static void *visit(void *arg)
{
    visitor *v = arg;
    hf_lock *lock;

    if (hf_mutex(&lock, v->client, "pooled", NULL, NULL) != HF_OK)
        return thread_error("no handle");
    for (int i = 0; i < 8; i++) {
        v->failed += hf_acquire(lock, 30000, NULL, NULL) != HF_OK;
        v->failed += ++inside != 1;
        sleep_ms(2);
        inside--;
        v->failed += hf_release(lock, NULL) != HF_OK;
        v->count++;
    }
    hf_free(lock);
    return NULL;
}

static void through_a_pooler_of_transactions(void **state)
{
    pid_t      pid = pooler_start();
    hf_client *client = NULL, *clients[2];
    visitor    visitors[THREADS];
    hf_error   err;
    int        status = HF_EUNREACHABLE;

    (void)state;
    for (int i = 0; i < 100 && status == HF_EUNREACHABLE; i++, sleep_ms(50))
        status = hf_open(&client, pooler_url(""), NULL, &err);
    assert_status_err(HF_OK, status, &err);
    assert_non_null(strstr(db_doctor(client, "waiting"), "by asking: notifications do not arrive here"));
    must_close(client);
    clients[0] = db_open(pooler_url(""));
    clients[1] = db_open(pooler_url("?news=no"));
    for (int i = 0; i < THREADS; i++) {
        visitors[i] = (visitor){.client = clients[i % 2]};
        assert_int_equal(pthread_create(&visitors[i].thread, NULL, visit, &visitors[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        void *error;
        pthread_join(visitors[i].thread, &error);
        assert_null(error);
        assert_int_equal(visitors[i].failed, 0);
        assert_int_equal(visitors[i].count, 8);
    }
    must_hold(clients[0], "pooled", 0, 0);
    must_close(clients[0]);
    must_close(clients[1]);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* ---- Galera ----------------------------------------------------------------------------------------------------- */

/* A cluster of one node. The server begins anew. */
static void a_galera_node(void **state)
{
    static char       options[80];
    const char *const more[] = {"--wsrep-on=ON",
                                "--wsrep-provider=/usr/lib/galera/libgalera_smm.so",
                                "--wsrep-cluster-address=gcomm://",
                                "--wsrep-new-cluster",
                                "--wsrep-node-address=127.0.0.1",
                                "--binlog-format=ROW",
                                "--innodb-autoinc-lock-mode=2",
                                options,
                                NULL};
    hf_client        *client;

    (void)state;
    snprintf(options, sizeof options, "--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:%d",
             dbserver_free_port());
    dbserver_kill(&server);
    dbserver_more = more;
    assert_true(dbserver_again(&server));
    client = db_open(db_url("app", "locks", ""));
    assert_string_equal(db_ask("SHOW STATUS LIKE 'wsrep_ready'"), "wsrep_ready\tON");
    assert_string_equal(db_doctor(client, "waiting"),
                        "by asking: named locks do not reach the other nodes of a Galera cluster");
    must_close(client);
    db_must_work(db_url("app", "locks", ""), "galera");
    dbserver_more = NULL;
}

int db_between_group(void)
{
    const struct CMUnitTest postgres[] = {cmocka_unit_test(through_a_pooler_of_transactions)};
    const struct CMUnitTest mysql[] = {cmocka_unit_test(a_galera_node)};

    return server.postgres ? cmocka_run_group_tests_name("a pooler", postgres, NULL, NULL)
                           : cmocka_run_group_tests_name("a cluster", mysql, NULL, NULL);
}
