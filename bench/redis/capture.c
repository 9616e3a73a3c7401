/* SPDX-License-Identifier: MIT */
/*
 * The library's own commands, taken from MONITOR, and a bare blocking hiredis client that sends them again. What they
 * cost the server is then the same on both sides, and only what the client does differs.
 */
#include <hiredis/sds.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis.h"

#define HOUR_US 3600000000LL
#define SKIPPED 2 /* the first pair loads scripts and says who we are */

static void fail(const char *what)
{
    fprintf(stderr, "bench redis: %s\n", what);
    exit(1);
}

redisContext *bare_connect(redis_server *server)
{
    redisContext *context = redisConnect("127.0.0.1", redis_port(server));

    if (context == NULL || context->err)
        fail(context != NULL ? context->errstr : "out of memory");
    return context;
}

hf_client *redis_client(redis_server *server)
{
    hf_client *client;
    hf_error   err;

    bench_must(hf_open(&client, redis_url(server), NULL, &err), &err, "open");
    return client;
}

redisReply *bare_send(redisContext *context, const bare_command *command)
{
    redisReply *reply = redisCommandArgv(context, command->argc, command->argv, command->lens);

    if (reply == NULL || reply->type == REDIS_REPLY_ERROR)
        fail(reply != NULL ? reply->str : context->errstr);
    return reply;
}

bool bare_granted(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements > 0 && reply->element[0]->integer == 1;
}

double bare_loop(redisContext *context, const bare_pair *pair, int count)
{
    int64_t from_us = bench_now_us();

    for (int i = 0; i < count; i++) {
        redisReply *reply = bare_send(context, &pair->acquire);
        if (!bare_granted(reply))
            fail("the bare client's acquire was refused");
        freeReplyObject(reply);
        freeReplyObject(bare_send(context, &pair->release));
    }
    return count * 1e6 / (double)(bench_now_us() - from_us);
}

/* An attempt is good until a time of the server's, in microseconds: here until long after the benchmark. */
static void make_lasting(bare_command *command)
{
    for (int i = 3; i < command->argc; i++) {
        char     *end;
        long long value = strtoll(command->argv[i], &end, 10);
        if (*end != '\0' || value < 1000000000000000LL)
            continue;
        char *later = malloc(32);
        command->lens[i] = (size_t)snprintf(later, 32, "%lld", value + HOUR_US);
        free((char *)command->argv[i]);
        command->argv[i] = later;
    }
}

/* `1700000000.123456 [0 127.0.0.1:4711] "evalsha" "..." ...`: false where it is another command. */
static bool take_line(const char *line, bare_command *command)
{
    const char *rest = strchr(line, ']');
    sds        *words;
    int         count = 0;

    if (rest == NULL || strstr(line, " lua] ") != NULL)
        return false;
    words = sdssplitargs(rest + 1, &count);
    if (words == NULL || count < 3 || strcasecmp(words[0], "EVALSHA") != 0) {
        if (words != NULL)
            sdsfreesplitres(words, count);
        return false;
    }
    command->argc = count;
    command->argv = calloc((size_t)count, sizeof *command->argv);
    command->lens = calloc((size_t)count, sizeof *command->lens);
    for (int i = 0; i < count; i++) {
        command->lens[i] = sdslen(words[i]);
        char *copy = calloc(1, command->lens[i] + 1);
        memcpy(copy, words[i], command->lens[i]);
        command->argv[i] = copy;
    }
    sdsfreesplitres(words, count);
    return true;
}

static void next_evalsha(redisContext *monitor, bare_command *command)
{
    for (;;) {
        redisReply *reply;
        if (redisGetReply(monitor, (void **)&reply) != REDIS_OK)
            fail(monitor->errstr);
        bool taken = reply->type == REDIS_REPLY_STATUS && take_line(reply->str, command);
        freeReplyObject(reply);
        if (taken)
            return;
    }
}

static void command_free(bare_command *command)
{
    for (int i = 0; i < command->argc; i++)
        free((char *)command->argv[i]);
    free(command->argv);
    free(command->lens);
}

void bare_free(bare_pair *pair)
{
    command_free(&pair->acquire);
    command_free(&pair->release);
}

static void once(hf_lock *lock)
{
    hf_error err;

    bench_must(hf_acquire(lock, HF_NOWAIT, NULL, &err), &err, "acquire");
    bench_must(hf_release(lock, &err), &err, "release");
}

bare_pair bare_capture(redis_server *server, const char *name)
{
    hf_client    *client = redis_client(server);
    hf_lock      *lock = bench_mutex(client, name, NULL);
    redisContext *monitor = bare_connect(server);
    bare_pair     pair;

    for (int i = 0; i < SKIPPED; i++)
        once(lock);
    freeReplyObject(redisCommand(monitor, "MONITOR"));
    once(lock);
    next_evalsha(monitor, &pair.acquire);
    next_evalsha(monitor, &pair.release);
    make_lasting(&pair.acquire);
    redisFree(monitor);
    hf_free(lock);
    bench_must(hf_close(client, 1000), NULL, "close");
    return pair;
}
