/* SPDX-License-Identifier: MIT */
/* The game of turns.h. Players are forked before their process has a client or a thread. */
#include "turns.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "hand-off"
#define SAMPLES_MAX 20000

typedef struct board {
    atomic_int ready, go;
    /* Guarded by the lock under test. */
    int        last; /* who had it */
    int64_t    released_us;
    int        turns, count;
    double     took_us[SAMPLES_MAX];
} board;

typedef struct player {
    pthread_t          thread;
    board             *board;
    const turns_setup *setup;
    redis_server      *server;
    hf_client         *client;
    int                me;
} player;

static void wait_for_start(board *b)
{
    atomic_fetch_add(&b->ready, 1);
    while (!atomic_load(&b->go))
        bench_sleep_us(500);
}

/* While the name is ours. False: enough has been seen. */
static bool take_turn(const player *p)
{
    board  *b = p->board;
    int64_t entered_us = bench_now_us();
    bool    more;

    if (b->last != p->me && b->last != 0 && b->count < p->setup->wanted)
        b->took_us[b->count++] = (double)(entered_us - b->released_us);
    b->turns++;
    more = b->count < p->setup->wanted;
    if (more)
        bench_sleep_us(p->setup->hold_us);
    b->last = p->me;
    b->released_us = bench_now_us();
    return more;
}

static void *our_run(void *arg)
{
    const player *p = arg;
    hf_lock      *lock = bench_mutex(p->client, NAME, HF_OPTIONS(.fair = p->setup->fair));
    hf_error      err;
    bool          more = true;

    wait_for_start(p->board);
    while (more) {
        bench_must(hf_acquire(lock, 120000, NULL, &err), &err, "acquire");
        more = take_turn(p);
        bench_must(hf_release(lock, &err), &err, "release");
        bench_sleep_us(p->setup->pause_us);
    }
    hf_free(lock);
    return NULL;
}

static void bare_acquire(redisContext *commands, redisContext *news, const bare_pair *pair)
{
    for (;;) {
        redisReply *reply = bare_send(commands, &pair->acquire);
        bool        granted = bare_granted(reply);
        freeReplyObject(reply);
        if (granted)
            return;
        if (redisGetReply(news, (void **)&reply) != REDIS_OK)
            _exit(1);
        freeReplyObject(reply);
    }
}

static void bare_run(const player *p)
{
    bare_pair     pair = bare_capture(p->server, NAME);
    redisContext *commands = bare_connect(p->server);
    redisContext *news = bare_connect(p->server);
    bool          more = true;

    freeReplyObject(redisCommand(news, "SUBSCRIBE redisson_lock__channel:{%s}", NAME));
    wait_for_start(p->board);
    while (more) {
        bare_acquire(commands, news, &pair);
        more = take_turn(p);
        freeReplyObject(bare_send(commands, &pair.release));
        bench_sleep_us(p->setup->pause_us);
    }
    redisFree(commands);
    redisFree(news);
    bare_free(&pair);
}

static int process_run(player *first)
{
    player all[64];
    int    threads = first->setup->threads;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (first->setup->bare) {
        bare_run(first);
        return 0;
    }
    first->client = redis_client(first->server);
    for (int i = 0; i < threads; i++) {
        all[i] = *first;
        all[i].me += i;
        pthread_create(&all[i].thread, NULL, our_run, &all[i]);
    }
    for (int i = 0; i < threads; i++)
        pthread_join(all[i].thread, NULL);
    bench_must(hf_close(first->client, 2000), NULL, "close");
    return 0;
}

/* A bare player captures its commands, which takes the name for a moment: one after the other. */
static void start_processes(redis_server *server, const turns_setup *setup, board *b)
{
    for (int i = 0; i < setup->processes; i++) {
        player p = {.board = b, .setup = setup, .server = server, .me = 1 + i * setup->threads};
        if (fork() == 0)
            _exit(process_run(&p)); /* not exit: what the parent has not printed yet is the parent's */
        while (setup->bare && atomic_load(&b->ready) <= i)
            bench_sleep_us(1000);
    }
    while (atomic_load(&b->ready) < setup->processes * setup->threads)
        bench_sleep_us(1000);
}

turns_result turns_play(redis_server *server, const turns_setup *setup)
{
    board       *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    turns_result result = {0};
    int          failed = 0;

    start_processes(server, setup, b);
    redis_forget(server);
    atomic_store(&b->go, 1);
    for (int i = 0; i < setup->processes; i++) {
        int how;
        wait(&how);
        failed |= how;
    }
    bench_must(failed ? HF_EUNREACHABLE : HF_OK, NULL, "a process of the game");
    result.commands = (double)redis_commands(server) / b->turns;
    result.median_us = bench_part(b->took_us, (size_t)b->count, 0.5);
    result.p90_us = bench_part(b->took_us, (size_t)b->count, 0.9);
    result.longest_us = bench_part(b->took_us, (size_t)b->count, 1);
    munmap(b, sizeof *b);
    return result;
}
