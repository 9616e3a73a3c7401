/* SPDX-License-Identifier: MIT */
#ifndef HOLDFAST_H
#define HOLDFAST_H

/*
 * Holdfast: locks that hold across threads, processes and machines.
 *
 * A client connects to one store, named by a URL. A lock is a handle on a name in that store. Acquiring it gives a
 * grant: the right to the name until the grant's lease ends, and a number (the fence) that rises with each grant.
 *
 *
 * WHAT IS PROMISED
 *
 *  - At most one owner holds a name (or many readers or one writer; or permits up to a limit), as long as each holder
 *    stops at its deadline (hf_left() reaches 0) and the store keeps what it acknowledged.
 *  - A holder that dies blocks nobody for longer than its lease, and not at all where the store can tell.
 *  - Only the owner releases. A late release never touches the next owner's lock, and says that it was late.
 *  - Without a fixed lease, a lease of 30 s is renewed every 10 s while the owning thread lives (the "watchdog").
 *  - When a grant ends unasked, the holder is told at its local deadline at the latest.
 *  - Each blocking call returns within its wait plus one server timeout, whatever the server does.
 *
 *
 * CAVEATS, AND WHAT TO DO ABOUT THEM
 *
 *  - No lease can stop a program that sleeps past its deadline and then writes. Give the fence to whatever the lock
 *    guards, and let that refuse a lower one than it has seen. Or look at hf_left() before each step that counts.
 *  - After fork() the child's handles answer HF_EFORKED to everything. Open a new client in the child. A child that
 *    neither execs nor exits may keep its parent's claims from being recognised as dead until their lease ends.
 *  - Nothing here may be called from a signal handler.
 *  - Do not cancel (pthread_cancel) a thread inside a call of this library; use hf_cancel().
 *  - A thread that ends while it owns a lock ends the renewal, not the lease: the name is free when the lease is over.
 *  - What each store survives, and what not, stands in docs/safety.md.
 *
 *
 * A WHOLE CALLING SEQUENCE
 *
 *      hf_client *client;
 *      hf_lock   *lock;
 *      hf_grant   grant;
 *      hf_error   err;
 *
 *      if (hf_open(&client, "sqlite:", NULL, &err) != HF_OK)
 *          return complain(err.text);
 *      if (hf_mutex(&lock, client, "order:1001", NULL, &err) != HF_OK)
 *          return complain(err.text);
 *      switch (hf_acquire(lock, 3000, &grant, &err)) {
 *      case HF_OK:
 *          charge(order, grant.fence);
 *          if (hf_release(lock, &err) == HF_LOST)
 *              look_again(order);
 *          break;
 *      case HF_BUSY:
 *          printf("busy: %s\n", err.text);
 *          break;
 *      default:
 *          return complain(err.text);
 *      }
 *      hf_free(lock);
 *      hf_close(client, 1000);
 *
 *
 * THREADS
 *
 *  Every function may be called from any thread at any time, with these exceptions: hf_free() and hf_close() must be
 *  the last call on their object, and hf_dispatch() of one client runs in one thread at a time. Callbacks say on
 *  which thread they run.
 *
 *
 * RETURN VALUES
 *
 *  0 (HF_OK): yours. Positive: a plain answer, nothing is broken. Negative: a failure. Where a function takes an
 *  hf_error, it may be NULL; the struct is the caller's, is written only when the result is not HF_OK, and its text is
 *  one sentence fit to print: what failed, on which server, and what to do.
 *
 *  Times are in milliseconds unless a name says otherwise.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HF_VERSION_MAJOR 0
#define HF_VERSION_MINOR 1
#define HF_VERSION_PATCH 0
#define HF_VERSION ((HF_VERSION_MAJOR << 16) | (HF_VERSION_MINOR << 8) | HF_VERSION_PATCH)

#if defined(__GNUC__)
#define HF_API __attribute__((visibility("default")))
#else
#define HF_API
#endif

/* A client: one process's connection to one store. Opaque. */
typedef struct hf_client hf_client;

/* A lock: a handle on a name. Cheap, reusable, may be shared between threads. Opaque. */
typedef struct hf_lock hf_lock;

/* ------------------------------------------------------------------ status ------------------------------------ */

enum hf_status {
    HF_OK = 0,

    /* Plain answers. */
    HF_BUSY = 1,           /* somebody else holds it, and the wait is over */
    HF_CANCELLED = 2,      /* hf_cancel() ended the wait */
    HF_LOST = 3,           /* the grant had ended before this call */
    HF_NOT_OWNER = 4,      /* the calling owner holds no grant through this handle */
    HF_WOULD_DEADLOCK = 5, /* a reader asked for the writer of the same name */

    /* Failures. */
    HF_EINVALID = -1,     /* an argument or an option is wrong; nothing was done */
    HF_EUNSUPPORTED = -2, /* this store cannot do that */
    HF_ECONFLICT = -3,    /* the name is in use as another kind, or with another limit */
    HF_EUNREACHABLE = -4, /* the store did not answer in time; the outcome is being settled in the background */
    HF_ENOQUORUM = -5,    /* a majority of servers could not be reached, or too few replicas confirmed */
    HF_EREFUSED = -6,     /* the store answered, and will not: rights, configuration, a replaced file */
    HF_EEXHAUSTED = -7,   /* out of memory, disk or descriptors */
    HF_EFORKED = -8,      /* this handle belongs to the parent process */
    HF_ECLOSED = -9       /* the client was closed */
};

/* The name of a status, as "HF_BUSY". Never NULL; the text is static. */
HF_API const char *hf_status_name(int status);

/* The library's version at run time; compare it with HF_VERSION. */
HF_API uint32_t hf_version(void);

/* Who holds a name, as far as the store tells. Empty strings and zeros where it does not. All of it is what another
 * process wrote: foreign text, to be escaped before it is shown. */
typedef struct hf_holder {
    char    host[64];    /* host name */
    char    program[32]; /* name of the program */
    char    note[96];    /* what the holder wrote into hf_client_options.note or hf_options.note */
    int64_t pid;
    int64_t since_ms; /* wall clock, milliseconds since 1970, when the claim was made */
    int64_t left_ms;  /* what is left of its lease, unless it is renewed */
} hf_holder;

typedef struct hf_error {
    int       status;    /* enum hf_status */
    int       sys;       /* the store's or the system's own number, 0 where there is none */
    char      text[400]; /* one sentence fit to print */
    hf_holder holder;    /* with HF_BUSY: who holds it */
} hf_error;

/* ------------------------------------------------------------------ clients ----------------------------------- */

typedef struct hf_client_options {
    uint32_t    size;        /* set by HF_CLIENT_OPTIONS */
    const char *note;        /* shown to others that find a name busy; at most 95 bytes are kept */
    int64_t     watchdog_ms; /* lease of grants that are renewed, at a third of it; 0: 30,000. 100 ms to 366 days */
    int64_t     server_timeout_ms; /* longest time without an answer; 0: 2,000. 10 to 600,000 */
} hf_client_options;

#define HF_CLIENT_OPTIONS(...) (&(hf_client_options){.size = sizeof(hf_client_options), __VA_ARGS__})
#define HF_CLIENT_OPTIONS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(hf_client_options), NULL, 0, 0                                                                          \
    }

/*
 * Opens a client of the store at `url`. The schemes that this build knows are in hf_schemes(). NULL or "" stands for
 * $HOLDFAST_STORE, and where that is not set for the embedded store in the user's state directory.
 *
 * Returns HF_OK; HF_EINVALID (a bad URL, an unknown scheme or option), HF_EUNSUPPORTED (a scheme that this build leaves
 * out), HF_EUNREACHABLE, HF_EREFUSED, HF_EEXHAUSTED. *client is NULL unless HF_OK.
 */
HF_API int hf_open(hf_client **client, const char *url, const hf_client_options *options, hf_error *err);

/*
 * Closes the client: ends all waits through it (HF_ECLOSED), releases what it still holds, delivers what is still to be
 * released for at most drain_ms, and stops its threads. Handles stay valid memory until hf_free(), and answer
 * HF_ECLOSED. NULL is allowed. A store whose server forgets what a client is gone from (zookeeper:) keeps names that
 * min_hold_ms keeps only while the client is open: for those, too, it waits for at most drain_ms.
 *
 * Returns HF_OK, or HF_EUNREACHABLE where a release was not delivered in time: that name is free when its lease ends.
 */
HF_API int hf_close(hf_client *client, int64_t drain_ms);

/* Where the client's store is, as a URL without passwords; of the embedded store always with its whole path. Valid
 * until hf_close(). */
HF_API const char *hf_client_url(const hf_client *client);

/* The schemes that this library knows, space-separated; those that this build leaves out stand in parentheses.
 * Static. */
HF_API const char *hf_schemes(void);

/* The SQL that makes a store's tables, for people who do not let a program make any ("mysql", "postgresql", "sqlite").
 * NULL: this build has no such store, or it needs none. Static memory. */
HF_API const char *hf_schema(const char *scheme);

/* ------------------------------------------------------------------ locks ------------------------------------- */

enum hf_owner {
    HF_OWNER_THREAD = 0, /* the calling thread owns the grant and may take it again */
    HF_OWNER_HANDLE = 1  /* the handle owns it: any thread may release it, nobody re-enters */
};

/*
 * Called once when a grant of this lock ends unasked, on the client's callback thread; not when hf_release() of that
 * grant comes first and answers HF_LOST, and never after that has returned. It may call any function of this library
 * but hf_close() and hf_free() of this lock.
 */
typedef void hf_lost_fn(hf_lock *lock, void *arg);

typedef struct hf_options {
    uint32_t size;        /* set by HF_OPTIONS */
    bool     fair;        /* first come, first served, also where the store would not promise it */
    int      owner;       /* enum hf_owner; semaphores are always owned by the handle */
    int64_t  lease_ms;    /* a fixed lease, never renewed; 0: the watchdog's, renewed. 100 ms to 366 days */
    int64_t  max_hold_ms; /* no renewal beyond this time after the grant; 0: no bound. 100 ms to 366 days */
    int64_t  min_hold_ms; /* the name stays taken this long after the grant, also when released before. 0 to 366 days */
    int64_t  weight;      /* permits that one grant of a semaphore takes; 0: 1 */
    size_t   name_len;    /* length of the name in bytes; 0: it ends with NUL */
    const char *note;     /* shown to others that find the name busy; NULL: the client's */
    hf_lost_fn *lost;     /* may be NULL */
    void       *lost_arg;
} hf_options;

#define HF_OPTIONS(...) (&(hf_options){.size = sizeof(hf_options), __VA_ARGS__})
#define HF_OPTIONS_INIT                                                                                                \
    {                                                                                                                  \
        sizeof(hf_options), false, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL                                                  \
    }

#define HF_LEASE_MIN_MS INT64_C(100)
#define HF_LEASE_MAX_MS INT64_C(31622400000) /* 366 days */
#define HF_NAME_MAX 1024                     /* bytes of a name */
#define HF_LIMIT_MAX INT64_C(2147483647)     /* permits of a semaphore */

/*
 * Make a handle. Nothing is asked of the store. A name is 1 to 1,024 bytes, any but NUL; it is compared byte by byte
 * on every store. `options` may be NULL: all defaults. The handle keeps copies of name and note.
 *
 * hf_mutex       one holder.
 * hf_reader      many readers or one writer of a name; this is a reader.
 * hf_writer      this is the writer. An owner that has it may take the reader too and release the writer first
 *                (downgrade: nobody slips in between). An owner with only the reader that asks for the writer gets
 *                HF_WOULD_DEADLOCK at once.
 * hf_semaphore   grants whose weights sum up to `limit` at most, 1 to HF_LIMIT_MAX. All users of a name must give the
 *                same limit.
 * hf_all         all of `count` locks or none, of any clients. The members stay the caller's, must outlive this
 *                handle, and have their own options; of this handle's own none is used, so pass NULL (a lost callback
 *                belongs to the member, and is refused here: HF_EUNSUPPORTED).
 *                It waits only while it holds no member. Fences are read per member (hf_fence).
 *
 * Returns HF_OK, HF_EINVALID, HF_EUNSUPPORTED (with the reason), HF_EEXHAUSTED, HF_EFORKED, HF_ECLOSED.
 */
HF_API int hf_mutex(hf_lock **lock, hf_client *client, const char *name, const hf_options *options, hf_error *err);
HF_API int hf_reader(hf_lock **lock, hf_client *client, const char *name, const hf_options *options, hf_error *err);
HF_API int hf_writer(hf_lock **lock, hf_client *client, const char *name, const hf_options *options, hf_error *err);
HF_API int hf_semaphore(hf_lock **lock, hf_client *client, const char *name, int64_t limit, const hf_options *options,
                        hf_error *err);
HF_API int hf_all(hf_lock **lock, hf_lock *const members[], size_t count, const hf_options *options, hf_error *err);

/*
 * Frees a handle, releasing first what is still held through it. No thread may be inside a call on it. Operations that
 * were started without blocking are cancelled; their `done` is not called any more. NULL is allowed.
 */
HF_API void hf_free(hf_lock *lock);

/* ------------------------------------------------------------------ acquire, release -------------------------- */

#define HF_NOWAIT INT64_C(0)
#define HF_FOREVER INT64_MAX

typedef struct hf_grant {
    int64_t fence;    /* rises with each exclusive grant of the name; 0: this store has none */
    int64_t lease_ms; /* the lease that was asked for */
    int64_t left_ms;  /* what is left of it now, by this client's own deadline */
    int64_t waited_us;
    int     level; /* 1: entered; above: re-entered */
    int     votes; /* a store of several servers: how many of them granted it, when it was granted; else 0 */
} hf_grant;

/*
 * Takes the lock, waiting at most wait_ms (HF_NOWAIT: do not wait; HF_FOREVER). `grant` may be NULL.
 *
 * A thread that owns the name already, through this or another handle of this client, takes it again at no cost; each
 * acquire then needs a release. A handle-owned lock that is held is waited for like any other.
 *
 * Returns HF_OK; HF_BUSY (err->holder says who); HF_CANCELLED; HF_LOST (this owner's own grant has ended: release it
 * first); HF_WOULD_DEADLOCK; HF_ECONFLICT; HF_EUNREACHABLE and the other failures. After any but HF_OK nothing is held:
 * what the store may have granted meanwhile is given back in the background.
 */
HF_API int hf_acquire(hf_lock *lock, int64_t wait_ms, hf_grant *grant, hf_error *err);

/*
 * Gives the lock back: one level of it. Only the outermost level asks the store.
 *
 * Returns HF_OK; HF_LOST (the grant had ended before; the local state is clean all the same); HF_NOT_OWNER (nothing was
 * done); HF_EUNREACHABLE (no answer; the client goes on delivering the release in the background).
 */
HF_API int hf_release(hf_lock *lock, hf_error *err);

/* Milliseconds left of the calling owner's grant, by this client's own deadline; 0: none, lost or over. Asks nobody. */
HF_API int64_t hf_left(hf_lock *lock);

/* The fence of the calling owner's grant; 0: none held, or none given. Asks nobody. */
HF_API int64_t hf_fence(hf_lock *lock);

/*
 * Renews the calling owner's grant now, for lease_ms from now (0: the lock's own lease). Never shortens it. With
 * max_hold_ms not beyond that.
 *
 * Returns HF_OK, HF_LOST, HF_NOT_OWNER, HF_EINVALID, HF_EUNREACHABLE (outcome unknown; the old deadline stands).
 */
HF_API int hf_renew(hf_lock *lock, int64_t lease_ms, hf_error *err);

/* Ends every wait through this handle (HF_CANCELLED), or the next one if there is none. From any thread. */
HF_API int hf_cancel(hf_lock *lock);

/*
 * A descriptor that becomes readable when a grant taken through this handle is lost, and is reset by the release of
 * that grant. It belongs to the handle: do not read or close it. Returns a status below 0 where none can be made.
 */
HF_API int hf_lost_fd(hf_lock *lock);

/* ------------------------------------------------------------------ without blocking -------------------------- */

/*
 * For event loops. hf_acquire_start() begins an acquire and returns at once; `done` is called from hf_dispatch() with
 * its outcome, exactly once. The grant belongs to the handle, whatever its options say. Watch hf_fd() for reading and
 * call hf_dispatch() when it is readable. `grant` and `err` are valid during the call only; `err` is NULL on HF_OK.
 *
 * Both return HF_OK, or a failure: then `done` is not called. hf_all has no non-blocking form (HF_EUNSUPPORTED).
 */
typedef void hf_done_fn(hf_lock *lock, int status, const hf_grant *grant, const hf_error *err, void *arg);

HF_API int hf_acquire_start(hf_lock *lock, int64_t wait_ms, hf_done_fn *done, void *arg);
HF_API int hf_release_start(hf_lock *lock, hf_done_fn *done, void *arg);

/* The client's descriptor for an event loop: readable when hf_dispatch() has work. Not to be read or closed. */
HF_API int hf_fd(hf_client *client);

/* Calls `done` for each finished operation. Returns how many it called, or a status below 0. Never blocks. */
HF_API int hf_dispatch(hf_client *client);

/* ------------------------------------------------------------------ looking, breaking, checking --------------- */

enum hf_kind { HF_KIND_MUTEX = 1, HF_KIND_RW = 2, HF_KIND_SEMAPHORE = 3 };
enum hf_mode { HF_MODE_EXCLUSIVE = 1, HF_MODE_SHARED = 2, HF_MODE_COUNTED = 3 };

/* One claim on a name, held or waiting. */
typedef struct hf_entry {
    const char *name; /* name_len bytes, not ended by NUL; valid during the callback */
    size_t      name_len;
    int         kind;  /* enum hf_kind */
    int         mode;  /* enum hf_mode */
    bool        held;  /* false: waits */
    int64_t     place; /* of a waiter: 1 is next; 0 when held */
    int64_t     weight;
    int64_t     limit;
    int64_t     fence;
    char        claim[40]; /* the claim's id in hexadecimal, for hf_break() */
    int         votes;     /* a store of several servers: on how many of them it stands; else 0 */
    hf_holder   holder;
} hf_entry;

/* Return false to stop. */
typedef bool hf_entry_fn(const hf_entry *entry, void *arg);

/* Calls `each` for every claim on `name` (NULL: on every name), in the order of names and then of the queue, on the
 * calling thread. What it shows may have changed when it is seen. Returns HF_OK or a failure. */
HF_API int hf_list(hf_client *client, const char *name, hf_entry_fn *each, void *arg, hf_error *err);

/*
 * Removes claims by force: the one with this id, or with claim == NULL all grants (not the waiters) of the name. Their
 * holders learn of it at their next renewal at the latest; a waiter queues again. `removed` may be NULL. Returns HF_OK
 * (also when nothing was there).
 */
HF_API int hf_break(hf_client *client, const char *name, const char *claim, int64_t *removed, hf_error *err);

enum hf_severity {
    HF_FINE = 0,
    HF_NOTABLE = 1, /* worth knowing */
    HF_DANGER = 2   /* endangers locks */
};

/* One thing that an operator should know about a store: what it is, and what it means for locks. Part of the text may
 * be what the server says: foreign text, to be escaped before it is shown. */
typedef struct hf_finding {
    int  severity; /* enum hf_severity */
    char topic[32];
    char text[300];
} hf_finding;

/* Return false to stop. */
typedef bool hf_finding_fn(const hf_finding *finding, void *arg);

/* Examines the store, changing no lock, and calls `each` for every finding on the calling thread. Returns HF_OK,
 * whatever was found, or a failure. */
HF_API int hf_check(hf_client *client, hf_finding_fn *each, void *arg, hf_error *err);

/* ------------------------------------------------------------------ figures ----------------------------------- */

/* bucket[i] counts values below 2^i microseconds and not below 2^(i-1); the last one all that are longer. */
typedef struct hf_histogram {
    uint64_t count;
    uint64_t sum_us;
    uint64_t bucket[32];
} hf_histogram;

/* Counters since hf_open(), and gauges of now. */
typedef struct hf_snapshot {
    uint32_t     size;        /* set by the caller to sizeof(hf_snapshot); counters beyond it are left out */
    uint32_t     holds;       /* gauge: grants held now */
    uint32_t     waiting;     /* gauge: acquires in progress */
    uint32_t     undelivered; /* gauge: releases that are still to be delivered */
    uint64_t     acquired;    /* grants from the store */
    uint64_t     reentered;   /* levels added without asking it */
    uint64_t     busy;
    uint64_t     cancelled;
    uint64_t     failed; /* acquires that ended with a failure */
    uint64_t     released;
    uint64_t     lost;
    uint64_t     renewed;       /* claims renewed */
    uint64_t     renewals;      /* batches of renewals sent */
    uint64_t     attempts;      /* attempt verbs begun */
    uint64_t     releases;      /* release verbs begun */
    uint64_t     news;          /* news taken from the store */
    uint64_t     server_errors; /* verbs that failed */
    hf_histogram waited;        /* from the call of an acquire to its grant */
    hf_histogram held;          /* from grant to release */
    uint64_t     lingers_ms;    /* gauge: until then min_hold_ms keeps names that hf_close() would free; 0: none */
} hf_snapshot;

/* Fills *snapshot, whose size must be set. Cheap. */
HF_API int hf_stats(hf_client *client, hf_snapshot *snapshot);

#ifdef __cplusplus
}
#endif

#endif
