/* SPDX-License-Identifier: MIT */
#ifndef SETTLEMENT_BOARD_H
#define SETTLEMENT_BOARD_H

/*
 * The board: a small file that all processes of a run have mapped. It stands for the queue that the requests come from
 * and go back to as answers, and it holds the plan of the accidents. No lock and no payment depends on it.
 */
#include "settle.h"

#include <stdatomic.h>
#include <sys/types.h>

enum accident_kind { ACCIDENT_KILL, ACCIDENT_STOP, ACCIDENT_SLOW };

struct accident {
    enum accident_kind kind;
    enum point         point;
    char               order[24];
    atomic_int         pid;  /* the worker that it happened to; 0: not yet */
    atomic_bool        over; /* the referee has seen to it */
};

#define ACCIDENTS 5

struct board {
    uint32_t              requests;
    _Atomic int           closing; /* all workers are done: the sweepers finish and go */
    atomic_uint           next;    /* the next request that nobody has taken */
    atomic_uint           answered;
    atomic_uint           swept; /* orders that a sweep finished */
    atomic_uint           lost;  /* locks that were lost on the way */
    struct accident       accidents[ACCIDENTS];
    _Atomic unsigned char answers[]; /* enum answer, one per request */
};

struct board *board_create(const char *path, uint32_t requests);
struct board *board_open(const char *path);
void          board_close(struct board *board);

/* The index of the next request, each to one worker only; -1: there are no more. */
int64_t board_take(struct board *board);
void    board_answer(struct board *board, int64_t index, enum answer answer);
int64_t board_count(const struct board *board, enum answer answer);

#endif
