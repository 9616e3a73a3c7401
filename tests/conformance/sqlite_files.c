/* SPDX-License-Identifier: MIT */
/*
 * The embedded store and its files: where they may lie, with which rights they are made, what is refused, and what
 * happens when they are taken away or full.
 */
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/id.h"
#include "conformance/helper.h"
#include "conformance/sqlite_fixture.h"
#include "conformance/sqlite_roles.h"
#include "stores/sqlite/fifo.h"
#include "stores/sqlite/path.h"

/* ---- rights ------------------------------------------------------------------------------------------------------ */

static void made_for_the_owner_alone(void **state)
{
    const char *folder = fresh_folder();
    mode_t      before = umask(0);
    party      *p = open_url(url_in(folder, "l.db"));
    hf_claim    one = claim_first(&kind_mutex, "name");

    (void)state;
    must_grant(p, &one);
    umask(before);
    assert_int_equal(mode_of(folder, "l.db"), 0600);
    assert_int_equal(mode_of(folder, "l.db-wal"), 0600);
    assert_int_equal(mode_of(folder, "l.db-shm"), 0600);
    assert_int_equal(mode_of(folder, "l.db-clients"), 0700);
    party_close(p);
}

static void made_for_a_group(void **state)
{
    const char *folder = fresh_folder();
    mode_t      before = umask(077);
    party      *p = open_url(url_in(folder, "l.db?mode=0660"));
    char        hex[HF_ID_HEX], fifo[64];

    (void)state;
    umask(before);
    hf__id_hex(&party_store(p)->env->client, hex);
    snprintf(fifo, sizeof fifo, "l.db-clients/%s", hex);
    assert_int_equal(mode_of(folder, "l.db"), 0660);
    assert_int_equal(mode_of(folder, "l.db-clients"), 0770);
    assert_int_equal(mode_of(folder, fifo), 0660);
    party_close(p);
}

static void bad_urls(void **state)
{
    const char *folder = fresh_folder();
    char        longest[PATH_MAX + 32];

    (void)state;
    expect_refusal(url_in(folder, "l.db?mod=0660"), HF_EINVALID, "mod");
    expect_refusal(url_in(folder, "l.db?mode=0666"), HF_EINVALID, "0666");
    expect_refusal(url_in(folder, "l.db?group=root"), HF_EINVALID, "mode=0660");
    expect_refusal(url_in(folder, "l.db?mode=0660&group=no-such-group-here"), HF_EINVALID, "no such group");
    expect_refusal("sqlite://host/l.db", HF_EINVALID, "three slashes");
    expect_refusal(url_in(folder, ""), HF_EINVALID, "folder");
    expect_refusal(url_in(folder, ".."), HF_EINVALID, "folder");
    expect_refusal(url_in(folder, "missing/l.db"), HF_EREFUSED, "missing");
    snprintf(longest, sizeof longest, "sqlite:///%0*d", 4060, 0);
    expect_refusal(longest, HF_EREFUSED, "");
    assert_false(exists(folder, "l.db"));
    assert_false(exists(folder, "missing"));
}

static void folder_that_others_may_write_to(void **state)
{
    const char *folder = fresh_folder();

    (void)state;
    assert_int_equal(chmod(folder, 0777), 0);
    expect_refusal(url_in(folder, "l.db"), HF_EREFUSED, "others may write");
    assert_false(exists(folder, "l.db"));
    assert_int_equal(chmod(folder, 01777), 0);
    party_close(open_url(url_in(folder, "l.db")));
    assert_true(exists(folder, "l.db"));
    if (geteuid() == 0) {
        char path[PATH_MAX + 64];
        snprintf(path, sizeof path, "%s/l.db", folder);
        assert_int_equal(chown(path, 12345, 12345), 0);
        expect_refusal(url_in(folder, "l.db"), HF_EREFUSED, "12345");
    }
}

static void folder_above_that_others_may_write_to(void **state)
{
    const char *folder = fresh_folder();
    char        inner[PATH_MAX + 64];

    (void)state;
    snprintf(inner, sizeof inner, "%s/inner", folder);
    assert_int_equal(mkdir(inner, 0700), 0);
    assert_int_equal(chmod(folder, 0777), 0);
    expect_refusal(url_in(folder, "inner/l.db"), HF_EREFUSED, "rename");
    assert_int_equal(chmod(folder, 01777), 0);
    party_close(open_url(url_in(folder, "inner/l.db")));
}

static void symbolic_links(void **state)
{
    const char *folder = fresh_folder();
    char        link[PATH_MAX + 64], target[PATH_MAX + 64];

    (void)state;
    snprintf(link, sizeof link, "%s/l.db", folder);
    snprintf(target, sizeof target, "%s/target.db", folder);
    assert_int_equal(symlink(target, link), 0);
    assert_int_equal(chmod(folder, 01777), 0);
    expect_refusal(url_in(folder, "l.db"), HF_EREFUSED, "symbolic link");
    assert_false(exists(folder, "target.db"));
    write_file(folder, "target.db", "");
    expect_refusal(url_in(folder, "l.db"), HF_EREFUSED, "symbolic link");
    assert_int_equal(chmod(folder, 0700), 0);
    party_close(open_url(url_in(folder, "l.db"))); /* one's own link in one's own folder */
    assert_true(exists(folder, "target.db-clients"));
}

static void linked_folder_in_a_public_one(void **state)
{
    const char *folder = fresh_folder();
    char        inner[PATH_MAX + 64], link[PATH_MAX + 64];

    (void)state;
    snprintf(inner, sizeof inner, "%s/inner", folder);
    snprintf(link, sizeof link, "%s/link", folder);
    assert_int_equal(mkdir(inner, 0700), 0);
    assert_int_equal(symlink(inner, link), 0);
    assert_int_equal(chmod(folder, 01777), 0);
    expect_refusal(url_in(folder, "link/l.db"), HF_EREFUSED, "symbolic link");
    assert_false(exists(folder, "inner/l.db"));
}

static void clients_folder_that_is_a_link(void **state)
{
    const char *folder = fresh_folder();
    char        link[PATH_MAX + 64];

    (void)state;
    snprintf(link, sizeof link, "%s/l.db-clients", folder);
    assert_int_equal(symlink("/tmp", link), 0);
    expect_refusal(url_in(folder, "l.db"), HF_EREFUSED, "l.db-clients");
}

/* Put there by another user before the database was made, in a folder that all may write to. */
static void log_of_a_stranger(void **state)
{
    const char *folder = fresh_folder();
    char        path[PATH_MAX + 64];

    (void)state;
    if (geteuid() != 0)
        return;
    assert_int_equal(chmod(folder, 01777), 0);
    write_file(folder, "l.db-wal", "");
    snprintf(path, sizeof path, "%s/l.db-wal", folder);
    assert_int_equal(chown(path, 12345, 12345), 0);
    expect_refusal(url_in(folder, "l.db"), HF_EREFUSED, "l.db-wal");
}

static void group_that_new_files_would_not_have(void **state)
{
    const char *folder = fresh_folder();
    gid_t       other = 1; /* "daemon" on every Debian system */

    (void)state;
    if (geteuid() != 0)
        return;
    expect_refusal(url_in(folder, "l.db?mode=0660&group=daemon"), HF_EREFUSED, "chmod g+s");
    assert_int_equal(chown(folder, 0, other), 0);
    assert_int_equal(chmod(folder, 02770), 0);
    party_close(open_url(url_in(folder, "l.db?mode=0660&group=daemon")));
}

/* ---- file systems ------------------------------------------------------------------------------------------------ */

static void local_file_systems(void **state)
{
    (void)state;
    assert_string_equal(hf__sqlite_local_fs(0xef53), "ext");
    assert_string_equal(hf__sqlite_local_fs(0x58465342), "xfs");
    assert_string_equal(hf__sqlite_local_fs(0x9123683e), "btrfs");
    assert_string_equal(hf__sqlite_local_fs(0xffffffff9123683eUL), "btrfs"); /* where f_type is signed */
    assert_string_equal(hf__sqlite_local_fs(0x01021994), "tmpfs");
    assert_null(hf__sqlite_local_fs(0x6969));     /* nfs */
    assert_null(hf__sqlite_local_fs(0xff534d42)); /* cifs */
    assert_null(hf__sqlite_local_fs(0xfe534d42)); /* smb2 */
    assert_null(hf__sqlite_local_fs(0x65735546)); /* fuse */
    assert_null(hf__sqlite_local_fs(0x01021997)); /* 9p */
    assert_null(hf__sqlite_local_fs(0x19800202)); /* mqueue */
    assert_null(hf__sqlite_local_fs(0));
}

static void unknown_file_systems(void **state)
{
    (void)state;
    expect_refusal("sqlite:///proc/l.db", HF_EREFUSED, "file system");
    expect_refusal("sqlite:///proc/no/such/folder/l.db", HF_EREFUSED, "file system");
    expect_refusal("sqlite:///sys/l.db", HF_EREFUSED, "file system");
}

/* ---- taken away -------------------------------------------------------------------------------------------------- */

static void expect_all_refused(party *p, hf_claim *held)
{
    hf_claim   other = claim_first(&kind_mutex, "another");
    hf_renewal renewal = {.claim = held, .lease_ms = LONG_MS, .answer = 77};
    hf_request requests[] = {{.verb = HF_VERB_ATTEMPT, .claim = &other, .queue = true},
                             {.verb = HF_VERB_RELEASE, .claim = held},
                             {.verb = HF_VERB_RENEW, .renewals = &renewal, .count = 1}};

    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        verb(p, &requests[i]);
        assert_int_equal(requests[i].status, HF_EREFUSED);
        assert_non_null(strstr(requests[i].err.text, "replaced or removed"));
    }
    assert_int_equal(renewal.answer, HF_RENEWAL_UNKNOWN);
}

static void removed_while_in_use(void **state)
{
    const char *folder = fresh_folder();
    party      *p = open_url(url_in(folder, "l.db")), *next;
    hf_claim    one = claim_first(&kind_mutex, "gone"), two = claim_second(&kind_mutex, "gone");
    char        path[PATH_MAX + 64];

    (void)state;
    must_grant(p, &one);
    snprintf(path, sizeof path, "%s/l.db", folder);
    assert_int_equal(unlink(path), 0);
    expect_all_refused(p, &one);
    next = open_url(url_in(folder, "l.db")); /* a new file; the old users are told, not let in beside */
    must_grant(next, &two);
    expect_all_refused(p, &one);
    party_close(next);
    party_close(p);
}

static void replaced_while_in_use(void **state)
{
    const char *folder = fresh_folder();
    party      *p = open_url(url_in(folder, "l.db"));
    hf_claim    one = claim_first(&kind_mutex, "gone");
    char        path[PATH_MAX + 64], aside[PATH_MAX + 64];

    (void)state;
    must_grant(p, &one);
    snprintf(path, sizeof path, "%s/l.db", folder);
    snprintf(aside, sizeof aside, "%s/aside.db", folder);
    assert_int_equal(rename(path, aside), 0);
    write_file(folder, "l.db", "");
    expect_all_refused(p, &one);
    assert_int_equal(rename(aside, path), 0);
    assert_true(release(p, &one).found);
    party_close(p);
}

static void relative_paths_stay(void **state)
{
    const char *folder = fresh_folder();
    party      *p;
    hf_claim    one = claim_first(&kind_mutex, "name");

    (void)state;
    assert_int_equal(chdir(folder), 0);
    p = open_url("sqlite:l.db");
    assert_int_equal(chdir("/"), 0);
    must_grant(p, &one);
    assert_true(release(p, &one).found);
    party_close(p);
    assert_int_equal(chdir(fixture_here()), 0);
    assert_true(exists(folder, "l.db"));
}

/* ---- in other processes: another user, a full disk, another time namespace --------------------------------------- */

/* `folder`: what the role has to get to; may be NULL. */
static void expect_role(const char *role, const char *arg, const char *folder, const char *wanted)
{
    const char *args[] = {role, arg, folder, NULL};
    char        line[600];
    helper     *h = helper_start(args);

    assert_true(helper_line(h, line, sizeof line));
    if (strncmp(line, "skip", 4) == 0) {
        helper_wait(h);
        if (getenv("CI") != NULL)
            fail_msg("%s", line);
        print_message("%s\n", line);
        skip();
    }
    if (strstr(line, wanted) == NULL)
        fail_msg("'%s' is not in '%s'", wanted, line);
    assert_int_equal(helper_wait(h), 0);
}

static void unwritable_folder(void **state)
{
    const char *folder = fresh_folder();

    (void)state;
    assert_int_equal(chmod(folder, 0555), 0);
    expect_role("open", url_in(folder, "l.db"), folder, "HF_EREFUSED");
    expect_role("open", url_in(folder, "l.db"), folder, folder);
}

static void unreadable_file(void **state)
{
    const char *folder = fresh_folder();
    char        path[PATH_MAX + 64];

    (void)state;
    party_close(open_url(url_in(folder, "l.db")));
    snprintf(path, sizeof path, "%s/l.db", folder);
    assert_int_equal(chmod(path, 0), 0);
    assert_int_equal(chmod(folder, 0755), 0);
    expect_role("open", url_in(folder, "l.db"), folder, "HF_EREFUSED");
}

static void default_place(void **state)
{
    const char *folder = fresh_folder();
    char        path[PATH_MAX + 64];

    (void)state;
    if (geteuid() == 0)
        assert_int_equal(chown(folder, SOMEBODY, SOMEBODY), 0);
    snprintf(path, sizeof path, "%s/state", folder);
    setenv("XDG_STATE_HOME", path, 1);
    expect_role("open", "sqlite:", folder, "HF_OK");
    assert_int_equal(mode_of(folder, "state"), 0700);
    assert_int_equal(mode_of(folder, "state/holdfast"), 0700);
    assert_int_equal(mode_of(folder, "state/holdfast/locks.db"), 0600);
}

static void full_disk(void **state)
{
    (void)state;
    expect_role("full", fresh_folder(), NULL, "full disk survived");
}

static void time_namespace(void **state)
{
    (void)state;
    expect_role("timens", url_in(fresh_folder(), "l.db"), NULL, "time namespace");
}

/* ---- bells whose reader comes and goes --------------------------------------------------------------------------- */

typedef struct flicker {
    const char *path;
    atomic_bool stop;
} flicker;

static void *run_flicker(void *arg)
{
    flicker *f = arg;

    while (!atomic_load(&f->stop)) {
        int fd = open(f->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        if (fd >= 0)
            close(fd);
    }
    return NULL;
}

/* The reading end goes away between the opening and the writing, again and again. The default of SIGPIPE would end
 * us. */
static void broken_bells_raise_nothing(void **state)
{
    const char  *folder = fresh_folder();
    hf__fifos    fifos = {.read_fd = -1, .write_fd = -1};
    hf__sql_life life = {.client = {{1, 2, 3}}};
    char         hex[HF_ID_HEX], path[PATH_MAX + 128];
    flicker      f = {.path = path};
    pthread_t    thread;
    struct stat  st;
    sigset_t     pending;
    int          rung = 0;

    (void)state;
    hf__id_hex(&life.client, hex);
    snprintf(path, sizeof path, "%s/%s", folder, hex);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(stat(path, &st), 0);
    life.device = (int64_t)st.st_dev;
    life.inode = (int64_t)st.st_ino;
    fifos.dir_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(pthread_create(&thread, NULL, run_flicker, &f), 0);
    for (int i = 0; i < 200000 && rung < 2000; i++)
        rung += hf__fifos_ring(&fifos, &life, &life.client) == HF__ALIVE;
    atomic_store(&f.stop, true);
    pthread_join(thread, NULL);
    close(fifos.dir_fd);
    assert_true(rung > 0);
    sigpending(&pending);
    assert_false(sigismember(&pending, SIGPIPE));
}

/* The folder of clients was removed, and made again by a third member of the group: it is the group's still. */
static void clients_folder_of_another_member(void **state)
{
    const char *folder = fresh_folder();
    char        clients[PATH_MAX + 64];

    (void)state;
    if (geteuid() != 0 || getgrnam("nogroup") == NULL || getgrnam("nogroup")->gr_gid != SOMEBODY)
        return;
    assert_int_equal(chown(folder, 0, SOMEBODY), 0);
    assert_int_equal(chmod(folder, 02770), 0);
    party_close(open_url(url_in(folder, "l.db?mode=0660&group=nogroup")));
    snprintf(clients, sizeof clients, "%s/l.db-clients", folder);
    assert_int_equal(rmdir(clients), 0);
    assert_int_equal(mkdir(clients, 0700), 0);
    assert_int_equal(chown(clients, 12345, SOMEBODY), 0);
    assert_int_equal(chmod(clients, 0770), 0);
    expect_role("open", url_in(folder, "l.db?mode=0660&group=nogroup"), folder, "HF_OK");
}

/* Who made the folder died before it had its rights: they are given when he comes again. */
static void clients_folder_without_its_rights(void **state)
{
    const char *folder = fresh_folder();
    char        clients[PATH_MAX + 64];

    (void)state;
    party_close(open_url(url_in(folder, "l.db?mode=0660")));
    snprintf(clients, sizeof clients, "%s/l.db-clients", folder);
    assert_int_equal(chmod(clients, 0700), 0);
    party_close(open_url(url_in(folder, "l.db?mode=0660")));
    assert_int_equal(mode_of(folder, "l.db-clients") & 0770, 0770);
    party_close(open_url(url_in(folder, "l.db"))); /* and another's URL takes none away */
    assert_int_equal(mode_of(folder, "l.db-clients") & 0770, 0770);
}

/* Whoever opens the store then gets a log of his own: nothing may be granted through the old one. */
static void log_taken_away(void **state)
{
    static const char *const suffixes[] = {"-wal", "-shm"};

    (void)state;
    for (int i = 0; i < 4; i++) {
        const char *folder = fresh_folder();
        party      *p = open_url(url_in(folder, "l.db"));
        hf_claim    held = claim_first(&kind_mutex, "held"), one = claim_first(&kind_mutex, "one");
        hf_renewal  renewal = {.claim = &held, .lease_ms = LONG_MS};
        hf_request  attempts = {.verb = HF_VERB_ATTEMPT, .claim = &one};
        hf_request  renewals = {.verb = HF_VERB_RENEW, .renewals = &renewal, .count = 1};
        char        file[PATH_MAX + 64], other[PATH_MAX + 64];

        must_grant(p, &held);
        snprintf(file, sizeof file, "%s/l.db%s", folder, suffixes[i % 2]);
        snprintf(other, sizeof other, "%s/elsewhere", folder);
        assert_int_equal(i < 2 ? unlink(file) : rename(file, other), 0);
        verb(p, &attempts);
        assert_int_equal(attempts.status, HF_EREFUSED);
        assert_non_null(strstr(attempts.err.text, "removed or replaced"));
        verb(p, &renewals);
        assert_int_equal(renewals.status, HF_EREFUSED);
        party_close(p);
    }
}

/* The holder keeps what it has until its own deadline, and is told then. */
static void holder_without_a_log_loses(void **state)
{
    const char *folder = fresh_folder();
    hf_client  *client;
    hf_lock    *held, *other;
    char        file[PATH_MAX + 64];

    (void)state;
    assert_int_equal(hf_open(&client, url_in(folder, "l.db"), HF_CLIENT_OPTIONS(.watchdog_ms = 600), NULL), HF_OK);
    assert_int_equal(hf_mutex(&held, client, "held", NULL, NULL), HF_OK);
    assert_int_equal(hf_mutex(&other, client, "other", NULL, NULL), HF_OK);
    assert_int_equal(hf_acquire(held, HF_NOWAIT, NULL, NULL), HF_OK);
    snprintf(file, sizeof file, "%s/l.db-wal", folder);
    assert_int_equal(unlink(file), 0);
    snprintf(file, sizeof file, "%s/l.db-shm", folder);
    assert_int_equal(unlink(file), 0);
    assert_int_equal(hf_acquire(other, HF_NOWAIT, NULL, NULL), HF_EREFUSED);
    for (int i = 0; i < 1000 && hf_left(held) > 0; i++)
        sleep_ms(10);
    assert_int_equal(hf_left(held), 0);
    assert_int_equal(hf_release(held, NULL), HF_LOST);
    hf_free(held);
    hf_free(other);
    hf_close(client, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(made_for_the_owner_alone),
        cmocka_unit_test(clients_folder_of_another_member),
        cmocka_unit_test(clients_folder_without_its_rights),
        cmocka_unit_test(log_taken_away),
        cmocka_unit_test(holder_without_a_log_loses),
        cmocka_unit_test(made_for_a_group),
        cmocka_unit_test(bad_urls),
        cmocka_unit_test(folder_that_others_may_write_to),
        cmocka_unit_test(folder_above_that_others_may_write_to),
        cmocka_unit_test(symbolic_links),
        cmocka_unit_test(linked_folder_in_a_public_one),
        cmocka_unit_test(clients_folder_that_is_a_link),
        cmocka_unit_test(log_of_a_stranger),
        cmocka_unit_test(group_that_new_files_would_not_have),
        cmocka_unit_test(local_file_systems),
        cmocka_unit_test(unknown_file_systems),
        cmocka_unit_test(removed_while_in_use),
        cmocka_unit_test(replaced_while_in_use),
        cmocka_unit_test(relative_paths_stay),
        cmocka_unit_test(unwritable_folder),
        cmocka_unit_test(unreadable_file),
        cmocka_unit_test(default_place),
        cmocka_unit_test(full_disk),
        cmocka_unit_test(time_namespace),
        cmocka_unit_test(broken_bells_raise_nothing),
    };

    if (argc > 1)
        return play_files(argc, argv);
    fixture_here();
    return cmocka_run_group_tests_name("sqlite and its files", tests, NULL, NULL);
}
