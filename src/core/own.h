/* SPDX-License-Identifier: MIT */
/* What the calling owner has through a handle: its deadline, its fence, its renewal. */
#ifndef HF_CORE_OWN_H
#define HF_CORE_OWN_H

#include <holdfast/store.h>

struct hf__hold;

/* The calling thread's hold of the handle's name, or else the handle's own; NULL. Under the mutex. */
struct hf__hold *hf__own_hold(hf_lock *lock);

#endif
