/* SPDX-License-Identifier: MIT */
/* The texts of --help. The manual is holdfast(1). */
#include "help.h"

#include <stdio.h>

#include <holdfast.h>

static void put(const char *text)
{
    fputs(text, stdout);
}

static void put_store(void)
{
    printf("The store is a URL: --store, else $HOLDFAST_STORE, else the user's own file (sqlite:).\n"
           "Schemes (those in brackets are not in this build): %s\n",
           hf_schemes());
}

void help_main(void)
{
    put("Usage: holdfast run [options] NAME [--] COMMAND [argument...]\n"
        "       holdfast run [options] NAME -c 'SHELL COMMAND'\n"
        "       holdfast ls [options] [PATTERN]\n"
        "       holdfast show [options] NAME\n"
        "       holdfast break [options] NAME\n"
        "       holdfast doctor [options]\n"
        "       holdfast schema mysql|postgresql|sqlite\n"
        "       holdfast --help | --version\n"
        "\n"
        "Holds a lock while a command runs, on one machine or across many.\n"
        "\n"
        "  run     run a command while holding the lock NAME\n"
        "  ls      list the locks that are held or waited for\n"
        "  show    show who holds a lock and who waits for it\n"
        "  break   take a lock away from its holders\n"
        "  doctor  examine the store, and say what that means for locks\n"
        "  schema  print the SQL that makes a store's tables\n"
        "\n"
        "'holdfast VERB --help' tells more; the manual is holdfast(1).\n"
        "\n");
    put_store();
}

static void put_codes(void)
{
    put("Exit codes:\n"
        "  the command's own, or 128 + the signal that ended it\n"
        "  64   usage\n"
        "  69   the store cannot be reached, is not in this build, or refuses; NAME is in use as another kind\n"
        "  71   out of memory, processes or descriptors\n"
        "  75   not acquired (see -E)\n"
        "  79   the lock was lost, or its time was over, while the command ran\n"
        "  126  the command cannot be run\n"
        "  127  the command was not found\n"
        "\n");
}

void help_run(void)
{
    put("Usage: holdfast run [options] NAME [--] COMMAND [argument...]\n"
        "       holdfast run [options] NAME -c 'SHELL COMMAND'\n"
        "\n"
        "Waits for the lock NAME, runs COMMAND, releases the lock when COMMAND ends.\n"
        "\n"
        "  -n, --nonblock          do not wait\n"
        "  -w, --wait TIME         wait so long at most\n"
        "  -E, --conflict-exit-code CODE\n"
        "                          exit with CODE when not acquired, instead of 75\n"
        "  -q, --quiet             say nothing when not acquired\n"
        "  -s, --shared            be one of many readers\n"
        "  -x, --exclusive         be the only writer beside readers (-s)\n"
        "      --permits N         at most N at once (a semaphore)\n"
        "      --weight N          take N of the permits\n"
        "      --fair              first come, first served\n"
        "  -c, --command SCRIPT    run SCRIPT by $SHELL, or /bin/sh\n"
        "      --at-least TIME     NAME stays taken for so long after the start, however soon COMMAND ends\n"
        "      --max-hold TIME     end COMMAND when it has run for so long\n"
        "      --lease TIME        a lease that is never renewed: COMMAND has to end within it\n"
        "      --watchdog TIME     length of the lease that is renewed (30)\n"
        "      --on-loss WHAT      term, kill, stop or ignore (term): what happens to COMMAND when the lock is lost\n"
        "      --heed              end COMMAND as at a loss when a polite 'holdfast break' asks for it (zookeeper:)\n"
        "      --grace TIME        from SIGTERM to SIGKILL (5, or a third of the lease if that is less)\n"
        "      --note TEXT         shown to others that find NAME taken (the name of COMMAND)\n"
        "      --store URL         where the lock is kept\n"
        "      --verbose           say what is waited for, what was acquired, how long it took\n"
        "      --help\n"
        "\n"
        "TIME: seconds (0.5), or with a unit: 250ms, 30s, 5m, 1h, 1d.\n"
        "COMMAND gets HOLDFAST_NAME, HOLDFAST_FENCE (a number that rises with each grant of NAME) and, with --lease,\n"
        "HOLDFAST_DEADLINE (seconds on CLOCK_BOOTTIME, the clock of the first number in /proc/uptime).\n"
        "\n");
    put_codes();
    put_store();
}

void help_ls(void)
{
    put("Usage: holdfast ls [options] [PATTERN]\n"
        "\n"
        "Lists the locks that are held or waited for; with PATTERN (as of a shell: * ? [a-z]) those whose name fits.\n"
        "\n"
        "      --json        as JSON\n"
        "      --names       names only, one a line\n"
        "      --store URL   where the locks are kept\n"
        "      --timeout TIME\n"
        "                    how long the store may take (2)\n"
        "      --help\n"
        "\n");
    put_store();
}

void help_show(void)
{
    put("Usage: holdfast show [options] NAME\n"
        "\n"
        "Shows each claim on the lock NAME: who holds it, and who waits for it in which order.\n"
        "\n"
        "      --json        as JSON\n"
        "      --store URL   where the lock is kept\n"
        "      --timeout TIME\n"
        "                    how long the store may take (2)\n"
        "      --help\n"
        "\n");
    put_store();
}

void help_break(void)
{
    put("Usage: holdfast break [options] NAME\n"
        "\n"
        "Takes the lock NAME away from all who hold it. They learn of it at their next renewal: until then they and "
        "the\n"
        "next holder may both be at work.\n"
        "\n"
        "      --claim ID    only this claim, held or waiting (see 'holdfast show')\n"
        "      --polite      ask the holder, who may heed it, to end by itself (zookeeper:)\n"
        "      --yes         do not ask (else: asks, and removes what it showed)\n"
        "      --store URL   where the lock is kept\n"
        "      --timeout TIME\n"
        "                    how long the store may take (2)\n"
        "      --help\n"
        "\n");
    put_store();
}

void help_doctor(void)
{
    put("Usage: holdfast doctor [options]\n"
        "\n"
        "Examines the store and says of each thing what it means for locks. Changes no lock.\n"
        "\n"
        "      --json        as JSON\n"
        "      --store URL   the store\n"
        "      --timeout TIME\n"
        "                    how long the store may take (2)\n"
        "      --help\n"
        "\n"
        "Exit codes:\n"
        "  0    nothing endangers locks\n"
        "  64   usage\n"
        "  69   the store cannot be reached, is not in this build, or refuses\n"
        "  71   out of memory or descriptors\n"
        "  78   something endangers locks\n"
        "\n");
    put_store();
}

void help_schema(void)
{
    put("Usage: holdfast schema mysql|postgresql|sqlite\n"
        "\n"
        "Prints the SQL that makes the tables of a store, for those who do not let a program make any. With\n"
        "create=no in the store's URL nothing is made.\n");
}
