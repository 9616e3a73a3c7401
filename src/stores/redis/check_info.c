/* SPDX-License-Identifier: MIT */
/* What a server's INFO means for locks. INFO may be asked where CONFIG may not, so as much as can be comes from it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stores/redis/check.h"

#define ALMOST_PERCENT 90

const char *hf__info_text(const char *info, const char *field, char *text, size_t size)
{
    size_t len = strlen(field);

    text[0] = '\0';
    for (const char *line = info; line != NULL; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, field, len) == 0 && line[len] == ':') {
            snprintf(text, size, "%.*s", (int)strcspn(line + len + 1, "\r\n"), line + len + 1);
            break;
        }
    }
    return text;
}

int64_t hf__info_number(const char *info, const char *field)
{
    char text[32];

    return strtoll(hf__info_text(info, field, text, sizeof text), NULL, 10);
}

static bool info_is(const char *info, const char *field, const char *value)
{
    char text[64];

    return strcmp(hf__info_text(info, field, text, sizeof text), value) == 0;
}

static void find_version(hf__check *check, const char *info)
{
    char redis[32], valkey[32], mode[32];
    long major;

    hf__info_text(info, "redis_version", redis, sizeof redis);
    hf__info_text(info, "valkey_version", valkey, sizeof valkey);
    hf__info_text(info, "redis_mode", mode, sizeof mode);
    major = strtol(redis, NULL, 10);
    if (major < 5)
        hf__check_find(check, HF_DANGER, "server",
                       "Redis %s: before 5.0 a script that has asked for the time may not write: nothing can be taken",
                       redis);
    else
        hf__check_find(check, major < 7 ? HF_NOTABLE : HF_FINE, "server", "%s %s, up for %" PRId64 " s%s",
                       *valkey ? "Valkey" : "Redis", *valkey ? valkey : redis,
                       hf__info_number(info, "uptime_in_seconds"), major < 7 ? "; Holdfast is tested with 7.0" : "");
    if (strcmp(mode, "cluster") == 0 && !check->look->config->cluster)
        hf__check_find(check, HF_NOTABLE, "cluster",
                       "this is one node of a cluster: it refuses the names whose slots are on other nodes");
    if (info_is(info, "loading", "1"))
        hf__check_find(check, HF_DANGER, "loading",
                       "the server is still loading its data: until that is done nothing can be taken or released");
}

/* Locks have an end, so that the volatile policies throw them away first. */
static void find_eviction(hf__check *check, const char *info)
{
    char    policy[32], size[32], used[32];
    int64_t most = hf__info_number(info, "maxmemory"), now = hf__info_number(info, "used_memory");
    int64_t evicted = hf__info_number(info, "evicted_keys");
    bool    keeps;

    hf__info_text(info, "maxmemory_policy", policy, sizeof policy);
    hf__info_text(info, "maxmemory_human", size, sizeof size);
    hf__info_text(info, "used_memory_human", used, sizeof used);
    keeps = strcmp(policy, "noeviction") == 0;
    if (policy[0] == '\0')
        hf__check_find(check, HF_NOTABLE, "eviction",
                       "the server does not say its policy; with any but noeviction it may throw away held locks");
    else if (most > 0 && !keeps)
        hf__check_find(check, HF_DANGER, "eviction",
                       "%s at %s: when memory is short, the server throws away keys, held locks among them, and lets "
                       "the next one in; set maxmemory-policy noeviction, or give locks a server of their own",
                       policy, size);
    else if (!keeps)
        hf__check_find(check, HF_NOTABLE, "eviction",
                       "%s, but maxmemory is not set, so nothing is thrown away; set noeviction before it is", policy);
    else
        hf__check_find(check, HF_FINE, "eviction", "noeviction: no lock is thrown away to make room");
    if (evicted > 0)
        hf__check_find(check, keeps ? HF_NOTABLE : HF_DANGER, "evicted keys",
                       "%" PRId64 " keys were thrown away since the server started; locks may have been among them",
                       evicted);
    if (most > 0 && now > most / 100 * ALMOST_PERCENT)
        hf__check_find(
            check, HF_DANGER, "memory",
            "%s of %s used: when it is full, nothing can be taken; what is held is still renewed and released", used,
            size);
    else
        hf__check_find(check, HF_FINE, "memory", "%s used%s%s", used, most > 0 ? " of " : ", no bound set",
                       most > 0 ? size : "");
}

static void find_aof(hf__check *check, const char *fsync)
{
    if (strcmp(fsync, "always") == 0)
        hf__check_find(check, HF_FINE, "persistence",
                       "append-only file, synced always: a grant that was told survives "
                       "a crash and a power failure");
    else if (strcmp(fsync, "everysec") == 0)
        hf__check_find(check, HF_FINE, "persistence",
                       "append-only file, synced each second: locks survive a restart; a power failure forgets what "
                       "was granted in the last second or two, and lets others in beside those holders");
    else
        hf__check_find(check, HF_NOTABLE, "persistence",
                       "append-only file, %s: locks survive a restart; a power failure forgets what was granted since "
                       "the system last wrote, and lets others in beside those holders",
                       *fsync != '\0' ? "synced when the system likes" : "synced how often the server does not say");
}

/* Without a file of either kind held locks are gone after a restart, but their holders believe in them until their next
 * renewal, and others get in beside them. */
static void find_persistence(hf__check *check, const char *info)
{
    int64_t saved_s = hf__info_number(info, "rdb_last_save_time"), age_s = check->now_s - saved_s;

    if (info_is(info, "aof_enabled", "1")) {
        find_aof(check, check->fsync);
    } else if (check->saves == HF__SAVES_NEVER) {
        hf__check_find(check, HF_DANGER, "persistence",
                       "none: any restart, a planned one too, forgets every lock, and lets others in beside holders "
                       "that learn of it at their next renewal only; set appendonly yes");
    } else {
        hf__check_find(check, HF_NOTABLE, "persistence",
                       "snapshots only%s, the last %" PRId64 " s ago: a crash forgets the locks that were taken since, "
                       "and lets others in beside their holders; set appendonly yes",
                       check->saves == HF__SAVES_UNKNOWN ? " (or none at all; CONFIG is denied)" : "", age_s);
    }
    if (info_is(info, "aof_enabled", "1") && !info_is(info, "aof_last_write_status", "ok"))
        hf__check_find(check, HF_DANGER, "last write",
                       "the append-only file could not be written: the server refuses all writes, releases too");
    if (info_is(info, "rdb_last_bgsave_status", "err"))
        hf__check_find(check, HF_NOTABLE, "last snapshot",
                       "failed: with stop-writes-on-bgsave-error the server refuses all writes, releases too");
}

/* A master that is cut off from its replicas goes on granting, while another one may be made of them. */
static void find_least(hf__check *check)
{
    if (strcmp(check->least, "0") == 0)
        hf__check_find(check, HF_NOTABLE, "min-replicas",
                       "min-replicas-to-write is 0: a master that is cut off from the others goes on granting locks, "
                       "while another server may have taken over; set it to 1 or more, with a small "
                       "min-replicas-max-lag");
    else if (check->least[0] != '\0')
        hf__check_find(check, HF_FINE, "min-replicas", "min-replicas-to-write is %s", check->least);
}

/* ?replicas=. */
static void find_confirming(hf__check *check, int64_t connected)
{
    int asked = check->look->config->replicas;

    if (asked > connected)
        hf__check_find(check, HF_DANGER,
                       "replicas=", "%d must confirm a grant, and %" PRId64 " %s connected: nothing can be taken",
                       asked, connected, connected == 1 ? "is" : "are");
}

static void find_replication(hf__check *check, const char *info)
{
    int64_t replicas = hf__info_number(info, "connected_slaves");
    char    master[128];

    if (info_is(info, "role", "slave")) {
        hf__check_find(check, HF_DANGER, "replication",
                       "this is a replica of %s (link %s): it grants nothing; give the URL of its master",
                       hf__info_text(info, "master_host", master, 64),
                       hf__info_text(info, "master_link_status", master + 64, 64));
    } else if (replicas > 0) {
        hf__check_find(check, HF_NOTABLE, "replication",
                       "%" PRId64
                       " replica%s, asynchronous: what was granted right before a failover may be unknown to "
                       "the new master, which then grants it again",
                       replicas, replicas == 1 ? "" : "s");
        find_least(check);
    } else {
        hf__check_find(check, HF_FINE, "replication", "none: while this server is away, nothing can be taken");
    }
    find_confirming(check, replicas);
}

static void find_clients(hf__check *check, const char *info)
{
    int64_t now = hf__info_number(info, "connected_clients"), most = hf__info_number(info, "maxclients");
    int64_t rejected = hf__info_number(info, "rejected_connections");
    bool    almost = most > 0 && now >= most * ALMOST_PERCENT / 100;

    if (most == 0)
        hf__check_find(check, HF_FINE, "clients", "%" PRId64 " connected", now);
    else
        hf__check_find(check, almost ? HF_DANGER : HF_FINE, "clients", "%" PRId64 " connected of %" PRId64 "%s", now,
                       most,
                       almost ? ": beyond that who connects anew is refused, and holders that have to reconnect "
                                "lose their locks; raise maxclients"
                              : "");
    if (rejected > 0)
        hf__check_find(check, HF_NOTABLE, "refused clients",
                       "%" PRId64 " connections were refused since the server started, because maxclients was reached",
                       rejected);
}

void hf__check_info(hf__check *check, const char *info)
{
    find_version(check, info);
    find_eviction(check, info);
    find_persistence(check, info);
    find_replication(check, info);
    find_clients(check, info);
}
