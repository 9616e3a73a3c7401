/* SPDX-License-Identifier: MIT */
/* Links that can be cut; see redlock_links.h. */
#include "redlock_links.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/netbox.h"
#include "lib/proxy.h"

#define PROXY_GROUPS 2 /* each proxy is a thread */

struct links {
    int         servers, groups;
    netbox     *box; /* hosts: the servers, then the groups */
    const char *address[REDIS_SET_MAX];
    int         netns[REDIS_SET_MAX];
    proxy      *of[PROXY_GROUPS][REDIS_SET_MAX];
    int         ways[LINKS_GROUPS][REDIS_SET_MAX], wanted[LINKS_GROUPS][REDIS_SET_MAX];
    char        hosts[LINKS_GROUPS][REDIS_SET_MAX * 32];
};

links *links_begin(int servers, bool proxies)
{
    links *l = calloc(1, sizeof(*l));

    if (!l)
        exit(3);
    l->servers = servers;
    l->box = proxies ? NULL : netbox_start(servers + LINKS_GROUPS);
    l->groups = l->box ? LINKS_GROUPS : PROXY_GROUPS;
    for (int i = 0; l->box && i < servers; i++) {
        l->address[i] = netbox_address(l->box, i);
        l->netns[i] = netbox_fd(l->box, i);
    }
    return l;
}

void links_end(links *l)
{
    for (int g = 0; g < PROXY_GROUPS; g++)
        for (int i = 0; i < l->servers; i++)
            proxy_end(l->of[g][i]);
    netbox_end(l->box);
    free(l);
}

bool links_are_real(const links *l)
{
    return l->box != NULL;
}

int links_groups(const links *l)
{
    return l->groups;
}

void links_setup(const links *l, redis_set_setup *setup)
{
    if (!l->box)
        return;
    setup->hosts = l->address;
    setup->netns = l->netns;
}

void links_attach(links *l, redis_set *set)
{
    for (int g = 0; g < l->groups; g++) {
        char  *text = l->hosts[g];
        size_t used = 0;
        if (l->box) {
            snprintf(text, sizeof(l->hosts[g]), "%s", redis_set_hosts(set));
            continue;
        }
        for (int i = 0; i < l->servers; i++) {
            l->of[g][i] = proxy_start(redis_upstream(redis_set_of(set, i)));
            used += (size_t)snprintf(text + used, sizeof(l->hosts[g]) - used, "%s127.0.0.1:%d", i ? "," : "",
                                     proxy_port(l->of[g][i]));
        }
    }
}

const char *links_hosts(const links *l, int group)
{
    return l->hosts[group];
}

const char *links_path(const links *l, int group)
{
    return l->box ? netbox_path(l->box, l->servers + group) : NULL;
}

void links_cut(links *l, int group, int server, int ways)
{
    l->wanted[group][server] = ways;
}

/* Up, what is held back arrives in the end, as late as it may; down, what was lost leaves a gap, so that the connection
 * cannot go on. */
static void proxy_apply(links *l, int group, int server)
{
    proxy *p = l->of[group][server];
    int    ways = l->wanted[group][server];

    proxy_clear(p);
    if (ways == 0) {
        proxy_let_go(p);
        proxy_drop_clients(p, PROXY_RST);
    }
    if (ways & LINKS_UP)
        proxy_add(p, &(proxy_rule){.way = PROXY_UP, .what = PROXY_HOLD});
    if (ways & LINKS_DOWN)
        proxy_add(p, &(proxy_rule){.way = PROXY_DOWN, .what = PROXY_SWALLOW});
}

void links_apply(links *l)
{
    for (int g = 0; g < l->groups; g++)
        for (int i = 0; i < l->servers; i++) {
            int ways = l->wanted[g][i];
            if (ways == l->ways[g][i])
                continue;
            if (l->box) {
                netbox_cut(l->box, l->servers + g, i, ways & LINKS_UP);
                netbox_cut(l->box, i, l->servers + g, ways & LINKS_DOWN);
            } else {
                proxy_apply(l, g, i);
            }
            l->ways[g][i] = ways;
        }
    if (l->box)
        netbox_apply(l->box);
}
