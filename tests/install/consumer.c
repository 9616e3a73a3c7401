/* SPDX-License-Identifier: MIT */
/*
 * A stranger's program in C99: knows only the installed header. Takes a name, sees that a second client is refused and
 * told who holds it, releases, and sees the fence rise. Exit code 0 when all was so.
 */
#include <holdfast.h>
#include <stdio.h>

#define NEED(condition)                                                                                                \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "consumer.c:%d: %s; status %s: %s\n", __LINE__, #condition, hf_status_name(err.status),    \
                    err.text);                                                                                         \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

int main(int argc, char **argv)
{
    hf_error   err = {0};
    hf_client *first, *second;
    hf_lock   *mine, *other;
    hf_grant   grant;
    int64_t    fence;

    if (argc != 2 || hf_version() != HF_VERSION)
        return 2;
    NEED(hf_open(&first, argv[1], HF_CLIENT_OPTIONS(.note = "consumer"), &err) == HF_OK);
    NEED(hf_open(&second, argv[1], NULL, &err) == HF_OK);
    NEED(hf_mutex(&mine, first, "install/c", HF_OPTIONS(.fair = true), &err) == HF_OK);
    NEED(hf_mutex(&other, second, "install/c", HF_OPTIONS(.fair = true), &err) == HF_OK);

    NEED(hf_acquire(mine, HF_NOWAIT, &grant, &err) == HF_OK);
    fence = grant.fence;
    NEED(fence > 0 && hf_left(mine) > 0);
    NEED(hf_acquire(other, HF_NOWAIT, NULL, &err) == HF_BUSY);
    NEED(hf_release(mine, &err) == HF_OK);
    NEED(hf_acquire(other, 5000, &grant, &err) == HF_OK);
    NEED(grant.fence > fence);
    NEED(hf_release(other, &err) == HF_OK);

    hf_free(mine);
    hf_free(other);
    NEED(hf_close(first, 1000) == HF_OK);
    NEED(hf_close(second, 1000) == HF_OK);
    return 0;
}
