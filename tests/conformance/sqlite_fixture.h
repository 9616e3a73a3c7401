/* SPDX-License-Identifier: MIT */
/* Folders, files and URLs for the tests of the embedded store. */
#ifndef HF_TESTS_CONFORMANCE_SQLITE_FIXTURE_H
#define HF_TESTS_CONFORMANCE_SQLITE_FIXTURE_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "conformance/suite.h"

extern const hf_store_ops hf__sqlite_ops;

/* Where the test runs; call it before the others. */
const char *fixture_here(void);

/* A new folder of our own below that, and a URL in it. Both in static memory. */
const char *fresh_folder(void);
const char *url_in(const char *folder, const char *rest);

party *open_url(const char *url);
void   expect_refusal(const char *url, int status, const char *word);

mode_t mode_of(const char *folder, const char *file);
bool   exists(const char *folder, const char *file);
void   write_file(const char *folder, const char *file, const char *text);

/* Removes a database of an earlier run. */
void remove_database(const char *path);

/* Runs SQL on the folder's l.db, as a stranger would. */
void sql(const char *folder, const char *text);

#endif
