/* SPDX-License-Identifier: MIT */

/*
 * The settlement example: replays the requests with the lock, then without it, and prints what came of both. Where the
 * locks are on a database server, the orders are in the same database, and there are three runs (see README.md).
 *
 * This program is also its own workers and sweepers: `settlement worker FOLDER INPUT MODE`.
 */
#include "die.h"
#include "folder.h"
#include "report.h"
#include "run.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_INTERRUPTED 130

static const char usage[] =
    "usage: settlement [demo] [options]\n"
    "  --store URL    where the locks live (default: $HOLDFAST_STORE, else a file of the run);\n"
    "                 mysql: and postgresql: the orders too, in tables settlement_*\n"
    "  --input FILE   the requests (default: requests.csv of the source tree)\n"
    "  --workers N    processes that settle (default: 8)\n"
    "  --folder DIR   where to make the run's folder (default: $TMPDIR, the build, /tmp)\n"
    "  --keep         leave that folder there, and the tables\n"
    "  --quiet        no progress, only the table\n";

struct options {
    const char *store, *input, *folder;
    int         workers;
    bool        keep, quiet;
};

static bool options_read(struct options *options, int argc, char *argv[])
{
    static const struct option names[] = {
        {"store", required_argument, NULL, 's'},   {"input", required_argument, NULL, 'i'},
        {"workers", required_argument, NULL, 'w'}, {"folder", required_argument, NULL, 'f'},
        {"keep", no_argument, NULL, 'k'},          {"quiet", no_argument, NULL, 'q'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0}};
    int letter;
    *options = (struct options){getenv("HOLDFAST_STORE"), SETTLEMENT_INPUT, NULL, 8, false, false};
    while ((letter = getopt_long(argc, argv, "", names, NULL)) != -1) {
        switch (letter) {
        case 's':
            options->store = optarg;
            break;
        case 'i':
            options->input = optarg;
            break;
        case 'w':
            options->workers = atoi(optarg);
            break;
        case 'f':
            options->folder = optarg;
            break;
        case 'k':
            options->keep = true;
            break;
        case 'q':
            options->quiet = true;
            break;
        case 'h':
            fputs(usage, stdout);
            exit(EXIT_SUCCESS);
        default:
            return false;
        }
    }
    return optind == argc && options->workers >= 2 && options->workers <= 32;
}

/* The children find the store in their environment, not in their arguments: a URL may hold a password. */
static void store_choose(const char *url, const char *folder)
{
    char path[PATH_MAX], own[PATH_MAX + 16];
    run_path(path, folder, "locks.db");
    snprintf(own, sizeof own, "sqlite://%s", path);
    setenv("HOLDFAST_STORE", url != NULL && *url != '\0' ? url : own, 1);
}

/* Ask once before any process starts, so that a wrong URL is told once and not by ten processes. */
static void store_try(void)
{
    hf_client *client;
    hf_error   err;
    if (hf_open(&client, NULL, NULL, &err) != HF_OK)
        die("%s", err.text);
    if (strncmp(hf_client_url(client), "memory:", 7) == 0)
        die("memory: holds within one process, and this example has many");
    hf_close(client, 0);
}

static bool run_once(const struct options *options, const char *folder, const struct mode *mode, struct tally *tally)
{
    struct referee_options referee = {
        .input = options->input, .workers = options->workers, .mode = mode, .quiet = options->quiet};
    char part[PATH_MAX];
    folder_make(part, folder, mode->word);
    referee.folder = part;
    return referee_run(&referee, tally);
}

static int demo_runs(const struct options *options, const char *folder, const struct mode *modes)
{
    struct tally runs[RUNS_MOST];
    int          count = 0;
    for (; modes[count].word != NULL; count++)
        if (!run_once(options, folder, &modes[count], &runs[count]))
            return EXIT_INTERRUPTED;
    report_table(runs, count);
    return report_verdict(runs, count) ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int demo(const struct options *options, const char *folder)
{
    store_choose(options->store, folder);
    store_try();
    if (!run_is_booked())
        return demo_runs(options, folder, modes_fenced);
    int code = demo_runs(options, folder, modes_booked);
    if (!options->keep) {
        orders_remove(getenv("HOLDFAST_STORE"));
        ledger_remove(getenv("HOLDFAST_STORE"));
    }
    return code;
}

static int child(char *argv[])
{
    struct run run;
    run_open(&run, argv[2], argv[3], mode_find(argv[4]));
    if (strcmp(argv[1], "worker") == 0)
        worker_run(&run);
    else
        sweeper_run(&run);
    run_close(&run);
    return EXIT_SUCCESS;
}

int main(int argc, char *argv[])
{
    struct options options;
    char           folder[PATH_MAX];
    if (argc == 5 && (strcmp(argv[1], "worker") == 0 || strcmp(argv[1], "sweep") == 0))
        return child(argv);
    if (argc > 1 && strcmp(argv[1], "demo") == 0)
        argc--, argv++;
    if (!options_read(&options, argc, argv)) {
        fputs(usage, stderr);
        return 2;
    }
    folder_find(folder, options.folder, options.keep);
    return demo(&options, folder);
}
