/* SPDX-License-Identifier: MIT */
/* Finding, checking and making the database file. See path.h, and docs/stores/sqlite.md for the rules in words. */
#include "stores/sqlite/path.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/id.h"
#include "base/url.h"

#define DEFAULT_FILE "holdfast/locks.db"
#define NO_GROUP ((gid_t)-1)

/* Types from linux/magic.h and the file systems' own sources; all of them local, with shared memory maps that work. */
static const struct {
    unsigned long type;
    const char   *name;
} local_types[] = {
    {0xef53, "ext"},         {0x58465342, "xfs"},      {0x9123683e, "btrfs"}, {0x01021994, "tmpfs"},
    {0x794c7630, "overlay"}, {0xf2f52010, "f2fs"},     {0x2fc12fc1, "zfs"},   {0xca451a4e, "bcachefs"},
    {0x858458f6, "ramfs"},   {0x52654973, "reiserfs"}, {0x3153464a, "jfs"},   {0x3434, "nilfs"},
};

const char *hf__sqlite_local_fs(unsigned long type)
{
    for (size_t i = 0; i < sizeof local_types / sizeof local_types[0]; i++) {
        if (local_types[i].type == (type & 0xffffffffUL))
            return local_types[i].name;
    }
    return NULL;
}

static int fits(int len, size_t size, hf_error *err)
{
    if (len < 0 || (size_t)len >= size)
        return hf__fail(err, HF_EINVALID, "the path of the lock database is too long");
    return HF_OK;
}

/* The user's own place, by the XDG rules; root's is the machine's. */
static int default_path(char *path, size_t size, hf_error *err)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");

    if (geteuid() == 0)
        return fits(snprintf(path, size, "/var/lib/" DEFAULT_FILE), size, err);
    if (state != NULL && state[0] == '/')
        return fits(snprintf(path, size, "%s/" DEFAULT_FILE, state), size, err);
    if (home != NULL && home[0] == '/')
        return fits(snprintf(path, size, "%s/.local/state/" DEFAULT_FILE, home), size, err);
    return hf__fail(err, HF_EINVALID,
                    "neither XDG_STATE_HOME nor HOME is set, so there is no default place for the lock database; "
                    "name one: sqlite:///path/to/locks.db");
}

static int wanted_path(char *path, size_t size, const hf_url *url, bool *is_default, hf_error *err)
{
    *is_default = url->path == NULL || url->path[0] == '\0';
    if (url->host != NULL && url->host[0] != '\0')
        return hf__fail(err, HF_EINVALID,
                        "%s names a host; write three slashes for an absolute path (sqlite:///path) or none for a "
                        "relative one (sqlite:path)",
                        url->text);
    if (url->user != NULL || url->password != NULL)
        return hf__fail(err, HF_EINVALID, "%s names a user; a file has none", url->text);
    if (*is_default)
        return default_path(path, size, err);
    return fits(snprintf(path, size, "%s", url->path), size, err);
}

static int wanted_rights(hf__sqlite_path *path, const hf_url *url, hf_error *err)
{
    const char   *mode = hf__url_param(url, "mode"), *group = hf__url_param(url, "group");
    struct group *found;

    path->mode = 0600;
    path->group = NO_GROUP;
    if (mode != NULL && strcmp(mode, "0660") == 0)
        path->mode = 0660;
    else if (mode != NULL && strcmp(mode, "0600") != 0)
        return hf__fail(err, HF_EINVALID, "mode=%s: the lock database is 0600, or 0660 for a group", mode);
    if (group == NULL)
        return HF_OK;
    if (path->mode != 0660)
        return hf__fail(err, HF_EINVALID, "group=%s needs mode=0660 beside it", group);
    found = getgrnam(group);
    if (found == NULL)
        return hf__fail(err, HF_EINVALID, "group=%s: there is no such group", group);
    path->group = found->gr_gid;
    return HF_OK;
}

/* Cuts "a/b" into "a" and "b". "b" gets "." and "/" for its folder. */
static int split(const char *path, char *folder, size_t size, const char **base, hf_error *err)
{
    const char *slash = strrchr(path, '/');
    int         len = slash == NULL ? 1 : slash == path ? 1 : (int)(slash - path);

    *base = slash == NULL ? path : slash + 1;
    if ((*base)[0] == '\0' || strcmp(*base, ".") == 0 || strcmp(*base, "..") == 0)
        return hf__fail(err, HF_EINVALID, "%s names a folder, not a file for the lock database", path);
    return fits(snprintf(folder, size, "%.*s", len, slash == NULL ? "." : path), size, err);
}

/* The nearest folder above that exists. */
static void existing_part(char *path)
{
    struct stat st;

    while (stat(path, &st) != 0 && errno == ENOENT) {
        char *slash = strrchr(path, '/');
        if (slash == NULL)
            strcpy(path, ".");
        else if (slash == path)
            path[1] = '\0';
        else
            *slash = '\0';
    }
}

static int check_file_system(const char *folder, const char *file, hf_error *err)
{
    char          there[PATH_MAX];
    struct statfs fs;

    snprintf(there, sizeof there, "%s", folder);
    existing_part(there);
    if (statfs(there, &fs) != 0)
        return hf__fail_sys(err, HF_EREFUSED, errno, "cannot look at the file system of %s", there);
    if (hf__sqlite_local_fs((unsigned long)fs.f_type) == NULL)
        return hf__fail(
            err, HF_EREFUSED,
            "%s would be on a network file system or one that is not known to keep file locks (type 0x%lx); "
            "put the lock database on a local disk, or use a store with a server",
            file, (unsigned long)fs.f_type & 0xffffffffUL);
    return HF_OK;
}

static int make_folders(char *folder, hf_error *err)
{
    for (char *p = folder + 1;; p++) {
        char end = *p;
        if (end != '/' && end != '\0')
            continue;
        *p = '\0';
        if (mkdir(folder, 0700) != 0 && errno != EEXIST)
            return hf__fail_sys(err, HF_EREFUSED, errno,
                                "cannot make the folder %s for the lock database; name another place with "
                                "sqlite:///path or HOLDFAST_STORE",
                                folder);
        *p = end;
        if (end == '\0')
            return HF_OK;
    }
}

/* A folder above that others may write to: then they can put another folder in our folder's place, unless it is sticky.
 * A symbolic link there may be anybody's. */
static int check_way(const char *folder, hf_error *err)
{
    char        part[PATH_MAX];
    struct stat parent, st;
    size_t      len = strlen(folder);

    if (folder[0] != '/' || stat("/", &parent) != 0)
        return HF_OK;
    for (size_t i = 1; i <= len; i++) {
        if (folder[i] != '/' && folder[i] != '\0')
            continue;
        snprintf(part, sizeof part, "%.*s", (int)i, folder);
        if (lstat(part, &st) != 0)
            return hf__fail_sys(err, HF_EREFUSED, errno, "cannot look at %s", part);
        if (S_ISLNK(st.st_mode) && (parent.st_mode & S_IWOTH))
            return hf__fail(err, HF_EREFUSED,
                            "%s is a symbolic link in a folder that anybody may write to; name the lock database "
                            "without it",
                            part);
        if ((parent.st_mode & S_IWOTH) && !(parent.st_mode & S_ISVTX))
            return hf__fail(err, HF_EREFUSED,
                            "anybody may rename %s, since its folder is writable for all and not sticky; use another "
                            "place or chmod o-w it",
                            part);
        if (stat(part, &parent) != 0)
            return hf__fail_sys(err, HF_EREFUSED, errno, "cannot look at %s", part);
    }
    return HF_OK;
}

/* A group of one: many systems give each user one of the same name, and make folders group-writable. */
static bool is_private_group(gid_t gid)
{
    struct passwd *user = getpwuid(geteuid());
    char           name[64];
    struct group  *group;

    if (user == NULL || user->pw_gid != gid)
        return false;
    snprintf(name, sizeof name, "%s", user->pw_name);
    group = getgrgid(gid);
    if (group == NULL || strcmp(group->gr_name, name) != 0)
        return false;
    for (char **member = group->gr_mem; *member != NULL; member++) {
        if (strcmp(*member, name) != 0)
            return false;
    }
    return true;
}

/* Others: anybody but us, root, and the group that the URL names. */
static bool others_may_write(const hf__sqlite_path *path, const struct stat *st)
{
    if (st->st_uid != geteuid() && st->st_uid != 0 && geteuid() != 0 && path->group == NO_GROUP)
        return true;
    if (st->st_mode & S_IWOTH)
        return true;
    return (st->st_mode & S_IWGRP) && st->st_gid != path->group && !is_private_group(st->st_gid);
}

static int check_folder(const hf__sqlite_path *path, const struct stat *folder, const struct stat *file, hf_error *err)
{
    if (path->group != NO_GROUP && path->group != getegid() &&
        !((folder->st_mode & S_ISGID) && folder->st_gid == path->group))
        return hf__fail(
            err, HF_EREFUSED,
            "files that SQLite makes in %s would not be of the group that the URL names; chgrp the folder to "
            "it and chmod g+s it",
            path->folder);
    if (!others_may_write(path, folder))
        return HF_OK;
    if (!(folder->st_mode & S_ISVTX))
        return hf__fail(err, HF_EREFUSED,
                        "others may write to the folder %s and could put another lock database there; use a folder "
                        "of your own, chmod go-w it, or name its group with ?mode=0660&group=",
                        path->folder);
    if (file != NULL && file->st_uid != geteuid())
        return hf__fail(err, HF_EREFUSED,
                        "%s lies in a folder that others may write to and belongs to user %u, not to you", path->text,
                        (unsigned)file->st_uid);
    return HF_OK;
}

/*
 * Makes the empty file under another name and links it into its place, so that it appears with its rights. A file that
 * is there already is never opened by us: closing any descriptor of a file drops all of the process's POSIX locks on
 * it, SQLite's included.
 */
static int make_file(const hf__sqlite_path *path, hf_error *err)
{
    char  other[PATH_MAX], hex[HF_ID_HEX];
    hf_id id;
    int   fd, sys = 0;

    if (!hf__id_random(&id))
        return hf__fail(err, HF_EEXHAUSTED, "the system has no random bytes to give");
    hf__id_hex(&id, hex);
    if (fits(snprintf(other, sizeof other, "%s/.holdfast-%s", path->folder, hex), sizeof other, err) != HF_OK)
        return HF_EINVALID;
    fd = open(other, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return hf__fail_sys(err, errno == ENOSPC || errno == EMFILE || errno == ENFILE ? HF_EEXHAUSTED : HF_EREFUSED,
                            errno,
                            "cannot make the lock database %s; make its folder writable for you or name another "
                            "place with sqlite:///path or HOLDFAST_STORE",
                            path->text);
    if (hf__sqlite_path_grant(path, fd, false) != 0)
        sys = errno;
    close(fd); /* before it has its name, under which another thread's SQLite may lock it */
    if (sys == 0 && link(other, path->text) != 0 && errno != EEXIST)
        sys = errno;
    unlink(other);
    return sys == 0 ? HF_OK : hf__fail_sys(err, HF_EREFUSED, sys, "cannot make the lock database %s", path->text);
}

int hf__sqlite_path_grant(const hf__sqlite_path *path, int fd, bool folder)
{
    mode_t mode = folder ? path->mode | (path->mode & 0060 ? 0110 : 0100) : path->mode;
    uid_t  owner = geteuid() == 0 && path->inode != 0 ? path->owner : (uid_t)-1;
    gid_t  group = owner != (uid_t)-1 ? path->owner_group : path->group;

    if ((owner != (uid_t)-1 || group != NO_GROUP) && fchown(fd, owner, group) != 0)
        return -1;
    return fchmod(fd, mode);
}

int hf__sqlite_path_side_files(const hf__sqlite_path *path, hf_error *err)
{
    static const char *const suffixes[] = {"-wal", "-shm", "-journal"};
    char                     file[PATH_MAX + 16];
    struct stat              st;

    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        snprintf(file, sizeof file, "%s%s", path->text, suffixes[i]);
        if (lstat(file, &st) != 0)
            continue;
        bool ours = st.st_uid == path->owner || st.st_uid == geteuid() || st.st_uid == 0 || path->mode != 0600;
        if (!S_ISREG(st.st_mode) || !ours)
            return hf__fail(err, HF_EREFUSED, "%s is not a file of yours (user %u); remove it", file,
                            (unsigned)st.st_uid);
    }
    return HF_OK;
}

static int use_file(hf__sqlite_path *path, const struct stat *folder, hf_error *err)
{
    struct stat st;
    int         status;

    if (lstat(path->text, &st) != 0) {
        if (errno != ENOENT)
            return hf__fail_sys(err, HF_EREFUSED, errno, "cannot look at the lock database %s", path->text);
        status = check_folder(path, folder, NULL, err);
        if (status == HF_OK)
            status = make_file(path, err);
        if (status != HF_OK)
            return status;
        if (lstat(path->text, &st) != 0)
            return hf__fail_sys(err, HF_EREFUSED, errno, "the lock database %s went away at once", path->text);
    }
    if (!S_ISREG(st.st_mode))
        return hf__fail(err, HF_EREFUSED, "%s is %s; the lock database must be a plain file", path->text,
                        S_ISLNK(st.st_mode)   ? "a symbolic link"
                        : S_ISDIR(st.st_mode) ? "a folder"
                                              : "a special file");
    path->device = st.st_dev;
    path->inode = st.st_ino;
    path->owner = st.st_uid;
    path->owner_group = st.st_gid;
    status = check_folder(path, folder, &st, err);
    return status == HF_OK ? hf__sqlite_path_side_files(path, err) : status;
}

/* A link in a folder of one's own is one's own business: follow it. In any other it is refused by use_file(). */
static void follow_own_link(char *wanted, size_t size)
{
    char        resolved[PATH_MAX], folder[PATH_MAX];
    const char *base;
    struct stat st, parent;

    if (lstat(wanted, &st) != 0 || !S_ISLNK(st.st_mode) || split(wanted, folder, sizeof folder, &base, NULL) != HF_OK)
        return;
    if (stat(folder, &parent) == 0 && !(parent.st_mode & S_IWOTH) && realpath(wanted, resolved) != NULL)
        snprintf(wanted, size, "%s", resolved);
}

/* The path as a URL that leads to it from anywhere. */
static void write_url(hf__sqlite_path *path)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/-._~";
    char             *to = path->url + sprintf(path->url, "sqlite://");

    for (const char *from = path->text; *from != '\0'; from++)
        to += sprintf(to, strchr(plain, *from) != NULL ? "%c" : "%%%02X", (unsigned char)*from);
}

int hf__sqlite_path_open(hf__sqlite_path *path, const hf_url *url, hf_error *err)
{
    static const char *const known[] = {"mode", "group", NULL};
    char                     wanted[PATH_MAX], folder[PATH_MAX];
    const char              *base;
    struct stat              st;
    bool                     is_default;

    memset(path, 0, sizeof *path);
    if (hf__url_only(url, known, err) != HF_OK || wanted_path(wanted, sizeof wanted, url, &is_default, err) != HF_OK ||
        wanted_rights(path, url, err) != HF_OK)
        return HF_EINVALID;
    follow_own_link(wanted, sizeof wanted);
    if (split(wanted, folder, sizeof folder, &base, err) != HF_OK)
        return HF_EINVALID;
    if (check_file_system(folder, wanted, err) != HF_OK)
        return HF_EREFUSED;
    if (is_default && make_folders(folder, err) != HF_OK)
        return HF_EREFUSED;
    if (realpath(folder, path->folder) == NULL || stat(path->folder, &st) != 0)
        return hf__fail_sys(err, HF_EREFUSED, errno, "the folder %s of the lock database cannot be used; make it first",
                            folder);
    if (!S_ISDIR(st.st_mode))
        return hf__fail(err, HF_EREFUSED, "%s is not a folder", folder);
    if (fits(snprintf(path->text, sizeof path->text, "%s/%s", strcmp(path->folder, "/") == 0 ? "" : path->folder, base),
             sizeof path->text, err) != HF_OK)
        return HF_EINVALID;
    if (check_way(folder, err) != HF_OK || check_way(path->folder, err) != HF_OK ||
        check_file_system(path->folder, path->text, err) != HF_OK)
        return HF_EREFUSED;
    write_url(path);
    return use_file(path, &st, err);
}

int hf__sqlite_path_same(const hf__sqlite_path *path, hf_error *err)
{
    struct stat st;

    if (stat(path->text, &st) == 0 && st.st_ino == path->inode && st.st_dev == path->device)
        return HF_OK;
    return hf__fail(err, HF_EREFUSED,
                    "the lock database %s was replaced or removed while it was in use; nothing more is granted through "
                    "it. Open the store again when all its users have ended",
                    path->text);
}
