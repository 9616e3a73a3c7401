/* SPDX-License-Identifier: MIT */
/* Runs groups of the suite over one store: test_api STORE [GROUP...]; no group: all. STORE is memory: or sqlite:. */
#include <stdio.h>
#include <string.h>

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

int main(int argc, char **argv)
{
    int failed = 0;

    if (argc < 2) {
        fprintf(stderr, "usage: test_api STORE [GROUP...]\n");
        return 2;
    }
    store_begin(argv[1]);
    for (size_t i = 0; argc == 2 && i < GROUPS; i++)
        failed += group_run(groups[i]);
    for (int i = 2; i < argc; i++) {
        const api_group *group = group_find(argv[i]);
        if (!group)
            fprintf(stderr, "no group %s\n", argv[i]);
        failed += group ? group_run(group) : 1;
    }
    store_end();
    return failed != 0;
}
