/* SPDX-License-Identifier: MIT */
#ifndef HOLDFAST_UV_H
#define HOLDFAST_UV_H

/*
 * Holdfast in a libuv loop: a uv_poll_t around hf_fd() and hf_dispatch(). Header only; needs <holdfast.h> and libuv
 * (1.x). Linking with libuv is the program's. In strict C (-std=c99) <uv.h> needs _POSIX_C_SOURCE of 200112L or more.
 *
 *      static hf_uv glue;                          lives until its close callback has run
 *      hf_uv_start(&glue, uv_default_loop(), client);
 *      hf_acquire_start(lock, 3000, done, arg);
 *      uv_run(uv_default_loop(), UV_RUN_DEFAULT);
 *      ...
 *      hf_uv_stop(&glue, NULL);                    for instance in `done`
 *
 * All callbacks (`done`) run on the loop's thread, inside a turn of the loop. The handle keeps the loop alive, like any
 * other; uv_unref((uv_handle_t *)&glue.poll) makes it not do so.
 */

#include <holdfast.h>

#include <uv.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hf_uv hf_uv;
struct hf_uv {
    uv_poll_t  poll;
    hf_client *client;
    int        error; /* the last failure of libuv or of hf_dispatch(), below 0; 0: none */
    void (*closed)(hf_uv *glue);
    void *data; /* the program's own */
};

static inline void hf_uv_on_readable(uv_poll_t *poll, int status, int events)
{
    hf_uv *glue = (hf_uv *)poll->data;
    (void)events;
    if (status == 0)
        status = hf_dispatch(glue->client); /* may run hf_uv_stop(); the memory stays until the close callback */
    if (status < 0)
        glue->error = status;
}

static inline void hf_uv_on_closed(uv_handle_t *handle)
{
    hf_uv *glue = (hf_uv *)handle->data;
    if (glue->closed != NULL)
        glue->closed(glue);
}

/* Watches the client from now on. Returns HF_OK; what hf_fd() says where it has none to give; HF_EINVALID where libuv
 * would not (glue->error has its number). After a failure there is nothing to stop, but *glue must stay for one
 * turn. */
static inline int hf_uv_start(hf_uv *glue, uv_loop_t *loop, hf_client *client)
{
    int fd = hf_fd(client);
    glue->client = client;
    glue->error = 0;
    glue->closed = NULL;
    if (fd < 0)
        return fd;
    glue->error = uv_poll_init(loop, &glue->poll, fd);
    if (glue->error != 0)
        return HF_EINVALID;
    glue->poll.data = glue;
    glue->error = uv_poll_start(&glue->poll, UV_READABLE, hf_uv_on_readable);
    if (glue->error == 0)
        return HF_OK;
    uv_close((uv_handle_t *)&glue->poll, NULL);
    return HF_EINVALID;
}

/* Stops watching at once: hf_close() may follow. `closed` (may be NULL) is called in a later turn of the loop; until
 * then *glue must stay. */
static inline void hf_uv_stop(hf_uv *glue, void (*closed)(hf_uv *glue))
{
    glue->closed = closed;
    uv_close((uv_handle_t *)&glue->poll, hf_uv_on_closed);
}

#ifdef __cplusplus
}
#endif

#endif
