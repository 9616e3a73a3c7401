/* SPDX-License-Identifier: MIT */
/*
 * The exit codes of the command, all of them documented in holdfast(1). Below 64, and where none of these happened,
 * the code is the one of the command that was run.
 */
#ifndef CLI_EXIT_H
#define CLI_EXIT_H

enum {
    CODE_OK = 0,
    CODE_USAGE = 64,  /* the command line is wrong; nothing was done */
    CODE_STORE = 69,  /* the store cannot be reached, is not built in, or refuses */
    CODE_SYSTEM = 71, /* out of memory, processes or descriptors */
    CODE_BUSY = 75,   /* not acquired; -E sets another */
    CODE_DANGER = 78, /* doctor: something endangers locks */
    CODE_LOST = 79,   /* the lock ended while the command ran */
    CODE_CANNOT_RUN = 126,
    CODE_NOT_FOUND = 127,
    CODE_SIGNAL = 128 /* plus the number of the signal */
};

/* The code for a failure (a status below 0) of the library. */
int exit_code_of(int status);

#endif
