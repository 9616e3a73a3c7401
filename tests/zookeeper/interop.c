/* SPDX-License-Identifier: MIT */
/*
 * Live Curator and Kazoo on the same names, in both directions: all take turns, each looks at who else is inside, and
 * none may lose an update of a counter that only exclusive holders raise.
 *
 * HF_ROUNDS=10000 for the long form.
 */
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "zookeeper/main.h"

#define JARS                                                                                                           \
    "/usr/share/java/curator-recipes.jar:/usr/share/java/curator-framework.jar:/usr/share/java/curator-client.jar:"    \
    "/usr/share/java/zookeeper.jar:/usr/share/java/guava.jar:/usr/share/java/slf4j-nop.jar:"                           \
    "/usr/share/java/slf4j-api.jar"
#define LIMIT 3
#define THREADS 2
#define ANSWER_S 150

typedef struct peer {
    pid_t pid;
    FILE *in, *out;
} peer;

static peer java, python;
static char folder[3300];
static int  rounds = 100;

static void run_peer(const char *const argv[], const int in[2], const int out[2], pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    dup2(in[0], 0);
    dup2(out[1], 1);
    execvp(argv[0], (char *const *)argv);
    _exit(127);
}

static bool read_line(const peer *p, char *line, int size)
{
    struct pollfd polled = {.fd = fileno(p->out), .events = POLLIN};
    int           patience = rounds > 1000 ? 10 * ANSWER_S : ANSWER_S;

    if (poll(&polled, 1, patience * 1000) != 1 || fgets(line, size, p->out) == NULL)
        return false;
    line[strcspn(line, "\n")] = '\0';
    return true;
}

static void peer_start(peer *p, const char *const argv[])
{
    int   in[2], out[2];
    pid_t parent = getpid();
    char  line[200];

    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    p->pid = fork();
    if (p->pid == 0)
        run_peer(argv, in, out, parent);
    close(in[0]);
    close(out[1]);
    p->in = fdopen(in[1], "w");
    p->out = fdopen(out[0], "r");
    setvbuf(p->out, NULL, _IONBF, 0);
    assert_true(read_line(p, line, sizeof line));
    assert_string_equal(line, "ready");
}

static void peer_stop(peer *p)
{
    if (p->pid <= 0)
        return;
    fclose(p->in);
    fclose(p->out);
    kill(p->pid, SIGKILL);
    waitpid(p->pid, NULL, 0);
}

/* ---- what goes on inside ---- */

static const char *in_folder(const char *file, char *path)
{
    sprintf(path, "%s/%s", folder, file);
    return path;
}

static void write_counter(long value)
{
    char  path[3400];
    FILE *f = fopen(in_folder("counter", path), "we");

    fprintf(f, "%ld\n", value);
    fclose(f);
}

static long read_counter(void)
{
    char  path[3400];
    long  value = -1;
    FILE *f = fopen(in_folder("counter", path), "re");

    if (fscanf(f, "%ld", &value) != 1)
        value = -1;
    fclose(f);
    return value;
}

/* How many are inside, and whether one of them is a writer beside me. */
static int look_inside(const char *mine, bool *writer)
{
    char           path[3400];
    DIR           *dir = opendir(in_folder("in", path));
    struct dirent *entry;
    int            count = 0;

    *writer = false;
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        count++;
        *writer = *writer || (entry->d_name[0] == 'w' && strcmp(entry->d_name, mine) != 0);
    }
    closedir(dir);
    return count;
}

static const char *go_inside(const char *who, bool exclusive, int limit)
{
    char path[3500], file[100], mine[60];
    bool writer;
    int  count, fd;

    snprintf(mine, sizeof mine, "%c-%s", exclusive ? 'w' : 'r', who);
    snprintf(file, sizeof file, "in/%s", mine);
    fd = open(in_folder(file, path), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0)
        return "twice inside";
    close(fd);
    count = look_inside(mine, &writer);
    if (count > limit || writer)
        return "beside others";
    if (exclusive)
        write_counter(read_counter() + 1);
    unlink(in_folder(file, path));
    return NULL;
}

/* ---- our side ---- */

typedef struct player {
    const char *kind, *name, *options;
    int         number;
    long        exclusive;
    pthread_t   thread;
} player;

static const char *play_rounds(player *p, hf_lock *first, hf_lock *second)
{
    char who[20];

    snprintf(who, sizeof who, "c-%d", p->number);
    for (int i = 0; i < rounds; i++) {
        bool        rw = strcmp(p->kind, "rw") == 0, permits = strcmp(p->kind, "semaphore") == 0;
        bool        exclusive = !permits && (!rw || i % 3 == 0);
        hf_lock    *lock = rw && !exclusive ? second : first;
        const char *wrong;
        hf_error    err;
        if (hf_acquire(lock, 60000, NULL, &err) != HF_OK)
            return strdup(err.text);
        wrong = go_inside(who, exclusive, permits ? LIMIT : exclusive ? 1 : 1000);
        p->exclusive += exclusive;
        if (hf_release(lock, NULL) != HF_OK)
            return "lost";
        if (wrong != NULL)
            return wrong;
    }
    return NULL;
}

static void *play(void *arg)
{
    player     *p = arg;
    hf_lock    *first = NULL, *second = NULL;
    hf_client  *client;
    const char *wrong;
    char        url[200];

    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d/interop?%s", server.port, p->options);
    if (hf_open(&client, url, NULL, NULL) != HF_OK)
        return thread_error("cannot open");
    if (strcmp(p->kind, "semaphore") == 0)
        hf_semaphore(&first, client, p->name, LIMIT, NULL, NULL);
    else if (strcmp(p->kind, "rw") == 0)
        hf_writer(&first, client, p->name, NULL, NULL);
    else
        hf_mutex(&first, client, p->name, NULL, NULL);
    hf_reader(&second, client, p->name, NULL, NULL);
    wrong = play_rounds(p, first, second);
    hf_free(first);
    hf_free(second);
    hf_close(client, 1000);
    return wrong != NULL ? thread_error(wrong) : NULL;
}

static void play_with(peer *p, const char *theirs, const char *kind, const char *name, const char *options)
{
    player players[THREADS];
    char   line[300], path[3400];
    long   exclusive = 0;
    void  *wrong;

    mkdir(in_folder("in", path), 0700);
    write_counter(0);
    fprintf(p->in, "%s /interop/%s %d %d %s\n", theirs, name, rounds, THREADS, folder);
    fflush(p->in);
    for (int i = 0; i < THREADS; i++) {
        players[i] = (player){.kind = kind, .name = name, .options = options, .number = i};
        assert_int_equal(pthread_create(&players[i].thread, NULL, play, &players[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(players[i].thread, &wrong);
        if (wrong != NULL)
            print_error("%s: %s\n", name, (char *)wrong);
        assert_null(wrong);
        exclusive += players[i].exclusive;
    }
    assert_true(read_line(p, line, sizeof line));
    assert_string_equal(line, "done");
    if (strcmp(theirs, "writer") == 0)
        assert_int_equal(read_counter(), exclusive + (long)rounds * THREADS);
    else if (strcmp(kind, "semaphore") != 0) /* the others did as many */
        assert_int_equal(read_counter(), 2 * exclusive);
    assert_int_equal(look_inside("", &(bool){false}), 0);
}

static void curator_mutex(void **state)
{
    (void)state;
    play_with(&java, "mutex", "mutex", "curator-mutex", "");
}

static void curator_readers_and_writers(void **state)
{
    (void)state;
    play_with(&java, "rw", "rw", "curator-rw", "");
}

static void curator_semaphore(void **state)
{
    (void)state;
    play_with(&java, "semaphore", "semaphore", "curator-semaphore", "");
}

static void kazoo_mutex_by_curator_s_name(void **state)
{
    (void)state;
    play_with(&python, "curator", "mutex", "kazoo-curator", "");
}

static void kazoo_mutex(void **state)
{
    (void)state;
    play_with(&python, "lock", "mutex", "kazoo-mutex", "layout=kazoo");
}

static void kazoo_writers_beside_readers_and_writers(void **state)
{
    (void)state;
    play_with(&python, "writer", "rw", "kazoo-rw", "layout=kazoo");
}

static void tell(peer *p, const char *what)
{
    char line[300];

    fprintf(p->in, "%s\n", what);
    fflush(p->in);
    assert_true(read_line(p, line, sizeof line));
    assert_string_equal(line, "done");
}

/* Kazoo 2.8's readers wait for writers that came later, so that they and waiting writers stop each other; those that
 * are in keep writers out, and not readers. */
static void kazoo_readers_that_hold(void **state)
{
    (void)state;
    hf_client *client;
    hf_lock   *reader, *writer;
    char       url[200];

    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d/interop?layout=kazoo", server.port);
    assert_int_equal(hf_open(&client, url, NULL, NULL), HF_OK);
    reader = must_reader(client, "kazoo-read", NULL);
    writer = must_writer(client, "kazoo-read", NULL);
    tell(&python, "read /interop/kazoo-read");
    assert_status(HF_BUSY, hf_acquire(writer, HF_NOWAIT, NULL, NULL));
    must_acquire(reader, HF_NOWAIT);
    must_release(reader);
    tell(&python, "unread");
    must_acquire(writer, 5000);
    must_release(writer);
    hf_free(reader);
    hf_free(writer);
    must_close(client);
}

static int begin(void **state)
{
    char              port[16], here[3000];
    const char *const java_argv[] = {"java", "-Xmx96m", "-XX:+UseSerialGC",          "-XX:TieredStopAtLevel=1",
                                     "-cp",  JARS,      HF_TEST_SOURCE "/Peer.java", port,
                                     NULL};
    const char *const python_argv[] = {"/usr/bin/python3", "-B", HF_TEST_SOURCE "/peer.py", port, NULL};

    if (getenv("HF_ROUNDS") != NULL)
        rounds = atoi(getenv("HF_ROUNDS"));
    if (zk_begin(state) != 0 || getcwd(here, sizeof here) == NULL)
        return -1;
    snprintf(folder, sizeof folder, "%s/inside-%d", here, (int)getpid());
    mkdir(folder, 0700);
    snprintf(port, sizeof port, "%d", server.port);
    peer_start(&java, java_argv);
    peer_start(&python, python_argv);
    return 0;
}

static int end(void **state)
{
    peer_stop(&java);
    peer_stop(&python);
    return zk_end(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(curator_mutex),
        cmocka_unit_test(curator_readers_and_writers),
        cmocka_unit_test(curator_semaphore),
        cmocka_unit_test(kazoo_mutex_by_curator_s_name),
        cmocka_unit_test(kazoo_mutex),
        cmocka_unit_test(kazoo_writers_beside_readers_and_writers),
        cmocka_unit_test(kazoo_readers_that_hold),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
