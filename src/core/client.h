/* SPDX-License-Identifier: MIT */
/* The client: the store, the holds, and the threads. ARCHITECTURE.md draws who touches what under which lock. */
#ifndef HF_CORE_CLIENT_H
#define HF_CORE_CLIENT_H

#include <pthread.h>
#include <stdbool.h>

#include <holdfast/store.h>

#include "base/fork.h"
#include "core/hold.h"
#include "core/hub.h"
#include "core/keeper.h"
#include "core/teller.h"
#include "core/worker.h"

struct hf_client {
    pthread_mutex_t mutex; /* everything below it in this struct, holds and handles too; never held in a verb */
    hf__hold       *holds;
    hf__hold       *holds_by_id;
    hf__hub         hub;
    hf_snapshot     stats;

    struct hf__acquire *acquires; /* in progress */
    struct hf__acquire *sleepers; /* blocked threads; one of them is in the store's doze() where there is one */
    struct hf__acquire *dozer;
    struct hf__line    *lines;        /* who waits for what, where the store keeps no order */
    pthread_t           dozer_thread; /* while there is a dozer */
    unsigned            refs;         /* the opener's and each handle's */
    unsigned            active;       /* calls inside that use the store */
    pthread_cond_t      idle;         /* active became 0, a debt was paid, or an operation is done */
    bool                closed;
    int64_t             close_by_us;      /* closing: no call of an acquire waits for the store longer */
    int64_t             lingers_until_us; /* until then the store keeps names that go when it is closed */

    /* With a mutex-guarded inside of their own rules; see each header. */
    hf__keeper keeper;
    hf__worker worker;
    hf__teller teller;

    /* Random ids in store: a system call for each acquire would be dear. A forked child never uses the client, so that
     * no id can come up twice. */
    hf_id    ids[32];
    unsigned ids_left;

    /* Never changed after hf_open(). */
    hf_store       *store; /* NULL after hf_close() */
    const char     *scheme;
    unsigned        caps;
    hf__fork_guard *guard;
    hf_store_env    env;
    hf_holder       self; /* backs env's strings, and names us in our own errors */
    char           *url;
    int64_t         watchdog_ms;
    int64_t         server_timeout_ms;
    bool            manual; /* no threads: a test steps the client */
    bool            dozes;  /* blocked threads lend themselves to the store */
};

/* As hf_open; `manual` makes a client without threads, for tests on a clock of their own: hf__client_step() then does
 * what is due and returns when it wants to be called again. */
int hf__client_open(hf_client **client, const char *url, const hf_client_options *options, bool manual, hf_error *err);
int64_t hf__client_step(hf_client *client);

/* A new random id; false: the system has none to give. Under the mutex. */
bool hf__client_new_id(hf_client *client, hf_id *id);

/* A reference for a handle; under the mutex. Dropping the last one frees the client: not under the mutex. */
void hf__client_ref(hf_client *client);
void hf__client_unref(hf_client *client);

/* Brackets a call that may use the store: HF_OK, HF_EFORKED, HF_ECLOSED. Under the mutex. */
int  hf__client_enter(hf_client *client, hf_error *err);
void hf__client_leave(hf_client *client);

/* HF_OK or HF_EFORKED; asks nobody. */
int hf__client_check_fork(const hf_client *client, hf_error *err);

/* Under the mutex: a release was answered. What it kept may need the client to stay open. */
void hf__client_kept(hf_client *client, const hf_request *release, int64_t now_us);

static inline bool hf__client_can(const hf_client *client, unsigned capability)
{
    return (client->caps & capability) != 0;
}

#endif
