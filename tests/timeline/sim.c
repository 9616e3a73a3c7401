/* SPDX-License-Identifier: MIT */
/* The clock, the peers and the log of a simulated world; its network is in net.c. */
#include "timeline/sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/id.h"
#include "core/client.h"
#include "timeline/net.h"

#define LOG_MAX (1024 * 1024)

static struct {
    int64_t  now_us;
    uint64_t state;
    bool     quiet;
    char    *log;
    size_t   used;
    sim_peer peers[SIM_PEERS];
    size_t   peer_count;
} sim;

/* The first fence must be above 0. */
static int64_t sim_wall_us(void)
{
    return sim.now_us + 1;
}

static int64_t sim_now_us(void)
{
    return sim.now_us;
}

static uint64_t next_random(void)
{
    sim.state ^= sim.state << 13;
    sim.state ^= sim.state >> 7;
    sim.state ^= sim.state << 17;
    return sim.state;
}

static bool fill(void *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ((unsigned char *)bytes)[i] = (unsigned char)(next_random() >> 24);
    return true;
}

uint64_t sim_random(uint64_t bound)
{
    return bound > 0 ? (next_random() >> 16) % bound : 0;
}

void sim_begin(uint64_t seed, bool quiet)
{
    static const hf__clock clock = {sim_now_us, sim_wall_us};

    memset(&sim, 0, sizeof sim);
    sim.state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    sim.quiet = quiet;
    sim.log = calloc(1, LOG_MAX);
    hf__clock_replace(&clock);
    hf__random_replace(fill);
    net_begin();
}

void sim_end(void)
{
    net_abandon();
    for (size_t i = 0; i < sim.peer_count; i++) {
        sim.peers[i].stopped = false;
        hf_close(sim.peers[i].client, 0);
    }
    net_end();
    free(sim.log);
    hf__clock_replace(NULL);
    hf__random_replace(NULL);
}

sim_peer *sim_peer_get(char letter, int64_t watchdog_ms)
{
    char      url[16];
    sim_peer *peer;
    hf_error  err;

    for (size_t i = 0; i < sim.peer_count; i++)
        if (sim.peers[i].letter == letter)
            return &sim.peers[i];
    if (sim.peer_count == SIM_PEERS)
        abort();
    peer = &sim.peers[sim.peer_count++];
    peer->letter = letter;
    snprintf(url, sizeof url, "net:%c", letter);
    if (hf__client_open(&peer->client, url, HF_CLIENT_OPTIONS(.watchdog_ms = watchdog_ms, .server_timeout_ms = 200),
                        true, &err) != HF_OK) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    return peer;
}

int64_t sim_now_ms(void)
{
    return sim.now_us / HF_US_PER_MS;
}

static bool runs(const sim_peer *peer)
{
    return !peer->stopped && !peer->killed;
}

static int64_t peers_step(void)
{
    int64_t next_us = HF_NEVER_US;

    for (size_t i = 0; i < sim.peer_count; i++) {
        int64_t peer_us = runs(&sim.peers[i]) ? hf__client_step(sim.peers[i].client) : HF_NEVER_US;
        if (peer_us < next_us)
            next_us = peer_us;
    }
    return next_us;
}

/* Everything that is due now, until nothing is; returns when something will be. */
static int64_t settle(void)
{
    int64_t peers_us, net_us;

    do {
        net_step();
        peers_us = peers_step();
        net_us = net_next(); /* the peers may have sent something */
    } while (peers_us <= sim.now_us || net_us <= sim.now_us);
    return peers_us < net_us ? peers_us : net_us;
}

void sim_run(int64_t until_ms)
{
    int64_t until_us = until_ms * HF_US_PER_MS;
    int64_t next_us;

    while ((next_us = settle()) <= until_us)
        sim.now_us = next_us;
    if (until_us > sim.now_us)
        sim.now_us = until_us;
}

void sim_continue(sim_peer *peer)
{
    peer->stopped = false;
}

void sim_log(char letter, const char *format, ...)
{
    va_list args;
    size_t  room = LOG_MAX - sim.used;

    if (sim.quiet || room < 400)
        return;
    sim.used += (size_t)snprintf(sim.log + sim.used, room, "%6lld %c ", (long long)sim_now_ms(), letter);
    va_start(args, format);
    sim.used += (size_t)vsnprintf(sim.log + sim.used, LOG_MAX - sim.used, format, args);
    va_end(args);
    sim.log[sim.used++] = '\n';
}

const char *sim_text(void)
{
    return sim.log;
}

sim_peer *sim_peer_by_letter(char letter)
{
    for (size_t i = 0; i < sim.peer_count; i++)
        if (sim.peers[i].letter == letter)
            return &sim.peers[i];
    return NULL;
}
