/* SPDX-License-Identifier: MIT */
/* What the calling owner has through a handle: its deadline, its fence, its renewal. */
#ifndef HF_CORE_OWN_H
#define HF_CORE_OWN_H

#include <holdfast/store.h>

struct hf__hold;

/* The calling thread's hold of the handle's name, or else the handle's own; NULL. Under the mutex. */
struct hf__hold *hf__own_hold(hf_lock *lock);

/* hf_renew(), with the store asked until bound_us at most. */
int hf__renew_until(hf_lock *lock, int64_t lease_ms, int64_t bound_us, hf_error *err);

#endif
