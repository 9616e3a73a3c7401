/* SPDX-License-Identifier: MIT */
/* See conn.h. */
#include "stores/mysql/conn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"
#include "base/error.h"
#include "stores/mysql/dialect.h"

/* Of a call of the client library that waits for its socket; TLS needs more than the library's default. */
#define STACK_SIZE ((size_t)256 << 10)

#define TLS_FAILED 2026

/* ---- Descriptors and forks -------------------------------------------------------------------------------------- */

/* The library's sockets are not close-on-exec from the start. A fork waits until a new one is. */
static pthread_mutex_t door = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t  door_once = PTHREAD_ONCE_INIT;

static void door_lock(void)
{
    pthread_mutex_lock(&door);
}

static void door_unlock(void)
{
    pthread_mutex_unlock(&door);
}

static void door_make(void)
{
    pthread_atfork(door_lock, door_unlock, door_unlock);
    mysql_library_init(0, NULL, NULL);
}

static void close_on_exec(MYSQL *mysql)
{
    my_socket fd = mysql_get_socket(mysql);

    if (fd >= 0)
        fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* ---- SIGPIPE ---------------------------------------------------------------------------------------------------- */

typedef struct pipe_guard {
    sigset_t old;
    bool     guards;
} pipe_guard;

static bool pipe_pending(void)
{
    sigset_t pending;

    sigpending(&pending);
    return sigismember(&pending, SIGPIPE) == 1;
}

static void pipe_begin(pipe_guard *guard)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    guard->guards = !pipe_pending();
    if (guard->guards)
        pthread_sigmask(SIG_BLOCK, &set, &guard->old);
}

/* One that a write to a dead server has raised is taken away. */
static void pipe_end(const pipe_guard *guard)
{
    const struct timespec now = {0};
    sigset_t              set;

    if (!guard->guards)
        return;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    if (pipe_pending())
        while (sigtimedwait(&set, NULL, &now) < 0 && errno == EINTR)
            continue;
    pthread_sigmask(SIG_SETMASK, &guard->old, NULL);
}

/* ---- Waiting ---------------------------------------------------------------------------------------------------- */

/* What the library waits for, until the deadline. 0: it did not come, or the caller is to come back. */
static int wait_for(const hf__my_conn *conn, int wanted, int64_t deadline_us)
{
    struct pollfd fds[2] = {{.fd = mysql_get_socket(conn->mysql)}, {.fd = conn->stop_fd, .events = POLLIN}};
    nfds_t        count = conn->stop_fd > 0 ? 2 : 1;
    int           ready;

    fds[0].events = (short)((wanted & MYSQL_WAIT_READ ? POLLIN : 0) | (wanted & MYSQL_WAIT_WRITE ? POLLOUT : 0) |
                            (wanted & MYSQL_WAIT_EXCEPT ? POLLPRI : 0));
    do {
        int64_t left_us = deadline_us - hf__now_us();
        if (left_us <= 0)
            return 0;
        struct timespec ts = {.tv_sec = left_us / HF_US_PER_S, .tv_nsec = left_us % HF_US_PER_S * 1000};
        ready = ppoll(fds, count, &ts, NULL);
    } while (ready == 0 || (ready < 0 && errno == EINTR));
    if (ready < 0 || (count == 2 && fds[1].revents != 0))
        return 0;
    if (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL))
        return wanted & ~MYSQL_WAIT_TIMEOUT;
    return (fds[0].revents & POLLIN ? MYSQL_WAIT_READ : 0) | (fds[0].revents & POLLOUT ? MYSQL_WAIT_WRITE : 0) |
           (fds[0].revents & POLLPRI ? MYSQL_WAIT_EXCEPT : 0);
}

/* Runs a call of the library in its form that does not block: `wait` is what its start returned, `go_on` its other
 * half. False: the deadline passed, and the connection can only be closed. */
#define FINISHED(conn, wait, deadline_us, go_on)                                                                       \
    ({                                                                                                                 \
        int wait_ = (wait), ready_ = 1;                                                                                \
        while (wait_ != 0 && (ready_ = wait_for((conn), wait_, (deadline_us))) != 0)                                   \
            wait_ = (go_on);                                                                                           \
        ready_ != 0;                                                                                                   \
    })

/* ---- Failures --------------------------------------------------------------------------------------------------- */

static hf__trouble trouble_of(unsigned number)
{
    switch (number) {
    case 1213: /* deadlock */
    case 1205: /* lock wait timeout */
    case 1020: /* the row has changed */
    case 1062: /* a duplicate, of a row that another made at the same moment */
    case 1317: /* the statement was killed */
    case 1969: /* statement timeout */
    case 3024: /* the same, MySQL's */
        return HF__TROUBLE_AGAIN;
    case 1146: /* no such table */
        return HF__TROUBLE_ABSENT;
    case 1040: /* too many connections */
    case 1203:
    case 1226:
    case 1047: /* the node is no part of its cluster */
    case 1053: /* the server shuts down */
    case 1927: /* the connection was killed */
    case 1290: /* the server is read-only: its successor may not be */
    case 1792:
    case 1836:
        return HF__TROUBLE_LOST;
    default:
        return (number >= 2000 && number < 3000) || number >= 5000 ? HF__TROUBLE_LOST : HF__TROUBLE_REFUSED;
    }
}

/* A failure of TLS is a refusal where a certificate, a key or the lack of it is to blame, for which the library has
 * words and no numbers; else the connection ended in the middle of it. */
static hf__trouble trouble_with(unsigned number, const char *text)
{
    static const char *const words[] = {"certificate", "key", "SSL is required", " alert "};

    for (size_t i = 0; number == TLS_FAILED && i < sizeof words / sizeof words[0]; i++)
        if (strstr(text, words[i]) != NULL)
            return HF__TROUBLE_REFUSED;
    return trouble_of(number);
}

static const char *advice(unsigned number, hf__trouble trouble)
{
    switch (trouble) {
    case HF__TROUBLE_AGAIN:
        return "somebody else holds its row";
    case HF__TROUBLE_ABSENT:
        return "the tables are not there; make them with `holdfast schema mysql`, or leave create=no out";
    case HF__TROUBLE_LOST:
        return number == 1290 || number == 1792 || number == 1836 ? "a server that takes writes is needed"
                                                                  : "is it running, and reachable from here?";
    default:
        return "see the rights and the settings in docs/stores/mysql.md";
    }
}

int hf__my_fail(hf__my_conn *conn, hf__reply *reply, hf_error *err)
{
    unsigned    number = mysql_errno(conn->mysql);
    hf__trouble trouble = trouble_with(number, mysql_error(conn->mysql));
    int         status = trouble == HF__TROUBLE_AGAIN || trouble == HF__TROUBLE_LOST ? HF_EUNREACHABLE : HF_EREFUSED;

    if (reply != NULL)
        reply->trouble = trouble;
    hf__fail(err, status, "the lock database %s: %.200s (MySQL %u); %s", conn->target->url, mysql_error(conn->mysql),
             number, advice(number, trouble));
    if (err != NULL)
        err->sys = (int)number;
    return status;
}

static int late(const hf__my_conn *conn, hf__reply *reply, hf_error *err)
{
    if (reply != NULL)
        reply->trouble = HF__TROUBLE_LOST;
    return hf__fail(err, HF_EUNREACHABLE, "the lock database %s did not answer in time", conn->target->url);
}

/* ---- Batches ---------------------------------------------------------------------------------------------------- */

static int64_t number_of(const char *text, size_t len)
{
    bool    negative = len > 0 && text[0] == '-';
    int64_t number = 0;

    for (size_t i = negative; i < len && text[i] >= '0' && text[i] <= '9'; i++)
        if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, text[i] - '0', &number))
            return 0;
    return negative ? -number : number;
}

static size_t give_row(MYSQL_RES *result, MYSQL_ROW row, hf__reply *reply)
{
    hf__sql_value        columns[HF__COLUMNS_MOST];
    const unsigned long *lengths = mysql_fetch_lengths(result);
    unsigned             count = mysql_num_fields(result);
    size_t               bytes = 0;

    count = count < HF__COLUMNS_MOST ? count : HF__COLUMNS_MOST;
    for (unsigned i = 0; i < count; i++) {
        columns[i] = HF__BYTES(row[i] != NULL ? row[i] : "", row[i] != NULL ? lengths[i] : 0);
        columns[i].number = number_of(columns[i].bytes, columns[i].len);
        bytes += columns[i].len;
    }
    if (reply->row != NULL)
        reply->row(reply->arg, columns, (int)count);
    return bytes;
}

/* LAST_INSERT_ID(number) comes with the answer, without rows: it is given as one. */
static void give_drawn(const hf__my_conn *conn, hf__reply *reply)
{
    hf__sql_value drawn = HF__NUMBER((int64_t)mysql_insert_id(conn->mysql));

    if (drawn.number != 0 && reply->row != NULL)
        reply->row(reply->arg, &drawn, 1);
}

/* The rows of one statement, as they come. */
static int read_rows(hf__my_conn *conn, int64_t deadline_us, hf__reply *reply, size_t *bytes, hf_error *err)
{
    MYSQL_RES *result = mysql_use_result(conn->mysql);
    MYSQL_ROW  row;
    int        status = HF_OK;

    if (result == NULL)
        return hf__my_fail(conn, reply, err);
    for (;;) {
        if (!FINISHED(conn, mysql_fetch_row_start(&row, result), deadline_us,
                      mysql_fetch_row_cont(&row, result, ready_)))
            return late(conn, reply, err); /* the result goes with its connection */
        if (row == NULL)
            break;
        *bytes += give_row(result, row, reply);
        if (*bytes > HF__REPLY_BYTES_MOST) {
            reply->trouble = HF__TROUBLE_LOST;
            return hf__fail(err, HF_EEXHAUSTED, "the lock database %s: its answer is longer than %u MiB",
                            conn->target->url, HF__REPLY_BYTES_MOST >> 20);
        }
    }
    if (mysql_errno(conn->mysql) != 0)
        status = hf__my_fail(conn, reply, err);
    mysql_free_result(result);
    return status;
}

static int read_answers(hf__my_conn *conn, int64_t deadline_us, hf__reply *reply, hf_error *err)
{
    size_t bytes = 0;
    int    more, status;

    for (;;) {
        if (mysql_field_count(conn->mysql) > 0) {
            status = read_rows(conn, deadline_us, reply, &bytes, err);
            if (status != HF_OK)
                return status;
        } else {
            give_drawn(conn, reply);
            if (reply->count < reply->room)
                reply->changed[reply->count] = (int64_t)mysql_affected_rows(conn->mysql);
        }
        reply->count++;
        if (!FINISHED(conn, mysql_next_result_start(&more, conn->mysql), deadline_us,
                      mysql_next_result_cont(&more, conn->mysql, ready_)))
            return late(conn, reply, err);
        if (more > 0)
            return hf__my_fail(conn, reply, err);
        if (more < 0)
            return HF_OK;
    }
}

static int ask(hf__my_conn *conn, const char *text, size_t len, int64_t deadline_us, hf__reply *reply, hf_error *err)
{
    int failed;

    if (!FINISHED(conn, mysql_real_query_start(&failed, conn->mysql, text, len), deadline_us,
                  mysql_real_query_cont(&failed, conn->mysql, ready_)))
        return late(conn, reply, err);
    return failed ? hf__my_fail(conn, reply, err) : read_answers(conn, deadline_us, reply, err);
}

static int conn_exchange(void *arg, const char *text, size_t len, int64_t deadline_us, hf__reply *reply, hf_error *err)
{
    pipe_guard guard;
    int        status;

    pipe_begin(&guard);
    status = ask(arg, text, len, deadline_us, reply, err);
    pipe_end(&guard);
    return status;
}

/* ---- Connecting ------------------------------------------------------------------------------------------------- */

/* Own settings, whatever the server's defaults and its init_connect are. A lock wait ends after a second, and is asked
 * again: so no answer is later than its deadline by more. An idle connection is not to be cut off. */
static const char set_up[] =
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED;"
    "SET SESSION TRANSACTION READ WRITE;"
    "SET SESSION autocommit=1,completion_type=0,time_zone='+00:00',sql_mode='STRICT_ALL_TABLES',sql_safe_updates=0,"
    "sql_select_limit=18446744073709551615,innodb_lock_wait_timeout=1,lock_wait_timeout=1,wait_timeout=31536000,"
    "interactive_timeout=31536000;"
    "SELECT @@autocommit";

static bool take_autocommit(void *arg, const hf__sql_value *columns, int count)
{
    *(int64_t *)arg = count == 1 ? columns[0].number : 0;
    return true;
}

static int start_session(hf__my_conn *conn, int64_t deadline_us, hf_error *err)
{
    int64_t   autocommit = 0;
    hf__reply reply = {.row = take_autocommit, .arg = &autocommit};
    int       status = ask(conn, set_up, sizeof set_up - 1, deadline_us, &reply, err);

    if (status == HF_OK && autocommit != 1)
        status = hf__fail(err, HF_EREFUSED, "the lock database %s does not let this session have autocommit",
                          conn->target->url);
    return status;
}

static void set_options(hf__my_conn *conn)
{
    const hf__my_target *target = conn->target;
    MYSQL               *mysql = conn->mysql;
    size_t               stack = STACK_SIZE;
    unsigned long        packet = 16ul << 20;
    unsigned             no = 0, tcp = MYSQL_PROTOCOL_TCP;
    my_bool              yes = 1;

    mysql_options(mysql, MYSQL_OPT_NONBLOCK, &stack);
    mysql_options(mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
    mysql_options(mysql, MYSQL_OPT_LOCAL_INFILE, &no);
    mysql_options(mysql, MYSQL_OPT_MAX_ALLOWED_PACKET, &packet);
    mysql_options4(mysql, MYSQL_OPT_CONNECT_ATTR_ADD, "program_name", "holdfast");
    if (target->tcp)
        mysql_options(mysql, MYSQL_OPT_PROTOCOL, &tcp);
    if (!target->tls)
        return;
    mysql_options(mysql, MYSQL_OPT_SSL_ENFORCE, &yes);
    mysql_options(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &yes);
    mysql_options(mysql, MYSQL_OPT_SSL_CA, target->ca);
    mysql_options(mysql, MYSQL_OPT_SSL_CERT, target->cert);
    mysql_options(mysql, MYSQL_OPT_SSL_KEY, target->key);
}

/* Each step may make a socket: none of them beside a fork. */
static int connect_start(hf__my_conn *conn, MYSQL **made)
{
    const hf__my_target *t = conn->target;
    int                  wait;

    door_lock();
    wait = mysql_real_connect_start(made, conn->mysql, t->host, t->user, t->password, t->database, t->port, t->socket,
                                    CLIENT_FOUND_ROWS | CLIENT_MULTI_STATEMENTS);
    close_on_exec(conn->mysql);
    door_unlock();
    return wait;
}

static int connect_go_on(hf__my_conn *conn, MYSQL **made, int ready)
{
    int wait;

    door_lock();
    wait = mysql_real_connect_cont(made, conn->mysql, ready);
    close_on_exec(conn->mysql);
    door_unlock();
    return wait;
}

static void conn_close(void *arg)
{
    hf__my_conn *conn = arg;
    my_socket    fd = conn->mysql != NULL ? mysql_get_socket(conn->mysql) : -1;
    pipe_guard   guard;

    if (conn->mysql == NULL)
        return;
    pipe_begin(&guard);
    if (fd >= 0)
        shutdown(fd, SHUT_RDWR); /* no farewell waits for room in a buffer */
    mysql_close(conn->mysql);
    pipe_end(&guard);
    conn->mysql = NULL;
}

static int conn_connect(void *arg, const void *target, int64_t deadline_us, hf_error *err)
{
    hf__my_conn *conn = arg;
    MYSQL       *made = NULL;
    pipe_guard   guard;
    int          status;

    pthread_once(&door_once, door_make);
    conn->target = target;
    conn->mysql = mysql_init(NULL);
    if (conn->mysql == NULL)
        return hf__fail(err, HF_EEXHAUSTED, "out of memory for a connection");
    set_options(conn);
    pipe_begin(&guard);
    if (!FINISHED(conn, connect_start(conn, &made), deadline_us, connect_go_on(conn, &made, ready_)))
        status = late(conn, NULL, err);
    else if (made == NULL)
        status = hf__my_fail(conn, NULL, err);
    else
        status = start_session(conn, deadline_us, err);
    pipe_end(&guard);
    if (status != HF_OK)
        conn_close(conn);
    return status;
}

/* Nothing comes unasked but the end. */
static bool conn_ended(void *arg)
{
    const hf__my_conn *conn = arg;
    struct pollfd      fd = {.fd = mysql_get_socket(conn->mysql), .events = POLLIN | POLLRDHUP};

    return poll(&fd, 1, 0) != 0;
}

const hf__driver hf__mysql_driver = {
    .name = "MySQL",
    .size = sizeof(hf__my_conn),
    .dialect = &hf__mysql_dialect,
    .connect = conn_connect,
    .close = conn_close,
    .ended = conn_ended,
    .exchange = conn_exchange,
};
