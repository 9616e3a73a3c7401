/* SPDX-License-Identifier: MIT */
/* The roles of the embedded store's tests. See sqlite_roles.h. */
#include "conformance/sqlite_roles.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "conformance/suite.h"

extern const hf_store_ops hf__sqlite_ops;

static const suite_spec spec = {"sqlite", &hf__sqlite_ops, PROCESS_URL};

static void say(const char *line)
{
    printf("%s\n", line);
    fflush(stdout);
}

/* Takes a name, says so, and stays. */
_Noreturn static void role_hold(const char *name)
{
    party   *p = party_open(&spec, "holder");
    hf_claim one = claim_first(&kind_mutex, name);

    say(attempt(p, &one, true).answer == HF_GRANTED ? "held" : "refused");
    for (;;)
        pause();
}

/* Takes a name, releases it so that it is kept for half a minute, says so, and stays. */
_Noreturn static void role_keep(const char *name)
{
    party   *p = party_open(&spec, "keeper");
    hf_claim one = claim_first(&kind_mutex, name);

    must_grant(p, &one);
    say(release_keep(p, &one, LONG_MS).found ? "kept" : "lost");
    for (;;)
        pause();
}

/* Takes a name, with a child that outlives it and has inherited its descriptors, as a guardian would. */
_Noreturn static void role_guarded(const char *name)
{
    party   *p = party_open(&spec, "guarded");
    hf_claim one = claim_first(&kind_mutex, name);
    char     line[32];
    pid_t    child;

    must_grant(p, &one);
    child = fork();
    if (child == 0) {
        for (;;)
            pause();
    }
    snprintf(line, sizeof line, "%d", (int)child);
    say(line);
    for (;;)
        pause();
}

/* Queues for a name, says so, waits, says "entered" with the time. */
static int role_wait(const char *name)
{
    party   *p = party_open(&spec, "waiter");
    hf_claim one = claim_first(&kind_mutex, name);
    char     line[64];
    unsigned attempts = 0;

    attempt(p, &one, true);
    say("queued");
    if (!enter(p, &one, 60000, &attempts))
        return 1;
    snprintf(line, sizeof line, "%lld %u", (long long)hf__now_us(), attempts);
    say(line);
    for (;;)
        pause();
}

/* Asks once for a name, and goes. */
static int role_try(const char *name)
{
    party   *p = party_open(&spec, "tries");
    hf_claim one = claim_first(&kind_mutex, name);

    say(attempt(p, &one, false).answer == HF_GRANTED ? "granted" : "refused");
    release(p, &one);
    party_close(p);
    return 0;
}

/* Holds a name through the whole library, and goes when it is told to, with or without a release of its own. What it
 * could not deliver it leaves behind. */
static int role_leave(const char *name, bool release_first)
{
    hf_client *client;
    hf_lock   *lock;
    sigset_t   go;
    int        signal, closed;

    sigemptyset(&go);
    sigaddset(&go, SIGUSR1);
    sigprocmask(SIG_BLOCK, &go, NULL);
    if (hf_open(&client, PROCESS_URL, HF_CLIENT_OPTIONS(.server_timeout_ms = 300), NULL) != HF_OK ||
        hf_mutex(&lock, client, name, NULL, NULL) != HF_OK || hf_acquire(lock, HF_NOWAIT, NULL, NULL) != HF_OK)
        return 1;
    say("held");
    sigwait(&go, &signal);
    if (release_first && hf_release(lock, NULL) == HF_OK)
        return 2;
    closed = hf_close(client, 300);
    hf_free(lock);
    return closed == HF_EUNREACHABLE ? 0 : 3;
}

/* Has the marks of all readers but the first, as SQLite has while it begins the log anew (byte 120 of the index and
 * those after it are its locks). */
static int role_restart(void)
{
    struct flock marks = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 124, .l_len = 4};
    int          fd = open(PROCESS_FILE "-shm", O_RDWR | O_CLOEXEC);

    if (fd < 0 || fcntl(fd, F_SETLK, &marks) != 0)
        return 1;
    say("restarting");
    for (;;)
        pause();
}

/* Stands in the middle of a write transaction. */
static int role_write(void)
{
    sqlite3 *db;

    if (sqlite3_open(PROCESS_FILE, &db) != SQLITE_OK ||
        sqlite3_exec(db, "BEGIN IMMEDIATE; UPDATE holdfast_meta SET value = value", NULL, NULL, NULL) != SQLITE_OK)
        return 1;
    say("writing");
    for (;;)
        pause();
}

/* One of a crowd. What is inside, and the last fence, stand in a page that all share. */
shared_page *share_page(void)
{
    int          fd = open("crowd.page", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    shared_page *page;

    if (fd < 0 || ftruncate(fd, sizeof *page) != 0)
        abort();
    page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return page != MAP_FAILED ? page : NULL;
}

#define CROWD_READERS 1000 /* a writer's weight here */

static hf_claim crowd_claim(unsigned which, unsigned *seed, int64_t *weight, int64_t *capacity)
{
    static const char *const names[CROWD_NAMES] = {"crowd:mutex", "crowd:fair", "crowd:rw", "crowd:permits"};
    hf_claim                 claim;

    *weight = *capacity = 1;
    if (which < 2)
        return claim_first(&suite_kinds[which], names[which]);
    if (which == 2) {
        claim = claim_first(&kind_rw, names[which]);
        claim.mode = rand_r(seed) % 4 == 0 ? HF_MODE_EXCLUSIVE : HF_MODE_SHARED;
        *capacity = CROWD_READERS;
        *weight = claim.mode == HF_MODE_EXCLUSIVE ? CROWD_READERS : 1;
        return claim;
    }
    *capacity = 5;
    *weight = 1 + rand_r(seed) % 3;
    return claim_counted(names[which], *capacity, *weight);
}

static void crowd_hold(shared_page *page, unsigned which, int64_t fence, int64_t weight, int64_t capacity, unsigned us)
{
    bool    alone = weight == capacity;
    int64_t inside = atomic_fetch_add(&page->names[which].weight, weight) + weight;

    if (inside > capacity)
        atomic_fetch_add(&page->violations, 1);
    if (alone && atomic_exchange(&page->names[which].fence, fence) >= fence)
        atomic_fetch_add(&page->fence_faults, 1);
    usleep(us);
    if (alone && atomic_load(&page->names[which].fence) != fence)
        atomic_fetch_add(&page->violations, 1);
    atomic_fetch_sub(&page->names[which].weight, weight);
    atomic_fetch_add(&page->grants, 1);
}

static int role_crowd(int64_t for_ms, unsigned seed)
{
    party       *p = party_open(&spec, "crowd");
    shared_page *page = share_page();
    int64_t      until_us = hf__after_ms(hf__now_us(), for_ms), weight, capacity;

    while (hf__now_us() < until_us) {
        unsigned which = (unsigned)rand_r(&seed) % CROWD_NAMES;
        hf_claim claim = crowd_claim(which, &seed, &weight, &capacity);
        if (!enter(p, &claim, rand_r(&seed) % 8 == 0 ? 2 : 20000, NULL)) {
            atomic_fetch_add(&page->timeouts, 1);
            continue;
        }
        crowd_hold(page, which, claim.mark, weight, capacity, (unsigned)rand_r(&seed) % 1000);
        release(p, &claim);
    }
    party_close(p);
    return 0;
}

int play_process(int argc, char **argv)
{
    if (argc >= 3 && strcmp(argv[1], "hold") == 0)
        role_hold(argv[2]);
    if (argc >= 3 && strcmp(argv[1], "keep") == 0)
        role_keep(argv[2]);
    if (argc >= 3 && strcmp(argv[1], "guarded") == 0)
        role_guarded(argv[2]);
    if (argc >= 3 && strcmp(argv[1], "wait") == 0)
        return role_wait(argv[2]);
    if (argc >= 3 && strcmp(argv[1], "try") == 0)
        return role_try(argv[2]);
    if (argc >= 3 && strcmp(argv[1], "leave") == 0)
        return role_leave(argv[2], true);
    if (argc >= 3 && strcmp(argv[1], "close") == 0)
        return role_leave(argv[2], false);
    if (argc >= 2 && strcmp(argv[1], "restart") == 0)
        return role_restart();
    if (argc >= 2 && strcmp(argv[1], "write") == 0)
        return role_write();
    if (argc >= 4 && strcmp(argv[1], "crowd") == 0)
        return role_crowd(strtoll(argv[2], NULL, 10), (unsigned)strtoul(argv[3], NULL, 10));
    return 64;
}

/* ---- roles of the tests of files --------------------------------------------------------------------------------- */

/* Whether somebody gets through to what lies below `folder`. */
static bool lets_through(const char *folder)
{
    struct stat st;

    return stat(folder, &st) == 0 && (st.st_mode & S_IXOTH);
}

/* Whether somebody gets to the folder: a build may lie in a home that is closed to all others. */
static bool within_reach(const char *folder)
{
    char part[PATH_MAX];

    for (size_t len = 1; folder[len] != '\0'; len++) {
        if (folder[len] != '/')
            continue;
        snprintf(part, sizeof part, "%.*s", (int)len, folder);
        if (!lets_through(part))
            return false;
    }
    return true;
}

/* Of root's rights, the one to pass any folder; false: this root has not got it. */
static bool keep_the_way(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct   rights[2] = {{0}};

    rights[0].effective = rights[0].permitted = 1U << CAP_DAC_READ_SEARCH;
    return syscall(SYS_capset, &header, rights) == 0;
}

static bool become_somebody(const char *folder)
{
    bool closed = !within_reach(folder);

    if (closed && prctl(PR_SET_KEEPCAPS, 1) != 0)
        return false;
    if (setresgid(SOMEBODY, SOMEBODY, SOMEBODY) != 0 || setresuid(SOMEBODY, SOMEBODY, SOMEBODY) != 0)
        return false;
    return !closed || keep_the_way();
}

/* Opens as somebody who is not root, and says what came of it. */
static int role_open(const char *url, const char *folder)
{
    hf_error err;
    int      status;

    if (geteuid() == 0 && !become_somebody(folder)) {
        say("skip: the build is in a folder that others cannot pass, and this root has no right to let them");
        return 0;
    }
    status = party_refused(&hf__sqlite_ops, url, &err);
    printf("%s %s\n", hf_status_name(status), err.text);
    return 0;
}

static bool fill_up(const char *folder)
{
    char path[512], block[4096] = {1};
    int  fd;

    snprintf(path, sizeof path, "%s/filler", folder);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return false;
    while (write(fd, block, sizeof block) > 0)
        continue;
    close(fd);
    return errno == ENOSPC;
}

static void room_again(const char *folder)
{
    char path[512];

    snprintf(path, sizeof path, "%s/filler", folder);
    unlink(path);
}

/* Takes names until the disk is full: that must be said so, leave what is held alone, and pass when there is room. */
static void live_through_full_disk(party *p, const char *folder)
{
    hf_claim held = claim_first(&kind_mutex, "full:held");
    char     name[32];
    int      status = HF_OK, i;

    must_grant(p, &held);
    assert_true(fill_up(folder));
    for (i = 0; i < 20000 && status == HF_OK; i++) {
        snprintf(name, sizeof name, "full:%d", i);
        hf_claim   one = claim_first(&kind_mutex, name);
        hf_request request = {.verb = HF_VERB_ATTEMPT, .claim = &one, .queue = true};
        verb(p, &request);
        status = request.status;
    }
    assert_int_equal(status, HF_EEXHAUSTED);
    assert_true(holds_claim(p, &held, true));
    room_again(folder);
    hf_claim again = claim_first(&kind_mutex, name);
    assert_holds(p, name, 0, 0); /* what failed was undone */
    must_grant(p, &again);
    assert_int_equal(renew(p, &held, LONG_MS), HF_RENEWAL_RENEWED);
    assert_true(release(p, &held).found);
}

/* In a mount namespace of its own, so that nothing stays mounted. */
static int role_full(const char *folder)
{
    char       url[512];
    suite_spec full = {"sqlite", &hf__sqlite_ops, url};
    party     *p;

    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", folder, "tmpfs", 0, "size=400k,mode=0700") != 0) {
        say("skip: a small file system to fill needs the right to mount");
        return 0;
    }
    snprintf(url, sizeof url, "sqlite://%s/l.db", folder);
    p = party_open(&full, "full");
    live_through_full_disk(p, folder);
    party_close(p);
    say("full disk survived");
    return 0;
}

/* The new time namespace is that of children. */
static int role_timens(const char *url)
{
    hf_error err;
    int      fd, status = 0;
    pid_t    child;

    if (unshare(CLONE_NEWTIME) != 0) {
        say("skip: a time namespace needs the right to make one");
        return 0;
    }
    fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "boottime 1000 0\n", 16) != 16)
        return 1;
    close(fd);
    child = fork();
    if (child == 0) {
        party_refused(&hf__sqlite_ops, url, &err);
        say(err.text);
        _exit(0);
    }
    waitpid(child, &status, 0);
    return status;
}

int play_files(int argc, char **argv)
{
    if (argc >= 4 && strcmp(argv[1], "open") == 0)
        return role_open(argv[2], argv[3]);
    if (argc >= 3 && strcmp(argv[1], "full") == 0)
        return role_full(argv[2]);
    if (argc >= 3 && strcmp(argv[1], "timens") == 0)
        return role_timens(argv[2]);
    return 64;
}
