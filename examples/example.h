/* SPDX-License-Identifier: MIT */
#ifndef EXAMPLE_H
#define EXAMPLE_H

/*
 * What the small examples share: they show the calls, so a call that fails ends the program with its sentence.
 */
#include <holdfast.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call) check((call), &err, #call)

static inline void check(int status, const hf_error *err, const char *call)
{
    if (status == HF_OK)
        return;
    fprintf(stderr, "%s: %s: %s\n", call, hf_status_name(status), err->text);
    exit(1);
}

/* For what an example claims of itself: its tests run it. */
#define EXPECT(truth) expect((truth), #truth)

static inline void expect(bool truth, const char *what)
{
    if (truth)
        return;
    fprintf(stderr, "not true: %s\n", what);
    exit(1);
}

/* The store is the first argument; without one $HOLDFAST_STORE, else the embedded one. */
static inline hf_client *example_open(int argc, char *argv[])
{
    hf_client *client;
    hf_error   err;
    CHECK(hf_open(&client, argc > 1 ? argv[1] : NULL, NULL, &err));
    return client;
}

#endif
