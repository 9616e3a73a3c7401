/* SPDX-License-Identifier: MIT */
/* The log and its index, watched. See side.h. */
#include "stores/sqlite/side.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

void hf__sides_init(hf__side sides[2])
{
    sides[0].fd = sides[1].fd = sides[0].folder_fd = sides[1].folder_fd = -1;
}

static int open_one(hf__side *side, hf_error *err)
{
    struct stat st;

    side->fd = open(side->text, O_PATH | O_CLOEXEC | O_NOFOLLOW);
    if (side->folder_fd < 0 || side->fd < 0 || fstat(side->fd, &st) != 0)
        return hf__fail_sys(err, errno == ENOENT ? HF_EREFUSED : HF_EEXHAUSTED, errno, "cannot look at %s", side->text);
    side->device = st.st_dev;
    side->inode = st.st_ino;
    return HF_OK;
}

int hf__sides_open(hf__side sides[2], const hf__sqlite_path *path, hf_error *err)
{
    static const char *const suffixes[] = {"-wal", "-shm"};
    int                      status = HF_OK;

    for (int i = 0; i < 2 && status == HF_OK; i++) {
        snprintf(sides[i].text, sizeof sides[i].text, "%s%s", path->text, suffixes[i]);
        snprintf(sides[i].base, sizeof sides[i].base, "%.*s%s", NAME_MAX, strrchr(path->text, '/') + 1, suffixes[i]);
        sides[i].folder_fd = open(path->folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
        status = open_one(&sides[i], err);
    }
    return status;
}

void hf__sides_close(hf__side sides[2])
{
    for (int i = 0; i < 2; i++) {
        if (sides[i].fd >= 0)
            close(sides[i].fd);
        if (sides[i].folder_fd >= 0)
            close(sides[i].folder_fd);
    }
    hf__sides_init(sides);
}

int hf__sides_same(const hf__side sides[2], hf_error *err)
{
    struct stat st;

    for (int i = 0; i < 2; i++)
        if (sides[i].fd >= 0 && (fstatat(sides[i].folder_fd, sides[i].base, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
                                 st.st_ino != sides[i].inode || st.st_dev != sides[i].device))
            return hf__fail(err, HF_EREFUSED,
                            "%s was removed or replaced while the lock database was in use; nothing more is granted "
                            "through it. Open the store again when all its users have ended",
                            sides[i].text);
    return HF_OK;
}
