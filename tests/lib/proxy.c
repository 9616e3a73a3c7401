/* SPDX-License-Identifier: MIT */
/*
 * The proxy: one thread, one poll() over all sockets. Each connection has two pipes, and each pipe a list of pieces
 * with the time at which they are due. See proxy.h.
 */
#include "lib/proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define RULES_MOST 32
#define LINKS_MOST 512
#define PIECE_MOST 65536
#define WAITING_MOST (8 << 20) /* bytes that a pipe keeps for a reader that does not read */
#define NEVER INT64_MAX

typedef struct piece piece;
struct piece {
    piece  *next;
    int64_t due_us; /* NEVER: held */
    bool    last;   /* the connection ends when it is handed on */
    int     end;
    size_t  len, done;
    char    bytes[];
};

typedef struct pipe_way {
    piece  *first, **tail;
    size_t  waiting;  /* bytes in the list */
    bool    over;     /* the sender has ended */
    bool    told;     /* and the receiver knows */
    bool    ending;   /* a cut has been decided: take no more */
    int64_t cut_left; /* bytes until the cut; -1: none */
    int     cut_end;
    bool    stalled;
    int64_t last_due_us;
} pipe_way;

typedef struct conn {
    bool used;
    int  fd[3]; /* PROXY_UP: the server's socket, what goes up is written there; PROXY_DOWN: the client's. -1: closed */
    pipe_way way[3]; /* index 0 is unused */
} conn;

typedef struct rule {
    bool       used;
    proxy_rule is;
    int        seen, hits;
} rule;

struct proxy {
    pthread_t       thread;
    pthread_mutex_t mutex; /* of all that follows */
    pthread_cond_t  moved; /* a rule has applied */
    char            upstream[128];
    int             listener, wake, port;
    bool            ending;
    uint64_t        rng;
    rule            rules[RULES_MOST];
    conn            links[LINKS_MOST];
    int64_t         accepted, bytes[3], pieces[3];
    char            buffer[PIECE_MOST];
};

static void die(const char *what)
{
    fprintf(stderr, "proxy: %s: %s\n", what, strerror(errno));
    exit(3);
}

static int64_t clock_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_BOOTTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static int64_t random_below(proxy *p, int64_t bound)
{
    p->rng = p->rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407); /* Knuth's constants */
    return bound <= 0 ? 0 : (int64_t)((p->rng >> 33) % (uint64_t)bound);
}

/* ------------------------------------------------------------------ sockets ----------------------------------- */

static int listen_on(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), yes = 1;

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(fd, (struct sockaddr *)&a, sizeof(a)) != 0 || listen(fd, 256) != 0)
        die("cannot listen");
    return fd;
}

static int port_of(int fd)
{
    struct sockaddr_in a;
    socklen_t          len = sizeof(a);

    if (getsockname(fd, (struct sockaddr *)&a, &len) != 0)
        die("getsockname");
    return ntohs(a.sin_port);
}

/* A connection on its way; -1 where the system refuses at once. */
static int connect_up(const char *upstream)
{
    struct sockaddr_un u = {.sun_family = AF_UNIX};
    struct sockaddr_in a = {.sin_family = AF_INET};
    bool               local = strncmp(upstream, "unix:", 5) == 0;
    const char        *colon = strrchr(upstream, ':');
    char               host[64];
    int                yes = 1, status;

    int fd = socket(local ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (local) {
        snprintf(u.sun_path, sizeof(u.sun_path), "%.107s", upstream + 5);
        status = connect(fd, (struct sockaddr *)&u, sizeof(u));
    } else {
        snprintf(host, sizeof(host), "%.*s", (int)(colon - upstream), upstream);
        a.sin_port = htons((uint16_t)atoi(colon + 1));
        inet_pton(AF_INET, host, &a.sin_addr);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
        status = connect(fd, (struct sockaddr *)&a, sizeof(a));
    }
    if (status == 0 || errno == EINPROGRESS)
        return fd;
    close(fd);
    return -1;
}

static void close_as(int *fd, int end)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};

    if (*fd < 0)
        return;
    if (end == PROXY_RST)
        setsockopt(*fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    close(*fd);
    *fd = -1;
}

/* ------------------------------------------------------------------ pieces ------------------------------------ */

static void pipe_empty(pipe_way *w)
{
    while (w->first) {
        piece *next = w->first->next;
        free(w->first);
        w->first = next;
    }
    w->tail = &w->first;
    w->waiting = 0;
}

static piece *piece_put(pipe_way *w, const char *bytes, size_t len, int64_t due_us)
{
    piece *n = malloc(sizeof(*n) + len);

    if (!n)
        die("no memory");
    if (due_us < w->last_due_us)
        due_us = w->last_due_us; /* what was sent later does not come sooner */
    *n = (piece){.due_us = due_us, .len = len};
    memcpy(n->bytes, bytes, len);
    *w->tail = n;
    w->tail = &n->next;
    w->waiting += len;
    w->last_due_us = due_us;
    return n;
}

static void conn_close(conn *c, int end)
{
    close_as(&c->fd[PROXY_UP], PROXY_FIN);
    close_as(&c->fd[PROXY_DOWN], end);
    pipe_empty(&c->way[PROXY_UP]);
    pipe_empty(&c->way[PROXY_DOWN]);
    c->used = false;
}

/* ------------------------------------------------------------------ rules ------------------------------------- */

static bool piece_has(const char *bytes, size_t len, const char *text)
{
    size_t want = strlen(text);

    for (size_t i = 0; i + want <= len; i++)
        if (strncasecmp(bytes + i, text, want) == 0)
            return true;
    return false;
}

static rule *rule_for(proxy *p, int way, const char *bytes, size_t len)
{
    for (int i = 0; i < RULES_MOST; i++) {
        rule             *r = &p->rules[i];
        const proxy_rule *is = &r->is;
        if (!r->used || is->way != way || (is->times > 0 && r->hits >= is->times))
            continue;
        if (is->match && !piece_has(bytes, len, is->match))
            continue;
        if (r->seen++ < is->skip || (is->per_mille > 0 && random_below(p, 1000) >= is->per_mille))
            continue;
        r->hits++;
        pthread_cond_broadcast(&p->moved);
        return r;
    }
    return NULL;
}

static void cut_begin(pipe_way *w, const proxy_rule *is)
{
    w->cut_left = is->bytes;
    w->cut_end = is->end;
}

/* A piece while a cut counts down. */
static void piece_cut(pipe_way *w, const char *bytes, size_t len)
{
    size_t most = (int64_t)len < w->cut_left ? len : (size_t)w->cut_left;
    piece *n = piece_put(w, bytes, most, 0);

    w->cut_left -= (int64_t)most;
    if (w->cut_left == 0) {
        n->last = true;
        n->end = w->cut_end;
        w->ending = true;
    }
}

static void piece_take(proxy *p, pipe_way *w, int way, const char *bytes, size_t len)
{
    rule *r = w->cut_left >= 0 ? NULL : rule_for(p, way, bytes, len);

    if (r && r->is.what == PROXY_CUT)
        cut_begin(w, &r->is);
    if (w->cut_left >= 0) {
        piece_cut(w, bytes, len);
        return;
    }
    if (!r) {
        piece_put(w, bytes, len, 0);
        return;
    }
    switch (r->is.what) {
    case PROXY_DELAY:
        piece_put(w, bytes, len, clock_us() + (r->is.delay_ms + random_below(p, r->is.jitter_ms + 1)) * 1000);
        break;
    case PROXY_HOLD:
        piece_put(w, bytes, len, NEVER);
        break;
    case PROXY_REPLACE:
        piece_put(w, r->is.with, r->is.with_len, 0);
        break;
    case PROXY_STALL:
        piece_put(w, bytes, len, 0);
        w->stalled = true;
        break;
    default:
        break;
    }
}

/* ------------------------------------------------------------------ moving bytes ------------------------------ */

static int other(int way)
{
    return way == PROXY_UP ? PROXY_DOWN : PROXY_UP;
}

/* What goes `way` is read from the socket of the other side. */
static void conn_read(proxy *p, conn *c, int way)
{
    pipe_way *w = &c->way[way];
    ssize_t   n = recv(c->fd[other(way)], p->buffer, sizeof(p->buffer), 0);

    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        w->over = true;
        return;
    }
    p->bytes[way] += n;
    p->pieces[way]++;
    piece_take(p, w, way, p->buffer, (size_t)n);
}

/* Writes what is due; false where the connection has ended. */
static bool conn_write(conn *c, int way, int64_t now_us)
{
    pipe_way *w = &c->way[way];
    int      *to = &c->fd[way];

    while (w->first && w->first->due_us <= now_us) {
        piece  *f = w->first;
        ssize_t n = 0;
        if (f->done < f->len && *to >= 0)
            n = send(*to, f->bytes + f->done, f->len - f->done, MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == EINPROGRESS || errno == ENOTCONN))
            return true;
        if (n < 0)
            close_as(to, PROXY_FIN); /* the receiver is gone: the rest goes nowhere */
        f->done = *to < 0 ? f->len : f->done + (size_t)n;
        if (f->done < f->len)
            continue;
        bool last = f->last;
        int  end = f->end;
        w->first = f->next;
        w->waiting -= f->len;
        if (!w->first)
            w->tail = &w->first;
        free(f);
        if (last) {
            conn_close(c, end);
            return false;
        }
    }
    return true;
}

/* Passes the end of a sender on, once all that it sent has gone. */
static void conn_settle(conn *c)
{
    for (int way = PROXY_UP; way <= PROXY_DOWN; way++) {
        pipe_way *w = &c->way[way];
        if (!w->over || w->first || w->told)
            continue;
        w->told = true;
        if (c->fd[way] >= 0)
            shutdown(c->fd[way], SHUT_WR);
    }
    /* A server that has ended has nothing more to say. One whose client has ended will end. */
    if (c->way[PROXY_DOWN].told)
        conn_close(c, PROXY_FIN);
}

static void conn_accept(proxy *p)
{
    int fd = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), yes = 1;

    if (fd < 0)
        return;
    p->accepted++;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes));
    for (int i = 0; i < LINKS_MOST; i++) {
        conn *c = &p->links[i];
        if (c->used)
            continue;
        *c = (conn){.used = true};
        c->fd[PROXY_DOWN] = fd;
        c->fd[PROXY_UP] = connect_up(p->upstream);
        for (int way = PROXY_UP; way <= PROXY_DOWN; way++) {
            c->way[way].cut_left = -1;
            c->way[way].tail = &c->way[way].first;
        }
        if (c->fd[PROXY_UP] < 0)
            conn_close(c, PROXY_RST);
        return;
    }
    close_as(&fd, PROXY_RST);
}

/* ------------------------------------------------------------------ the thread -------------------------------- */

/* What to poll of one side of a connection: the way that is read from it, and the way that is written to it. */
static short events_of(const conn *c, int side, int64_t now_us)
{
    const pipe_way *in = &c->way[other(side)], *out = &c->way[side];
    short           events = 0;

    if (c->fd[side] < 0)
        return 0;
    if (!in->over && !in->ending && !in->stalled && in->waiting < WAITING_MOST)
        events |= POLLIN;
    if (out->first && out->first->due_us <= now_us)
        events |= POLLOUT;
    return events;
}

static int64_t next_due_us(const proxy *p, int64_t now_us)
{
    int64_t next_us = now_us + 1000000;

    for (int i = 0; i < LINKS_MOST; i++) {
        for (int way = PROXY_UP; p->links[i].used && way <= PROXY_DOWN; way++) {
            const piece *f = p->links[i].way[way].first;
            if (f && f->due_us > now_us && f->due_us < next_us)
                next_us = f->due_us;
        }
    }
    return next_us;
}

static void conn_step(conn *c, int64_t now_us)
{
    if (!conn_write(c, PROXY_UP, now_us) || !conn_write(c, PROXY_DOWN, now_us))
        return;
    /* Where the receiver is gone and nothing is held for the other, there is nobody left to serve. */
    if (c->fd[PROXY_UP] < 0 || (c->fd[PROXY_DOWN] < 0 && !c->way[PROXY_UP].first)) {
        conn_close(c, PROXY_FIN);
        return;
    }
    conn_settle(c);
}

static size_t poll_fill(proxy *p, struct pollfd *polled, int *whose, int64_t now_us)
{
    size_t n = 2;

    polled[0] = (struct pollfd){.fd = p->wake, .events = POLLIN};
    polled[1] = (struct pollfd){.fd = p->listener, .events = POLLIN};
    for (int i = 0; i < LINKS_MOST; i++) {
        for (int side = PROXY_UP; p->links[i].used && side <= PROXY_DOWN; side++) {
            short events = events_of(&p->links[i], side, now_us);
            if (events == 0)
                continue; /* a hang-up alone would make poll() spin */
            polled[n] = (struct pollfd){.fd = p->links[i].fd[side], .events = events};
            whose[n++] = i * 4 + side;
        }
    }
    return n;
}

static void step(proxy *p, const struct pollfd *polled, const int *whose, size_t n)
{
    uint64_t count;

    if (polled[0].revents && read(p->wake, &count, sizeof(count)) < 0 && errno != EAGAIN)
        die("eventfd");
    if (polled[1].revents && polled[1].fd == p->listener)
        conn_accept(p);
    for (size_t i = 2; i < n; i++) {
        conn *c = &p->links[whose[i] / 4];
        int   side = whose[i] % 4;
        if (c->used && c->fd[side] == polled[i].fd && (polled[i].revents & (POLLIN | POLLHUP | POLLERR)) &&
            (polled[i].events & POLLIN))
            conn_read(p, c, other(side));
    }
    for (int i = 0; i < LINKS_MOST; i++)
        if (p->links[i].used)
            conn_step(&p->links[i], clock_us());
}

static void *run(void *arg)
{
    proxy         *p = arg;
    struct pollfd *polled = calloc(2 + 2 * LINKS_MOST, sizeof(*polled));
    int           *whose = calloc(2 + 2 * LINKS_MOST, sizeof(*whose));

    if (!polled || !whose)
        die("no memory");
    pthread_mutex_lock(&p->mutex);
    while (!p->ending) {
        int64_t now_us = clock_us();
        size_t  n = poll_fill(p, polled, whose, now_us);
        int64_t left_ms = (next_due_us(p, now_us) - now_us + 999) / 1000;
        pthread_mutex_unlock(&p->mutex);
        poll(polled, n, (int)left_ms);
        pthread_mutex_lock(&p->mutex);
        step(p, polled, whose, n);
    }
    pthread_mutex_unlock(&p->mutex);
    free(polled);
    free(whose);
    return NULL;
}

static void wake(proxy *p)
{
    uint64_t one = 1;

    if (write(p->wake, &one, sizeof(one)) < 0 && errno != EAGAIN)
        die("eventfd");
}

/* ------------------------------------------------------------------ for the test ------------------------------ */

proxy *proxy_start(const char *upstream)
{
    proxy             *p = calloc(1, sizeof(*p));
    pthread_condattr_t attr;
    sigset_t           all, old;

    if (!p)
        die("no memory");
    snprintf(p->upstream, sizeof(p->upstream), "%s", upstream);
    pthread_mutex_init(&p->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&p->moved, &attr);
    p->rng = (uint64_t)clock_us();
    p->listener = listen_on(0);
    p->port = port_of(p->listener);
    p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    if (p->wake < 0 || pthread_create(&p->thread, NULL, run, p) != 0)
        die("cannot start");
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return p;
}

void proxy_end(proxy *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->mutex);
    p->ending = true;
    pthread_mutex_unlock(&p->mutex);
    wake(p);
    pthread_join(p->thread, NULL);
    for (int i = 0; i < LINKS_MOST; i++)
        if (p->links[i].used)
            conn_close(&p->links[i], PROXY_RST);
    if (p->listener >= 0)
        close(p->listener);
    close(p->wake);
    pthread_cond_destroy(&p->moved);
    pthread_mutex_destroy(&p->mutex);
    free(p);
}

int proxy_port(const proxy *p)
{
    return p->port;
}

int proxy_add(proxy *p, const proxy_rule *is)
{
    int number = -1;

    pthread_mutex_lock(&p->mutex);
    for (int i = 0; i < RULES_MOST && number < 0; i++)
        if (!p->rules[i].used)
            p->rules[number = i] = (rule){.used = true, .is = *is};
    pthread_mutex_unlock(&p->mutex);
    if (number < 0) {
        errno = ENOSPC;
        die("too many rules");
    }
    return number;
}

void proxy_remove(proxy *p, int number)
{
    pthread_mutex_lock(&p->mutex);
    p->rules[number].used = false;
    pthread_mutex_unlock(&p->mutex);
}

void proxy_clear(proxy *p)
{
    pthread_mutex_lock(&p->mutex);
    for (int i = 0; i < RULES_MOST; i++)
        p->rules[i].used = false;
    for (int i = 0; i < LINKS_MOST; i++)
        p->links[i].way[PROXY_UP].stalled = p->links[i].way[PROXY_DOWN].stalled = false;
    pthread_mutex_unlock(&p->mutex);
    wake(p);
}

int proxy_hits(proxy *p, int number)
{
    pthread_mutex_lock(&p->mutex);
    int hits = p->rules[number].hits;
    pthread_mutex_unlock(&p->mutex);
    return hits;
}

bool proxy_await(proxy *p, int number, int count, int64_t wait_ms)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(wait_ms / 1000);
    until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&p->mutex);
    while (p->rules[number].hits < count && pthread_cond_timedwait(&p->moved, &p->mutex, &until) != ETIMEDOUT)
        continue;
    bool there = p->rules[number].hits >= count;
    pthread_mutex_unlock(&p->mutex);
    return there;
}

void proxy_let_go(proxy *p)
{
    pthread_mutex_lock(&p->mutex);
    for (int i = 0; i < LINKS_MOST; i++) {
        for (int way = PROXY_UP; p->links[i].used && way <= PROXY_DOWN; way++) {
            for (piece *f = p->links[i].way[way].first; f; f = f->next)
                if (f->due_us == NEVER)
                    f->due_us = 0;
            p->links[i].way[way].last_due_us = 0;
        }
    }
    pthread_mutex_unlock(&p->mutex);
    wake(p);
}

void proxy_drop(proxy *p, int end)
{
    pthread_mutex_lock(&p->mutex);
    for (int i = 0; i < LINKS_MOST; i++)
        if (p->links[i].used)
            conn_close(&p->links[i], end);
    pthread_mutex_unlock(&p->mutex);
    wake(p);
}

void proxy_drop_clients(proxy *p, int end)
{
    pthread_mutex_lock(&p->mutex);
    for (int i = 0; i < LINKS_MOST; i++) {
        conn *c = &p->links[i];
        if (!c->used)
            continue;
        close_as(&c->fd[PROXY_DOWN], end);
        pipe_empty(&c->way[PROXY_DOWN]);
    }
    pthread_mutex_unlock(&p->mutex);
    wake(p);
}

void proxy_refuse(proxy *p, bool refuse)
{
    pthread_mutex_lock(&p->mutex);
    if (refuse && p->listener >= 0) {
        shutdown(p->listener, SHUT_RDWR); /* our thread may be polling it, and a close alone would wait for that */
        close(p->listener);
        p->listener = -1;
    } else if (!refuse && p->listener < 0) {
        p->listener = listen_on(p->port);
    }
    pthread_mutex_unlock(&p->mutex);
    wake(p);
}

proxy_figures proxy_look(proxy *p)
{
    proxy_figures f = {0};

    pthread_mutex_lock(&p->mutex);
    for (int i = 0; i < LINKS_MOST; i++)
        f.connections += p->links[i].used && p->links[i].fd[PROXY_DOWN] >= 0 && !p->links[i].way[PROXY_UP].over;
    f.accepted = p->accepted;
    memcpy(f.bytes, p->bytes, sizeof(f.bytes));
    memcpy(f.pieces, p->pieces, sizeof(f.pieces));
    pthread_mutex_unlock(&p->mutex);
    return f;
}
