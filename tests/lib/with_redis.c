/* SPDX-License-Identifier: MIT */
/*
 * Runs a program beside Redis servers of its own:
 *
 *   with_redis [ARGUMENT OF THE SERVERS...] -- PROGRAM [ARGUMENT...]
 *
 * In the program's arguments these stand for what is started only where it is named; text may come before and after:
 *
 *   @URL@        one server: "redis://127.0.0.1:7001"                      "@URL@?layout=plain"
 *   @REDLOCK@    five that know nothing of each other: "h1,h2,h3,h4,h5"    "redlock://@REDLOCK@?durable=yes"
 *   @SENTINEL@   a master, two replicas, three Sentinels: "s1,s2,s3/name"  "redis-sentinel://@SENTINEL@"
 *   @CLUSTER@    three masters, a replica of each: "n1,n2,n3"              "redis-cluster://@CLUSTER@"
 *
 * The arguments are those of the servers that hold data. Exits as the program does. All end with this process.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/program.h"
#include "lib/redis_cluster.h"
#include "lib/redis_sentinels.h"
#include "lib/redis_server.h"
#include "lib/redis_set.h"

/* What is named; the rest stays NULL. */
typedef struct beside {
    redis_server    *one;
    redis_set       *set;
    redis_sentinels *sentinels;
    redis_cluster   *cluster;
    char             sentinel_text[256];
} beside;

static bool named(char **argv, const char *what)
{
    for (int i = 0; argv[i]; i++)
        if (strstr(argv[i], what))
            return true;
    return false;
}

static void beside_start(beside *b, char **argv, const char *const *args)
{
    if (named(argv, "@URL@"))
        b->one = redis_start(&(redis_setup){.args = args});
    if (named(argv, "@REDLOCK@"))
        b->set = redis_set_start(&(redis_set_setup){.args = args});
    if (named(argv, "@SENTINEL@"))
        b->sentinels = redis_sentinels_start(&(redis_sentinels_setup){.args = args});
    if (named(argv, "@CLUSTER@"))
        b->cluster = redis_cluster_start(&(redis_cluster_setup){.args = args});
    if (b->sentinels)
        snprintf(b->sentinel_text, sizeof(b->sentinel_text), "%s/%s", redis_sentinels_hosts(b->sentinels),
                 REDIS_SENTINELS_NAME);
}

static void beside_end(beside *b)
{
    redis_end(b->one);
    redis_set_end(b->set);
    redis_sentinels_end(b->sentinels);
    redis_cluster_end(b->cluster);
}

/* The argument, or a new text in its place. */
static char *put_in(char *arg, const char *mark, const char *text)
{
    const char *at = strstr(arg, mark);
    char       *made;

    if (!at)
        return arg;
    if (asprintf(&made, "%.*s%s%s", (int)(at - arg), arg, text, at + strlen(mark)) < 0)
        exit(3);
    return made;
}

static char *put_all_in(char *arg, const beside *b)
{
    if (b->one)
        arg = put_in(arg, "@URL@", redis_url(b->one));
    if (b->set)
        arg = put_in(arg, "@REDLOCK@", redis_set_hosts(b->set));
    if (b->sentinels)
        arg = put_in(arg, "@SENTINEL@", b->sentinel_text);
    if (b->cluster)
        arg = put_in(arg, "@CLUSTER@", redis_cluster_hosts(b->cluster));
    return arg;
}

int main(int argc, char **argv)
{
    beside b = {0};
    int    split = 1;

    while (split < argc && strcmp(argv[split], "--") != 0)
        split++;
    if (split + 1 >= argc) {
        fprintf(stderr, "usage: with_redis [ARGUMENT OF THE SERVERS...] -- PROGRAM [ARGUMENT...]\n");
        return 2;
    }
    argv[split] = NULL;
    beside_start(&b, argv + split + 1, (const char *const *)argv + 1);
    for (int i = split + 1; argv[i]; i++)
        argv[i] = put_all_in(argv[i], &b);
    int how = program_wait(program_start(argv + split + 1));
    beside_end(&b);
    return how;
}
