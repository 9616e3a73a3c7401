/* SPDX-License-Identifier: MIT */
/* See zkserver.h. */
#include "zkserver.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_S 60 /* a busy machine */
#define TICK_MS 200
#define LOG_HEADER 16 /* bytes */
#define JARS "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar:/usr/share/java/slf4j-api.jar"

static void nap(int ms)
{
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};

    nanosleep(&t, NULL);
}

static struct sockaddr_in loopback(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return a;
}

int zk_free_port(void)
{
    struct sockaddr_in a = loopback(0);
    socklen_t          len = sizeof a;
    int                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) != 0 || getsockname(fd, (struct sockaddr *)&a, &len) != 0)
        return -1;
    close(fd);
    return ntohs(a.sin_port);
}

static bool write_text(const char *dir, const char *file, const char *text)
{
    char  path[5000];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", dir, file);
    f = fopen(path, "we");
    if (f == NULL)
        return false;
    fputs(text, f);
    return fclose(f) == 0;
}

static bool configure(zk_server *server, const char *peers)
{
    char text[6000];

    snprintf(text, sizeof text,
             "tickTime=%d\ndataDir=%s\nclientPort=%d\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\n"
             "minSessionTimeout=%d\nmaxSessionTimeout=120000\nadmin.enableServer=false\n4lw.commands.whitelist=*\n"
             "initLimit=50\nsyncLimit=10\nforceSync=no\n%s",
             server->tick_ms, server->dir, server->port, 2 * server->tick_ms, peers);
    return (mkdir(server->dir, 0700) == 0 || errno == EEXIST) && write_text(server->dir, "zoo.cfg", text);
}

/* In the child. SIGKILL when the parent goes: also when that has happened already. */
static void run_server(const zk_server *server, pid_t parent)
{
    const char *jit = getenv("HF_ZK_JIT"); /* a benchmark wants the whole compiler; tests start sooner without */
    char        config[4400], log[4400];
    int         fd;

    snprintf(config, sizeof config, "%s/zoo.cfg", server->dir);
    snprintf(log, sizeof log, "%s/log", server->dir);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(open("/dev/null", O_RDONLY), 0);
    dup2(fd, 1);
    dup2(fd, 2);
    execlp("java", "java", "-Xmx96m", "-XX:+UseSerialGC", jit != NULL ? jit : "-XX:TieredStopAtLevel=1", "-Xshare:auto",
           "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dzookeeper.admin.enableServer=false",
           "-Dzookeeper.forceSync=no", "-Dznode.container.checkIntervalMs=2000", "-cp", JARS,
           "org.apache.zookeeper.server.quorum.QuorumPeerMain", config, (char *)NULL);
    _exit(127);
}

static bool launch(zk_server *server)
{
    pid_t parent = getpid();

    server->pid = fork();
    if (server->pid == 0)
        run_server(server, parent);
    return server->pid > 0;
}

static int dial(int port)
{
    struct sockaddr_in a = loopback(port);
    int                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

bool zk_server_ask(const zk_server *server, const char *word, char *answer, int size)
{
    struct pollfd p = {.fd = dial(server->port), .events = POLLIN};
    int           used = 0;

    answer[0] = '\0';
    if (p.fd < 0)
        return false;
    if (send(p.fd, word, strlen(word), MSG_NOSIGNAL) < 0) {
        close(p.fd);
        return false;
    }
    while (used + 1 < size && poll(&p, 1, 2000) == 1) {
        ssize_t got = read(p.fd, answer + used, (size_t)(size - 1 - used));
        if (got <= 0)
            break;
        used += (int)got;
    }
    answer[used] = '\0';
    close(p.fd);
    return used > 0;
}

long long zk_server_figure(const zk_server *server, const char *key)
{
    static char answer[65536];
    size_t      len = strlen(key);

    if (!zk_server_ask(server, "mntr", answer, sizeof answer))
        return -1;
    for (const char *line = answer; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, key, len) == 0 && line[len] == '\t')
            return strtoll(line + len, NULL, 10);
        if (*line == '\0')
            break;
    }
    return -1;
}

/* Serving: `srvr` tells the mode then, and else that it does not serve. */
static bool await(const zk_server *server)
{
    char answer[2048];

    for (int i = 0; i < START_S * 10; i++) {
        int status;
        if (zk_server_ask(server, "srvr", answer, sizeof answer) && strstr(answer, "Mode:") != NULL)
            return true;
        if (waitpid(server->pid, &status, WNOHANG) == server->pid)
            break;
        nap(100);
    }
    fprintf(stderr, "zookeeper: no server came up; see %s/log\n", server->dir);
    return false;
}

static void prepare(zk_server *server, const char *dir, int tick_ms)
{
    memset(server, 0, sizeof *server);
    snprintf(server->dir, sizeof server->dir, "%s", dir);
    server->port = zk_free_port();
    server->tick_ms = tick_ms > 0 ? tick_ms : TICK_MS;
}

bool zk_server_start(zk_server *server, const char *dir, int tick_ms)
{
    prepare(server, dir, tick_ms);
    return configure(server, "") && launch(server) && await(server);
}

bool zk_ensemble_start(zk_server servers[ZK_ENSEMBLE_MOST], const char *dir, int tick_ms)
{
    char peers[600] = "", path[4200], id[8];
    bool up = true;

    mkdir(dir, 0700);
    for (int i = 0; i < ZK_ENSEMBLE_MOST; i++) {
        snprintf(path, sizeof path, "%s/%d", dir, i + 1);
        prepare(&servers[i], path, tick_ms);
        snprintf(peers + strlen(peers), sizeof peers - strlen(peers), "server.%d=127.0.0.1:%d:%d\n", i + 1,
                 zk_free_port(), zk_free_port());
    }
    for (int i = 0; i < ZK_ENSEMBLE_MOST; i++) {
        snprintf(id, sizeof id, "%d\n", i + 1);
        up = up && configure(&servers[i], peers) && write_text(servers[i].dir, "myid", id) && launch(&servers[i]);
    }
    for (int i = 0; i < ZK_ENSEMBLE_MOST; i++)
        up = up && await(&servers[i]);
    return up;
}

/* One that was killed right after it had begun a log file does not start with it again, until somebody removes it;
 * nothing that stands in there has been acknowledged. */
static int remove_stub(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    if (type == FTW_F && st->st_size < LOG_HEADER && strncmp(path + ftw->base, "log.", 4) == 0)
        return remove(path);
    return 0;
}

bool zk_server_restart(zk_server *server)
{
    nftw(server->dir, remove_stub, 16, FTW_PHYS);
    return launch(server) && await(server);
}

void zk_server_kill(zk_server *server)
{
    if (server->pid <= 0)
        return;
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
    server->pid = 0;
}

static int entry_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

void zk_server_stop(zk_server *server)
{
    zk_server_kill(server);
    nftw(server->dir, entry_remove, 16, FTW_DEPTH | FTW_PHYS);
}

void zk_server_freeze(const zk_server *server)
{
    if (server->pid > 0)
        kill(server->pid, SIGSTOP);
}

void zk_server_thaw(const zk_server *server)
{
    if (server->pid > 0)
        kill(server->pid, SIGCONT);
}
