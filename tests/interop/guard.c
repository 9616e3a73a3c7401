/* SPDX-License-Identifier: MIT */
/* The guarded folder. A file is made before the others are looked at: of two that overlap, the later one sees both. */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "guard.h"

enum { PATH_SIZE = 512 };

int64_t guard_limit(const char *kind)
{
    return atoll(kind + strlen("semaphore:"));
}

int64_t guard_weight(const char *kind)
{
    const char *limit = strchr(kind, ':');
    const char *weight = limit ? strchr(limit + 1, ':') : NULL;

    return weight ? atoll(weight + 1) : 1;
}

static char letter_of(const char *kind)
{
    if (strcmp(kind, "reader") == 0)
        return 's';
    return strncmp(kind, "semaphore:", 10) == 0 ? 'c' : 'x';
}

static bool clash(const char *folder, const char *mine, char letter, int64_t limit)
{
    DIR           *dir = opendir(folder);
    struct dirent *entry;
    int64_t        counted = 0;
    bool           clash = false;

    if (!dir)
        abort();
    while ((entry = readdir(dir))) {
        const char *file = entry->d_name;

        if (file[0] == '.' || file[1] != '.' || strcmp(file, mine) == 0)
            continue;
        if (file[0] == 'c')
            counted += atoll(strrchr(file, '.') + 1);
        clash = clash || letter == 'x' || file[0] == 'x';
    }
    closedir(dir);
    if (letter == 'c')
        counted += atoll(strrchr(mine, '.') + 1);
    return clash || (letter == 'c' && counted > limit);
}

static bool rises(const char *folder, int64_t fence)
{
    char    path[PATH_SIZE];
    int64_t last = 0;
    FILE   *file;

    snprintf(path, sizeof(path), "%s/fence", folder);
    file = fopen(path, "re");
    if (file) {
        if (fscanf(file, "%" SCNd64, &last) != 1)
            abort();
        fclose(file);
    }
    file = fopen(path, "we");
    if (!file)
        abort();
    fprintf(file, "%" PRId64 "\n", fence);
    fclose(file);
    return last < fence;
}

int guard_inside(const char *folder, const char *kind, int hold_ms, int64_t fence)
{
    static atomic_int     number;
    const char            letter = letter_of(kind);
    const struct timespec hold = {hold_ms / 1000, (long)(hold_ms % 1000) * 1000000};
    char                  mine[NAME_MAX], path[PATH_SIZE];
    int                   fd, wrong;

    snprintf(mine, sizeof(mine), "%c.%d-%d.%" PRId64, letter, (int)getpid(), atomic_fetch_add(&number, 1),
             guard_weight(kind));
    snprintf(path, sizeof(path), "%s/%s", folder, mine);
    fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0)
        abort();
    close(fd);
    wrong = clash(folder, mine, letter, letter == 'c' ? guard_limit(kind) : 0);
    if (letter == 'x' && fence > 0 && !rises(folder, fence))
        wrong++;
    nanosleep(&hold, NULL);
    unlink(path);
    return wrong;
}
