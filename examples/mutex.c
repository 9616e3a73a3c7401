/* SPDX-License-Identifier: MIT */

/* The smallest whole program: take a name, do the work, give it back. Run it twice at the same time to see it wait.
 * The store is the first argument, else $HOLDFAST_STORE, else the embedded one. */
#include <holdfast.h>
#include <stdio.h>

int main(int argc, char *argv[])
{
    hf_client *client = NULL;
    hf_lock   *lock = NULL;
    hf_grant   grant;
    hf_error   err;

    int status = hf_open(&client, argc > 1 ? argv[1] : NULL, NULL, &err);
    if (status == HF_OK)
        status = hf_mutex(&lock, client, "nightly/report", NULL, &err);
    if (status == HF_OK)
        status = hf_acquire(lock, 3000, &grant, &err);
    if (status == HF_OK) {
        printf("nightly/report is ours, with fence %lld\n", (long long)grant.fence);
        status = hf_release(lock, &err);
    }
    if (status != HF_OK)
        fprintf(stderr, "%s\n", err.text);
    hf_free(lock);
    hf_close(client, 1000);
    return status == HF_OK ? 0 : 1;
}
