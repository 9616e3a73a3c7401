/* SPDX-License-Identifier: MIT */
/* Slots of keys, and the cluster's own words. See slots.h. */
#include "stores/redis/slots.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REPLICAS_MOST 64 /* of one range */

/* ---- keys ---- */

const char *hf__slot_tag(const char *key, size_t len, size_t *tag_len)
{
    const char *open = memchr(key, '{', len);
    const char *close = open != NULL ? memchr(open + 1, '}', len - (size_t)(open + 1 - key)) : NULL;

    if (close == NULL || close == open + 1) {
        *tag_len = len;
        return key;
    }
    *tag_len = (size_t)(close - open - 1);
    return open + 1;
}

/* CRC-16/XMODEM (polynomial 0x1021), four bits at a time: what each half byte adds. */
static unsigned crc_of(const char *bytes, size_t len)
{
    static const unsigned part[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
                                      0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};
    unsigned              crc = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned byte = (unsigned char)bytes[i];
        crc = (crc << 4 ^ part[(crc >> 12 ^ byte >> 4) & 15]) & 0xffff;
        crc = (crc << 4 ^ part[(crc >> 12 ^ byte) & 15]) & 0xffff;
    }
    return crc;
}

int hf__slot_of(const char *key, size_t len)
{
    size_t      tag_len;
    const char *tag = hf__slot_tag(key, len, &tag_len);

    return (int)(crc_of(tag, tag_len) % HF__SLOTS);
}

/* ---- CLUSTER SLOTS ---- */

/* One range: first, last, its master, its replicas; each node is host, port, id and more. */
static bool is_range(const redisReply *range)
{
    if (range->type != REDIS_REPLY_ARRAY || range->elements < 3 || range->element[0]->type != REDIS_REPLY_INTEGER ||
        range->element[1]->type != REDIS_REPLY_INTEGER)
        return false;
    return range->element[0]->integer >= 0 && range->element[0]->integer <= range->element[1]->integer &&
           range->element[1]->integer < HF__SLOTS;
}

static bool is_node(const redisReply *node)
{
    return node->type == REDIS_REPLY_ARRAY && node->elements >= 2 && node->element[1]->type == REDIS_REPLY_INTEGER &&
           node->element[1]->integer > 0 && node->element[1]->integer < 65536;
}

/* Foreign text, which will stand in errors. */
static bool is_host(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return len < 256;
}

/* The host of a node that does not know its own name, or will not tell it, is NULL, "" or "?". */
static const char *host_of(const redisReply *node, const char *asked)
{
    const redisReply *host = node->element[0];

    if (host->type != REDIS_REPLY_STRING || host->len == 0 || strcmp(host->str, "?") == 0)
        return asked;
    return is_host(host->str, (size_t)host->len) ? host->str : NULL;
}

/* The index of a host that is there already, or is added; -1: no memory, or too many. */
static int host_add(hf__slots *slots, const char *name, const char *port)
{
    hf__redis_host *more, *host;

    for (size_t i = 0; i < slots->count; i++)
        if (strcmp(slots->hosts[i].name, name) == 0 && strcmp(slots->hosts[i].port, port) == 0)
            return (int)i;
    more = slots->count < HF__SLOTS_NODES_MAX ? realloc(slots->hosts, (slots->count + 1) * sizeof *more) : NULL;
    if (more == NULL)
        return -1;
    slots->hosts = more;
    host = &slots->hosts[slots->count];
    host->name = strdup(name);
    host->port = strdup(port);
    if (host->name != NULL && host->port != NULL)
        return (int)slots->count++;
    free(host->name);
    free(host->port);
    return -1;
}

static int node_add(hf__slots *slots, const redisReply *node, const char *asked)
{
    const char *name = is_node(node) ? host_of(node, asked) : NULL;
    char        port[8];

    if (name == NULL)
        return -1;
    snprintf(port, sizeof port, "%d", (int)node->element[1]->integer);
    return host_add(slots, name, port);
}

/* No slot is told of twice: so an answer has a bound, whoever gives it. */
static bool take_masters(hf__slots *slots, const redisReply *reply, const char *asked)
{
    long long told = 0;

    for (size_t i = 0; i < reply->elements; i++) {
        const redisReply *range = reply->element[i];
        int               master = is_range(range) ? node_add(slots, range->element[2], asked) : -1;
        told += master < 0 ? 0 : range->element[1]->integer - range->element[0]->integer + 1;
        if (master < 0 || told > HF__SLOTS)
            return false;
        for (long long slot = range->element[0]->integer; slot <= range->element[1]->integer; slot++)
            slots->master[slot] = (uint16_t)(master + 1);
    }
    slots->masters = slots->count;
    return true;
}

/* They are but more places at which to ask: one that makes no sense is left out. */
static void take_replicas(hf__slots *slots, const redisReply *reply, const char *asked)
{
    for (size_t i = 0; i < reply->elements; i++)
        for (size_t k = 3; k < reply->element[i]->elements && k < REPLICAS_MOST; k++)
            node_add(slots, reply->element[i]->element[k], asked);
}

bool hf__slots_read(hf__slots *slots, const redisReply *reply, const char *asked)
{
    memset(slots, 0, sizeof *slots);
    if (reply->type != REDIS_REPLY_ARRAY || !take_masters(slots, reply, asked)) {
        hf__slots_finish(slots);
        return false;
    }
    take_replicas(slots, reply, asked);
    return true;
}

void hf__slots_finish(hf__slots *slots)
{
    for (size_t i = 0; i < slots->count; i++) {
        free(slots->hosts[i].name);
        free(slots->hosts[i].port);
    }
    free(slots->hosts);
    memset(slots, 0, sizeof *slots);
}

/* ---- redirections ---- */

static bool begins(const redisReply *reply, const char *word)
{
    return strncmp(reply->str, word, strlen(word)) == 0;
}

/* " 3999 127.0.0.1:7001"; the host may be an IPv6 address, with or without brackets. False: it is not so. */
static bool read_place(hf__redirect *redirect, const char *text)
{
    char       *end;
    long        slot = strtol(text, &end, 10);
    const char *colon = strrchr(end, ':'), *host = end + 1;
    size_t      len;

    if (end == text || slot < 0 || slot >= HF__SLOTS || *end != ' ' || colon == NULL || colon < host)
        return false;
    len = (size_t)(colon - host);
    if (len >= 2 && host[0] == '[' && colon[-1] == ']') {
        host++;
        len -= 2;
    }
    if (!is_host(host, len) || len >= sizeof redirect->host || strtol(colon + 1, NULL, 10) < 1 ||
        strtol(colon + 1, NULL, 10) > 65535)
        return false;
    redirect->slot = (int)slot;
    snprintf(redirect->host, sizeof redirect->host, "%.*s", len == 1 && *host == '?' ? 0 : (int)len, host);
    snprintf(redirect->port, sizeof redirect->port, "%ld", strtol(colon + 1, NULL, 10));
    return true;
}

hf__redirect hf__redirect_read(const redisReply *reply)
{
    static const char *const down[] = {"CLUSTERDOWN", "READONLY", "MASTERDOWN", "LOADING"};
    hf__redirect             redirect = {.what = HF__REDIRECT_NONE};

    if (reply == NULL || reply->type != REDIS_REPLY_ERROR)
        return redirect;
    if (begins(reply, "MOVED ") && read_place(&redirect, reply->str + 6))
        redirect.what = HF__REDIRECT_MOVED;
    else if (begins(reply, "ASK ") && read_place(&redirect, reply->str + 4))
        redirect.what = HF__REDIRECT_ASK;
    else if (begins(reply, "TRYAGAIN"))
        redirect.what = HF__REDIRECT_AGAIN;
    for (size_t i = 0; i < sizeof down / sizeof down[0]; i++)
        if (begins(reply, down[i]))
            redirect.what = HF__REDIRECT_DOWN;
    return redirect;
}
