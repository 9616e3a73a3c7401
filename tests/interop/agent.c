/* SPDX-License-Identifier: MIT */
/*
 * The agent of Holdfast: a program over <holdfast.h> that takes locks and gives them back as it is told on its standard
 * input. agents.py says what is said to it, and what it answers. An actor is a thread here, and so an owner; the loop
 * over a guarded folder is in guard.c.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <holdfast.h>
#include <utlist.h>

#include "guard.h"

enum { MAX_WORDS = 16, NAME_SIZE = 64, MAX_CLIENTS = 1024 };

/* One line that an actor has still to do; words point into text. */
struct job {
    char       *text;
    char       *word[MAX_WORDS];
    int         words;
    struct job *prev, *next;
};

struct held {
    char         name[256];
    char         kind[NAME_SIZE];
    hf_lock     *lock;
    struct held *prev, *next;
};

struct actor {
    char            who[NAME_SIZE];
    hf_client      *client;
    pthread_mutex_t mutex; /* of jobs and waiting */
    pthread_cond_t  more;
    struct job     *jobs;
    hf_lock        *waiting; /* the handle that an acquire waits through, for cancel */
    struct held    *grants;  /* the actor's own thread only */
    struct actor   *prev, *next;
};

/* The clients and actors: the reading thread's only. */
static struct {
    char       name[NAME_SIZE];
    hf_client *client;
} clients[MAX_CLIENTS];
static struct actor   *actors;
static pthread_mutex_t output = PTHREAD_MUTEX_INITIALIZER;

__attribute__((format(printf, 2, 3))) static void answer(const struct job *job, const char *format, ...)
{
    va_list args;

    pthread_mutex_lock(&output);
    printf("%s ", job->word[0]);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
    pthread_mutex_unlock(&output);
}

static void answer_status(const struct job *job, int status, const hf_error *err)
{
    switch (status) {
    case HF_OK:
        answer(job, "ok");
        break;
    case HF_BUSY:
        answer(job, "busy");
        break;
    case HF_CANCELLED:
        answer(job, "cancelled");
        break;
    case HF_LOST:
    case HF_NOT_OWNER:
        answer(job, "lost");
        break;
    default:
        answer(job, "failed %s %s", hf_status_name(status), err->text);
    }
}

static int make(hf_lock **lock, hf_client *client, const char *name, const char *kind, int64_t lease_ms, hf_error *err)
{
    hf_options options = HF_OPTIONS_INIT;

    options.lease_ms = lease_ms;
    options.fair = strcmp(kind, "fair") == 0;
    if (strcmp(kind, "reader") == 0)
        return hf_reader(lock, client, name, &options, err);
    if (strcmp(kind, "writer") == 0)
        return hf_writer(lock, client, name, &options, err);
    if (strncmp(kind, "semaphore:", 10) == 0) {
        options.weight = guard_weight(kind);
        return hf_semaphore(lock, client, name, guard_limit(kind), &options, err);
    }
    return hf_mutex(lock, client, name, &options, err);
}

static void set_waiting(struct actor *actor, hf_lock *lock)
{
    pthread_mutex_lock(&actor->mutex);
    actor->waiting = lock;
    pthread_mutex_unlock(&actor->mutex);
}

/* Takes the lock with a handle of its own, and remembers that. */
static int take(struct actor *actor, const char *name, const char *kind, int64_t wait_ms, int64_t lease_ms,
                int64_t *fence, hf_error *err)
{
    hf_lock     *lock;
    hf_grant     grant = {0};
    struct held *held;
    int          status = make(&lock, actor->client, name, kind, lease_ms, err);

    if (status != HF_OK)
        return status;
    set_waiting(actor, lock);
    status = hf_acquire(lock, wait_ms < 0 ? HF_FOREVER : wait_ms, &grant, err);
    set_waiting(actor, NULL);
    if (status != HF_OK) {
        hf_free(lock);
        return status;
    }
    *fence = grant.fence;
    held = calloc(1, sizeof(*held));
    if (!held)
        abort();
    held->lock = lock;
    snprintf(held->name, sizeof(held->name), "%s", name);
    snprintf(held->kind, sizeof(held->kind), "%s", kind);
    DL_PREPEND(actor->grants, held);
    return HF_OK;
}

static struct held *find(struct actor *actor, const char *name, const char *kind)
{
    struct held *held;

    DL_FOREACH (actor->grants, held)
        if (strcmp(held->name, name) == 0 && strcmp(held->kind, kind) == 0)
            return held;
    return NULL;
}

static int give(struct actor *actor, const char *name, const char *kind, hf_error *err)
{
    struct held *held = find(actor, name, kind);
    int          status;

    if (!held)
        return HF_NOT_OWNER;
    status = hf_release(held->lock, err);
    hf_free(held->lock);
    DL_DELETE(actor->grants, held);
    free(held);
    return status;
}

static void acquire(struct actor *actor, const struct job *job)
{
    hf_error err = {0};
    int64_t  fence = 0;
    int      status = take(actor, job->word[3], job->word[4], atoll(job->word[5]), atoll(job->word[6]), &fence, &err);

    if (status == HF_OK)
        answer(job, "ok %" PRId64, fence);
    else
        answer_status(job, status, &err);
}

static void left(struct actor *actor, const struct job *job)
{
    struct held *held = find(actor, job->word[3], job->word[4]);

    answer(job, "ok %" PRId64, held ? hf_left(held->lock) : 0);
}

static void loop(struct actor *actor, const struct job *job)
{
    const char *name = job->word[3], *kind = job->word[4], *folder = job->word[9];
    int64_t     wait_ms = atoll(job->word[5]), lease_ms = atoll(job->word[6]), fence = 0;
    hf_error    err = {0};
    int         grants = 0, busy = 0, clashes = 0;

    for (int i = atoi(job->word[7]); i > 0; i--) {
        int status = take(actor, name, kind, wait_ms, lease_ms, &fence, &err);

        if (status == HF_BUSY) {
            busy++;
            continue;
        }
        if (status != HF_OK) {
            answer_status(job, status, &err);
            return;
        }
        grants++;
        clashes += guard_inside(folder, kind, atoi(job->word[8]), fence);
        status = give(actor, name, kind, &err);
        if (status != HF_OK) {
            answer(job, "failed release %s %s", hf_status_name(status), err.text);
            return;
        }
    }
    answer(job, "ok %d %d %d", grants, busy, clashes);
}

static void act(struct actor *actor, const struct job *job)
{
    const char *verb = job->word[2];
    hf_error    err = {0};
    int64_t     removed = 0;
    int         status;

    if (strcmp(verb, "acquire") == 0 && job->words == 7) {
        acquire(actor, job);
    } else if (strcmp(verb, "release") == 0 && job->words == 5) {
        status = give(actor, job->word[3], job->word[4], &err);
        answer_status(job, status, &err);
    } else if (strcmp(verb, "left") == 0 && job->words == 5) {
        left(actor, job);
    } else if (strcmp(verb, "force") == 0 && job->words == 5) {
        status = hf_break(actor->client, job->word[3], NULL, &removed, &err);
        answer_status(job, status == HF_OK && removed == 0 ? HF_LOST : status, &err);
    } else if (strcmp(verb, "loop") == 0 && job->words == 10) {
        loop(actor, job);
    } else {
        answer(job, "failed verb %s", verb);
    }
}

static void free_job(struct job *job)
{
    free(job->text);
    free(job);
}

static void *run(void *arg)
{
    struct actor *actor = arg;
    struct job   *job;

    for (;;) {
        pthread_mutex_lock(&actor->mutex);
        while (!actor->jobs)
            pthread_cond_wait(&actor->more, &actor->mutex);
        job = actor->jobs;
        DL_DELETE(actor->jobs, job);
        pthread_mutex_unlock(&actor->mutex);
        act(actor, job);
        free_job(job);
    }
    return NULL;
}

static hf_client **find_client(const char *name, size_t len)
{
    for (size_t i = 0; i < MAX_CLIENTS; i++)
        if (!clients[i].client || (strncmp(clients[i].name, name, len) == 0 && clients[i].name[len] == '\0')) {
            snprintf(clients[i].name, sizeof(clients[i].name), "%.*s", (int)len, name);
            return &clients[i].client;
        }
    abort();
}

static struct actor *find_actor(const char *who)
{
    struct actor *actor;
    pthread_t     thread;

    DL_FOREACH (actors, actor)
        if (strcmp(actor->who, who) == 0)
            return actor;
    actor = calloc(1, sizeof(*actor));
    if (!actor)
        abort();
    snprintf(actor->who, sizeof(actor->who), "%s", who);
    actor->client = *find_client(who, strcspn(who, "/"));
    pthread_mutex_init(&actor->mutex, NULL);
    pthread_cond_init(&actor->more, NULL);
    DL_APPEND(actors, actor);
    if (!actor->client || pthread_create(&thread, NULL, run, actor) != 0)
        abort();
    pthread_detach(thread);
    return actor;
}

static void serve_client(const struct job *job)
{
    hf_client       **client = find_client(job->word[1], strlen(job->word[1]));
    hf_client_options options = HF_CLIENT_OPTIONS_INIT;
    hf_error          err = {0};

    options.note = "interop";
    if (strcmp(job->word[2], "open") == 0 && job->words >= 4) {
        options.watchdog_ms = job->words > 4 ? atoll(job->word[4]) : 0;
        answer_status(job, hf_open(client, job->word[3], &options, &err), &err);
    } else {
        /* The slot stays taken: the actors of this client still point to it. */
        answer_status(job, hf_close(*client, 2000), &err);
    }
}

static void serve(struct job *job)
{
    struct actor *actor;

    if (!strchr(job->word[1], '/')) {
        serve_client(job);
        free_job(job);
        return;
    }
    actor = find_actor(job->word[1]);
    pthread_mutex_lock(&actor->mutex);
    if (strcmp(job->word[2], "cancel") == 0) {
        if (actor->waiting)
            hf_cancel(actor->waiting);
        answer(job, "ok");
        free_job(job);
    } else {
        DL_APPEND(actor->jobs, job);
        pthread_cond_signal(&actor->more);
    }
    pthread_mutex_unlock(&actor->mutex);
}

static struct job *parse(const char *line)
{
    struct job *job = calloc(1, sizeof(*job));
    char       *place;

    if (!job || !(job->text = strdup(line)))
        abort();
    for (char *word = strtok_r(job->text, " \n", &place); word && job->words < MAX_WORDS;
         word = strtok_r(NULL, " \n", &place))
        job->word[job->words++] = word;
    return job;
}

int main(void)
{
    char       *line = NULL;
    size_t      size = 0;
    ssize_t     len;
    struct job *job;

    while ((len = getline(&line, &size, stdin)) > 0) {
        job = parse(line);
        if (job->words >= 3)
            serve(job);
        else
            free_job(job);
    }
    /* Whatever is still held is left to its lease, as by a crash. */
    _exit(0);
}
