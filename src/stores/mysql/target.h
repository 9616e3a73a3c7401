/* SPDX-License-Identifier: MIT */
/* Where a MySQL store connects to: a URL taken apart. */
#ifndef HF_STORES_MYSQL_TARGET_H
#define HF_STORES_MYSQL_TARGET_H

#include <holdfast/store.h>

typedef struct hf__my_target {
    char    *url; /* without secrets */
    char    *host, *user, *password, *database, *socket;
    char    *ca, *cert, *key;
    unsigned port;
    bool     tcp; /* a port was given: never the socket that "localhost" stands for */
    bool     tls; /* verified; else there is none */
    bool     create;
    bool     news;
} hf__my_target;

int  hf__my_target_open(hf__my_target *target, const hf_url *url, hf_error *err);
void hf__my_target_close(hf__my_target *target);

#endif
