/* SPDX-License-Identifier: MIT */
/* The handle: what a user named and chose. Its changing parts are under the client's mutex. */
#ifndef HF_CORE_LOCK_H
#define HF_CORE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <holdfast/store.h>

struct hf__acquire;
struct hf__all;

struct hf_lock {
    hf_client  *client; /* NULL: hf_all */
    hf_lost_fn *lost;
    void       *lost_arg;
    int64_t     lease_ms; /* fixed; 0: the watchdog's */
    int64_t     max_hold_ms, min_hold_ms;
    int64_t     limit, weight;
    uint64_t    number; /* its own owner number */
    int         kind, mode;
    bool        fair;
    bool        by_handle; /* owner = HF_OWNER_HANDLE */

    bool                gate_taken;  /* a handle-owned acquire is in progress or holds */
    bool                cancel_next; /* hf_cancel found nobody waiting */
    struct hf__acquire *acquires;    /* in progress through this handle */
    unsigned            ops;         /* started without blocking, and not done */
    unsigned            takes;       /* levels held through this handle */
    unsigned            linked;      /* takes of live holds that point here */
    bool                lost_left;   /* see hf__lock_lost_left_behind() */
    unsigned            lost_count;  /* grants of it that were lost and are not yet released */
    int                 lost_fd;     /* -1: not asked for */

    struct hf__all *all; /* hf_all only */
    size_t          name_len;
    const char     *note;
    char            name[]; /* then the note */
};

/* HF_OK; or what every function answers to a handle that can't be used: HF_EINVALID, HF_EFORKED. */
int hf__lock_usable(const hf_lock *lock, hf_error *err);

/* A grant that was taken through this handle was lost; one of those was released. The lost fd is readable in between.
 * Under the client's mutex. */
void hf__lock_lost_one_more(hf_lock *lock);
void hf__lock_lost_one_less(hf_lock *lock);

/* A lost grant that nobody will release (its thread has ended): the fd stays readable until the next grant. */
void hf__lock_lost_left_behind(hf_lock *lock);
void hf__lock_lost_clear(hf_lock *lock);

#endif
