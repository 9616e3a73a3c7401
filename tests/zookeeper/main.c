/* SPDX-License-Identifier: MIT */
/* See main.h. */
#include "zookeeper/main.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

zk_server  server;
proxy     *between;
zhandle_t *raw;

proxy *way_to(int port)
{
    char upstream[40];

    snprintf(upstream, sizeof upstream, "127.0.0.1:%d", port);
    return proxy_start(upstream);
}

void way_hold(proxy *way)
{
    proxy_add(way, &(proxy_rule){.way = PROXY_UP, .what = PROXY_HOLD});
    proxy_add(way, &(proxy_rule){.way = PROXY_DOWN, .what = PROXY_HOLD});
}

void way_free(proxy *way)
{
    proxy_clear(way);
    proxy_let_go(way);
}

void way_swallow(proxy *way)
{
    proxy_add(way, &(proxy_rule){.way = PROXY_DOWN, .what = PROXY_SWALLOW});
}

void way_cut_and_heal(proxy *way)
{
    proxy_drop(way, PROXY_RST);
    way_free(way);
}

hf_client *open_at(int port, const char *options, int64_t watchdog_ms, int64_t timeout_ms)
{
    hf_client *client;
    hf_error   err;
    char       url[200];

    snprintf(url, sizeof url, "zookeeper://127.0.0.1:%d/faults?%s", port, options);
    if (hf_open(&client, url, HF_CLIENT_OPTIONS(.watchdog_ms = watchdog_ms, .server_timeout_ms = timeout_ms), &err) !=
        HF_OK)
        fail_msg("%s: %s", url, err.text);
    return client;
}

hf_client *open_through(const char *options)
{
    return open_at(proxy_port(between), options, 0, 0);
}

hf_client *open_directly(const char *options)
{
    return open_at(server.port, options, 0, 0);
}

const char *folder_of(const char *name)
{
    static char path[200];

    snprintf(path, sizeof path, "/faults/%s", name);
    return path;
}

int zk_begin(void **state)
{
    char here[3000], dir[3100];

    (void)state;
    if (getcwd(here, sizeof here) == NULL)
        return -1;
    zoo_set_debug_level(0);
    snprintf(dir, sizeof dir, "%s/server", here);
    if (!zk_server_start(&server, dir, 0))
        return -1;
    between = way_to(server.port);
    raw = raw_open(server.port, 60000, NULL);
    return raw != NULL ? 0 : -1;
}

int zk_end(void **state)
{
    (void)state;
    zookeeper_close(raw);
    proxy_end(between);
    zk_server_stop(&server);
    return 0;
}
