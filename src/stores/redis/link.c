/* SPDX-License-Identifier: MIT */
/*
 * An open link: what is to be sent, what came, and the end. How it is opened is in opening.c; the struct that both know
 * is in link_parts.h.
 */
#include "stores/redis/link.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "stores/redis/link_parts.h"

#define DRAIN_STEP 16384
#define OUT_KEEP (256u << 10) /* a buffer that had to be larger than this is given back when it is empty */

void hf__link_doubt(const hf__link *link)
{
    hf__at_doubt(link->at, link->hosts);
}

const char *hf__link_kind(const hf__link *link)
{
    return link->config->is_sentinel ? "Sentinel" : "Redis server";
}

int hf__link_fd(const hf__link *link)
{
    return link->fd;
}

const hf__redis_facts *hf__link_facts(const hf__link *link)
{
    return &link->facts;
}

const char *hf__link_where(const hf__link *link)
{
    return link->where;
}

void hf__link_interrupt(hf__link *link)
{
    if (link->fd >= 0)
        shutdown(link->fd, SHUT_RDWR);
}

/* ---- writing ---- */

static bool make_room(hf__link *link, size_t more)
{
    size_t room = link->out_room > 0 ? link->out_room : 4096;
    char  *longer;

    if (link->out_from > 0 && link->out_from + link->out_len + more > link->out_room) {
        memmove(link->out, link->out + link->out_from, link->out_len);
        link->out_from = 0;
    }
    if (link->out_len + more <= link->out_room)
        return true;
    while (room < link->out_len + more)
        room *= 2;
    longer = realloc(link->out, room);
    if (longer == NULL)
        return false;
    link->out = longer;
    link->out_room = room;
    return true;
}

bool hf__link_queue(hf__link *link, const void *text, size_t len)
{
    if (link->tls != NULL)
        return hf__tls_write(link->tls, text, len);
    if (!make_room(link, len))
        return false;
    memcpy(link->out + link->out_from + link->out_len, text, len);
    link->out_len += len;
    return true;
}

/* Moves what TLS has ready into the buffer. Without memory it stays where it is. */
static void drain_tls(hf__link *link)
{
    size_t got;

    while (link->tls != NULL && make_room(link, DRAIN_STEP)) {
        got = hf__tls_drain(link->tls, link->out + link->out_from + link->out_len, DRAIN_STEP);
        link->out_len += got;
        if (got == 0)
            return;
    }
}

int hf__link_flush(hf__link *link, hf_error *err)
{
    drain_tls(link);
    while (link->out_len > 0) {
        int64_t sent = hf__socket_send(link->fd, link->out + link->out_from, link->out_len);

        if (sent < 0)
            return hf__fail_sys(err, HF_EUNREACHABLE, (int)-sent, "lost the connection to the %s %s",
                                hf__link_kind(link), link->where);
        if (sent == 0)
            return HF_OK;
        link->out_from += (size_t)sent;
        link->out_len -= (size_t)sent;
    }
    link->out_from = 0;
    if (link->out_room > OUT_KEEP) {
        free(link->out);
        link->out = NULL;
        link->out_room = 0;
    }
    return HF_OK;
}

bool hf__link_unsent(const hf__link *link)
{
    return link->out_len > 0 || (link->tls != NULL && hf__tls_to_drain(link->tls) > 0);
}

/* ---- reading ---- */

static int tell_end(const hf__link *link, hf_error *err)
{
    return hf__fail(err, HF_EUNREACHABLE, "the %s %s closed the connection", hf__link_kind(link), link->where);
}

static int feed(hf__link *link, const void *bytes, size_t len, hf_error *err)
{
    if (hf__reader_feed(&link->reader, bytes, len))
        return HF_OK;
    return hf__fail(err, HF_EEXHAUSTED, "out of memory for what the %s %s sends", hf__link_kind(link), link->where);
}

static int feed_plain(hf__link *link, const void *bytes, size_t len, hf_error *err)
{
    char    plain[LINK_IN];
    int64_t got;

    if (!hf__tls_feed(link->tls, bytes, len))
        return hf__fail(err, HF_EEXHAUSTED, "out of memory for what the %s %s sends", hf__link_kind(link), link->where);
    while ((got = hf__tls_read(link->tls, plain, sizeof plain, link->where, err)) > 0)
        if (feed(link, plain, (size_t)got, err) != HF_OK)
            return HF_EEXHAUSTED;
    if (got == HF__TLS_END)
        return tell_end(link, err);
    return (int)got;
}

int hf__link_fill(hf__link *link, int64_t until_us, hf_error *err)
{
    int64_t got = hf__socket_receive(link->fd, link->in, sizeof link->in, until_us);
    int     status;

    if (got == HF__SOCKET_NOTHING)
        return 0;
    if (got == HF__SOCKET_END)
        return tell_end(link, err);
    if (got < 0)
        return hf__fail_sys(err, HF_EUNREACHABLE, (int)-got, "lost the connection to the %s %s", hf__link_kind(link),
                            link->where);
    status = link->tls != NULL ? feed_plain(link, link->in, (size_t)got, err) : feed(link, link->in, (size_t)got, err);
    if (status < 0 && link->stage == HF__STAGE_OPEN) {
        status = HF_EUNREACHABLE; /* it was good before: the next connection will tell */
        if (err != NULL)
            err->status = status;
    }
    return status < 0 ? status : 1;
}

int hf__link_next(hf__link *link, redisReply **reply, hf_error *err)
{
    const char *why = NULL;

    if (hf__reader_next(&link->reader, reply, &why))
        return HF_OK;
    return hf__fail(err, HF_EUNREACHABLE, "%s does not answer like a %s: %s", link->where, hf__link_kind(link), why);
}

bool hf__link_is_dead(const hf__link *link)
{
    return (hf__socket_wait(link->fd, POLLRDHUP, 0) & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

/* ---- the end ---- */

void hf__link_close(hf__link *link)
{
    if (link == NULL)
        return;
    hf__link_drop(link);
    hf__resolve_leave(link->resolve);
    if (link->list != NULL)
        freeaddrinfo(link->list);
    if (link->out != NULL)
        explicit_bzero(link->out, link->out_room);
    free(link->out);
    hf__hosts_leave(link->hosts);
    free(link);
}

void hf__link_reset(hf__link *link)
{
    if (link != NULL && link->fd >= 0)
        hf__socket_harden(link->fd);
    hf__link_close(link);
}
