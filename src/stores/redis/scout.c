/* SPDX-License-Identifier: MIT */
/* Asking a cluster for its view. See scout.h. */
#include "stores/redis/scout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "stores/redis/answer.h"
#include "stores/redis/socket.h"

#define PATIENCE_MS 1000 /* a node that does not answer by then is left for another one */
#define PLACES_MAX 32    /* that are tried in turn */
#define PAUSE_MS 50

/* Among nodes one may hang while the others know who has come in its place: the first that does not answer is left
 * soon, later ones are given more time, since all may be far. */
static int64_t patience_ms(const hf__scout *scout)
{
    return PATIENCE_MS >> (scout->failures < 2 ? 2 - scout->failures : 0);
}

static const char question[] = "*2\r\n$7\r\nCLUSTER\r\n$5\r\nSLOTS\r\n";

/* ---- where to ask ---- */

/* From all that are known some, beginning with another one each time: those of the view, then those of the URL. */
static void set_places(hf__scout *scout)
{
    hf__redis_host list[PLACES_MAX];
    size_t         known = scout->view.count + scout->seeds->host_count, count = 0;
    hf__hosts     *hosts;

    for (size_t i = 0; i < known && count < PLACES_MAX; i++) {
        size_t at = (scout->turn + i) % known;
        list[count++] = at < scout->view.count ? scout->view.hosts[at] : scout->seeds->hosts[at - scout->view.count];
    }
    hosts = hf__hosts_new(list, count);
    if (hosts != NULL)
        hf__at_set(&scout->at, hosts);
}

void hf__scout_turn(hf__scout *scout)
{
    hf_error why;

    scout->turn++;
    set_places(scout);
    hf__fail(&why, HF_EUNREACHABLE, "another node of the cluster is asked");
    hf__conn_leave(scout->conn, &why);
}

/* The host that the connection leads to, from "host:port" or "[host]:port (address)". */
static void asked_host(hf__scout *scout, char *host, size_t size)
{
    char  where[400];
    char *from = where, *end;

    hf__conn_where(scout->conn, where, sizeof where);
    where[strcspn(where, " ")] = '\0';
    end = strrchr(where, ':');
    if (end != NULL)
        *end = '\0';
    if (where[0] == '[') {
        from = where + 1;
        from[strcspn(from, "]")] = '\0';
    }
    snprintf(host, size, "%.*s", (int)(size - 1), from);
}

/* ---- what came ---- */

static int take_view(hf__scout *scout, const redisReply *reply, hf_error *err)
{
    hf__slots view;
    char      host[300], where[300];

    if (reply->type == REDIS_REPLY_ERROR && strstr(reply->str, "cluster support disabled") != NULL)
        return hf__fail(err, HF_EREFUSED, "%s is no node of a cluster but a server by itself: write redis://%s",
                        hf__conn_where(scout->conn, where, sizeof where), where);
    if (reply->type == REDIS_REPLY_ERROR)
        return hf__answer_error(scout->conn, reply, err);
    asked_host(scout, host, sizeof host);
    if (!hf__slots_read(&view, reply, host))
        return hf__answer_odd(scout->conn, err);
    if (view.masters == 0) {
        hf__slots_finish(&view);
        return hf__fail(err, HF_EUNREACHABLE, "the cluster of %s has no slots: nobody has set it up",
                        hf__conn_where(scout->conn, where, sizeof where));
    }
    hf__slots_finish(&scout->view);
    scout->view = view;
    set_places(scout);
    return HF_OK;
}

int hf__scout_ask_now(hf__scout *scout, int64_t deadline_us, hf_error *err)
{
    hf_error why; /* the caller's may be NULL */
    int      status = HF_EUNREACHABLE;

    if (err == NULL)
        err = &why;
    while (status == HF_EUNREACHABLE) {
        int64_t     until_us = hf__after_ms(hf__now_us(), 2 * PATIENCE_MS);
        redisReply *reply = hf__conn_talk(scout->conn, question, sizeof question - 1,
                                          until_us < deadline_us ? until_us : deadline_us, err);
        status = reply != NULL ? take_view(scout, reply, err) : err->status;
        freeReplyObject(reply);
        if (status != HF_EUNREACHABLE || hf__after_ms(hf__now_us(), PAUSE_MS) >= deadline_us)
            break;
        hf__scout_turn(scout);
        hf__socket_wait(-1, 0, hf__after_ms(hf__now_us(), PAUSE_MS));
    }
    return status;
}

static void question_done(hf__command *command, redisReply *reply, const hf_error *err)
{
    hf__scout *scout = command->owner;

    (void)err;
    scout->reply = reply;
    atomic_store(&scout->answered, true);
    hf__pump_wake(scout->pump, scout->listener);
}

void hf__scout_ask(hf__scout *scout)
{
    scout->asking = true;
    scout->question = (hf__command){.text = question,
                                    .len = sizeof question - 1,
                                    .deadline_us = hf__after_ms(hf__now_us(), patience_ms(scout)),
                                    .done = question_done,
                                    .owner = scout};
    hf__conn_submit(scout->conn, &scout->question, false);
}

int hf__scout_take(hf__scout *scout)
{
    hf_error err;
    int      status = HF_EUNREACHABLE;

    if (!atomic_exchange(&scout->answered, false))
        return HF__SCOUT_NOTHING;
    if (scout->reply != NULL)
        status = take_view(scout, scout->reply, &err);
    freeReplyObject(scout->reply);
    scout->reply = NULL;
    scout->asking = false;
    scout->failures = status == HF_OK ? 0 : scout->failures + 1;
    return status == HF_OK ? HF__SCOUT_VIEW : HF__SCOUT_FAILED;
}

/* ---- life ---- */

int hf__scout_open(hf__scout *scout, const hf__redis_config *config, const hf_store_env *env, hf__pump *pump,
                   hf__pump_part *listener, hf_error *err)
{
    int status;

    scout->config = *config;
    scout->config.any_role = true;
    if (scout->config.server_timeout_ms > PATIENCE_MS)
        scout->config.server_timeout_ms = PATIENCE_MS;
    scout->seeds = config;
    scout->pump = pump;
    scout->listener = listener;
    if (!hf__at_init(&scout->at, config->hosts, config->host_count))
        return hf__fail(err, HF_EEXHAUSTED, "out of memory for a client");
    status = hf__conn_new_idle(&scout->conn, &scout->config, &scout->at, env, pump, err);
    if (status != HF_OK)
        hf__at_finish(&scout->at);
    return status;
}

void hf__scout_close(hf__scout *scout)
{
    hf__conn_free(scout->conn);
    hf__at_finish(&scout->at);
    hf__slots_finish(&scout->view);
    freeReplyObject(scout->reply);
}
