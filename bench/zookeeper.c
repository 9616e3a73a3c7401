/* SPDX-License-Identifier: MIT */
/*
 * bench_zookeeper [FOLDER]
 *
 * The rate of an uncontended acquire and release on ZooKeeper, against the least that a lock there does when it asks
 * one thing after another (create, get-children, delete by the C client's blocking calls), and against Apache Curator's
 * InterProcessMutex. One server, whose data lies in FOLDER (/dev/shm), for all three, which take turns; the medians of
 * the ratios, round by round.
 */
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADED 1
#include <zookeeper/zookeeper.h>

#include "bench.h"
#include "zkserver.h"

#define ROUNDS 9
#define ROUND_US 1000000
#define WARM_US 4000000
#define JARS                                                                                                           \
    "/usr/share/java/curator-recipes.jar:/usr/share/java/curator-framework.jar:/usr/share/java/curator-client.jar:"    \
    "/usr/share/java/zookeeper.jar:/usr/share/java/guava.jar:/usr/share/java/slf4j-nop.jar:"                           \
    "/usr/share/java/slf4j-api.jar"

static void must(int rc, const char *what)
{
    if (rc == ZOK)
        return;
    fprintf(stderr, "bench_zookeeper: %s: %s\n", what, zerror(rc));
    exit(1);
}

int64_t bench_now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

/* ---- the bare loop ---- */

static void no_event(zhandle_t *handle, int type, int state, const char *path, void *context)
{
    (void)handle;
    (void)type;
    (void)state;
    (void)path;
    (void)context;
}

static zhandle_t *bare_open(int port)
{
    char       hosts[40];
    zhandle_t *bare;

    snprintf(hosts, sizeof hosts, "127.0.0.1:%d", port);
    bare = zookeeper_init(hosts, no_event, 20000, NULL, NULL, ZOO_NO_LOG_CLIENTENV);
    while (bare != NULL && zoo_state(bare) != ZOO_CONNECTED_STATE)
        usleep(10000);
    must(bare != NULL ? ZOK : ZSYSTEMERROR, "init");
    must(zoo_create(bare, "/bare", "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0), "create");
    return bare;
}

static double bare_rate(zhandle_t *bare, int64_t for_us)
{
    int64_t from_us = bench_now_us(), count = 0;

    for (; bench_now_us() - from_us < for_us; count++) {
        struct String_vector names;
        char                 path[200];
        must(zoo_create(bare, "/bare/_c_11111111-1111-4111-8111-111111111111-lock-", "127.0.0.1", 9,
                        &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL, path, sizeof path),
             "create");
        must(zoo_get_children(bare, "/bare", 0, &names), "children");
        deallocate_String_vector(&names);
        must(zoo_delete(bare, path, -1), "delete");
    }
    return (double)count * 1e6 / (double)(bench_now_us() - from_us);
}

/* ---- ours ---- */

static double lock_rate(hf_lock *lock, int64_t for_us)
{
    int64_t from_us = bench_now_us(), count = 0;

    for (; bench_now_us() - from_us < for_us; count++)
        if (hf_acquire(lock, HF_NOWAIT, NULL, NULL) != HF_OK || hf_release(lock, NULL) != HF_OK)
            must(ZSYSTEMERROR, "acquire, release");
    return (double)count * 1e6 / (double)(bench_now_us() - from_us);
}

/* ---- Curator ---- */

static FILE *to_peer, *from_peer;
static pid_t peer;

static void peer_start(int port)
{
    int  in[2], out[2];
    char text[16], line[100];

    snprintf(text, sizeof text, "%d", port);
    if (pipe(in) != 0 || pipe(out) != 0)
        exit(1);
    peer = fork();
    if (peer == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(in[0], 0);
        dup2(out[1], 1);
        execlp("java", "java", "-Xmx128m", "-XX:+UseSerialGC", "-cp", JARS, HF_PEER, text, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    to_peer = fdopen(in[1], "w");
    from_peer = fdopen(out[0], "r");
    if (fgets(line, sizeof line, from_peer) == NULL || strcmp(line, "ready\n") != 0)
        must(ZSYSTEMERROR, "Curator does not start");
}

static double peer_rate(int64_t for_us)
{
    char   line[100];
    double rate = 0;

    fprintf(to_peer, "bench /curator %.3f\n", (double)for_us / 1e6);
    fflush(to_peer);
    if (fgets(line, sizeof line, from_peer) == NULL || sscanf(line, "rate %lf", &rate) != 1)
        must(ZSYSTEMERROR, "Curator does not answer");
    return rate;
}

/* ---- the table ---- */

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof values[0], compare);
    return values[ROUNDS / 2];
}

static void row(const char *what, double *values, const char *format, double target)
{
    char   text[40];
    double m = median(values);

    snprintf(text, sizeof text, format, m);
    printf("  %-52s %10s   (%.3g to %.3g)", what, text, values[1], values[ROUNDS - 2]);
    if (target > 0)
        printf("   >= %.2f %s", target, m >= target ? "met" : "MISSED");
    printf("\n");
}

static void measure(zhandle_t *bare, hf_lock *lock)
{
    double b[ROUNDS], l[ROUNDS], c[ROUNDS], to_bare[ROUNDS], to_curator[ROUNDS];

    bare_rate(bare, WARM_US);
    lock_rate(lock, WARM_US);
    peer_rate(WARM_US);
    for (int i = 0; i < ROUNDS; i++) {
        b[i] = bare_rate(bare, ROUND_US);
        l[i] = lock_rate(lock, ROUND_US);
        c[i] = peer_rate(ROUND_US);
        to_bare[i] = l[i] / b[i];
        to_curator[i] = l[i] / c[i];
    }
    printf("uncontended acquire + release on ZooKeeper; %d rounds, medians (and all but the least and the most)\n",
           ROUNDS);
    row("bare create, get-children, delete; a second", b, "%.0f", 0);
    row("Curator's InterProcessMutex; a second", c, "%.0f", 0);
    row("holdfast; a second", l, "%.0f", 0);
    row("holdfast / bare", to_bare, "%.3f", 1.15);
    row("holdfast / Curator", to_curator, "%.3f", 1.3);
}

int main(int argc, char **argv)
{
    static zk_server server;
    hf_client       *client;
    hf_lock         *lock;
    zhandle_t       *bare;
    hf_error         err;
    char             dir[PATH_MAX - 100], url[100];

    zoo_set_debug_level((ZooLogLevel)0);
    setenv("HF_ZK_JIT", "-XX:+TieredCompilation", 1);
    snprintf(dir, sizeof dir, "%.3000s/holdfast-bench-XXXXXX", argc > 1 ? argv[1] : "/dev/shm");
    if (mkdtemp(dir) == NULL || !zk_server_start(&server, dir, 2000))
        return 1;
    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d/bench", server.port);
    if (hf_open(&client, url, NULL, &err) != HF_OK || hf_mutex(&lock, client, "order:1001", NULL, &err) != HF_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    bare = bare_open(server.port);
    peer_start(server.port);
    measure(bare, lock);
    zookeeper_close(bare);
    hf_free(lock);
    hf_close(client, 1000);
    kill(peer, SIGKILL);
    waitpid(peer, NULL, 0);
    zk_server_stop(&server);
    return 0;
}
