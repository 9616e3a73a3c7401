/* SPDX-License-Identifier: MIT */
/* Redis servers that know nothing of each other; see redis_set.h. */
#include "lib/redis_set.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct redis_set {
    int               count;
    redis_server     *of[REDIS_SET_MAX];
    volatile int64_t *offset[REDIS_SET_MAX]; /* mapped; NULL: its clock is the machine's */
    char              skew[REDIS_SET_MAX][PATH_MAX];
    char              hosts[REDIS_SET_MAX * 64];
};

static void must(bool fine, const char *what)
{
    if (fine)
        return;
    perror(what);
    exit(3);
}

/* The file is below the working directory, as the servers' folders are. */
static void clock_make(redis_set *set, int i)
{
    char *path = set->skew[i], here[PATH_MAX - 32];

    must(getcwd(here, sizeof(here)) != NULL, "getcwd");
    snprintf(path, sizeof(set->skew[i]), "%s/clock-XXXXXX", here);
    int fd = mkostemp(path, O_CLOEXEC);
    must(fd >= 0 && ftruncate(fd, sizeof(int64_t)) == 0, path);
    set->offset[i] = mmap(NULL, sizeof(int64_t), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(set->offset[i] != MAP_FAILED, path);
    close(fd);
}

static void server_make(redis_set *set, int i, const redis_set_setup *setup)
{
    static const char *const keeping[] = {"--appendonly", "yes", "--appendfsync", "no"};
    const char              *args[64];
    int                      n = 0;

    for (; setup->keeps && n < 4; n++)
        args[n] = keeping[n];
    for (int k = 0; setup->args && setup->args[k] && n < 63; k++)
        args[n++] = setup->args[k];
    args[n] = NULL;
    if (setup->clock)
        clock_make(set, i);
    set->of[i] = redis_start(&(redis_setup){.user = setup->user,
                                            .password = setup->password,
                                            .args = args,
                                            .preload = setup->clock,
                                            .skew = setup->clock ? set->skew[i] : NULL,
                                            .host = setup->hosts ? setup->hosts[i] : NULL,
                                            .netns = setup->netns ? setup->netns[i] : 0});
    size_t used = strlen(set->hosts);
    snprintf(set->hosts + used, sizeof(set->hosts) - used, "%s%s", i ? "," : "", redis_upstream(set->of[i]));
}

redis_set *redis_set_start(const redis_set_setup *setup)
{
    static const redis_set_setup plain;
    redis_set                   *set = calloc(1, sizeof(*set));

    must(set != NULL, "redis_set");
    if (!setup)
        setup = &plain;
    set->count = setup->count ? setup->count : 5;
    must(set->count <= REDIS_SET_MAX, "redis_set: too many");
    for (int i = 0; i < set->count; i++)
        server_make(set, i, setup);
    return set;
}

void redis_set_end(redis_set *set)
{
    for (int i = 0; set && i < set->count; i++) {
        redis_end(set->of[i]);
        if (!set->offset[i])
            continue;
        munmap((void *)set->offset[i], sizeof(int64_t));
        unlink(set->skew[i]);
    }
    free(set);
}

int redis_set_count(const redis_set *set)
{
    return set->count;
}

redis_server *redis_set_of(const redis_set *set, int i)
{
    return set->of[i];
}

const char *redis_set_hosts(const redis_set *set)
{
    return set->hosts;
}

void redis_set_again(redis_set *set, int i, bool with_data)
{
    redis_kill(set->of[i]);
    if (!with_data)
        redis_wipe(set->of[i]);
    redis_again(set->of[i]);
}

void redis_set_step(redis_set *set, int i, int64_t offset_us)
{
    must(set->offset[i] != NULL, "redis_set: no clock to step");
    *set->offset[i] = offset_us;
}

int64_t redis_set_offset(const redis_set *set, int i)
{
    return set->offset[i] ? *set->offset[i] : 0;
}
