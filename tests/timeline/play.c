/* SPDX-License-Identifier: MIT */
/*
 * Plays a trace file: a script of what happens when, a line "--", and the whole expected log. It fails where they
 * differ, and prints both. `play --print FILE` prints the log only.
 *
 *      <ms> <peer> open watchdog=<ms>
 *      <ms> <peer> acquire <kind> <name> [wait=<ms>|forever] [lease= max= min= weight= limit= fair]
 *      <ms> <peer> release|cancel|left <kind> <name>
 *      <ms> <peer> break - <name>
 *      <ms> <peer> stop|cont|kill
 *      <ms> <peer> net [out= in= news= lose-requests= lose-replies= lose-news= late= cuts=]
 *      <ms> - unordered
 *      <ms> - end
 *
 * A kind is mutex, reader, writer or semaphore. The options of a handle are those of its first mention. Several handles
 * of a peer for one name differ by what follows a # (n#1, n#2). "unordered": see sim_unordered().
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <holdfast.h>

#include "timeline/sim.h"

#define HANDLES 64
#define LINE_SIZE 400

typedef struct handle {
    sim_peer *peer;
    char      kind[16], name[32];
    hf_lock  *lock;
} handle;

static handle handles[HANDLES];
static size_t handle_count;

/* The value of key= in a line; `otherwise` where it is not there. */
static int64_t value_of(const char *line, const char *key, int64_t otherwise)
{
    char        wanted[32];
    const char *at;

    snprintf(wanted, sizeof wanted, " %s=", key);
    at = strstr(line, wanted);
    if (at == NULL)
        return otherwise;
    at += strlen(wanted);
    return strncmp(at, "forever", 7) == 0 ? HF_FOREVER : atoll(at);
}

static void told_lost(hf_lock *lock, void *arg)
{
    handle *h = arg;

    (void)lock;
    sim_log(h->peer->letter, "lost %s", h->name);
}

static hf_lock *make(const handle *h, const char *line, hf_error *err)
{
    hf_lock   *lock = NULL;
    hf_options options = HF_OPTIONS_INIT;
    char       name[sizeof h->name];

    snprintf(name, sizeof name, "%.*s", (int)strcspn(h->name, "#"), h->name);

    options.owner = HF_OWNER_HANDLE;
    options.lease_ms = value_of(line, "lease", 0);
    options.max_hold_ms = value_of(line, "max", 0);
    options.min_hold_ms = value_of(line, "min", 0);
    options.weight = value_of(line, "weight", 0);
    options.fair = strstr(line, " fair") != NULL;
    options.lost = told_lost;
    options.lost_arg = (void *)h;
    if (strcmp(h->kind, "mutex") == 0)
        hf_mutex(&lock, h->peer->client, name, &options, err);
    else if (strcmp(h->kind, "reader") == 0)
        hf_reader(&lock, h->peer->client, name, &options, err);
    else if (strcmp(h->kind, "writer") == 0)
        hf_writer(&lock, h->peer->client, name, &options, err);
    else
        hf_semaphore(&lock, h->peer->client, name, value_of(line, "limit", 1), &options, err);
    return lock;
}

static handle *handle_get(sim_peer *peer, const char *kind, const char *name, const char *line)
{
    hf_error err;
    handle  *h;

    for (size_t i = 0; i < handle_count; i++)
        if (handles[i].peer == peer && strcmp(handles[i].kind, kind) == 0 && strcmp(handles[i].name, name) == 0)
            return &handles[i];
    h = &handles[handle_count++];
    h->peer = peer;
    snprintf(h->kind, sizeof h->kind, "%s", kind);
    snprintf(h->name, sizeof h->name, "%s", name);
    h->lock = make(h, line, &err);
    if (h->lock == NULL) {
        fprintf(stderr, "%s: %s\n", line, err.text);
        exit(2);
    }
    return h;
}

static void acquired(hf_lock *lock, int status, const hf_grant *grant, const hf_error *err, void *arg)
{
    handle *h = arg;

    (void)lock;
    (void)err;
    if (status == HF_OK)
        sim_log(h->peer->letter, "acquire %s: ours, fence=%lld left=%lld waited=%lld", h->name, (long long)grant->fence,
                (long long)grant->left_ms, (long long)grant->waited_us / 1000);
    else
        sim_log(h->peer->letter, "acquire %s: %s", h->name, hf_status_name(status));
}

static void released(hf_lock *lock, int status, const hf_grant *grant, const hf_error *err, void *arg)
{
    handle *h = arg;

    (void)lock;
    (void)grant;
    (void)err;
    sim_log(h->peer->letter, "release %s: %s", h->name, hf_status_name(status));
}

static void set_net(sim_net *n, const char *line)
{
    n->out_ms = value_of(line, "out", n->out_ms);
    n->in_ms = value_of(line, "in", n->in_ms);
    n->news_ms = value_of(line, "news", n->news_ms);
    n->late_ms = value_of(line, "late", 0);
    n->lose_requests = (int)value_of(line, "lose-requests", 0);
    n->cuts = (int)value_of(line, "cuts", 0);
    n->lose_replies = (int)value_of(line, "lose-replies", 0);
    n->lose_news = (int)value_of(line, "lose-news", 0);
}

static void do_verb(sim_peer *peer, const char *verb, const char *kind, const char *name, const char *line)
{
    if (strcmp(verb, "stop") == 0)
        peer->stopped = true;
    else if (strcmp(verb, "cont") == 0)
        sim_continue(peer);
    else if (strcmp(verb, "kill") == 0)
        peer->killed = true;
    else if (strcmp(verb, "net") == 0)
        set_net(&peer->net, line);
    else if (strcmp(verb, "break") == 0)
        sim_break(name);
    else if (strcmp(verb, "acquire") == 0)
        hf_acquire_start(handle_get(peer, kind, name, line)->lock, value_of(line, "wait", 0), acquired,
                         handle_get(peer, kind, name, line));
    else if (strcmp(verb, "release") == 0)
        hf_release_start(handle_get(peer, kind, name, line)->lock, released, handle_get(peer, kind, name, line));
    else if (strcmp(verb, "cancel") == 0)
        hf_cancel(handle_get(peer, kind, name, line)->lock);
    else if (strcmp(verb, "left") == 0)
        sim_log(peer->letter, "left %s: %lld", name, (long long)hf_left(handle_get(peer, kind, name, line)->lock));
    else if (strcmp(verb, "open") != 0)
        exit((fprintf(stderr, "no such verb: %s\n", line), 2));
}

static void play_line(const char *line)
{
    long long at_ms;
    char      letter, verb[16] = "", kind[16] = "", name[32] = "";

    if (line[0] == '#' || line[0] == '\0')
        return;
    if (sscanf(line, "%lld %c %15s %15s %31s", &at_ms, &letter, verb, kind, name) < 3)
        exit((fprintf(stderr, "not a line of a script: %s\n", line), 2));
    if (at_ms < sim_now_ms())
        exit((fprintf(stderr, "back in time: %s\n", line), 2));
    sim_run(at_ms);
    if (strcmp(verb, "unordered") == 0)
        sim_unordered();
    if (letter != '-')
        do_verb(sim_peer_get(letter, value_of(line, "watchdog", 3000)), verb, kind, name, line);
    sim_run(at_ms);
}

/* Plays the script in `text`; returns where the expected log begins, or NULL. */
static char *play(char *text)
{
    for (char *line = text; line != NULL && *line != '\0';) {
        char *end = strchr(line, '\n');
        if (end != NULL)
            *end++ = '\0';
        if (strcmp(line, "--") == 0)
            return end;
        play_line(line);
        line = end;
    }
    return NULL;
}

static char *read_whole(const char *path)
{
    FILE  *file = fopen(path, "r");
    char  *text = calloc(1, 65536);
    size_t got = file != NULL ? fread(text, 1, 65535, file) : 0;

    if (file == NULL || got == 0)
        exit((perror(path), 2));
    fclose(file);
    return text;
}

int main(int argc, char **argv)
{
    bool  print = argc == 3 && strcmp(argv[1], "--print") == 0;
    char *text, *expected;
    int   result = 0;

    if (argc < 2)
        exit((fprintf(stderr, "usage: play [--print] FILE\n"), 2));
    text = read_whole(argv[argc - 1]);
    sim_begin(1, false);
    expected = play(text);
    if (print) {
        printf("%s", sim_text());
    } else if (expected == NULL || strcmp(expected, sim_text()) != 0) {
        printf("expected:\n%s\nseen:\n%s", expected != NULL ? expected : "(nothing)\n", sim_text());
        result = 1;
    }
    sim_end();
    for (size_t i = 0; i < handle_count; i++)
        hf_free(handles[i].lock);
    free(text);
    return result;
}
