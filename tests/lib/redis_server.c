/* SPDX-License-Identifier: MIT */
/* Starting, stopping and looking into a Redis server of the test's own. See redis_server.h. */
#include "lib/redis_server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/when.h"

#define ARGS_MOST 64
#define STARTS_MOST 5      /* ports that others were quicker to take */
#define ANSWER_WITHIN_S 20 /* a start, on a machine with much to do */

struct redis_server {
    redis_setup     setup;
    const char     *args[ARGS_MOST]; /* more arguments */
    pid_t           pid;
    int             port, tls_port, bus_port;
    char            folder[PATH_MAX], socket[PATH_MAX + 16], url[96], upstream[80], log[PATH_MAX + 16];
    pthread_mutex_t mutex; /* of the look */
    redisContext   *look;
};

static void die(const redis_server *s, const char *what)
{
    fprintf(stderr, "redis-server: %s: %s%s%s\n", what, strerror(errno), s ? "; its log is " : "", s ? s->log : "");
    exit(3);
}

/* ------------------------------------------------------------------ starting ---------------------------------- */

/*
 * A port below those that the system gives to connections, so that none of these takes it while the server is down. Two
 * tests may pick the same in the same moment; then one of their servers ends at once, and its test picks another.
 */
static int port_pick(void)
{
    for (int tries = 0; tries < 1000; tries++) {
        struct sockaddr_in a = {.sin_family = AF_INET};
        uint16_t           dice;
        int                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (getrandom(&dice, sizeof(dice), 0) != sizeof(dice))
            break;
        a.sin_port = htons((uint16_t)(12000 + dice % 20000));
        a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        bool fine = bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0;
        close(fd);
        if (fine)
            return ntohs(a.sin_port);
    }
    die(NULL, "no free port");
    return -1;
}

static void child_run(redis_server *s, pid_t parent)
{
    const char *argv[ARGS_MOST + 40];
    char        port[16], tls_port[16], bus_port[16], config[PATH_MAX + 16];
    int         n = 0, log = open(s->log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    sigset_t    none;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || log < 0)
        _exit(1);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    if (s->setup.netns > 0 && setns(s->setup.netns, CLONE_NEWNET) != 0)
        _exit(1);
    close_range(3, ~0U, 0); /* nothing of the test's lives on in the server */
    snprintf(port, sizeof(port), "%d", s->port);
    snprintf(tls_port, sizeof(tls_port), "%d", s->tls_port);
    snprintf(bus_port, sizeof(bus_port), "%d", s->bus_port);
    snprintf(config, sizeof(config), "%s/conf", s->folder);
    const char *own[] = {"--port",
                         port,
                         "--bind",
                         s->setup.host,
                         "--dir",
                         s->folder,
                         "--save",
                         "",
                         "--appendonly",
                         "no",
                         "--unixsocket",
                         s->socket,
                         "--daemonize",
                         "no",
                         "--databases",
                         "16",
                         "--loglevel",
                         "notice",
                         "--enable-debug-command",
                         "yes",
                         "--protected-mode",
                         "no"};
    argv[n++] = "redis-server";
    if (s->setup.config)
        argv[n++] = config;
    for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
        argv[n++] = own[i];
    if (s->setup.tls) {
        argv[n++] = "--tls-port";
        argv[n++] = tls_port;
    }
    if (s->setup.bus) {
        argv[n++] = "--cluster-enabled";
        argv[n++] = "yes";
        argv[n++] = "--cluster-port";
        argv[n++] = bus_port;
    }
    for (int i = 0; s->args[i]; i++)
        argv[n++] = s->args[i];
    argv[n] = NULL;
    if (s->setup.preload)
        setenv("LD_PRELOAD", s->setup.preload, 1);
    if (s->setup.skew)
        setenv("HF_SKEW", s->setup.skew, 1);
    execvp("redis-server", (char *const *)argv);
    _exit(127);
}

static void launch(redis_server *s)
{
    pid_t parent = getpid(), pid = fork();

    if (pid < 0)
        die(s, "fork");
    if (pid == 0)
        child_run(s, parent);
    s->pid = pid;
}

bool redis_gone(redis_server *s)
{
    int how;

    if (s->pid == 0)
        return true;
    if (waitpid(s->pid, &how, WNOHANG) != s->pid)
        return false;
    s->pid = 0;
    return true;
}

/* Under the mutex, as all that uses the look. */
static void look_close(redis_server *s)
{
    if (s->look)
        redisFree(s->look);
    s->look = NULL;
}

static bool look_open(redis_server *s)
{
    struct timeval ten = {.tv_sec = 10};
    redisReply    *reply;

    look_close(s);
    if (s->setup.netns > 0) /* where its port is not ours to reach */
        s->look = redisConnectUnixWithTimeout(s->socket, ten);
    else
        s->look = redisConnectWithTimeout(s->setup.host, s->port, ten);
    if (!s->look || s->look->err) {
        look_close(s);
        return false;
    }
    fcntl(s->look->fd, F_SETFD, FD_CLOEXEC);
    redisSetTimeout(s->look, ten);
    if (!s->setup.password)
        return true;
    reply = redisCommand(s->look, "AUTH %s %s", s->setup.user ? s->setup.user : "default", s->setup.password);
    if (reply)
        freeReplyObject(reply);
    return true;
}

/* It answers, and it is the one that we started, not another on the same port. Under the mutex. */
static bool look_answers(redis_server *s)
{
    redisReply *reply;
    char        line[48];
    bool        ours = false;

    if (!s->look && !look_open(s))
        return false;
    reply = redisCommand(s->look, "INFO server");
    if (!reply) {
        look_close(s);
        return false;
    }
    snprintf(line, sizeof(line), "process_id:%d\r", (int)s->pid);
    if (reply->type == REDIS_REPLY_STRING)
        ours = strstr(reply->str, line) != NULL;
    freeReplyObject(reply);
    return ours;
}

static bool answers(redis_server *s)
{
    pthread_mutex_lock(&s->mutex);
    bool does = look_answers(s);
    pthread_mutex_unlock(&s->mutex);
    return does;
}

static bool wait_until_it_answers(redis_server *s)
{
    int64_t until_ms = when_ms() + ANSWER_WITHIN_S * 1000;

    while (when_ms() < until_ms && !redis_gone(s)) {
        if (answers(s) && strncmp(redis_text(s, "PING"), "LOADING", 7) != 0)
            return true;
        when_rest(3);
    }
    return false;
}

static void name_ports(redis_server *s)
{
    s->port = port_pick();
    s->tls_port = s->setup.tls ? port_pick() : 0;
    s->bus_port = s->setup.bus ? port_pick() : 0;
    snprintf(s->url, sizeof(s->url), "redis://%s:%d", s->setup.host, s->port);
    snprintf(s->upstream, sizeof(s->upstream), "%s:%d", s->setup.host, s->port);
}

static void folder_make(redis_server *s)
{
    char here[PATH_MAX - 32];

    if (!getcwd(here, sizeof(here)))
        die(NULL, "getcwd");
    snprintf(s->folder, sizeof(s->folder), "%s/redis-XXXXXX", here);
    if (!mkdtemp(s->folder))
        die(NULL, s->folder);
    snprintf(s->socket, sizeof(s->socket), "%s/s", s->folder);
    snprintf(s->log, sizeof(s->log), "%s/log", s->folder);
}

static void config_write(redis_server *s)
{
    char  path[PATH_MAX + 16];
    FILE *f;

    snprintf(path, sizeof(path), "%s/conf", s->folder);
    if (!s->setup.config)
        return;
    if (!(f = fopen(path, "we")) || fputs(s->setup.config, f) < 0 || fclose(f) != 0)
        die(s, path);
}

redis_server *redis_start(const redis_setup *setup)
{
    redis_server *s = calloc(1, sizeof(*s));

    if (!s)
        die(NULL, "no memory");
    if (setup)
        s->setup = *setup;
    if (!s->setup.host)
        s->setup.host = "127.0.0.1";
    pthread_mutex_init(&s->mutex, NULL);
    redis_change(s, s->setup.args);
    folder_make(s);
    config_write(s);
    for (int tries = 0; tries < STARTS_MOST; tries++) {
        name_ports(s);
        launch(s);
        if (wait_until_it_answers(s))
            return s;
        redis_kill(s);
    }
    errno = 0;
    die(s, "it does not start");
    return NULL;
}

void redis_change(redis_server *s, const char *const args[])
{
    int n = 0;

    for (; args && args[n] && n < ARGS_MOST - 1; n++)
        s->args[n] = args[n];
    s->args[n] = NULL;
}

void redis_again_at_once(redis_server *s)
{
    redis_kill(s);
    launch(s);
}

void redis_again(redis_server *s)
{
    redis_again_at_once(s);
    if (!wait_until_it_answers(s))
        die(s, "it does not start again");
}

static int entry_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

/* Where the server keeps an append-only file, and where a snapshot. */
void redis_wipe(redis_server *s)
{
    static const char *const kept[] = {"appendonlydir", "dump.rdb"};
    char                     path[PATH_MAX + 16];

    for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", s->folder, kept[i]);
        nftw(path, entry_remove, 16, FTW_DEPTH | FTW_PHYS);
    }
}

void redis_end(redis_server *s)
{
    if (!s)
        return;
    redis_kill(s);
    nftw(s->folder, entry_remove, 16, FTW_DEPTH | FTW_PHYS);
    pthread_mutex_destroy(&s->mutex);
    free(s);
}

/* ------------------------------------------------------------------ the process ------------------------------- */

void redis_kill(redis_server *s)
{
    pthread_mutex_lock(&s->mutex);
    look_close(s);
    pthread_mutex_unlock(&s->mutex);
    if (s->pid == 0)
        return;
    kill(s->pid, SIGKILL);
    while (waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    s->pid = 0;
}

/* A stop is asked for by kill() and done a moment later: waits until it is. Of a server that is gone the pid is 0,
 * which would be the whole group of processes: other tests, too. */
void redis_stop(redis_server *s)
{
    int how;

    if (s->pid == 0)
        return;
    kill(s->pid, SIGSTOP);
    while (waitpid(s->pid, &how, WUNTRACED) < 0 && errno == EINTR)
        continue;
}

void redis_cont(redis_server *s)
{
    if (s->pid != 0)
        kill(s->pid, SIGCONT);
}

int redis_port(const redis_server *s)
{
    return s->port;
}

int redis_tls_port(const redis_server *s)
{
    return s->tls_port;
}

int redis_bus_port(const redis_server *s)
{
    return s->bus_port;
}

pid_t redis_pid(const redis_server *s)
{
    return s->pid;
}

const char *redis_url(const redis_server *s)
{
    return s->url;
}

const char *redis_upstream(const redis_server *s)
{
    return s->upstream;
}

const char *redis_socket(const redis_server *s)
{
    return s->socket;
}

const char *redis_folder(const redis_server *s)
{
    return s->folder;
}

/* ------------------------------------------------------------------ looking ----------------------------------- */

/* One more try on a new connection: the server may have ended the old one. */
static redisReply *ask(redis_server *s, const char *format, va_list ap)
{
    redisReply *reply = NULL;

    pthread_mutex_lock(&s->mutex);
    for (int tries = 0; tries < 2 && !reply; tries++) {
        va_list copy;
        if (!s->look && !look_open(s))
            continue;
        va_copy(copy, ap);
        reply = redisvCommand(s->look, format, copy);
        va_end(copy);
        if (!reply)
            look_close(s);
    }
    pthread_mutex_unlock(&s->mutex);
    return reply;
}

static redisReply *must(redis_server *s, redisReply *reply, const char *format)
{
    if (!reply) {
        errno = ETIMEDOUT;
        die(s, format);
    }
    return reply;
}

redisReply *redis_ask(redis_server *s, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    redisReply *reply = ask(s, format, ap);
    va_end(ap);
    return reply;
}

redisReply *redis_ask_words(redis_server *s, int count, const char **words, const size_t *lens)
{
    redisReply *reply = NULL;

    pthread_mutex_lock(&s->mutex);
    if (s->look || look_open(s))
        reply = redisCommandArgv(s->look, count, words, lens);
    if (!reply)
        look_close(s);
    pthread_mutex_unlock(&s->mutex);
    return reply;
}

int64_t redis_int(redis_server *s, const char *format, ...)
{
    va_list ap;
    int64_t value = INT64_MIN;

    va_start(ap, format);
    redisReply *reply = must(s, ask(s, format, ap), format);
    va_end(ap);
    if (reply->type == REDIS_REPLY_INTEGER)
        value = reply->integer;
    else if (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS)
        value = strtoll(reply->str, NULL, 10);
    freeReplyObject(reply);
    return value;
}

const char *redis_text(redis_server *s, const char *format, ...)
{
    static __thread char text[8192];
    va_list              ap;

    va_start(ap, format);
    redisReply *reply = must(s, ask(s, format, ap), format);
    va_end(ap);
    text[0] = '\0';
    if (reply->str)
        snprintf(text, sizeof(text), "%s", reply->str);
    freeReplyObject(reply);
    return text;
}

bool redis_says(redis_server *s, const char *command, const char *text)
{
    redisReply *reply = redis_gone(s) ? NULL : redis_ask(s, command);
    bool        does = reply && reply->str && strstr(reply->str, text) != NULL;

    if (reply)
        freeReplyObject(reply);
    return does;
}

void redis_do(redis_server *s, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    redisReply *reply = must(s, ask(s, format, ap), format);
    va_end(ap);
    if (reply->type == REDIS_REPLY_ERROR) {
        fprintf(stderr, "redis-server: %s: %s\n", format, reply->str);
        exit(3);
    }
    freeReplyObject(reply);
}

int64_t redis_pttl(redis_server *s, const char *key)
{
    return redis_int(s, "PTTL %s", key);
}

int64_t redis_keys(redis_server *s)
{
    return redis_int(s, "DBSIZE");
}

/* Calls of one line of commandstats or errorstats: "cmdstat_evalsha:calls=12,usec=..." */
static int64_t figure(const char *line, const char *what)
{
    const char *at = strstr(line, what);

    return at ? strtoll(at + strlen(what), NULL, 10) : 0;
}

/* The figure `what` in the line that begins with `start` of a section of INFO; 0: there is no such line. */
static int64_t figure_of(redis_server *s, const char *section, const char *start, const char *what)
{
    redisReply *reply = must(s, redis_ask(s, "INFO %s", section), section);
    const char *line = strstr(reply->str, start);
    int64_t     value = line ? figure(line, what) : 0;

    freeReplyObject(reply);
    return value;
}

int64_t redis_calls(redis_server *s, const char *command)
{
    char start[64];

    snprintf(start, sizeof(start), "cmdstat_%s:", command);
    return figure_of(s, "commandstats", start, "calls=");
}

int64_t redis_errors(redis_server *s, const char *prefix)
{
    char start[64];

    snprintf(start, sizeof(start), "errorstat_%s:", prefix);
    return figure_of(s, "errorstats", start, "count=");
}

/* What a script calls is counted by commandstats too, so that the few commands that clients send are summed up. */
int64_t redis_commands(redis_server *s)
{
    static const char *const sent[] = {"evalsha",    "eval",  "script|load", "subscribe", "unsubscribe",   "ping",
                                       "ssubscribe", "hello", "auth",        "select",    "client|setname"};
    int64_t                  sum = 0;

    for (size_t i = 0; i < sizeof(sent) / sizeof(sent[0]); i++)
        sum += redis_calls(s, sent[i]);
    return sum;
}

void redis_forget(redis_server *s)
{
    redis_do(s, "CONFIG RESETSTAT");
}

int64_t redis_clients(redis_server *s)
{
    redisReply *reply = must(s, redis_ask(s, "INFO clients"), "INFO clients");
    int64_t     clients = figure(reply->str, "connected_clients:") - 1;

    freeReplyObject(reply);
    return clients;
}

int64_t redis_channels(redis_server *s)
{
    redisReply *reply = must(s, redis_ask(s, "PUBSUB CHANNELS"), "PUBSUB CHANNELS");
    int64_t     count = (int64_t)reply->elements;

    freeReplyObject(reply);
    return count;
}
