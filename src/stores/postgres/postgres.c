/* SPDX-License-Identifier: MIT */
/* The store postgresql: the ticket design (stores/sql) on PostgreSQL. Waiters are notified, or poll. */
#include "stores/postgres/postgres.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"

extern const hf_store_ops hf__postgresql_ops;

/* A server whose text is not UTF-8 gets notes in ASCII: it could not store others. */
static int ask_encoding(hf__db *db, hf_error *err)
{
    hf__slot *slot;
    hf__batch batch;
    char      encoding[32];
    int64_t   deadline_us = hf__db_soon(db);
    int       status = hf__db_enter(db, HF__POOL_ANY, deadline_us, &slot, &batch, err);

    if (status != HF_OK)
        return status;
    status = hf__db_ask(db, slot, "SHOW server_encoding", encoding, sizeof encoding, deadline_us, err);
    hf__db_leave(db, slot, &batch);
    db->ascii = strcmp(encoding, "UTF8") != 0;
    return status;
}

static int postgres_open(hf_store *base, const hf_url *url, hf_error *err)
{
    hf__postgres *store = (hf__postgres *)base;
    hf__db       *db = &store->db;
    int           status = hf__pg_target_open(&store->target, url, err);

    if (status != HF_OK)
        return status;
    db->driver = &hf__postgres_driver;
    db->target = &store->target;
    db->url = store->target.url;
    db->create = store->target.create;
    db->check = hf__postgres_check;
    db->rings = true;
    status = hf__db_open(db, err);
    if (status == HF_OK) {
        if (!hf__listen_init(&store->listen, db))
            status = hf__fail_sys(err, HF_EEXHAUSTED, errno, "no descriptor for the store");
        else
            db->news = &hf__postgres_news;
        if (status == HF_OK)
            status = ask_encoding(db, err);
        if (status == HF_OK)
            status = hf__db_go(db, err);
        if (status != HF_OK)
            hf__db_close(db);
    }
    if (status != HF_OK)
        hf__pg_target_close(&store->target);
    return status;
}

static void postgres_close(hf_store *base)
{
    hf__postgres *store = (hf__postgres *)base;

    hf__db_close(&store->db);
    hf__pg_target_close(&store->target);
}

const hf_store_ops hf__postgresql_ops = {
    .abi = HF_STORE_ABI,
    .scheme = "postgresql",
    .size = sizeof(hf__postgres),
    .caps = HF_CAP_LATE | HF_CAP_FIFO | HF_CAP_FENCE | HF_CAP_KEEP | HF_CAP_SEMAPHORE | HF_CAP_RW | HF_CAP_FAIR,
    .open = postgres_open,
    .close = postgres_close,
    .begin = hf__db_begin,
    .drive = hf__db_drive,
    .watch = hf__db_watch,
    .unwatch = hf__db_unwatch,
    .clock_us = hf__db_clock_us,
};
