/* SPDX-License-Identifier: MIT */
/* See listen.h. */
#include "stores/postgres/listen.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"
#include "base/thread.h"
#include "stores/postgres/postgres.h"

#define AGAIN_MS 1000
#define SWALLOWED_MS 60000

static void set_ready(hf__listen *listen, bool ready, const char *why)
{
    pthread_mutex_lock(&listen->db->waiters.mutex);
    listen->ready = ready;
    snprintf(listen->why, sizeof listen->why, "%.190s", why);
    pthread_mutex_unlock(&listen->db->waiters.mutex);
}

/* False: it is time to end. */
static bool pause_ms(const hf__listen *listen, int64_t ms)
{
    struct pollfd fd = {.fd = listen->stop_fd, .events = POLLIN};

    return poll(&fd, 1, (int)ms) == 0;
}

/* Waits for the socket or the end; what came has been taken in. False: lost, or the end, or nothing by then. */
static bool take_in(const hf__listen *listen, hf__pg_conn *conn, int ms)
{
    struct pollfd fds[2] = {{.fd = PQsocket(conn->pg), .events = POLLIN}, {.fd = listen->stop_fd, .events = POLLIN}};

    if (poll(fds, 2, ms) <= 0 || fds[1].revents != 0)
        return false;
    return PQconsumeInput(conn->pg) == 1 && PQstatus(conn->pg) == CONNECTION_OK;
}

/* Tells the waiters whose ids came; true: the message to ourselves was among them. */
static bool deliver(const hf__listen *listen, hf__pg_conn *conn)
{
    const hf_store_env *env = listen->db->base.env;
    bool                probe = false;
    PGnotify           *note;
    hf_id               id;

    while ((note = PQnotifies(conn->pg)) != NULL) {
        if (hf__id_parse(&id, note->extra))
            env->post_claim(env->core, &id);
        else
            probe = true;
        PQfreemem(note);
    }
    return probe;
}

static int say(hf__pg_conn *conn, const char *sql, int64_t until_us, hf_error *err)
{
    hf__reply reply = {.row = NULL};

    return hf__postgres_driver.exchange(conn, sql, strlen(sql), until_us, &reply, err);
}

/* Sends a message to the channel, by a connection for this once: to the one that sends it itself, a message comes with
 * the answer, also through a pooler that swallows all others. */
static int send_probe(const hf__db *db, const char *channel, int64_t until_us, hf_error *err)
{
    hf__pg_conn conn = {0};
    char        sql[160];
    int         status = hf__postgres_driver.connect(&conn, db->target, until_us, err);

    if (status != HF_OK)
        return status;
    snprintf(sql, sizeof sql, "SELECT pg_notify('%s','probe')", channel);
    status = say(&conn, sql, until_us, err);
    hf__postgres_driver.close(&conn);
    return status;
}

/* Connects, listens, and sees a message arrive. Otherwise nothing is left open. */
static int begin(hf__listen *listen, hf__pg_conn *conn, int64_t until_us, hf_error *err)
{
    hf__db *db = listen->db;
    char    channel[64], hex[HF_ID_HEX], sql[160];
    bool    arrived = false;
    int     status = hf__postgres_driver.connect(conn, db->target, until_us, err);

    if (status != HF_OK)
        return status;
    hf__id_hex(&db->base.env->client, hex);
    snprintf(channel, sizeof channel, "holdfast_%s", hex);
    snprintf(sql, sizeof sql, "LISTEN %s", channel);
    status = say(conn, sql, until_us, err);
    if (status == HF_OK)
        status = send_probe(db, channel, until_us, err);
    while (status == HF_OK && !(arrived = deliver(listen, conn)))
        if (!take_in(listen, conn, (int)hf__ms_until(until_us, hf__now_us())))
            break;
    if (status == HF_OK && !arrived)
        status = hf__fail(err, HF_EUNSUPPORTED, "notifications do not arrive here (a pooler between?)");
    if (status != HF_OK)
        hf__postgres_driver.close(conn);
    return status;
}

static void *listen_run(void *arg)
{
    hf__listen         *listen = arg;
    const hf_store_env *env = listen->db->base.env;
    hf__pg_conn         conn = {0};
    hf_error            err = {0};
    int                 status;

    do {
        status = begin(listen, &conn, hf__db_soon(listen->db), &err);
        set_ready(listen, status == HF_OK, status == HF_OK ? "" : err.text);
        if (status != HF_OK)
            continue;
        env->post(env->core, NULL, 0); /* what came before was not heard */
        do
            deliver(listen, &conn);
        while (take_in(listen, &conn, -1));
        set_ready(listen, false, "the listening connection was lost");
        hf__postgres_driver.close(&conn);
        if (pause_ms(listen, 0))
            env->post(env->core, NULL, 0); /* whoever relied on it asks now */
    } while (pause_ms(listen, status == HF_EUNSUPPORTED ? SWALLOWED_MS : AGAIN_MS));
    return NULL;
}

int hf__listen_try(hf__listen *listen, int64_t deadline_us, hf_error *err)
{
    hf__pg_conn conn = {0};
    int         status = begin(listen, &conn, deadline_us, err);

    if (status == HF_OK)
        hf__postgres_driver.close(&conn);
    return status;
}

/* ---- What the waiters ask --------------------------------------------------------------------------------------- */

/* Under the mutex. Before the first wait it is not ready; wake() begins it then. */
static bool listen_hears(hf__db *db, hf__waiter *waiter, bool has_bell)
{
    (void)waiter;
    (void)has_bell;
    return hf__postgres_listen(db)->ready;
}

static void listen_wake(hf__db *db)
{
    hf__listen *listen = hf__postgres_listen(db);

    pthread_mutex_lock(&db->waiters.mutex);
    if (!listen->started && !listen->off && db->waiters.list != NULL)
        listen->started = hf__thread_start(&listen->thread, listen_run, listen, "hf-listen") == 0;
    pthread_mutex_unlock(&db->waiters.mutex);
}

static void listen_close(hf__db *db)
{
    hf__listen    *listen = hf__postgres_listen(db);
    const uint64_t one = 1;

    if (listen->started && write(listen->stop_fd, &one, sizeof one) == (ssize_t)sizeof one)
        pthread_join(listen->thread, NULL);
    close(listen->stop_fd);
}

const hf__db_news hf__postgres_news = {listen_hears, listen_wake, listen_close};

bool hf__listen_init(hf__listen *listen, hf__db *db)
{
    listen->db = db;
    listen->off = !((const hf__pg_target *)db->target)->news;
    snprintf(listen->why, sizeof listen->why, "%s", listen->off ? "the URL says news=no" : "nobody has waited yet");
    listen->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return listen->stop_fd >= 0;
}
