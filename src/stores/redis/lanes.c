/* SPDX-License-Identifier: MIT */
/* See lanes.h. */
#include "stores/redis/lanes.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/error.h"

#define LANES_MAX 8

typedef struct lane {
    hf__conn *conn;
    unsigned  busy;
} lane;

struct hf__lanes {
    const hf__redis_config *config;
    hf__at                 *at;
    const hf_store_env     *env;
    hf__pump               *pump;
    pthread_mutex_t         mutex; /* of the rest */
    size_t                  count;
    lane                    of[LANES_MAX];
};

int hf__lanes_open(hf__lanes **made, const hf__redis_config *config, hf__at *at, const hf_store_env *env,
                   hf__pump *pump, hf_error *err)
{
    hf__lanes *lanes = calloc(1, sizeof *lanes);

    *made = lanes;
    if (lanes == NULL)
        return hf__fail(err, HF_EEXHAUSTED, "out of memory for connections");
    lanes->config = config;
    lanes->at = at;
    lanes->env = env;
    lanes->pump = pump;
    pthread_mutex_init(&lanes->mutex, NULL);
    return HF_OK;
}

/* Without the mutex: completions give lanes back. Nobody takes one any more. */
void hf__lanes_end(hf__lanes *lanes)
{
    if (lanes == NULL)
        return;
    for (size_t i = 0; i < lanes->count; i++)
        hf__conn_end(lanes->of[i].conn);
}

void hf__lanes_close(hf__lanes *lanes)
{
    if (lanes == NULL)
        return;
    for (size_t i = 0; i < lanes->count; i++)
        hf__conn_free(lanes->of[i].conn);
    pthread_mutex_destroy(&lanes->mutex);
    free(lanes);
}

/* Under the mutex. */
static lane *least_busy(hf__lanes *lanes)
{
    lane *best = NULL;

    for (size_t i = 0; i < lanes->count; i++)
        if (best == NULL || lanes->of[i].busy < best->busy)
            best = &lanes->of[i];
    return best;
}

hf__conn *hf__lanes_take(hf__lanes *lanes)
{
    lane     *one;
    hf__conn *conn = NULL;

    pthread_mutex_lock(&lanes->mutex);
    one = least_busy(lanes);
    if ((one == NULL || one->busy > 0) && lanes->count < LANES_MAX &&
        hf__conn_new_idle(&conn, lanes->config, lanes->at, lanes->env, lanes->pump, NULL) == HF_OK) {
        one = &lanes->of[lanes->count++];
        one->conn = conn;
    }
    if (one != NULL)
        one->busy++;
    pthread_mutex_unlock(&lanes->mutex);
    return one != NULL ? one->conn : NULL;
}

void hf__lanes_give(hf__lanes *lanes, const hf__conn *conn)
{
    pthread_mutex_lock(&lanes->mutex);
    for (size_t i = 0; i < lanes->count; i++)
        lanes->of[i].busy -= lanes->of[i].conn == conn;
    pthread_mutex_unlock(&lanes->mutex);
}

void hf__lanes_leave(hf__lanes *lanes, const hf_error *why)
{
    if (lanes == NULL)
        return;
    pthread_mutex_lock(&lanes->mutex);
    for (size_t i = 0; i < lanes->count; i++)
        hf__conn_leave(lanes->of[i].conn, why);
    pthread_mutex_unlock(&lanes->mutex);
}
