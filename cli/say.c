/* SPDX-License-Identifier: MIT */
/*
 * Lines on standard error, and the exit code that goes with a failure. Whoever reads them may not read on (a full pipe,
 * Ctrl-S), and a write then blocks for as long as he likes; so while a lock is at stake, a thread writes them.
 */
#include "say.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "exit.h"

/* What waits for the thread; all of it under the lock. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t  changed;
    bool            threaded;
    bool            writing; /* the thread has taken something, which is not written yet */
    size_t          length;
    char            text[16384];
} queue = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void write_all(const char *text, size_t length)
{
    while (length > 0) {
        ssize_t       written = write(STDERR_FILENO, text, length);
        struct pollfd room = {STDERR_FILENO, POLLOUT, 0};
        if (written >= 0) {
            text += written;
            length -= (size_t)written;
        } else if (errno == EAGAIN) {
            poll(&room, 1, -1);
        } else if (errno != EINTR) {
            return;
        }
    }
}

static void *write_on(void *arg)
{
    static char text[sizeof(queue.text)];

    pthread_mutex_lock(&queue.lock);
    for (;;) {
        while (queue.length == 0)
            pthread_cond_wait(&queue.changed, &queue.lock);
        size_t length = queue.length;
        memcpy(text, queue.text, length);
        queue.length = 0;
        queue.writing = true;
        pthread_mutex_unlock(&queue.lock);
        write_all(text, length);
        pthread_mutex_lock(&queue.lock);
        queue.writing = false;
        pthread_cond_broadcast(&queue.changed);
    }
    return arg;
}

bool say_begin(void)
{
    pthread_condattr_t monotonic;
    pthread_t          thread;
    sigset_t           all, before;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&queue.changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    /* Signals are the main thread's. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&thread, NULL, write_on, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed == 0)
        pthread_detach(thread);
    errno = failed;
    return queue.threaded = failed == 0;
}

bool say_flush(int64_t most_ms)
{
    struct timespec until;
    bool            written;

    if (!queue.threaded)
        return true;
    clock_gettime(CLOCK_MONOTONIC, &until);
    most_ms += until.tv_nsec / 1000000;
    until.tv_sec += most_ms / 1000;
    until.tv_nsec = most_ms % 1000 * 1000000 + until.tv_nsec % 1000000;
    pthread_mutex_lock(&queue.lock);
    while (!(written = queue.length == 0 && !queue.writing))
        if (pthread_cond_timedwait(&queue.changed, &queue.lock, &until) != 0)
            break;
    pthread_mutex_unlock(&queue.lock);
    return written;
}

void say_text(const char *text)
{
    size_t length = strlen(text);

    if (!queue.threaded) {
        write_all(text, length);
        return;
    }
    pthread_mutex_lock(&queue.lock);
    /* Else nobody has read for long, and this is lost. */
    if (length <= sizeof(queue.text) - queue.length) {
        memcpy(queue.text + queue.length, text, length);
        queue.length += length;
        pthread_cond_broadcast(&queue.changed);
    }
    pthread_mutex_unlock(&queue.lock);
}

/* One write per line, so that the lines of several runs do not mix. */
static void say_line(const char *format, va_list args)
{
    static const char begin[] = "holdfast: ";
    char              text[2048];
    size_t            used = sizeof(begin) - 1, room = sizeof(text) - used - 1;

    memcpy(text, begin, used);
    if (vsnprintf(text + used, room, format, args) < 0)
        return;
    strcat(text, "\n");
    say_text(text);
}

void say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say_line(format, args);
    va_end(args);
}

int say_usage(const char *verb, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say_line(format, args);
    va_end(args);
    fprintf(stderr, "Try 'holdfast%s%s --help'.\n", *verb != '\0' ? " " : "", verb);
    return CODE_USAGE;
}

int exit_code_of(int status)
{
    switch (status) {
    case HF_EINVALID:
        return CODE_USAGE;
    case HF_EEXHAUSTED:
        return CODE_SYSTEM;
    default:
        return CODE_STORE;
    }
}

int say_failure(const hf_error *err)
{
    say("%s", err->text);
    return exit_code_of(err->status);
}
