/* SPDX-License-Identifier: MIT */
/* See dbserver.h. */
#include "lib/dbserver.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <grp.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_MS 60000
#define TRY_MS 50
#define ARGS_MOST 40

const char *const *dbserver_more;

static void sleep_for(int ms)
{
    struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    while (nanosleep(&ts, &ts) != 0 && errno == EINTR)
        continue;
}

/* ---- Processes -------------------------------------------------------------------------------------------------- */

/* Who runs PostgreSQL; NULL: ourselves. */
static const struct passwd *other_user(const dbserver *server)
{
    const struct passwd *user;

    if (!server->postgres || geteuid() != 0)
        return NULL;
    user = getpwnam("postgres");
    return user != NULL ? user : getpwnam("nobody");
}

static _Noreturn void run(const dbserver *server, const struct passwd *user, const char *const *argv, pid_t parent)
{
    char log[PATH_MAX + 8];
    int  fd;

    snprintf(log, sizeof log, "%s/log", server->folder);
    if (user != NULL && (setgroups(0, NULL) != 0 || setgid(user->pw_gid) != 0 || setuid(user->pw_uid) != 0))
        _exit(126);
    fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0 || chdir(server->folder) != 0)
        _exit(126);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* after the change of user, which clears it */
    if (getppid() != parent)
        _exit(126);
    setenv("TMPDIR", server->folder, 1);
    execvp(argv[0], (char *const *)argv);
    _exit(127);
}

static pid_t spawn(const dbserver *server, const char *const *argv)
{
    const struct passwd *user = other_user(server);
    pid_t                parent = getpid(), pid = fork();

    if (pid == 0)
        run(server, user, argv, parent);
    return pid;
}

/* The server itself, with what a test adds. */
static pid_t spawn_server(const dbserver *server, const char *const *argv)
{
    const char *all[ARGS_MOST + 1] = {NULL};
    int         count = 0;

    for (; argv[count] != NULL && count < ARGS_MOST; count++)
        all[count] = argv[count];
    for (const char *const *more = dbserver_more; more != NULL && *more != NULL && count < ARGS_MOST; more++)
        all[count++] = *more;
    return spawn(server, all);
}

static bool finish(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int dbserver_free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t          size = sizeof address;
    int                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), port = 0;

    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, size) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &size) == 0)
        port = ntohs(address.sin_port);
    if (fd >= 0)
        close(fd);
    return port;
}

/* ---- MariaDB ---------------------------------------------------------------------------------------------------- */

static bool write_file(const dbserver *server, const char *name, const char *text)
{
    char  path[PATH_MAX + 32];
    FILE *file;

    snprintf(path, sizeof path, "%s/%s", server->folder, name);
    file = fopen(path, "we");
    if (file == NULL)
        return false;
    fputs(text, file);
    return fclose(file) == 0;
}

static bool mysql_make(const dbserver *server)
{
    char        data[PATH_MAX + 32];
    const char *argv[] = {"mariadb-install-db",
                          "--no-defaults",
                          data,
                          "--auth-root-authentication-method=normal",
                          "--skip-test-db",
                          "--innodb-log-file-size=8M",
                          "--innodb-buffer-pool-size=16M",
                          geteuid() == 0 ? "--user=root" : NULL,
                          NULL};

    snprintf(data, sizeof data, "--datadir=%s/data", server->folder);
    return finish(spawn(server, argv)) && write_file(server, "init.sql",
                                                     "CREATE DATABASE IF NOT EXISTS locks;\n"
                                                     "CREATE USER IF NOT EXISTS app@'%';\n"
                                                     "GRANT ALL ON *.* TO app@'%' WITH GRANT OPTION;\n");
}

static pid_t mysql_run(const dbserver *server)
{
    char        data[PATH_MAX + 32], init[PATH_MAX + 32], port[32];
    const char *argv[] = {"mariadbd",
                          "--no-defaults",
                          data,
                          init,
                          port,
                          "--bind-address=127.0.0.1",
                          "--socket=server.sock",
                          "--pid-file=server.pid",
                          "--skip-log-bin",
                          "--skip-name-resolve",
                          "--performance-schema=OFF",
                          "--max-connections=500",
                          "--innodb-buffer-pool-size=32M",
                          "--innodb-log-file-size=8M",
                          server->durable ? "--innodb-flush-log-at-trx-commit=1" : "--innodb-flush-log-at-trx-commit=2",
                          geteuid() == 0 ? "--user=root" : NULL,
                          NULL};

    snprintf(data, sizeof data, "--datadir=%s/data", server->folder);
    snprintf(init, sizeof init, "--init-file=%s/init.sql", server->folder);
    snprintf(port, sizeof port, "--port=%d", server->port);
    return spawn_server(server, argv);
}

/* It greets whom it lets in. */
static bool mysql_answers(const dbserver *server)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)server->port)};
    struct timeval patience = {.tv_sec = 2};
    int            fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    char           byte;
    bool           answers;

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    answers = connect(fd, (struct sockaddr *)&address, sizeof address) == 0 && recv(fd, &byte, 1, 0) == 1;
    close(fd);
    return answers;
}

/* ---- PostgreSQL ------------------------------------------------------------------------------------------------- */

/* Debian keeps the server's programs off the path. */
static const char *postgres_program(const char *name)
{
    static char path[PATH_MAX];

    for (int version = 20; version >= 12; version--) {
        snprintf(path, sizeof path, "/usr/lib/postgresql/%d/bin/%s", version, name);
        if (access(path, X_OK) == 0)
            return path;
    }
    snprintf(path, sizeof path, "%s", name);
    return path;
}

static bool postgres_make(const dbserver *server)
{
    const struct passwd *user = other_user(server);
    const char          *argv[] = {postgres_program("initdb"),
                                   "--pgdata=data",
                                   "--username=app",
                                   "--auth=trust",
                                   "--no-sync",
                                   "--encoding=UTF8",
                                   "--locale=C",
                                   NULL};

    if (user != NULL && chown(server->folder, user->pw_uid, user->pw_gid) != 0)
        return false;
    return finish(spawn(server, argv));
}

static pid_t postgres_run(const dbserver *server)
{
    char        port[16], data[PATH_MAX + 8];
    const char *argv[] = {postgres_program("postgres"),
                          "-D",
                          data,
                          "-p",
                          port,
                          "-c",
                          "listen_addresses=127.0.0.1",
                          "-c",
                          "unix_socket_directories=",
                          "-c",
                          "max_connections=300",
                          "-c",
                          "shared_buffers=32MB",
                          "-c",
                          server->durable ? "fsync=on" : "fsync=off",
                          "-c",
                          server->durable ? "shared_preload_libraries=pg_stat_statements" : "shared_preload_libraries=",
                          NULL};

    snprintf(port, sizeof port, "%d", server->port);
    snprintf(data, sizeof data, "%s/data", server->folder);
    return spawn_server(server, argv);
}

static bool postgres_answers(const dbserver *server)
{
    char        port[16];
    const char *argv[] = {postgres_program("pg_isready"), "-q", "-h", "127.0.0.1", "-p", port, NULL};

    snprintf(port, sizeof port, "%d", server->port);
    return finish(spawn(server, argv));
}

/* ---- Both ------------------------------------------------------------------------------------------------------- */

static void show_log(const dbserver *server)
{
    char  path[PATH_MAX + 8], line[512];
    FILE *file;

    snprintf(path, sizeof path, "%s/log", server->folder);
    file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        fputs(line, stderr);
    if (file != NULL)
        fclose(file);
}

bool dbserver_again(dbserver *server)
{
    server->pid = server->postgres ? postgres_run(server) : mysql_run(server);
    for (int ms = 0; server->pid > 0 && ms < START_MS; ms += TRY_MS) {
        if (server->postgres ? postgres_answers(server) : mysql_answers(server))
            return true;
        if (waitpid(server->pid, NULL, WNOHANG) != 0)
            break;
        sleep_for(TRY_MS);
    }
    fprintf(stderr, "the database server did not start:\n");
    show_log(server);
    return false;
}

bool dbserver_start(dbserver *server, const char *kind, bool durable)
{
    char here[PATH_MAX - 32];

    memset(server, 0, sizeof *server);
    server->postgres = strcmp(kind, "postgresql") == 0;
    server->durable = durable;
    server->port = dbserver_free_port();
    if (getcwd(here, sizeof here) == NULL)
        return false;
    snprintf(server->folder, sizeof server->folder, "%s/db-XXXXXX", here);
    if (mkdtemp(server->folder) == NULL) {
        server->folder[0] = '\0';
        return false;
    }
    if (server->postgres)
        snprintf(server->url, sizeof server->url, "postgresql://app@127.0.0.1:%d/postgres", server->port);
    else
        snprintf(server->url, sizeof server->url, "mysql://app@127.0.0.1:%d/locks", server->port);
    if (server->postgres ? postgres_make(server) : mysql_make(server))
        return dbserver_again(server);
    fprintf(stderr, "the database could not be made:\n");
    show_log(server);
    return false;
}

/* PostgreSQL's other processes see the end of the first one, and end. The port and the shared memory are free then. */
void dbserver_kill(dbserver *server)
{
    if (server->pid <= 0)
        return;
    kill(server->pid, SIGKILL);
    finish(server->pid);
    server->pid = 0;
    if (server->postgres)
        sleep_for(300);
}

bool dbserver_reload(const dbserver *server)
{
    return server->postgres ? kill(server->pid, SIGHUP) == 0 : dbserver_sql(server, "FLUSH SSL", NULL, 0);
}

bool dbserver_owner(const dbserver *server, uid_t *user, gid_t *group)
{
    const struct passwd *other = other_user(server);

    if (other == NULL)
        return false;
    *user = other->pw_uid;
    *group = other->pw_gid;
    return true;
}

/* ---- SQL -------------------------------------------------------------------------------------------------------- */

static pid_t sql_run(const dbserver *server, const char *sql, int out)
{
    char        port[16];
    const char *mysql[] = {"mariadb", "--no-defaults",       "--host=127.0.0.1", "--port", port,    "--user=app",
                           "--batch", "--skip-column-names", "--execute",        sql,      "locks", NULL};
    const char *psql[] = {"psql",  "-h", "127.0.0.1",       "-p", port, "-U", "app", "-d", "postgres",
                          "-AtqX", "-v", "ON_ERROR_STOP=1", "-c", sql,  NULL};
    pid_t       parent = getpid(), pid;

    snprintf(port, sizeof port, "%d", server->port);
    pid = fork();
    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || (out >= 0 && dup2(out, 1) < 0))
        _exit(126);
    execvp(server->postgres ? psql[0] : mysql[0], (char *const *)(server->postgres ? psql : mysql));
    _exit(127);
}

pid_t dbserver_sql_start(const dbserver *server, const char *sql)
{
    return sql_run(server, sql, -1);
}

bool dbserver_sql(const dbserver *server, const char *sql, char *text, size_t size)
{
    char    answer[4096];
    size_t  used = 0;
    ssize_t n;
    int     fds[2];
    pid_t   pid;

    if (pipe2(fds, O_CLOEXEC) != 0)
        return false;
    pid = sql_run(server, sql, fds[1]);
    close(fds[1]);
    while ((n = read(fds[0], answer + used, sizeof answer - 1 - used)) > 0)
        used += (size_t)n;
    close(fds[0]);
    answer[used] = '\0';
    answer[strcspn(answer, "\n")] = '\0';
    if (text != NULL)
        snprintf(text, size, "%s", answer);
    return pid > 0 && finish(pid);
}

/* MariaDB's KILL takes a number and no query; so a list of them is made first. */
bool dbserver_cut(const dbserver *server)
{
    char kills[4096];

    if (server->postgres)
        return dbserver_sql(server,
                            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                            " WHERE application_name='holdfast'",
                            NULL, 0);
    return dbserver_sql(server,
                        "SELECT COALESCE(GROUP_CONCAT(CONCAT('KILL ',id) SEPARATOR ';'),'DO 0') FROM"
                        " information_schema.processlist WHERE db='locks' AND id<>CONNECTION_ID()",
                        kills, sizeof kills) &&
           (dbserver_sql(server, kills, NULL, 0) || true); /* one may have gone by itself */
}

static int entry_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path) != 0 && errno != ENOENT ? -1 : 0;
}

void dbserver_end(dbserver *server)
{
    dbserver_kill(server);
    for (int tries = 0; server->folder[0] != '\0' && tries < 20; tries++) {
        if (nftw(server->folder, entry_remove, 16, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT)
            break;
        sleep_for(100);
    }
}
