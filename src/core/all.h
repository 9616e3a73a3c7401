/* SPDX-License-Identifier: MIT */
/*
 * hf_all: several locks as one, all or none. It blocks only while it holds no member: it waits for the one that
 * refused it last, and then tries the others. So two of them in opposite order cannot deadlock.
 */
#ifndef HF_CORE_ALL_H
#define HF_CORE_ALL_H

#include <holdfast/store.h>

int     hf__all_usable(const hf_lock *lock, hf_error *err);
int     hf__all_acquire(hf_lock *lock, int64_t wait_ms, hf_grant *grant, hf_error *err);
int     hf__all_release(hf_lock *lock, hf_error *err);
int64_t hf__all_left(hf_lock *lock);
int     hf__all_renew(hf_lock *lock, int64_t lease_ms, hf_error *err);
int     hf__all_cancel(hf_lock *lock);
void    hf__all_free(hf_lock *lock);

#endif
