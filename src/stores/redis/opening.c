/* SPDX-License-Identifier: MIT */
/*
 * Opening a link, stage by stage: a host's name, its addresses, connect, TLS, hello. What fails at one address is tried
 * at the next, each with its share of the time that is left. See link.h.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "stores/redis/link_parts.h"

#define AGAIN_MS 10 /* a Unix socket with a full queue */

/* What a stage says: it is done and another stage is set, or it waits for hf__link_wants(), or this address (or name)
 * failed with link->why set. */
enum outcome { ONWARD, WAITS, FAILS };

hf__link *hf__link_new(const hf__redis_config *config, hf__at *at, int64_t deadline_us)
{
    hf__link *link = calloc(1, sizeof *link);

    if (link == NULL)
        return NULL;
    link->config = config;
    link->at = at;
    link->hosts = hf__at_take(at);
    link->fd = -1;
    link->deadline_us = deadline_us;
    link->until_us = deadline_us;
    link->why.status = HF_OK;
    snprintf(link->where, sizeof link->where, "%s", config->path != NULL ? config->path : link->hosts->list[0].name);
    return link;
}

void hf__link_drop(hf__link *link)
{
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
    hf__tls_free(link->tls);
    link->tls = NULL;
    hf__reader_finish(&link->reader);
    link->out_from = link->out_len = 0;
}

/* A server that refuses us is more worth telling than the one after it that cannot be reached. */
static void note(hf__link *link, const hf_error *err)
{
    if (link->why.status != HF_EREFUSED)
        link->why = *err;
}

static enum outcome fail(hf__link *link, const hf_error *err)
{
    note(link, err);
    return FAILS;
}

static enum outcome fail_sys(hf__link *link, int sys, const char *what)
{
    hf_error err;
    bool     ours = sys == EMFILE || sys == ENFILE || sys == ENOMEM || sys == ENOBUFS;

    hf__fail_sys(&err, ours ? HF_EEXHAUSTED : HF_EUNREACHABLE, sys, "%s the %s %s", what, hf__link_kind(link),
                 link->where);
    return fail(link, &err);
}

/* This address's share of the time. */
static void share_time(hf__link *link)
{
    int64_t now_us = hf__now_us();
    size_t  others = link->hosts->count - link->host;

    for (struct addrinfo *a = link->next; a != NULL; a = a->ai_next)
        others++;
    if (link->config->path != NULL)
        others = 0;
    link->until_us = link->deadline_us;
    if (others > 0 && link->deadline_us > now_us && link->deadline_us != HF_NEVER_US)
        link->until_us = now_us + (link->deadline_us - now_us) / (int64_t)(others + 1);
}

/* ---- names and addresses ---- */

static void name_address(hf__link *link, const struct addrinfo *address)
{
    const hf__redis_host *host = &link->hosts->list[link->host - 1];
    char                  text[64] = "";

    if (address != NULL &&
        getnameinfo(address->ai_addr, address->ai_addrlen, text, sizeof text, NULL, 0, NI_NUMERICHOST) != 0)
        text[0] = '\0';
    if (strchr(host->name, ':') != NULL)
        snprintf(link->where, sizeof link->where, "[%.255s]:%s", host->name, host->port);
    else if (text[0] == '\0' || strcmp(text, host->name) == 0)
        snprintf(link->where, sizeof link->where, "%.255s:%s", host->name, host->port);
    else
        snprintf(link->where, sizeof link->where, "%.255s:%s (%s)", host->name, host->port, text);
}

static enum outcome try_host(hf__link *link)
{
    const hf__redis_host *host;

    if (link->list != NULL)
        freeaddrinfo(link->list);
    link->list = link->next = NULL;
    if (link->config->path != NULL) {
        link->stage = link->host++ == 0 ? HF__STAGE_ADDRESS : HF__STAGE_FAILED;
        return ONWARD;
    }
    if (link->host == link->hosts->count) {
        link->stage = HF__STAGE_FAILED;
        return ONWARD;
    }
    host = &link->hosts->list[link->host++];
    name_address(link, NULL);
    link->list = link->next = hf__resolve_numeric(host->name, host->port);
    if (link->list != NULL) {
        link->stage = HF__STAGE_ADDRESS;
        return ONWARD;
    }
    link->resolve = hf__resolve_start(host->name, host->port);
    if (link->resolve == NULL)
        return fail_sys(link, errno, "cannot resolve the name of");
    link->stage = HF__STAGE_RESOLVE;
    share_time(link);
    return ONWARD;
}

static enum outcome await_name(hf__link *link)
{
    hf_error err;
    int      error = 0;

    if (!hf__resolve_take(link->resolve, &link->list, &error)) {
        if (hf__now_us() < link->until_us)
            return WAITS;
        hf__fail(&err, HF_EUNREACHABLE, "the name of the %s %s was not resolved in time", hf__link_kind(link),
                 link->where);
        error = EAI_AGAIN;
    } else if (error != 0) {
        hf__fail(&err, HF_EUNREACHABLE, "cannot resolve the name of the %s %s: %s", hf__link_kind(link), link->where,
                 error == EAI_SYSTEM ? "system error" : gai_strerror(error));
    }
    hf__resolve_leave(link->resolve);
    link->resolve = NULL;
    link->next = link->list;
    link->stage = HF__STAGE_ADDRESS;
    return error != 0 ? fail(link, &err) : ONWARD;
}

/* ---- connect ---- */

static enum outcome begin_connect(hf__link *link, const struct sockaddr *address, socklen_t len)
{
    int fd = hf__socket_connect(address, len);

    link->again = fd == -EAGAIN && address->sa_family == AF_UNIX;
    if (link->again) {
        link->stage = HF__STAGE_CONNECT;
        return ONWARD;
    }
    if (fd < 0)
        return fail_sys(link, -fd, "cannot connect to");
    link->fd = fd;
    link->stage = HF__STAGE_CONNECT;
    return ONWARD;
}

static enum outcome connect_socket(hf__link *link)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    memcpy(address.sun_path, link->config->path, strlen(link->config->path) + 1); /* its length was checked */
    return begin_connect(link, (const struct sockaddr *)&address, sizeof address);
}

static enum outcome try_address(hf__link *link)
{
    struct addrinfo *address = link->next;

    if (link->config->path != NULL) {
        if (link->why.status != HF_OK) { /* there is but one */
            link->stage = HF__STAGE_FAILED;
            return ONWARD;
        }
        share_time(link);
        return connect_socket(link);
    }
    if (address == NULL) {
        link->stage = HF__STAGE_HOST;
        return ONWARD;
    }
    link->next = address->ai_next;
    share_time(link);
    name_address(link, address);
    return begin_connect(link, address->ai_addr, address->ai_addrlen);
}

static enum outcome tell_timeout(hf__link *link, const char *hint)
{
    hf_error err;

    hf__fail(&err, HF_EUNREACHABLE, "the %s %s did not answer in time%s", hf__link_kind(link), link->where, hint);
    return fail(link, &err);
}

static enum outcome await_connect(hf__link *link)
{
    bool     late = hf__now_us() >= link->until_us;
    hf_error err;
    int      result;

    if (link->again && !late)
        return connect_socket(link);
    result = link->again ? EAGAIN : hf__socket_connected(link->fd, link->config->server_timeout_ms);
    if (result == EINPROGRESS)
        return late ? tell_timeout(link, " (no connection)") : WAITS;
    if (result != 0)
        return fail_sys(link, result, "cannot connect to");
    if (!hf__reader_init(&link->reader))
        return fail_sys(link, ENOMEM, "no connection to");
    link->stage = HF__STAGE_HELLO;
    link->hello.asked = 0;
    if (!link->config->tls)
        return ONWARD;
    link->stage = HF__STAGE_SHAKE;
    if (hf__tls_new(&link->tls, link->config, link->hosts->list[link->host - 1].name, &err) != HF_OK)
        return fail(link, &err);
    return ONWARD;
}

/* ---- TLS ---- */

/* What came goes to TLS; WAITS: nothing did. */
static enum outcome receive_for_tls(hf__link *link)
{
    int64_t got = hf__socket_receive(link->fd, link->in, sizeof link->in, 0);

    if (got == HF__SOCKET_NOTHING)
        return WAITS;
    if (got == HF__SOCKET_END)
        return fail_sys(link, ECONNRESET, "no TLS: the connection was closed by");
    if (got < 0)
        return fail_sys(link, (int)-got, "no TLS with");
    if (!hf__tls_feed(link->tls, link->in, (size_t)got))
        return fail_sys(link, ENOMEM, "no TLS with");
    return ONWARD;
}

static enum outcome shake(hf__link *link)
{
    hf_error     err;
    enum outcome outcome;
    int          done = hf__tls_shake(link->tls, link->where, &err);

    if (hf__link_flush(link, done < 0 ? NULL : &err) < 0 && done >= 0) /* a refusal wants to be sent, too */
        return fail(link, &err);
    if (done < 0)
        return fail(link, &err);
    if (done == 1) {
        link->stage = HF__STAGE_HELLO;
        return ONWARD;
    }
    outcome = receive_for_tls(link);
    if (outcome == WAITS && hf__now_us() >= link->until_us)
        return tell_timeout(link, " (no answer to TLS: is it a port without TLS?)");
    return outcome;
}

/* ---- hello ---- */

static enum outcome say_hello(hf__link *link)
{
    size_t len;
    char  *text = hf__hello_begin(&link->hello, link->config, &link->facts, &len);
    bool   queued = text != NULL && hf__link_queue(link, text, len);

    if (text != NULL)
        explicit_bzero(text, len);
    free(text);
    if (!queued)
        return fail_sys(link, ENOMEM, "no connection to");
    link->hello.sent_us = hf__now_us();
    return ONWARD;
}

static enum outcome hear_answers(hf__link *link)
{
    redisReply *reply;
    hf_error    err;
    int         status = HF_OK;

    while (!hf__hello_is_over(&link->hello)) {
        if (hf__link_next(link, &reply, &err) != HF_OK)
            return fail(link, &err);
        if (reply == NULL)
            return WAITS;
        status = hf__hello_answer(&link->hello, link->config, reply, link->where, &err);
        freeReplyObject(reply);
        if (status != HF_OK)
            return fail(link, &err);
    }
    link->stage = HF__STAGE_OPEN;
    return ONWARD;
}

static enum outcome hello(hf__link *link)
{
    hf_error     err, unsent;
    enum outcome outcome;
    int          sent, filled;

    if (link->hello.asked == 0 && (outcome = say_hello(link)) != ONWARD)
        return outcome;
    sent = hf__link_flush(link, &unsent);
    filled = hf__link_fill(link, 0, &err);
    outcome = hear_answers(link); /* also what came before the end: it may say why */
    if (outcome != WAITS)
        return outcome;
    if (sent < 0 && (filled >= 0 || err.status == HF_EUNREACHABLE))
        return fail(link, &unsent);
    if (filled < 0 && link->hello.answered == 0 && !link->config->tls && link->config->path == NULL)
        hf__fail(&err, HF_EUNREACHABLE,
                 "the %s %s closed the connection unasked (a port with TLS? then write rediss%s://)",
                 hf__link_kind(link), link->where, link->config->is_sentinel ? "-sentinel" : "");
    if (filled < 0)
        return fail(link, &err);
    if (filled == 0 && hf__now_us() >= link->until_us)
        return tell_timeout(link, "");
    return filled > 0 ? ONWARD : WAITS;
}

/* ---- all of it ---- */

static enum outcome run_stage(hf__link *link)
{
    switch (link->stage) {
    case HF__STAGE_HOST:
        return try_host(link);
    case HF__STAGE_RESOLVE:
        return await_name(link);
    case HF__STAGE_ADDRESS:
        return try_address(link);
    case HF__STAGE_CONNECT:
        return await_connect(link);
    case HF__STAGE_SHAKE:
        return shake(link);
    default:
        return hello(link);
    }
}

int hf__link_advance(hf__link *link, hf_error *err)
{
    while (link->stage < HF__STAGE_OPEN) {
        switch (run_stage(link)) {
        case ONWARD:
            break;
        case WAITS:
            return HF__LINK_OPENING;
        case FAILS:
            hf__link_drop(link);
            link->stage = hf__now_us() >= link->deadline_us ? HF__STAGE_FAILED : HF__STAGE_ADDRESS;
        }
    }
    if (link->stage == HF__STAGE_OPEN)
        return HF__LINK_OPEN;
    if (link->why.status == HF_OK)
        hf__fail(&link->why, HF_EUNREACHABLE, "the %s %s has no address", hf__link_kind(link), link->where);
    if (err != NULL)
        *err = link->why;
    return link->why.status;
}

int64_t hf__link_wants(const hf__link *link, struct pollfd *want)
{
    want->fd = link->stage == HF__STAGE_RESOLVE ? hf__resolve_fd(link->resolve) : link->fd;
    want->events = POLLIN;
    if (link->stage == HF__STAGE_CONNECT)
        want->events = POLLOUT;
    else if (link->stage > HF__STAGE_CONNECT && hf__link_unsent(link))
        want->events |= POLLOUT;
    if (link->stage >= HF__STAGE_OPEN)
        return HF_NEVER_US;
    if (link->again && link->stage == HF__STAGE_CONNECT)
        return hf__now_us() + AGAIN_MS * HF_US_PER_MS;
    return link->until_us;
}

int hf__link_open(hf__link **result, const hf__redis_config *config, hf__at *at, int64_t deadline_us, hf_error *err)
{
    hf__link     *link = hf__link_new(config, at, deadline_us);
    struct pollfd want;
    int64_t       until_us;
    int           state;

    *result = NULL;
    if (link == NULL)
        return hf__fail(err, HF_EEXHAUSTED, "out of memory for a connection to Redis");
    while ((state = hf__link_advance(link, err)) == HF__LINK_OPENING) {
        until_us = hf__link_wants(link, &want);
        hf__socket_wait(want.fd, want.events, until_us);
    }
    if (state == HF__LINK_OPEN)
        *result = link;
    else
        hf__link_reset(link);
    return state == HF__LINK_OPEN ? HF_OK : state;
}
