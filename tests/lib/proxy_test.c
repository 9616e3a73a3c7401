/* SPDX-License-Identifier: MIT */
/* The proxy itself: it does to bytes what it is told, before an echoing server and one that notes what it gets. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/proxy.h"

/* A server that sends back what it gets, and keeps a note of all of it. */
typedef struct echo {
    pthread_t       thread;
    pthread_mutex_t mutex;
    int             listener, port;
    char            got[4096];
    size_t          len;
    int             ends; /* connections that ended */
} echo;

static echo server;

static int64_t clock_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void rest(long ms)
{
    struct timespec t = {.tv_nsec = ms * 1000000};

    nanosleep(&t, NULL);
}

static bool echo_once(int fd)
{
    char    bytes[1024];
    ssize_t n = read(fd, bytes, sizeof(bytes));

    pthread_mutex_lock(&server.mutex);
    if (n > 0 && server.len + (size_t)n < sizeof(server.got)) {
        memcpy(server.got + server.len, bytes, (size_t)n);
        server.len += (size_t)n;
        server.got[server.len] = '\0';
    }
    if (n <= 0)
        server.ends++;
    pthread_mutex_unlock(&server.mutex);
    return n > 0 && send(fd, bytes, (size_t)n, MSG_NOSIGNAL) == n;
}

static void *echo_run(void *arg)
{
    struct pollfd fds[64] = {{.fd = server.listener, .events = POLLIN}};
    int           n = 1;

    (void)arg;
    while (poll(fds, (nfds_t)n, -1) >= 0) {
        for (int i = 1; i < n; i++) {
            if (!fds[i].revents || echo_once(fds[i].fd))
                continue;
            close(fds[i].fd);
            fds[i--] = fds[--n];
        }
        if (fds[0].revents && n < 64)
            fds[n++] = (struct pollfd){.fd = accept(server.listener, NULL, NULL), .events = POLLIN};
    }
    return NULL;
}

static int begin(void **state)
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    socklen_t          len = sizeof(a);

    (void)state;
    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    pthread_mutex_init(&server.mutex, NULL);
    server.listener = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(server.listener, (struct sockaddr *)&a, sizeof(a)) != 0 || listen(server.listener, 64) != 0)
        return -1;
    getsockname(server.listener, (struct sockaddr *)&a, &len);
    server.port = ntohs(a.sin_port);
    return pthread_create(&server.thread, NULL, echo_run, NULL);
}

static int end(void **state)
{
    (void)state;
    pthread_cancel(server.thread);
    pthread_join(server.thread, NULL);
    close(server.listener);
    return 0;
}

static bool server_has(const char *text)
{
    pthread_mutex_lock(&server.mutex);
    bool has = strstr(server.got, text) != NULL;
    pthread_mutex_unlock(&server.mutex);
    return has;
}

static bool server_comes_to_have(const char *text)
{
    for (int i = 0; i < 1000 && !server_has(text); i++)
        rest(5);
    return server_has(text);
}

static proxy *front(void)
{
    char upstream[32];

    pthread_mutex_lock(&server.mutex);
    server.len = 0;
    server.got[0] = '\0';
    server.ends = 0;
    pthread_mutex_unlock(&server.mutex);
    snprintf(upstream, sizeof(upstream), "127.0.0.1:%d", server.port);
    return proxy_start(upstream);
}

static int client(proxy *p)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)proxy_port(p))};
    struct timeval     five = {.tv_sec = 5};
    int                fd = socket(AF_INET, SOCK_STREAM, 0);

    a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &five, sizeof(five));
    if (connect(fd, (struct sockaddr *)&a, sizeof(a)) == 0)
        return fd;
    close(fd);
    return -1;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

/* Reads as much as `text` has, and compares. */
static void hear(int fd, const char *text)
{
    char   got[256];
    size_t len = 0;

    while (len < strlen(text)) {
        ssize_t n = recv(fd, got + len, strlen(text) - len, 0);
        assert_true(n > 0);
        len += (size_t)n;
    }
    got[len] = '\0';
    assert_string_equal(got, text);
}

static bool silent(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, ms) == 0;
}

/* 0 for an orderly end, the error otherwise. */
static int end_of(int fd)
{
    char    byte;
    ssize_t n = recv(fd, &byte, 1, 0);

    assert_true(n <= 0);
    return n == 0 ? 0 : errno;
}

static void passes(void **state)
{
    proxy *p = front();
    int    a = client(p), b = client(p);

    (void)state;
    say(a, "one");
    say(b, "two");
    hear(a, "one");
    hear(b, "two");
    proxy_figures f = proxy_look(p);
    assert_int_equal(f.connections, 2);
    assert_int_equal(f.bytes[PROXY_UP], 6);
    assert_int_equal(f.bytes[PROXY_DOWN], 6);
    close(a);
    close(b);
    for (int i = 0; i < 1000 && proxy_look(p).connections; i++)
        rest(5);
    assert_int_equal(proxy_look(p).connections, 0);
    assert_int_equal(proxy_look(p).accepted, 2);
    proxy_end(p);
}

static void delays_in_order(void **state)
{
    proxy  *p = front();
    int     fd = client(p);
    int64_t from = clock_ms();

    (void)state;
    proxy_add(p, &(proxy_rule){.way = PROXY_DOWN, .what = PROXY_DELAY, .delay_ms = 150, .times = 1});
    say(fd, "late");
    assert_true(silent(fd, 50));
    say(fd, "then");
    hear(fd, "latethen");
    assert_true(clock_ms() - from >= 140);
    close(fd);
    proxy_end(p);
}

static void holds_only_what_matches(void **state)
{
    proxy *p = front();
    int    a = client(p), b = client(p);
    int    r = proxy_add(p, &(proxy_rule){.way = PROXY_UP, .what = PROXY_HOLD, .match = "SECRET", .times = 1});

    (void)state;
    say(a, "a secret");
    assert_true(proxy_await(p, r, 1, 5000));
    say(b, "a secret too"); /* once only */
    hear(b, "a secret too");
    assert_false(server_has("a secreta"));
    close(a); /* what is held outlives its sender */
    rest(30);
    proxy_let_go(p);
    assert_true(server_comes_to_have("a secret tooa secret"));
    proxy_add(p, &(proxy_rule){.way = PROXY_UP, .what = PROXY_HOLD, .match = "kept", .times = 1});
    say(b, "kept");
    rest(30);
    proxy_drop_clients(p, PROXY_RST);
    assert_int_equal(end_of(b), ECONNRESET);
    assert_false(server_has("kept"));
    proxy_let_go(p);
    assert_true(server_comes_to_have("kept"));
    close(b);
    proxy_end(p);
}

static void swallows_and_replaces(void **state)
{
    proxy *p = front();
    int    fd = client(p);
    int    r = proxy_add(p, &(proxy_rule){.way = PROXY_DOWN, .what = PROXY_SWALLOW, .skip = 1, .times = 1});

    (void)state;
    say(fd, "first");
    hear(fd, "first");
    say(fd, "second");
    assert_true(proxy_await(p, r, 1, 5000));
    assert_true(server_has("second"));
    proxy_add(p, &(proxy_rule){.way = PROXY_DOWN, .what = PROXY_REPLACE, .with = "other", .with_len = 5, .times = 1});
    say(fd, "third");
    hear(fd, "other");
    say(fd, "fourth");
    hear(fd, "fourth");
    close(fd);
    proxy_end(p);
}

static void carries_out_and_drops_the_reply(void **state)
{
    proxy *p = front();
    int    fd = client(p);

    (void)state;
    proxy_add(p, &(proxy_rule){.way = PROXY_DOWN, .what = PROXY_CUT, .bytes = 0, .times = 1});
    say(fd, "done");
    assert_int_equal(end_of(fd), 0);
    assert_true(server_has("done"));
    close(fd);
    fd = client(p);
    proxy_add(p, &(proxy_rule){.way = PROXY_DOWN, .what = PROXY_CUT, .bytes = 0, .times = 1, .end = PROXY_RST});
    say(fd, "again");
    assert_int_equal(end_of(fd), ECONNRESET);
    close(fd);
    proxy_end(p);
}

static void cuts_at_a_byte(void **state)
{
    proxy *p = front();
    int    fd = client(p);

    (void)state;
    proxy_add(p, &(proxy_rule){.way = PROXY_UP, .what = PROXY_CUT, .bytes = 5, .times = 1});
    say(fd, "abc");
    hear(fd, "abc");
    say(fd, "defgh");
    assert_true(server_comes_to_have("abcde"));
    rest(20);
    assert_false(server_has("abcdef"));
    close(fd);
    fd = client(p);
    proxy_add(p, &(proxy_rule){.way = PROXY_DOWN, .what = PROXY_CUT, .bytes = 2, .times = 1});
    say(fd, "xyz");
    hear(fd, "xy");
    assert_int_equal(end_of(fd), 0);
    close(fd);
    proxy_end(p);
}

static void drops_and_refuses(void **state)
{
    proxy *p = front();
    int    fd = client(p);

    (void)state;
    say(fd, "x");
    hear(fd, "x");
    proxy_drop(p, PROXY_RST);
    assert_int_equal(end_of(fd), ECONNRESET);
    close(fd);
    proxy_refuse(p, true);
    assert_int_equal(client(p), -1);
    proxy_refuse(p, false);
    fd = client(p);
    say(fd, "y");
    hear(fd, "y");
    close(fd);
    proxy_end(p);
}

static void stalls(void **state)
{
    enum { MUCH = 8 << 20 };
    proxy         *p = front();
    int            fd = client(p);
    char          *much = calloc(1, MUCH);
    struct timeval soon = {.tv_usec = 300000};

    (void)state;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &soon, sizeof(soon));
    proxy_add(p, &(proxy_rule){.way = PROXY_UP, .what = PROXY_STALL, .times = 1});
    assert_true(send(fd, much, MUCH, MSG_NOSIGNAL) < MUCH); /* the buffers are full, and nobody reads */
    assert_true(proxy_look(p).bytes[PROXY_UP] <= 65536);
    free(much);
    close(fd);
    proxy_end(p);
}

static void strikes_at_random(void **state)
{
    proxy *p = front();
    int    r = proxy_add(p, &(proxy_rule){.way = PROXY_DOWN, .what = PROXY_CUT, .per_mille = 300});
    int    ended = 0;

    (void)state;
    for (int i = 0; i < 200; i++) {
        int fd = client(p);
        say(fd, "?");
        char byte;
        ended += recv(fd, &byte, 1, 0) == 0;
        close(fd);
    }
    assert_int_equal(proxy_hits(p, r), ended);
    assert_in_range(ended, 20, 120);
    proxy_end(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes),
        cmocka_unit_test(delays_in_order),
        cmocka_unit_test(holds_only_what_matches),
        cmocka_unit_test(swallows_and_replaces),
        cmocka_unit_test(carries_out_and_drops_the_reply),
        cmocka_unit_test(cuts_at_a_byte),
        cmocka_unit_test(drops_and_refuses),
        cmocka_unit_test(stalls),
        cmocka_unit_test(strikes_at_random),
    };
    return cmocka_run_group_tests_name("proxy", tests, begin, end);
}
