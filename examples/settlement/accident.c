/* SPDX-License-Identifier: MIT */

/*
 * The accidents. A signal from outside would hit some instruction, mostly a harmless one; so the worker sends it to
 * itself where it hurts most. SIGKILL and SIGSTOP cannot be caught: to the rest of the process, its watchdog thread
 * included, it is as if the machine had failed or frozen there.
 *
 * The killed orders come once in the input, so that only the sweep can finish them. The others come five times, so that
 * there are duplicates that wait for them.
 */
#include "accident.h"

#include "clock.h"
#include "die.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

#define SLOW_MS 5000 /* longer than the lease of the locks in this run: the watchdog has to renew it */

static const struct {
    enum accident_kind kind;
    enum point         point;
    int                copies;     /* how often the order comes */
    int                thousandth; /* how far into the input */
} plan[ACCIDENTS] = {
    {ACCIDENT_KILL, POINT_FINISH, 1, 100}, /* charged, not committed */
    {ACCIDENT_STOP, POINT_CHARGE, 5, 200}, /* looked at its lease, then froze: the late charge must be refused */
    {ACCIDENT_KILL, POINT_CHARGE, 1, 300}, /* marked settling, not charged */
    {ACCIDENT_STOP, POINT_FINISH, 5, 400}, /* charged, not committed, then wakes up late */
    {ACCIDENT_SLOW, POINT_CHARGE, 5, 500}, /* the gateway is slow: duplicates hear "processing" */
};

void accidents_plan(struct board *board, struct orders *orders)
{
    for (int i = 0; i < ACCIDENTS; i++) {
        struct accident *accident = &board->accidents[i];
        int64_t          line = (int64_t)board->requests * plan[i].thousandth / 1000;
        accident->kind = plan[i].kind;
        accident->point = plan[i].point;
        if (!orders_find(orders, line, plan[i].copies, LEDGER_MOST_CENTS, accident->order))
            die("the input has no order with %d requests at line %lld or later", plan[i].copies, (long long)line);
    }
}

static void accident_happen(struct accident *accident)
{
    switch (accident->kind) {
    case ACCIDENT_KILL:
        kill(getpid(), SIGKILL);
        break;
    case ACCIDENT_STOP:
        kill(getpid(), SIGSTOP);
        break;
    case ACCIDENT_SLOW:
        clock_sleep_us(SLOW_MS * 1000);
        atomic_store(&accident->over, true);
        break;
    }
}

void accidents_happen(struct board *board, enum point point, const char *order)
{
    for (int i = 0; i < ACCIDENTS; i++) {
        struct accident *accident = &board->accidents[i];
        int              nobody = 0;
        if (accident->point == point && strcmp(accident->order, order) == 0 &&
            atomic_compare_exchange_strong(&accident->pid, &nobody, getpid()))
            accident_happen(accident);
    }
}

struct accident *accident_of(struct board *board, pid_t pid)
{
    for (int i = 0; i < ACCIDENTS; i++) {
        struct accident *accident = &board->accidents[i];
        if (atomic_load(&accident->pid) == pid && !atomic_load(&accident->over))
            return accident;
    }
    return NULL;
}

int accidents_count(const struct board *board, enum accident_kind kind)
{
    int count = 0;
    for (int i = 0; i < ACCIDENTS; i++)
        count += board->accidents[i].kind == kind && atomic_load(&board->accidents[i].pid) != 0;
    return count;
}
