/* SPDX-License-Identifier: MIT */
/* See hosts.h. */
#include "stores/zookeeper/hosts.h"

#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "stores/zookeeper/libcalls.h"

#define NAME_ROOM 300

/* "[::1]:2181" or "host:2181", `len` bytes; the brackets go. */
static bool split(const char *one, size_t len, char *name, char *port)
{
    size_t      colon = len;
    const char *from = one;
    size_t      name_len;

    while (colon > 0 && one[colon - 1] != ':')
        colon--;
    if (colon == 0)
        return false;
    name_len = colon - 1;
    if (name_len > 1 && from[0] == '[' && from[name_len - 1] == ']') {
        from++;
        name_len -= 2;
    }
    if (name_len == 0 || name_len >= NAME_ROOM || len - colon >= NI_MAXSERV)
        return false;
    snprintf(name, NAME_ROOM, "%.*s", (int)name_len, from);
    snprintf(port, NI_MAXSERV, "%.*s", (int)(len - colon), one + colon);
    return true;
}

static void add(FILE *all, const char *one, size_t len)
{
    struct addrinfo  hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *found = NULL;
    char             name[NAME_ROOM], port[NI_MAXSERV], number[NI_MAXHOST];

    if (!split(one, len, name, port) || hf__zk_resolve(name, port, &hints, &found) != 0)
        return;
    for (const struct addrinfo *a = found; a != NULL; a = a->ai_next)
        if (getnameinfo(a->ai_addr, a->ai_addrlen, number, sizeof number, NULL, 0, NI_NUMERICHOST) == 0)
            fprintf(all, "%s%s:%s", ftell(all) > 0 ? "," : "", number, port);
    freeaddrinfo(found);
}

char *hf__zk_hosts_resolve(const char *hosts)
{
    char  *text = NULL;
    size_t size = 0;
    FILE  *all = open_memstream(&text, &size);

    if (all == NULL)
        return NULL;
    for (size_t len; *hosts != '\0'; hosts += len + (hosts[len] == ',')) {
        len = strcspn(hosts, ",");
        add(all, hosts, len);
    }
    if (fclose(all) == 0 && size > 0)
        return text;
    free(text);
    return NULL;
}
