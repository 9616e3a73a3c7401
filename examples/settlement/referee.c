/* SPDX-License-Identifier: MIT */

/*
 * The referee. It lays out the files of a run, starts workers and sweepers, starts a new worker for each that is killed
 * (as an init system would), continues stopped ones when it is too late for them, and waits for the end.
 *
 * A stopped worker is continued at the worst moment: its lease is over and its order was finished by somebody else.
 */
#include "referee.h"

#include "clock.h"
#include "process.h"
#include "progress.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#define SWEEPERS 2
#define LOOK_MS 20         /* how often the referee looks around */
#define STOP_MOST_MS 20000 /* a stopped worker is continued after that in any case */
#define RUN_MOST_MS 180000 /* a run that takes longer has failed */

struct referee {
    const struct referee_options *options;
    struct requests               requests;
    struct orders                *orders;
    struct board                 *board;
    struct processes              workers, sweepers;
    struct progress               progress;
    int64_t                       started_ms;
    bool                          broken;
};

static volatile sig_atomic_t interrupted;

static void referee_interrupt(int number)
{
    interrupted = number;
}

/* Signals only set a flag; the loop sees it within LOOK_MS. */
static void referee_catch(void)
{
    struct sigaction action = {.sa_handler = referee_interrupt};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

static void referee_create(struct referee *referee, const struct referee_options *options)
{
    char path[PATH_MAX];
    *referee = (struct referee){.options = options, .started_ms = clock_ms()};
    requests_read(&referee->requests, options->input);
    run_place(path, options->folder, "orders.db");
    referee->orders = orders_create(path, &referee->requests);
    run_place(path, options->folder, "ledger.db");
    ledger_close(ledger_create(path));
    run_path(path, options->folder, "board");
    referee->board = board_create(path, (uint32_t)referee->requests.count);
    accidents_plan(referee->board, referee->orders);
    progress_begin(&referee->progress, options->mode->title, (int64_t)referee->requests.count, options->quiet);
}

static void referee_start(struct referee *referee, struct processes *processes, const char *role)
{
    const char *const arguments[] = {role, referee->options->folder, referee->options->input,
                                     referee->options->mode->word, NULL};
    processes_start(processes, arguments);
}

/* A process ended. Killed as planned: the next one takes its place. Anything else is a failure of the run. */
static void referee_ended(struct referee *referee, struct process *process)
{
    struct accident *accident = accident_of(referee->board, process->pid);
    if (process->exit_code == 0)
        return;
    if (accident == NULL || accident->kind != ACCIDENT_KILL) {
        referee->broken = true;
        return;
    }
    atomic_store(&accident->over, true);
    progress_note(&referee->progress, "a worker was killed in the middle of order %s", accident->order);
    referee_start(referee, &referee->workers, "worker");
}

/* Continues a process that an accident stopped, once it is too late for it. Others (Ctrl-Z) are not ours. */
static void referee_stopped(struct referee *referee, struct process *process)
{
    struct accident *accident = accident_of(referee->board, process->pid);
    int64_t          stopped_ms = clock_ms() - process->stopped_ms;
    if (accident == NULL || accident->kind != ACCIDENT_STOP || stopped_ms < LEASE_MS + 500)
        return;
    if (orders_status(referee->orders, accident->order) == ORDER_SETTLING && stopped_ms < STOP_MOST_MS)
        return;
    atomic_store(&accident->over, true);
    progress_note(&referee->progress, "the worker stopped in the middle of order %s goes on after %.1f s",
                  accident->order, (double)stopped_ms / 1000);
    process_continue(process);
}

static void referee_look(struct referee *referee, struct processes *processes)
{
    struct process *process;
    while ((process = processes_reap(processes)) != NULL)
        referee_ended(referee, process);
    for (int i = 0; i < processes->count; i++)
        if (processes->list[i].state == PROCESS_STOPPED)
            referee_stopped(referee, &processes->list[i]);
}

/* Until none of them is left. False: interrupted, failed, or too late. */
static bool referee_wait(struct referee *referee, struct processes *processes)
{
    while (processes_alive(processes) > 0) {
        referee_look(referee, &referee->workers);
        referee_look(referee, &referee->sweepers);
        progress_show(&referee->progress, atomic_load(&referee->board->answered));
        referee->broken |= clock_ms() - referee->started_ms > RUN_MOST_MS;
        if (interrupted || referee->broken)
            return false;
        clock_sleep_us(LOOK_MS * 1000);
    }
    return true;
}

static void referee_work(struct referee *referee)
{
    for (int i = 0; i < referee->options->workers; i++)
        referee_start(referee, &referee->workers, "worker");
    for (int i = 0; i < SWEEPERS; i++)
        referee_start(referee, &referee->sweepers, "sweep");
    if (referee_wait(referee, &referee->workers)) {
        atomic_store(&referee->board->closing, 1);
        referee_wait(referee, &referee->sweepers);
    }
    processes_end(&referee->workers);
    processes_end(&referee->sweepers);
    progress_end(&referee->progress, atomic_load(&referee->board->answered));
}

static void tally_books(struct tally *tally, const struct referee *referee)
{
    char path[PATH_MAX];
    run_place(path, referee->options->folder, "ledger.db");
    struct ledger *ledger = ledger_open(path, 0);
    tally->charged = ledger_count_charged(ledger);
    tally->refused_by_cards = ledger_count_declined(ledger);
    tally->ledger_refusals = ledger_count_refused(ledger);
    tally->double_charges = ledger_count_double(ledger);
    tally->double_cents = ledger_cents_double(ledger);
    tally->disagreeing = ledger_count_disagreeing(ledger, referee->orders);
    ledger_close(ledger);

    tally->orders = orders_count(referee->orders);
    tally->orders_refusals = orders_count_refused(referee->orders);
    tally->unsettled =
        orders_count_status(referee->orders, ORDER_OPEN) + orders_count_status(referee->orders, ORDER_SETTLING);
}

static void tally_board(struct tally *tally, const struct board *board)
{
    tally->requests = board->requests;
    tally->settled = board_count(board, ANSWER_SETTLED);
    tally->declined = board_count(board, ANSWER_DECLINED);
    tally->processing = board_count(board, ANSWER_PROCESSING);
    tally->already = board_count(board, ANSWER_ALREADY);
    tally->given_up = board_count(board, ANSWER_GIVEN_UP);
    tally->unanswered = board_count(board, ANSWER_NONE);
    tally->swept = atomic_load(&board->swept);
    tally->lost = atomic_load(&board->lost);
    tally->killed = accidents_count(board, ACCIDENT_KILL);
    tally->stopped = accidents_count(board, ACCIDENT_STOP);
    tally->slow = accidents_count(board, ACCIDENT_SLOW);
}

bool referee_run(const struct referee_options *options, struct tally *tally)
{
    struct referee referee;
    referee_catch();
    referee_create(&referee, options);
    if (!interrupted)
        referee_work(&referee);

    *tally =
        (struct tally){.took_ms = clock_ms() - referee.started_ms, .mode = options->mode, .broken = referee.broken};
    tally_books(tally, &referee);
    tally_board(tally, referee.board);
    orders_close(referee.orders);
    board_close(referee.board);
    requests_free(&referee.requests);
    return !interrupted;
}
