/* SPDX-License-Identifier: MIT */
/*
 * Runs groups of the suite over one store: test_api STORE [GROUP...]; no group: all. STORE is memory: or sqlite:, or
 * zookeeper:, for which a server is started.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/zkserver.h"
#include "suite.h"

static const api_group *const groups[] = {
    &group_input,   &group_names,  &group_basic,   &group_owners,   &group_leases,   &group_loss,    &group_callbacks,
    &group_waiting, &group_queues, &group_lines,   &group_soak,     &group_rw,       &group_permits, &group_all,
    &group_sets,    &group_loop,   &group_process, &group_children, &group_operator,
};

#define GROUPS (sizeof(groups) / sizeof(groups[0]))

static int group_run(const api_group *group)
{
    char title[64];

    snprintf(title, sizeof(title), "%s %.20s", group->name, test_url);
    return _cmocka_run_group_tests(title, group->tests, group->count, NULL, NULL);
}

static const api_group *group_find(const char *name)
{
    for (size_t i = 0; i < GROUPS; i++)
        if (strcmp(groups[i]->name, name) == 0)
            return groups[i];
    return NULL;
}

static zk_server server;

/* The URL of a server of this run's own; NULL: it does not come up. */
static const char *zookeeper_begin(void)
{
    static char url[100];
    char        here[3000], dir[3100];

    if (getcwd(here, sizeof(here)) == NULL)
        return NULL;
    snprintf(dir, sizeof(dir), "%s/server-%d", here, (int)getpid());
    if (!zk_server_start(&server, dir, 0))
        return NULL;
    snprintf(url, sizeof(url), "zookeeper://127.0.0.1:%d/api?session=120000", server.port);
    return url;
}

int main(int argc, char **argv)
{
    const char *store = argc > 1 ? argv[1] : "";
    int         failed = 0;

    if (argc < 2) {
        fprintf(stderr, "usage: test_api STORE [GROUP...]\n");
        return 2;
    }
    if (strcmp(store, "zookeeper:") == 0 && (store = zookeeper_begin()) == NULL)
        return 2;
    store_begin(store);
    for (size_t i = 0; argc == 2 && i < GROUPS; i++)
        failed += group_run(groups[i]);
    for (int i = 2; i < argc; i++) {
        const api_group *group = group_find(argv[i]);
        if (!group)
            fprintf(stderr, "no group %s\n", argv[i]);
        failed += group ? group_run(group) : 1;
    }
    store_end();
    if (server.pid > 0)
        zk_server_stop(&server);
    return failed != 0;
}
