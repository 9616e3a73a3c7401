/* SPDX-License-Identifier: MIT */
/* The command `holdfast`: finds the verb and calls it. */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <holdfast.h>

#include "exit.h"
#include "help.h"
#include "say.h"
#include "verbs.h"

/* A store's file must not become the standard output of a command that was started with it closed. */
static void fill_standard_descriptors(void)
{
    int fd;

    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

static void print_version(void)
{
    uint32_t version = hf_version();

    printf("holdfast %u.%u.%u\nstores: %s\n", (unsigned)(version >> 16), (unsigned)(version >> 8 & 0xff),
           (unsigned)(version & 0xff), hf_schemes());
}

static int dispatch(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*main)(int, char **);
    } verbs[] = {{"run", run_main},     {"ls", ls_main},         {"show", show_main},
                 {"break", break_main}, {"doctor", doctor_main}, {"schema", schema_main}};

    if (argc < 2)
        return say_usage("", "a verb is missing: run, ls, show, break, doctor or schema");
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        help_main();
        return CODE_OK;
    }
    if (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0) {
        print_version();
        return CODE_OK;
    }
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
        if (strcmp(argv[1], verbs[i].name) == 0)
            return verbs[i].main(argc - 1, argv + 1);
    return say_usage("", "there is no verb '%s': run, ls, show, break, doctor or schema", argv[1]);
}

int main(int argc, char **argv)
{
    fill_standard_descriptors();
    /* For the width of characters only: numbers and messages are the same everywhere. */
    setlocale(LC_CTYPE, "");
    int code = dispatch(argc, argv);
    if (fflush(stdout) != 0 && code == CODE_OK) {
        say("cannot write: %s", strerror(errno));
        code = CODE_SYSTEM;
    }
    return code;
}
