/* SPDX-License-Identifier: MIT */
/*
 * Which keys and channels a name has: Redisson's, and Holdfast's own beside them, all in the hash slot of the name.
 * PREFIX and SUFFIX are Redisson's two rules: they look for a "{" anywhere in the name.
 *
 *   N                                    the lock itself
 *   PREFIX(redisson_lock_token)          the last fence; a mutex' or writer's own while it is held. When it was given,
 *                                        in microseconds, where it was not made by ?fence=redisson
 *   PREFIX(redisson_lock__channel)       Redisson's channel of a mutex; a fair waiter's: ":" and its owner after it
 *   PREFIX(redisson_lock_queue)          fair: the queue
 *   PREFIX(redisson_lock_timeout)        fair: until when each waiter counts as alive
 *   PREFIX(redisson_rwlock)              Redisson's channel of a reader/writer lock
 *   SUFFIX(<owner>:rwlock_timeout:1)     one reader's life; the value of one of ours is its fence
 *   SUFFIX(timeout)                      the permits of a semaphore
 *   PREFIX(redisson_sc)                  Redisson's channel of a semaphore
 *   PREFIX(holdfast_wake)                which Holdfast claims wait outside a fair queue: a zset of owners. Of a mutex
 *                                        and of readers and writers by the time they came (us), and the release of a
 *                                        mutex wakes the first; of permits by the time their places end (us). A
 *                                        writer's member ends with ":write"; a permit's with ":" and how many
 *   PREFIX(holdfast_dead) ":" claim      a claim (32 hexadecimal digits) that was released before its attempt was
 *                                        answered, or that is kept beyond its release
 *   PREFIX(holdfast_holders)             what the lock's own keys cannot say of Holdfast's holders: a hash. Of a mutex,
 *                                        readers and writers: owner -> the claim's note, where it has one of its own.
 *                                        Of permits: the first 12 bytes of the claim's id -> "<owner> <fence> <note>",
 *                                        and "limit" where Holdfast made the semaphore
 *   PREFIX(holdfast_fence)               plain layout: the last fence
 *   holdfast_client:<uuid>               who a client is: lines of host, pid, program and note. In a cluster this key
 *                                        would be on another node: there each claim has these lines in its own note,
 *                                        behind the byte 1
 *   holdfast_news:<uuid>                 a client's own channel
 *
 * An owner is "<uuid>:<decimal>": the uuid is the client's, of version 8, by which scripts tell Holdfast's clients from
 * Redisson's (version 4); the decimal is the claim's id, so that an attempt may be repeated, and so that it can be
 * listed and broken: 40 digits, 20 for each half of the id, with leading zeros. hf__layout_claim() reads it back.
 * (Nothing in Redisson parses an owner.)
 *
 * A permit of a semaphore is 16 bytes: the claim's id, with the permit's index (from 0) added to its last four bytes as
 * a big-endian number modulo 2^32. The permits of one claim end at one time; so the claim is the first of such a run.
 */
#ifndef HF_STORES_REDIS_LAYOUT_H
#define HF_STORES_REDIS_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <holdfast/store.h>

#define HF__CHANNEL_MUTEX "redisson_lock__channel"
#define HF__CHANNEL_RW "redisson_rwlock"
#define HF__CHANNEL_PERMITS "redisson_sc"
#define HF__NEWS_PREFIX "holdfast_news:"
#define HF__CLIENT_PREFIX "holdfast_client:"
#define HF__TOKEN "redisson_lock_token"
#define HF__TOKEN_PLAIN "holdfast_fence"
#define HF__QUEUE "redisson_lock_queue"
#define HF__SCORES "redisson_lock_timeout"
#define HF__WAKE "holdfast_wake"
#define HF__DEAD "holdfast_dead"
#define HF__HOLDERS "holdfast_holders"
#define HF__NOTE_WHO '\x01'
#define HF__PERMITS "timeout"
#define HF__READER_END ":rwlock_timeout:1"

#define HF__UUID_TEXT 37 /* bytes with the NUL */
#define HF__DECIMAL_DIGITS 40
#define HF__OWNER_TEXT 78 /* uuid ":" 40 digits, NUL */

/* claim->mark, written by an attempt's verdict: which Redisson channel the waiter must hear beside its own client's
 * channel, and what hf__news_seen() said before that attempt was sent. Nothing else is kept there. */
enum hf__redis_ear {
    HF__EAR_OWN = 0,    /* Holdfast's holders wake us by our own channel */
    HF__EAR_SHARED = 1, /* the kind's shared channel too: a foreign holder, readers and writers, semaphores */
    HF__EAR_FAIR = 2,   /* our own place's channel too: a foreign client stands ahead of us */
};

/* Beside the ear and what was seen: how often in a row the waiter had to poll, since nobody will tell it (0 to 15). */
static inline int64_t hf__mark_make_polling(enum hf__redis_ear ear, int64_t seen, int polls)
{
    return seen << 6 | (int64_t)polls << 2 | (int64_t)ear;
}

static inline int64_t hf__mark_make(enum hf__redis_ear ear, int64_t seen)
{
    return hf__mark_make_polling(ear, seen, 0);
}

static inline enum hf__redis_ear hf__mark_ear(int64_t mark)
{
    return (enum hf__redis_ear)(mark & 3);
}

static inline int hf__mark_polls(int64_t mark)
{
    return (int)(mark >> 2 & 15);
}

static inline int64_t hf__mark_seen(int64_t mark)
{
    return mark >> 6;
}

/* The core may have another thread begin a waiter's attempt while the waiter still watches: what it hears then may be
 * of either attempt, but it is no torn number. */
static inline int64_t hf__mark_read(const hf_claim *claim)
{
    return __atomic_load_n(&claim->mark, __ATOMIC_RELAXED);
}

static inline void hf__mark_write(hf_claim *claim, int64_t mark)
{
    __atomic_store_n(&claim->mark, mark, __ATOMIC_RELAXED);
}

/* A growing piece of text for keys and commands; starts zeroed, or with `borrowed` room of the caller's, which it
 * leaves when it outgrows it. */
typedef struct hf__text {
    char  *bytes; /* ended by a NUL that does not count */
    size_t len, room;
    bool   borrowed;
    bool   failed; /* there was no memory; what was added since is missing */
} hf__text;

void hf__text_finish(hf__text *text);

extern const char hf__layout_pairs[]; /* "00" to "99" */

static inline bool hf__text_has_room(const hf__text *text, size_t more)
{
    return !text->failed && text->room > text->len + more;
}

/* Room for `more` bytes and the NUL. False: no memory, now or before. */
bool hf__text_reserve(hf__text *text, size_t more);

void hf__layout_uuid(const hf_id *client, char uuid[HF__UUID_TEXT]);
void hf__layout_owner(const hf_id *client, const hf_claim *claim, char owner[HF__OWNER_TEXT]);

/* The part after the uuid, where that is written already. */
void hf__layout_owner_end(const hf_claim *claim, char owner[HF__OWNER_TEXT]);

/* The other way round, of Holdfast's own owners: "<uuid>:<40 digits>", whatever follows. False: another's. */
bool hf__layout_claim(hf_id *claim, const char *owner, size_t len);

/* The same of the digits alone, of which there must be 40: what comes after the "c" of a payload. */
bool hf__layout_digits(hf_id *claim, const char *digits, size_t len);

/* ---- names that a cluster cannot keep as they are
 *
 * Redisson's rules take any "{" for a hash tag, and nothing else; a cluster does not: of "a{b", "{}x", "}{" and "a}b"
 * the keys would fall into several slots. In a cluster such a lock's key is NAME_ODD and the name with "{", "}" and "%"
 * as "%7B", "%7D" and "%25"; other libraries cannot use such names there at all. A name that looks like that already is
 * written so, too. */
#define HF__NAME_ODD "holdfast_name:"

/* Whether prefix and name together are such a name. */
bool hf__layout_is_odd(const char *prefix, size_t prefix_len, const char *name, size_t len);

/* Appends the key's name: prefix and name, or what stands for them. False: no memory. */
bool hf__layout_key(hf__text *text, const char *prefix, size_t prefix_len, const char *name, size_t len, bool cluster);

/* The other way round: prefix and name that stand behind a key's name that is odd. False: it is not, or no memory. */
bool hf__layout_key_read(hf__text *text, const char *key, size_t len);

/* Each appends to `text`; false: no memory. `name` is the key's name: the prefix and the lock's name. */
bool hf__layout_prefix(hf__text *text, const char *prefix, const char *name, size_t len);
bool hf__layout_suffix(hf__text *text, const char *name, size_t len, const char *suffix);

/* How many bytes of braces the two add to the name: 2 or 0. */
size_t hf__layout_brackets(const char *name, size_t len);

bool hf__layout_add(hf__text *text, const void *bytes, size_t len);

/* "holdfast_news:<uuid>". Payloads: "n" and a lock's name (without the URL's prefix): look again at this name; "c" and
 * the 40 digits of a claim's id (hf__layout_digits): this one may get in. Whoever hears them posts at once, whether the
 * claim is watched already or not: its verdict may still be on its way. */
bool hf__layout_own_channel(hf__text *text, const hf_id *client);

/* The Redisson channel that `claim` must hear by its mark; false in *needed: none. */
bool hf__layout_ear(hf__text *text, const char *key_prefix, bool cluster, const hf_id *client, const hf_claim *claim,
                    bool *needed);

#endif
