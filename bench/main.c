/* SPDX-License-Identifier: MIT */
/*
 * bench [--full] [--folder FOLDER] [NAME...]      (bench-redis: the same, with other benchmarks)
 *
 * Runs the benchmarks named (all, when none is) and prints their tables. --full takes as long as the targets ask for:
 * minutes. The folder is where a new one is made for the databases; without it the working directory. Exit: 0, or 1
 * when something did not work; a target that was missed is shown, and is no failure.
 */
#include <ftw.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

static int entry_remove(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

/* In a process of its own: what one does to its memory and threads does not disturb the next. */
static int bench_run(const bench_entry *b, const char *parent, bool full)
{
    char  folder[PATH_MAX - 64], url[PATH_MAX];
    int   how = 0;
    pid_t pid;

    snprintf(folder, sizeof(folder), "%.3900s/bench-XXXXXX", parent);
    if (!mkdtemp(folder)) {
        perror(folder);
        return 1;
    }
    snprintf(url, sizeof(url), "sqlite://%s/locks.db", folder);
    bench_options options = {.full = full, .folder = folder, .url = url};
    fflush(stdout);
    if ((pid = fork()) == 0)
        exit(b->run(&options));
    if (pid < 0 || waitpid(pid, &how, 0) != pid)
        how = 1;
    nftw(folder, entry_remove, 16, FTW_DEPTH | FTW_PHYS);
    if (how != 0)
        fprintf(stderr, "bench %s did not work (0x%x)\n", b->name, how);
    return how != 0;
}

static bool wanted(const char *name, int argc, char **argv)
{
    if (optind == argc)
        return true;
    for (int i = optind; i < argc; i++)
        if (strcmp(argv[i], name) == 0)
            return true;
    return false;
}

static void usage(void)
{
    fprintf(stderr, "usage: bench [--full] [--folder FOLDER]");
    for (const bench_entry *b = bench_table; b->name != NULL; b++)
        fprintf(stderr, " [%s]", b->name);
    fprintf(stderr, "\n");
    exit(64);
}

static void names_check(int argc, char **argv)
{
    for (int i = optind; i < argc; i++) {
        bool known = false;
        for (const bench_entry *b = bench_table; b->name != NULL; b++)
            known |= strcmp(argv[i], b->name) == 0;
        if (!known)
            usage();
    }
}

int main(int argc, char **argv)
{
    static const struct option known[] = {{"full", 0, NULL, 'f'}, {"folder", 1, NULL, 'd'}, {NULL, 0, NULL, 0}};
    static char                here[PATH_MAX];
    bool                       full = false;
    int                        failed = 0;

    if (!getcwd(here, sizeof(here)))
        return 1;
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (c == 'f')
            full = true;
        else if (c != 'd' || !realpath(optarg, here))
            usage();
    }
    names_check(argc, argv);
    for (const bench_entry *b = bench_table; b->name != NULL; b++)
        if (wanted(b->name, argc, argv))
            failed += bench_run(b, here, full);
    return failed != 0;
}
