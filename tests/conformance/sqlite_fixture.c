/* SPDX-License-Identifier: MIT */
/* See sqlite_fixture.h. */
#include "conformance/sqlite_fixture.h"

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char here[PATH_MAX];

const char *fixture_here(void)
{
    if (here[0] == '\0')
        assert_non_null(getcwd(here, sizeof here));
    return here;
}

const char *fresh_folder(void)
{
    static char folder[PATH_MAX + 32];

    snprintf(folder, sizeof folder, "%s/folder.XXXXXX", fixture_here());
    assert_non_null(mkdtemp(folder));
    return folder;
}

const char *url_in(const char *folder, const char *rest)
{
    static char url[PATH_MAX + 128];

    snprintf(url, sizeof url, "sqlite://%s/%s", folder, rest);
    return url;
}

party *open_url(const char *url)
{
    suite_spec spec = {"sqlite", &hf__sqlite_ops, url};

    return party_open(&spec, "files");
}

void expect_refusal(const char *url, int status, const char *word)
{
    hf_error err;
    int      got = party_refused(&hf__sqlite_ops, url, &err);

    if (got != status || err.status != status || strstr(err.text, word) == NULL)
        fail_msg("%s: %s: '%s' (wanted %s and '%s')", url, hf_status_name(got), err.text, hf_status_name(status), word);
}

mode_t mode_of(const char *folder, const char *file)
{
    char        path[PATH_MAX + 64];
    struct stat st;

    snprintf(path, sizeof path, "%s/%s", folder, file);
    assert_int_equal(lstat(path, &st), 0);
    return st.st_mode & 07777;
}

bool exists(const char *folder, const char *file)
{
    char        path[PATH_MAX + 64];
    struct stat st;

    snprintf(path, sizeof path, "%s/%s", folder, file);
    return lstat(path, &st) == 0;
}

void write_file(const char *folder, const char *file, const char *text)
{
    char  path[PATH_MAX + 64];
    FILE *f;

    snprintf(path, sizeof path, "%s/%s", folder, file);
    f = fopen(path, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

void remove_database(const char *path)
{
    static const char *const suffixes[] = {"", "-wal", "-shm"};
    char                     file[PATH_MAX];

    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        snprintf(file, sizeof file, "%s%s", path, suffixes[i]);
        unlink(file);
    }
}

void sql(const char *folder, const char *text)
{
    char     path[PATH_MAX + 64], *error = NULL;
    sqlite3 *db;

    snprintf(path, sizeof path, "%s/l.db", folder);
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    if (sqlite3_exec(db, text, NULL, NULL, &error) != SQLITE_OK)
        fail_msg("%s: %s", text, error);
    sqlite3_close(db);
}
