/* SPDX-License-Identifier: MIT */
/*
 * Exclusion under fire. Workers (worker.c) take and give back names of all kinds; the nemesis in this process kills
 * some of them with SIGKILL and starts others in their place, and stops some for longer than a lease and continues
 * them. Afterwards every name must be free within a lease, the log is judged (checker.c), and the counters must hold
 * every update that was taken.
 *
 *   torture [--store URL] [--processes N] [--threads N] [--seconds S] [--lease MS] [--seed N] [--min-grants N]
 *           [--calm] [--busy] [--control]
 *           [--servers N [--fences] [--events FILE] [--side URL]... [--net PATH]... [--must-break]]
 *
 * --calm kills and stops nobody. --busy holds hardly at all, so that the store is the bottleneck and stops hit its
 * transactions. --control leaves the lock out and succeeds only when the checks fail: the proof that they can. Without
 * --store: a new SQLite store in the run's own folder.
 *
 * --servers says that so many independent servers decide: then nothing is queued or counted, and there are no fences
 * but with --fences. Process i sees the store by the URL of side i, in the network namespace of net i (each modulo
 * their number). FILE holds records of servers that forgot (record.h): what overlaps because of them is counted apart.
 * With --must-break the run succeeds only where that happens: the proof that it can.
 *
 * Exit: 0 all checks pass; 1 a check failed; 2 usage; 3 the run could not be made.
 */
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checker.h"
#include "guarded.h"
#include "lib/apitest.h"
#include "worker.h"

typedef struct slot {
    pid_t   pid;
    bool    killed;  /* by us: its end is no fault */
    int64_t cont_us; /* when to continue it; 0: it runs */
} slot;

typedef struct torture {
    torture_plan plan;
    int64_t      seconds;
    int64_t      min_grants;
    const char  *events; /* a log beside ours; NULL: none */
    bool         calm;
    bool         must_break;
    uint64_t     rng;
    uint64_t     generation;
    int          log;
    slot         slots[SLOTS_MAX];
    int          crashed; /* workers that ended though nobody killed them */
    int          stuck;   /* names that were not free in the end, claims left, workers that did not end */
} torture;

/* ------------------------------------------------------------------ workers ----------------------------------- */

static void worker_start(torture *t, int i)
{
    uint64_t seed = t->plan.seed * 1000003 + ++t->generation;
    pid_t    parent = getpid();
    pid_t    pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); /* whoever ends the test ends the workers */
        if (getppid() != parent)
            _exit(0);
        close(t->log);
        _exit(worker_process(&t->plan, i, seed));
    }
    if (pid < 0) {
        perror("fork");
        exit(3);
    }
    t->slots[i] = (slot){.pid = pid};
    atomic_store(&t->plan.shared->holding[i], 0);
}

static void signal_record(torture *t, const slot *s, int type)
{
    record r = {.type = type, .pid = s->pid, .at_us = now_us()};

    record_write(t->log, &r);
}

/* A slot at random: one that holds something as often as any, which may be inside a transaction; -1: there is none. */
static int victim(torture *t)
{
    bool any = rng_below(&t->rng, 2) == 0;

    for (int tries = 0; tries < 64; tries++) {
        int   i = (int)rng_below(&t->rng, t->plan.processes);
        slot *s = &t->slots[i];
        bool  likes = atomic_load(&t->plan.shared->holding[i]) > 0 || any || tries > 48;
        if (s->pid > 0 && !s->killed && s->cont_us == 0 && likes)
            return i;
    }
    return -1;
}

static void nemesis_kill(torture *t)
{
    int i = victim(t);

    if (i < 0)
        return;
    signal_record(t, &t->slots[i], RECORD_DEATH);
    t->slots[i].killed = true;
    kill(t->slots[i].pid, SIGKILL);
}

static void nemesis_stop(torture *t)
{
    int i = victim(t);

    if (i < 0)
        return;
    signal_record(t, &t->slots[i], RECORD_STOP);
    kill(t->slots[i].pid, SIGSTOP);
    t->slots[i].cont_us = now_us() + 20000 + rng_below(&t->rng, t->plan.lease_ms * 2200);
}

static void continue_due(torture *t, bool all)
{
    for (int i = 0; i < t->plan.processes; i++) {
        slot *s = &t->slots[i];
        if (s->cont_us == 0 || (!all && now_us() < s->cont_us))
            continue;
        kill(s->pid, SIGCONT);
        s->cont_us = 0;
        signal_record(t, s, RECORD_CONT);
    }
}

/* Takes note of ended workers; starts new ones in their place where `again`. Returns how many still run. */
static int reap(torture *t, bool again)
{
    int running = 0;

    for (int i = 0; i < t->plan.processes; i++) {
        slot *s = &t->slots[i];
        int   how;
        if (s->pid <= 0)
            continue;
        if (waitpid(s->pid, &how, WNOHANG) != s->pid) {
            running++;
            continue;
        }
        if (!s->killed && !(WIFEXITED(how) && WEXITSTATUS(how) == 0)) {
            fprintf(stderr, "worker %d ended by itself: status 0x%x\n", (int)s->pid, how);
            t->crashed++;
        }
        s->pid = 0;
        if (again) {
            worker_start(t, i);
            running++;
        }
    }
    return running;
}

static void run(torture *t)
{
    int64_t until_us = now_us() + t->seconds * 1000000, kill_us = now_us() + 300000, stop_us = now_us() + 200000;
    int64_t told_us = now_us() + 10000000;

    for (int i = 0; i < t->plan.processes; i++)
        worker_start(t, i);
    while (now_us() < until_us) {
        sleep_ms(4);
        reap(t, true);
        continue_due(t, false);
        if (!t->calm && now_us() >= kill_us) {
            nemesis_kill(t);
            kill_us = now_us() + 100000 + rng_below(&t->rng, 500000);
        }
        if (!t->calm && now_us() >= stop_us) {
            nemesis_stop(t);
            stop_us = now_us() + 100000 + rng_below(&t->rng, 600000);
        }
        if (now_us() >= told_us) {
            fprintf(stderr, "torture: %lld s left, %llu grants\n", (long long)((until_us - now_us()) / 1000000),
                    (unsigned long long)atomic_load(&t->plan.shared->next_grant));
            told_us += 10000000;
        }
    }
}

static void end(torture *t)
{
    int64_t until_us = now_us() + 20000000;

    atomic_store(&t->plan.shared->ending, 1);
    continue_due(t, true);
    while (reap(t, false) > 0 && now_us() < until_us)
        sleep_ms(5);
    for (int i = 0; i < t->plan.processes; i++)
        if (t->slots[i].pid > 0) {
            fprintf(stderr, "worker %d did not end\n", (int)t->slots[i].pid);
            t->stuck++;
            kill(t->slots[i].pid, SIGKILL);
            waitpid(t->slots[i].pid, NULL, 0);
        }
}

/* ------------------------------------------------------------------ afterwards -------------------------------- */

static int lock_make(hf_lock **lock, hf_client *client, const name_plan *n)
{
    hf_options o = HF_OPTIONS_INIT;

    o.fair = n->kind == NAME_FAIR;
    o.weight = n->kind == NAME_SEMAPHORE ? n->limit : 0;
    if (n->kind == NAME_SEMAPHORE)
        return hf_semaphore(lock, client, n->name, n->limit, &o, NULL);
    if (n->kind == NAME_RW)
        return hf_writer(lock, client, n->name, &o, NULL);
    return hf_mutex(lock, client, n->name, &o, NULL);
}

static bool claim_tell(const hf_entry *entry, void *arg)
{
    fprintf(stderr, "left behind: %.*s, held %d, fence %lld, pid %lld, %lld ms left\n", (int)entry->name_len,
            entry->name, entry->held, (long long)entry->fence, (long long)entry->holder.pid,
            (long long)entry->holder.left_ms);
    *(int *)arg += 1;
    return true;
}

static bool claim_count(const hf_entry *entry, void *arg)
{
    (void)entry;
    *(int *)arg += 1;
    return true;
}

/* Nothing must be left. A server that was away may have missed a release that a majority carried out; there the claim
 * ends with its lease. */
static void must_be_empty(torture *t, hf_client *client)
{
    int64_t  until_ms = now_ms() + (t->plan.servers > 0 ? t->plan.lease_ms + 500 : 0);
    hf_error err;

    for (int count = 1; count > 0 && now_ms() < until_ms; sleep_ms(20)) {
        count = 0;
        hf_list(client, NULL, claim_count, &count, &err);
    }
    if (hf_list(client, NULL, claim_tell, &t->stuck, &err) != HF_OK)
        t->stuck++;
}

/* Every name must be had whole within a lease. */
static void heal(torture *t)
{
    hf_client *client;
    hf_error   err;

    if (hf_open(&client, t->plan.url, HF_CLIENT_OPTIONS(.watchdog_ms = t->plan.lease_ms), &err) != HF_OK) {
        fprintf(stderr, "afterwards: %s\n", err.text);
        t->stuck++;
        return;
    }
    for (int i = 0; i < NAMES; i++) {
        hf_lock *lock = NULL;
        if (!torture_has(&t->plan, i))
            continue;
        int status = lock_make(&lock, client, &names[i]);
        if (status == HF_OK)
            status = hf_acquire(lock, t->plan.lease_ms + 3000, NULL, &err);
        if (status == HF_OK)
            status = hf_release(lock, &err);
        if (status != HF_OK) {
            fprintf(stderr, "afterwards, %s: %s: %s\n", names[i].name, hf_status_name(status), err.text);
            t->stuck++;
        }
        hf_free(lock);
    }
    must_be_empty(t, client);
    hf_close(client, 1000);
}

static int64_t updates_lost(const torture *t, int64_t *taken)
{
    int64_t lost = 0;

    *taken = 0;
    for (int i = 0; i < NAMES; i++) {
        int           fd = torture_counter(&t->plan, i);
        guarded_state state = guarded_look(fd);
        lost += state.taken - state.value;
        *taken += state.taken;
        close(fd);
    }
    return lost;
}

static void row(const char *what, uint64_t value, const char *wanted)
{
    printf("  %-58s %10llu   %s\n", what, (unsigned long long)value, wanted);
}

static void print_table(const torture *t, const verdicts *v, int64_t taken, int64_t lost_updates)
{
    printf("torture: %d processes x %d threads, %lld s, lease %lld ms, seed %llu%s\n", t->plan.processes,
           t->plan.threads, (long long)t->seconds, (long long)t->plan.lease_ms, (unsigned long long)t->plan.seed,
           t->plan.control ? ", CONTROL: the lock is left out" : "");
    row("grants", v->grants, "");
    row("  exclusive", v->grants_of[RECORD_EXCLUSIVE], "");
    row("  shared", v->grants_of[RECORD_SHARED], "");
    row("  counted", v->grants_of[RECORD_COUNTED], "");
    row("acquires that ended busy", v->busy, "");
    row("processes killed with SIGKILL", v->deaths, "");
    row("  while they held something", v->deaths_held, "");
    row("processes stopped and continued", v->stops, "");
    row("  while they held something", v->stops_held, "");
    row("grants whose loss was told", v->lost, "");
    row("  the holder was stopped", v->lost_stopped, "");
    row("  a fixed lease was outstayed", v->lost_fixed, "");
    row("  another process was stopped, perhaps in a transaction", v->lost_bystanding, "");
    row("  otherwise (machine too slow for the lease)", v->lost_otherwise, "");
    row("acquires and releases that failed", v->failed, "");
    for (int i = 1; i < 16; i++)
        if (atomic_load(&t->plan.shared->statuses[i]))
            printf("    %-56s %10lu\n", hf_status_name(-i), atomic_load(&t->plan.shared->statuses[i]));
    for (int i = 1; i < 10; i++)
        if (v->votes[i])
            printf("  grants with %d votes %*s %10llu\n", i, 37, "", (unsigned long long)v->votes[i]);
    row("times that a server forgot", v->forgot, "");
    row("two owners at once, where too many had forgotten", v->excused, "");
    row("grants that were over when their holder looked first", v->stillborn, "");
    row("updates refused for their fence", v->refused, "");
    row("updates taken", (uint64_t)taken, "");
    row("updates lost", (uint64_t)lost_updates, "must be 0");
    row("two owners at once", v->overlaps, "must be 0");
    row("fences that did not rise", v->fence_errors, "must be 0");
    row("more time told than the lease", v->overlong, "must be 0");
    row("records that make no sense", v->bad_records, "must be 0");
    row("answers that the header does not allow", atomic_load(&t->plan.shared->undue), "must be 0");
    row("workers that ended by themselves", (uint64_t)t->crashed, "must be 0");
    row("names or workers stuck in the end", (uint64_t)t->stuck, "must be 0");
    printf("  %-58s %10.3f   must be >= 0.9\n", "median of validity at grant / lease", v->median_validity);
}

/* The records of the other log behind ours: the checker asks for no order between them. */
static record *events_add(const torture *t, record *all, size_t *count)
{
    size_t  more = 0;
    record *events = t->events ? record_read(t->events, &more) : NULL;

    if (events && (all = realloc(all, (*count + more) * sizeof(*all))) != NULL) {
        memcpy(all + *count, events, more * sizeof(*all));
        *count += more;
    }
    free(events);
    return all;
}

static int judge(torture *t)
{
    char     path[PATH_MAX];
    verdicts v;
    size_t   count;
    int64_t  taken, lost_updates = updates_lost(t, &taken);

    snprintf(path, sizeof(path), "%s/torture.log", t->plan.folder);
    record *all = record_read(path, &count);
    all = events_add(t, all, &count);
    checker_run(all, count, &v, stdout);
    free(all);
    print_table(t, &v, taken, lost_updates);
    if (t->plan.control) {
        bool caught = v.overlaps > 0 && lost_updates > 0 && t->crashed == 0;
        printf("control: %s\n", caught ? "the checks fail without the lock, as they must" : "NOT CAUGHT");
        return caught ? 0 : 1;
    }
    /* What several servers forgot, no lock could keep. */
    bool whole = t->must_break ? v.excused > 0 : v.excused > 0 || lost_updates == 0;
    bool fine = checker_clean(&v) && whole && atomic_load(&t->plan.shared->undue) == 0 && t->crashed == 0 &&
                t->stuck == 0 && v.median_validity >= 0.9 && (int64_t)v.grants >= t->min_grants;
    if (t->must_break)
        printf("must break: %s\n", v.excused > 0 ? "it does" : "NOT SEEN");
    printf("torture: %s\n", fine ? "all checks pass" : "FAILED");
    return fine ? 0 : 1;
}

/* ------------------------------------------------------------------ the program ------------------------------- */

static void usage(void)
{
    fprintf(stderr, "usage: torture [--store URL] [--processes N] [--threads N] [--seconds S] [--lease MS] [--seed N]\n"
                    "               [--min-grants N] [--calm] [--busy] [--control]\n"
                    "               [--servers N [--fences] [--events FILE] [--side URL]... [--net PATH]... "
                    "[--must-break]]\n");
    exit(2);
}

static void option_of_several(torture *t, int c)
{
    torture_plan *p = &t->plan;

    if (c == 'n')
        p->servers = atoi(optarg);
    else if (c == 'f')
        p->fences = true;
    else if (c == 'e')
        t->events = optarg;
    else if (c == 'm')
        t->must_break = true;
    else if (c == 'i' && p->sides < SLOTS_MAX)
        p->side[p->sides++] = optarg;
    else if (c == 'k' && p->nets < SLOTS_MAX)
        p->net[p->nets++] = optarg;
    else
        usage();
}

static const char *options_read(torture *t, int argc, char **argv)
{
    static const struct option known[] = {
        {"store", 1, NULL, 'u'},      {"processes", 1, NULL, 'p'}, {"threads", 1, NULL, 't'},
        {"lease", 1, NULL, 'l'},      {"seconds", 1, NULL, 's'},   {"min-grants", 1, NULL, 'g'},
        {"seed", 1, NULL, 'r'},       {"calm", 0, NULL, 'c'},      {"busy", 0, NULL, 'b'},
        {"control", 0, NULL, 'x'},    {"servers", 1, NULL, 'n'},   {"fences", 0, NULL, 'f'},
        {"events", 1, NULL, 'e'},     {"side", 1, NULL, 'i'},      {"net", 1, NULL, 'k'},
        {"must-break", 0, NULL, 'm'}, {NULL, 0, NULL, 0},
    };
    const char *store = "sqlite:";

    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;)
        switch (c) {
        case 'u':
            store = optarg;
            break;
        case 'p':
            t->plan.processes = atoi(optarg);
            break;
        case 't':
            t->plan.threads = atoi(optarg);
            break;
        case 's':
            t->seconds = atoll(optarg);
            break;
        case 'l':
            t->plan.lease_ms = atoll(optarg);
            break;
        case 'r':
            t->plan.seed = strtoull(optarg, NULL, 10);
            break;
        case 'g':
            t->min_grants = atoll(optarg);
            break;
        case 'c':
            t->calm = true;
            break;
        case 'b':
            t->plan.busy = true;
            break;
        case 'x':
            t->plan.control = true;
            break;
        default:
            option_of_several(t, c);
        }
    if (optind != argc || t->plan.processes < 1 || t->plan.processes > SLOTS_MAX || t->plan.threads < 1)
        usage();
    return store;
}

int main(int argc, char **argv)
{
    torture t = {.plan = {.processes = 8, .threads = 1, .lease_ms = 500}, .seconds = 8, .min_grants = 1};

    t.plan.seed = (uint64_t)now_us();
    store_begin(options_read(&t, argc, argv));
    t.plan.url = test_url;
    t.plan.folder = test_folder;
    t.rng = t.plan.seed;
    t.plan.shared = mmap(NULL, sizeof(shared_page), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t.plan.shared == MAP_FAILED) {
        perror("mmap");
        return 3;
    }
    t.log = torture_log(&t.plan);
    run(&t);
    end(&t);
    if (!t.plan.control)
        heal(&t);
    int result = judge(&t);
    close(t.log);
    if (result == 0 || getenv("TORTURE_KEEP") == NULL)
        store_end();
    return result;
}
