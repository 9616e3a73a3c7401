/* SPDX-License-Identifier: MIT */

/*
 * Makes and removes the folder of a demonstration. It goes at exit; child processes come from an exec and
 * have no such duty.
 */
#include "folder.h"

#include "die.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool folder_try(char folder[PATH_MAX], const char *parent)
{
    char *resolved = parent != NULL && *parent != '\0' ? realpath(parent, NULL) : NULL;
    bool  made = resolved != NULL && snprintf(folder, PATH_MAX, "%s/settlement-XXXXXX", resolved) < PATH_MAX &&
                mkdtemp(folder) != NULL;
    free(resolved);
    return made;
}

static char removed_at_exit[PATH_MAX];

static int folder_remove_one(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status, (void)kind, (void)where;
    return remove(path);
}

static void folder_remove(void)
{
    if (nftw(removed_at_exit, folder_remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
        fprintf(stderr, "settlement: cannot remove %s: %s\n", removed_at_exit, strerror(errno));
}

void folder_find(char folder[PATH_MAX], const char *wish, bool keep)
{
    if (wish != NULL && !folder_try(folder, wish))
        die("cannot make a folder in %s: %s", wish, strerror(errno));
    if (wish == NULL && !folder_try(folder, getenv("TMPDIR")) && !folder_try(folder, SETTLEMENT_BUILD) &&
        !folder_try(folder, "/tmp"))
        die("cannot make a folder in /tmp: %s", strerror(errno));
    strcpy(removed_at_exit, folder);
    if (keep || atexit(folder_remove) != 0)
        fprintf(stderr, "settlement: the files stay in %s\n", folder);
}

void folder_make(char part[PATH_MAX], const char *folder, const char *name)
{
    if (snprintf(part, PATH_MAX, "%s/%s", folder, name) >= PATH_MAX || mkdir(part, 0700) != 0)
        die("cannot make %s in %s: %s", name, folder, strerror(errno));
}
