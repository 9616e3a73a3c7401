/* SPDX-License-Identifier: MIT */
/* The folder of FIFOs. See fifo.h. */
#include "stores/sqlite/fifo.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/id.h"

#define HALF_MADE "new-"
#define HALF_MADE_S 60
#define WRITE_OPTIONS (O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW)

/* Whoever may write to the database may take locks as he likes: a folder that another of its group has made again is as
 * good as the first. Not where everybody could have made it. */
static bool is_the_groups(const hf__sqlite_path *path, const struct stat *folder)
{
    const mode_t group = S_IRGRP | S_IWGRP;
    struct stat  above;

    return (path->mode & group) == group && (folder->st_mode & group) == group && folder->st_gid == path->owner_group &&
           stat(path->folder, &above) == 0 && !(above.st_mode & S_IWOTH);
}

static bool is_trusted(const hf__sqlite_path *path, const struct stat *folder)
{
    if (folder->st_mode & S_IWOTH)
        return false;
    return folder->st_uid == geteuid() || folder->st_uid == path->owner || folder->st_uid == 0 ||
           is_the_groups(path, folder);
}

/* Its maker may have died before it had its rights. */
static bool lacks_rights(const hf__sqlite_path *path, const struct stat *folder)
{
    mode_t wanted = path->mode & (S_IRWXU | S_IRWXG);

    return folder->st_uid == geteuid() && (folder->st_mode & wanted) != wanted;
}

static int open_folder(hf__fifos *fifos, const hf__sqlite_path *path, hf_error *err)
{
    struct stat st;
    bool        made;

    if (snprintf(fifos->folder, sizeof fifos->folder, "%s-clients", path->text) >= (int)sizeof fifos->folder)
        return hf__fail(err, HF_EINVALID, "the path of the lock database is too long");
    made = mkdir(fifos->folder, 0700) == 0;
    if (!made && errno != EEXIST)
        return hf__fail_sys(err, errno == ENOSPC ? HF_EEXHAUSTED : HF_EREFUSED, errno, "cannot make the folder %s",
                            fifos->folder);
    fifos->dir_fd = open(fifos->folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fifos->dir_fd < 0 || fstat(fifos->dir_fd, &st) != 0)
        return hf__fail_sys(err, errno == EMFILE || errno == ENFILE ? HF_EEXHAUSTED : HF_EREFUSED, errno,
                            "cannot open the folder %s", fifos->folder);
    if ((made || lacks_rights(path, &st)) && hf__sqlite_path_grant(path, fifos->dir_fd, true) != 0)
        return hf__fail_sys(err, HF_EREFUSED, errno, "cannot set the rights of the folder %s", fifos->folder);
    if (!is_trusted(path, &st))
        return hf__fail(err, HF_EREFUSED, "the folder %s is somebody else's or writable for all; remove it",
                        fifos->folder);
    return HF_OK;
}

/* Under another name first: see fifo.h. */
static int make_fifo(hf__fifos *fifos, const hf__sqlite_path *path, const char *name)
{
    char        half[sizeof HALF_MADE + HF_ID_HEX];
    struct stat st;

    snprintf(half, sizeof half, HALF_MADE "%s", name);
    if (mkfifoat(fifos->dir_fd, half, 0600) != 0)
        return errno;
    fifos->read_fd = openat(fifos->dir_fd, half, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    if (fifos->read_fd >= 0)
        fifos->write_fd = openat(fifos->dir_fd, half, WRITE_OPTIONS);
    if (fifos->write_fd < 0 || fstat(fifos->read_fd, &st) != 0 ||
        hf__sqlite_path_grant(path, fifos->read_fd, false) != 0 ||
        renameat(fifos->dir_fd, half, fifos->dir_fd, name) != 0) {
        int sys = errno;
        unlinkat(fifos->dir_fd, half, 0);
        return sys;
    }
    fifos->self.device = (int64_t)st.st_dev;
    fifos->self.inode = (int64_t)st.st_ino;
    return 0;
}

static void take_spare(hf__fifos *fifos)
{
    int fd = fcntl(fifos->dir_fd, F_DUPFD_CLOEXEC, 0), none = -1;

    if (fd >= 0 && !atomic_compare_exchange_strong(&fifos->spare_fd, &none, fd))
        close(fd);
}

static bool lend_spare(hf__fifos *fifos)
{
    int fd = atomic_exchange(&fifos->spare_fd, -1);

    return fd >= 0 && close(fd) == 0;
}

static void close_all(hf__fifos *fifos)
{
    if (fifos->read_fd >= 0)
        close(fifos->read_fd);
    if (fifos->write_fd >= 0)
        close(fifos->write_fd);
    if (fifos->dir_fd >= 0)
        close(fifos->dir_fd);
    lend_spare(fifos);
    fifos->read_fd = fifos->write_fd = fifos->dir_fd = -1;
}

int hf__fifos_open(hf__fifos *fifos, const hf__sqlite_path *path, const hf_id *client, hf_error *err)
{
    char name[HF_ID_HEX];
    int  sys, status;

    memset(fifos, 0, sizeof *fifos);
    fifos->dir_fd = fifos->read_fd = fifos->write_fd = -1;
    atomic_init(&fifos->spare_fd, -1);
    fifos->self.client = *client;
    hf__id_hex(client, name);
    status = open_folder(fifos, path, err);
    if (status == HF_OK && (sys = make_fifo(fifos, path, name)) != 0)
        status = hf__fail_sys(err, sys == ENOSPC || sys == EMFILE || sys == ENFILE ? HF_EEXHAUSTED : HF_EREFUSED, sys,
                              "cannot make a FIFO in %s", fifos->folder);
    if (status == HF_OK)
        take_spare(fifos);
    else
        close_all(fifos);
    return status;
}

void hf__fifos_close(hf__fifos *fifos, bool leave)
{
    char name[HF_ID_HEX];

    if (fifos->dir_fd < 0)
        return;
    hf__id_hex(&fifos->self.client, name);
    if (!leave)
        unlinkat(fifos->dir_fd, name, 0);
    close_all(fifos);
}

static bool is_its_own(const struct stat *st, const hf__sql_life *life)
{
    return S_ISFIFO(st->st_mode) && (int64_t)st->st_dev == life->device && (int64_t)st->st_ino == life->inode;
}

int hf__fifos_watch(const hf__fifos *fifos, const hf__sql_life *life, hf__sql_alive *alive)
{
    char        name[HF_ID_HEX];
    struct stat st;
    int         fd;

    *alive = HF__UNSURE;
    if (life->inode == 0)
        return -1;
    hf__id_hex(&life->client, name);
    fd = openat(fifos->dir_fd, name, WRITE_OPTIONS);
    if (fd < 0) {
        if (errno == ENXIO && fstatat(fifos->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && is_its_own(&st, life))
            *alive = HF__DEAD;
        return -1;
    }
    if (fstat(fd, &st) != 0 || !is_its_own(&st, life)) {
        close(fd);
        return -1;
    }
    *alive = HF__ALIVE;
    return fd;
}

hf__sql_alive hf__fifos_alive(const hf__fifos *fifos, const hf__sql_life *life)
{
    hf__sql_alive alive;
    int           fd;

    if (hf__id_equal(&life->client, &fifos->self.client))
        return HF__ALIVE;
    fd = hf__fifos_watch(fifos, life, &alive);
    if (fd >= 0)
        close(fd);
    return alive;
}

/* Pipes know no MSG_NOSIGNAL. SIGPIPE is directed at the writing thread, so it is enough to hold it off in this thread
 * and to take back the one that the write made, unless one had been pending before. */
static void write_quietly(int fd, const hf_id *claim)
{
    static const struct timespec at_once;
    sigset_t                     pipe_only, before, pending;
    bool                         was_pending;

    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    sigpending(&pending);
    was_pending = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
    if (write(fd, claim, sizeof *claim) < 0 && errno == EPIPE && !was_pending) {
        while (sigtimedwait(&pipe_only, NULL, &at_once) < 0 && errno == EINTR)
            continue;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

hf__sql_alive hf__fifos_ring(hf__fifos *fifos, const hf__sql_life *life, const hf_id *claim)
{
    hf__sql_alive alive;
    int           fd;

    errno = 0;
    fd = hf__fifos_watch(fifos, life, &alive);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE) && lend_spare(fifos))
        fd = hf__fifos_watch(fifos, life, &alive);
    if (fd >= 0) {
        /* A full FIFO is as good as a written one: its reader takes it for news of every name. */
        write_quietly(fd, claim);
        close(fd);
    }
    if (atomic_load(&fifos->spare_fd) < 0)
        take_spare(fifos);
    return alive;
}

static void remove_half_made(const hf__fifos *fifos, const char *name)
{
    struct stat st;

    if (fstatat(fifos->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
        st.st_ctim.tv_sec + HALF_MADE_S < hf__wall_us() / HF_US_PER_S)
        unlinkat(fifos->dir_fd, name, 0);
}

static bool is_left_over(const hf__fifos *fifos, const char *name, hf__sql_life *life)
{
    struct stat   st;
    hf__sql_alive alive;
    int           fd;

    if (!hf__id_parse(&life->client, name) || fstatat(fifos->dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    life->device = (int64_t)st.st_dev;
    life->inode = (int64_t)st.st_ino;
    fd = hf__fifos_watch(fifos, life, &alive);
    if (fd >= 0)
        close(fd);
    return alive == HF__DEAD;
}

size_t hf__fifos_dead(const hf__fifos *fifos, hf__sql_life *lives, size_t most)
{
    int            fd = openat(fifos->dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR           *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;
    size_t         count = 0;

    if (dir == NULL) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    while (count < most && (entry = readdir(dir)) != NULL) {
        if (strncmp(entry->d_name, HALF_MADE, strlen(HALF_MADE)) == 0)
            remove_half_made(fifos, entry->d_name);
        else if (is_left_over(fifos, entry->d_name, &lives[count]))
            count++;
    }
    closedir(dir);
    return count;
}

void hf__fifos_bury(const hf__fifos *fifos, const hf__sql_life *life)
{
    char name[HF_ID_HEX];

    if (hf__fifos_alive(fifos, life) != HF__DEAD)
        return;
    hf__id_hex(&life->client, name);
    unlinkat(fifos->dir_fd, name, 0);
}
