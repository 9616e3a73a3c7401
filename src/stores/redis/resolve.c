/* SPDX-License-Identifier: MIT */
/* The helper thread and its caller share a job, freed by whoever leaves last. See resolve.h. */
#include "stores/redis/resolve.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/thread.h"

#define AT_WORK_MAX 16 /* in this process: name servers that are silent must not cost a thread per try */

struct hf__resolve {
    atomic_int       refs;
    int              fd;
    atomic_bool      finished; /* list and error are written before */
    struct addrinfo *list;
    int              error;
    char            *host, *port;
};

static atomic_int at_work;

static const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};

struct addrinfo *hf__resolve_numeric(const char *host, const char *port)
{
    struct addrinfo  numeric = hints;
    struct addrinfo *list = NULL;

    numeric.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    return getaddrinfo(host, port, &numeric, &list) == 0 ? list : NULL;
}

static void leave(hf__resolve *resolve)
{
    if (atomic_fetch_sub(&resolve->refs, 1) != 1)
        return;
    if (resolve->list != NULL)
        freeaddrinfo(resolve->list);
    if (resolve->fd >= 0)
        close(resolve->fd);
    free(resolve->host);
    free(resolve->port);
    free(resolve);
}

static void *run(void *arg)
{
    hf__resolve   *resolve = arg;
    const uint64_t one = 1;

    resolve->error = getaddrinfo(resolve->host, resolve->port, &hints, &resolve->list);
    if (resolve->error != 0)
        resolve->list = NULL;
    atomic_store(&resolve->finished, true);
    while (write(resolve->fd, &one, sizeof one) < 0 && errno == EINTR)
        ;
    leave(resolve);
    atomic_fetch_sub(&at_work, 1);
    return NULL;
}

static int start_thread(hf__resolve *resolve)
{
    pthread_t thread;
    int       result;

    if (atomic_fetch_add(&at_work, 1) >= AT_WORK_MAX) {
        atomic_fetch_sub(&at_work, 1);
        return EAGAIN;
    }
    result = hf__thread_start(&thread, run, resolve, "hf-resolve");
    if (result == 0)
        pthread_detach(thread);
    else
        atomic_fetch_sub(&at_work, 1);
    return result == EAGAIN ? ENOMEM : result;
}

hf__resolve *hf__resolve_start(const char *host, const char *port)
{
    hf__resolve *resolve = calloc(1, sizeof *resolve);
    int          result = ENOMEM;

    if (resolve == NULL)
        return NULL;
    atomic_init(&resolve->refs, 2); /* ours and the thread's */
    resolve->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    resolve->host = strdup(host);
    resolve->port = strdup(port);
    if (resolve->fd < 0)
        result = errno;
    else if (resolve->host != NULL && resolve->port != NULL)
        result = start_thread(resolve);
    if (result == 0)
        return resolve;
    atomic_store(&resolve->refs, 1);
    leave(resolve);
    errno = result;
    return NULL;
}

int hf__resolve_fd(const hf__resolve *resolve)
{
    return resolve->fd;
}

bool hf__resolve_take(hf__resolve *resolve, struct addrinfo **list, int *error)
{
    if (!atomic_load(&resolve->finished))
        return false;
    *list = resolve->list;
    *error = resolve->error;
    resolve->list = NULL;
    return true;
}

void hf__resolve_leave(hf__resolve *resolve)
{
    if (resolve != NULL)
        leave(resolve);
}
