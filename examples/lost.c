/* SPDX-License-Identifier: MIT */

/*
 * A lock that is lost, and what to do about it. The lease here is fixed and short, and the work takes longer, as if the
 * process had been stopped meanwhile:
 *
 *   - the callback tells of the loss at the deadline, on the client's callback thread;
 *   - hf_left() is 0 from then on: look at it before each step that counts;
 *   - the fence makes the late write harmless: the next holder's is higher, and the guarded thing refuses a lower one;
 *   - hf_release() answers HF_LOST, and leaves the next holder's lock alone.
 */
#include "example.h"

#include <stdatomic.h>
#include <unistd.h>

static atomic_bool told;

static void on_lost(hf_lock *lock, void *arg)
{
    (void)lock;
    printf("%s: the lock is lost\n", (const char *)arg);
    atomic_store(&told, true);
}

/* What the lock guards: a file that remembers the highest fence it was written with. */
struct file {
    int64_t     fence;
    const char *text;
};

static bool file_write(struct file *file, const char *text, int64_t fence)
{
    if (fence < file->fence)
        return false;
    *file = (struct file){fence, text};
    return true;
}

int main(int argc, char *argv[])
{
    hf_client  *client = example_open(argc, argv), *other_client = example_open(argc, argv);
    hf_lock    *lock, *other_lock;
    hf_grant    grant, other_grant;
    hf_error    err;
    struct file file = {0, "empty"};

    hf_options *options = HF_OPTIONS(.lease_ms = 300, .lost = on_lost, .lost_arg = (void *)"first");
    CHECK(hf_mutex(&lock, client, "config", options, &err));
    CHECK(hf_mutex(&other_lock, other_client, "config", NULL, &err));

    CHECK(hf_acquire(lock, 3000, &grant, &err));
    CHECK(hf_acquire(other_lock, 10000, &other_grant, &err)); /* gets in when the lease of the first is over */
    EXPECT(hf_left(lock) == 0);
    EXPECT(other_grant.fence > grant.fence);

    EXPECT(file_write(&file, "by the second holder", other_grant.fence));
    bool late = file_write(&file, "by the first holder, too late", grant.fence);
    printf("the late write was %s; the file was written %s\n", late ? "taken" : "refused", file.text);
    EXPECT(!late);

    for (int i = 0; i < 500 && !atomic_load(&told); i++)
        usleep(10000);
    EXPECT(atomic_load(&told));
    int status = hf_release(lock, &err);
    printf("first: release says %s\n", hf_status_name(status));
    EXPECT(status == HF_LOST);
    EXPECT(hf_left(other_lock) > 0);
    CHECK(hf_release(other_lock, &err));

    hf_free(lock);
    hf_free(other_lock);
    hf_close(client, 1000);
    hf_close(other_client, 1000);
    return 0;
}
