/* SPDX-License-Identifier: MIT */
#ifndef HOLDFAST_STORE_H
#define HOLDFAST_STORE_H

/*
 * The seam: what a store must do. For those who write one; users of locks need only <holdfast.h>.
 *
 * A store answers one question: may this claim in, now? It keeps no timers, decides no retries and never sleeps for a
 * lock to come free. Everything about owners, re-entrancy, waiting, renewal and loss is the core's.
 *
 *
 * SPLIT PHASE
 *
 *  Every verb is a request. begin() starts it; the store calls request->done(request) exactly once, perhaps before
 *  begin() returns, perhaps on another thread, holding none of its own locks that begin(), drive() or unwatch() take.
 *  The request and all that it points to stay valid until then, and may be gone as soon as done() was called.
 *  By request->deadline_us at the latest a store completes the request, with HF_EUNREACHABLE if it must: the outcome is
 *  then open.
 *
 *
 * THE CONTRACT (tests/conformance has a test for each line)
 *
 *   1 A claim's id is new for each acquire. Any verb may be repeated with it. A repeated attempt finds its own earlier
 *     grant or place, and renews it: verdict.lease_ms never overstates what the store keeps.
 *   2 An attempt that fails leaves the outcome open: the core repeats it or releases, and never forgets it.
 *   3 An answered release kills the id. A store that can be reached late (HF_CAP_LATE) refuses an attempt after its
 *     not_after_us, and a release with `unanswered` set leaves a tombstone until not_after_us.
 *   4 release works in any state of the claim: granted, queued, unknown to the store.
 *   5 verdict.again_ms bounds how long anyone relies on news. A queued claim lives as long as its lease; its repeated
 *     attempt renews it.
 *   6 News is level-triggered: watch() posts at once when a change since the verdict may have been missed.
 *   7 The store's time decides expiry.
 *   8 In renew, HF_RENEWAL_UNKNOWN says nothing: it neither resets nor ends a grant.
 *  11 What is expired is removed under the store's write lock before anyone is let past it. A renewal is conditional on
 *     being unexpired and never shortens a lease.
 *  12 release with to_shared turns an exclusive claim of HF_KIND_RW into a shared one in one step.
 *  13 An idle name takes any kind and limit. Beside live claims of another kind or limit the answer is HF_CONFLICTED,
 *     and err.text says what the name is in use as; nothing is queued then.
 */

#include <holdfast.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HF_STORE_ABI 1

typedef struct hf_id {
    unsigned char bytes[16];
} hf_id;

/* One wish for one grant. The core's memory; a store writes only `mark`. */
typedef struct hf_claim {
    hf_id       id;
    const char *name; /* name_len bytes, then a NUL that does not count */
    size_t      name_len;
    const char *note; /* NULL: the client's */
    int         kind; /* enum hf_kind */
    int         mode; /* enum hf_mode */
    bool        fair;
    int64_t     limit;    /* HF_MODE_COUNTED: permits of the name */
    int64_t     weight;   /* HF_MODE_COUNTED: permits of this claim; else 1 */
    int64_t     lease_ms; /* asked for by the next attempt */
    int64_t     mark;     /* the store's own, 0 at first: a ticket, a sequence number */
} hf_claim;

enum hf_verb {
    HF_VERB_ATTEMPT = 1,
    HF_VERB_RELEASE,
    HF_VERB_RENEW,
    HF_VERB_LIST,
    HF_VERB_BREAK,
    HF_VERB_CHECK,
};

enum hf_answer {
    HF_REFUSED = 0,
    HF_GRANTED = 1,
    HF_CONFLICTED = 2, /* contract 13 */
};

typedef struct hf_verdict {
    int       answer;   /* enum hf_answer */
    int64_t   fence;    /* granted: above all earlier ones of the name; 0: none */
    int64_t   lease_ms; /* granted or queued: what the store keeps, counted from its answer */
    int64_t   again_ms; /* refused: ask again after this time at the latest, news or not. Granted: renew it, or look
                         * at it, after this time at the latest, since something is still missing (0: nothing is) */
    int64_t   place;    /* refused and queued: 1 is next; 0: not in a queue */
    hf_holder holder;   /* refused: one of those in the way */
    bool      found;    /* release: there was a live claim to remove */
    int64_t   removed;  /* break: how many claims */
    int       votes;    /* granted: by how many servers, where a majority of several decides; else 0 */
} hf_verdict;

enum hf_renewal_answer {
    HF_RENEWAL_UNKNOWN = 0, /* no word from the store */
    HF_RENEWAL_RENEWED = 1,
    HF_RENEWAL_HELD = 2, /* there, but not extended (asked with lease_ms == 0) */
    HF_RENEWAL_GONE = 3,
};

typedef struct hf_renewal {
    hf_claim *claim;
    int64_t lease_ms; /* new lease from now; 0: only look. With RENEWED a store writes what it keeps, if that is less */
    int     answer;   /* enum hf_renewal_answer, written by the store */
    int64_t left_ms;  /* what is left of the grant, by the holder's own deadline */
    int64_t again_ms; /* 0 at first; a store may write when it wants to be asked again, as in a verdict */
} hf_renewal;

typedef struct hf_request hf_request;
struct hf_request {
    int     verb;         /* enum hf_verb */
    int64_t deadline_us;  /* complete by then, on the clock of hf__now_us (CLOCK_BOOTTIME, microseconds) */
    int64_t not_after_us; /* attempt, release: see contract 3; on the clock of ops->clock_us */
    bool    yield;        /* attempt: refuse it where others wait already, if the store can tell */
    bool    driven;       /* drive() follows at once: the store may leave the sending to it */

    hf_claim *claim;      /* attempt, release */
    bool      queue;      /* attempt: take a place when refused */
    bool      unanswered; /* release: an attempt of this claim has not been answered */
    bool      to_shared;  /* release: contract 12 */
    int64_t   keep_ms;    /* release of a grant: leave it for that long, unrenewed and freed from its holder's life */

    hf_renewal *renewals; /* renew */
    size_t      count;

    const char    *name; /* list, break: NULL is every name (list only) */
    size_t         name_len;
    const char    *claim_hex; /* break: NULL is all grants of the name */
    hf_entry_fn   *each;      /* list; called inside begin() or drive() only */
    hf_finding_fn *finding;   /* check; the same */
    void          *each_arg;

    /* The answer. */
    int        status; /* HF_OK: the verdict (or the renewals) stand; < 0: failed, `err` says why */
    hf_verdict verdict;
    hf_error   err;

    /* Completion: set by the core, called once by the store. */
    void (*done)(hf_request *request);
    void *owner;

    void *store_data; /* the store's own while the request runs */
};

/* What the core gives to a store. Valid until close() returns. */
typedef struct hf_store_env {
    void *core;

    /* Something about this name may have changed; NULL: about every name. From any thread, with no lock of the store
     * held that begin(), watch() or unwatch() take. Returns at once. */
    void (*post)(void *core, const char *name, size_t name_len);

    /* The same about one claim of this client: it may get in now, or it was broken. A store that knows whom it lets in
     * wakes only him, and not everyone who waits for the name. */
    void (*post_claim)(void *core, const hf_id *claim);

    hf_id       client; /* random, new for each client */
    const char *host;   /* who we are, for hf_holder */
    const char *program;
    const char *note;
    int64_t     pid;
    int64_t     server_timeout_ms;
} hf_store_env;

enum hf_capability {
    HF_CAP_IN_CALL =
        1 << 0, /* verbs complete inside begin(), and may take long: do not call it where one must not block */
    HF_CAP_LATE = 1 << 1,       /* a message may arrive late: contract 3 */
    HF_CAP_FIFO = 1 << 2,       /* every kind is first come, first served */
    HF_CAP_FENCE = 1 << 3,      /* grants carry a fence */
    HF_CAP_KEEP = 1 << 4,       /* release can keep (min_hold_ms) */
    HF_CAP_SEMAPHORE = 1 << 5,  /* counts */
    HF_CAP_RW = 1 << 6,         /* readers and writers */
    HF_CAP_FAIR = 1 << 7,       /* fair mutexes */
    HF_CAP_SAME_CLOCK = 1 << 8, /* the store's clock is this machine's: no drift to allow for */
    HF_CAP_LINGER = 1 << 9      /* what a release keeps is kept until close() at most: the core puts that off */
};

struct hf_url;

/* A store's private state begins with this. */
typedef struct hf_store {
    const struct hf_store_ops *ops;
    const hf_store_env        *env;
    unsigned                   caps; /* ops->caps at first; open() may take away what this URL cannot do */
    const char *lacks; /* static; NULL at first: why it can not do what others can, for who asks for that */
} hf_store;

/* One table per scheme. No member may be NULL unless it says so. */
typedef struct hf_store_ops {
    int         abi;    /* HF_STORE_ABI */
    const char *scheme; /* "sqlite" */
    size_t      size;   /* of the store's state; the core allocates it, zeroed, and sets what hf_store has */
    unsigned    caps;   /* enum hf_capability */

    /* Connects. May block for env->server_timeout_ms. On failure nothing is left to close. */
    int (*open)(hf_store *store, const struct hf_url *url, hf_error *err);

    /* Ends everything: completes what is begun, stops threads. No post() after it returns. */
    void (*close)(hf_store *store);

    /* Begins a request; see SPLIT PHASE. Called from any thread, with no lock of the core's held. */
    void (*begin)(hf_store *store, hf_request *request);

    /* Lends the calling thread to the store until `request` is done or its deadline has passed. NULL: the store has
     * threads of its own, or completes in the call. Runs no user code; hands the driving over before it returns. */
    void (*drive)(hf_store *store, hf_request *request);

    /* A refused claim is about to be waited for, or no longer. watch() may be called again after each verdict. NULL
     * where there is no news: the core then relies on again_ms. Must not block. unwatch() of an unwatched claim is
     * allowed, and no post() for the claim is needed after it. `dozes`: as long as it is watched, a thread is in doze()
     * or on its way there, so that the store needs no thread of its own to hear the news. */
    void (*watch)(hf_store *store, hf_claim *claim, bool dozes);
    void (*unwatch)(hf_store *store, hf_claim *claim);

    /* A thread that waits for a lock lends itself to the store, which may receive news and replies on it, post and
     * complete requests. Returns at until_us, after a rouse(), after each post or completion, or earlier for no reason.
     * One thread is inside at a time. rouse() ends the doze of the thread inside, or the next one; it may be called
     * with any lock held. Both NULL where dozing saves nothing. */
    void (*doze)(hf_store *store, int64_t until_us);
    void (*rouse)(hf_store *store);

    /* The store's clock in microseconds, as far as this client knows it. Must not block. */
    int64_t (*clock_us)(hf_store *store);

    /* Where the store is, as a URL that leads to the same place from anywhere, without secrets; the store's memory,
     * valid until close(). NULL: as it was given. */
    const char *(*where)(hf_store *store);
} hf_store_ops;

/*
 * Adds a store to this process under ops->scheme, before any hf_open() with that scheme. `ops` must stay valid.
 * Built-in schemes cannot be replaced. Returns HF_OK, HF_EINVALID, HF_EEXHAUSTED.
 */
HF_API int hf_store_register(const hf_store_ops *ops);

/* A URL taken apart. Strings are percent-decoded and end with NUL; absent parts are NULL. */
typedef struct hf_url_param {
    const char *key;
    const char *value;
} hf_url_param;

typedef struct hf_url {
    const char         *text; /* the whole, without its password */
    const char         *scheme;
    const char         *user;
    const char         *password;
    const char         *host; /* all hosts as written, with their ports, for stores that take several */
    const char         *path;
    const hf_url_param *params;
    size_t              param_count;
} hf_url;

#ifdef __cplusplus
}
#endif

#endif
