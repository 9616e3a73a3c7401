/* SPDX-License-Identifier: MIT */
/*
 * The teller: runs the users' lost callbacks, one after another, on a thread of its own that is started with the first
 * handle that has one. A callback that has not begun when its grant is released is not run; one that runs is waited
 * for.
 */
#ifndef HF_CORE_TELLER_H
#define HF_CORE_TELLER_H

#include <pthread.h>
#include <stdbool.h>

struct hf_client;
struct hf_lock;
struct hf__hold;
struct hf__call_back;

typedef struct hf__teller {
    struct hf__call_back  *queue;
    const struct hf_lock  *running_lock; /* whose callback runs now */
    const struct hf__hold *running_hold;
    pthread_t              thread;
    pthread_cond_t         changed;
    bool                   started, stop;
} hf__teller;

void hf__teller_init(hf__teller *teller);
void hf__teller_finish(struct hf_client *client);

/* Starts the thread; 0 or an errno. Under the client's mutex. */
int hf__teller_start(struct hf_client *client);

/* Queues the callback of `lock` for this hold, if it has one. Under the client's mutex. */
void hf__teller_tell(struct hf_lock *lock, struct hf__hold *hold);

/* No callback for this hold and this handle (NULL: any) runs or will run after the return, unless the caller is that
 * callback. Under the client's mutex, which it may let go meanwhile. */
void hf__teller_hush(struct hf_client *client, const struct hf__hold *hold, const struct hf_lock *lock);

/* Runs what is queued, on the calling thread: for clients without threads. True where there was any. */
bool hf__teller_step(struct hf_client *client);

#endif
