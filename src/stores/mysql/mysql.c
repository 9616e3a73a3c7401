/* SPDX-License-Identifier: MIT */
/* The store mysql: the ticket design (stores/sql) on MySQL 8 or MariaDB. Waiters hear bells, or poll. */
#include "stores/mysql/mysql.h"

extern const hf_store_ops hf__mysql_ops;

static int mysql_store_open(hf_store *base, const hf_url *url, hf_error *err)
{
    hf__mysql *store = (hf__mysql *)base;
    hf__db    *db = &store->db;
    int        status = hf__my_target_open(&store->target, url, err);

    if (status != HF_OK)
        return status;
    db->driver = &hf__mysql_driver;
    db->target = &store->target;
    db->url = store->target.url;
    db->create = store->target.create;
    db->check = hf__mysql_check;
    status = hf__db_open(db, err);
    if (status == HF_OK) {
        status = hf__bells_probe(&store->bells, db, hf__db_soon(db), err);
        db->news = &hf__mysql_news;
        if (status == HF_OK)
            status = hf__db_go(db, err);
        if (status != HF_OK)
            hf__db_close(db);
    }
    if (status != HF_OK)
        hf__my_target_close(&store->target);
    return status;
}

static void mysql_store_close(hf_store *base)
{
    hf__mysql *store = (hf__mysql *)base;

    hf__db_close(&store->db);
    hf__my_target_close(&store->target);
}

const hf_store_ops hf__mysql_ops = {
    .abi = HF_STORE_ABI,
    .scheme = "mysql",
    .size = sizeof(hf__mysql),
    .caps = HF_CAP_LATE | HF_CAP_FIFO | HF_CAP_FENCE | HF_CAP_KEEP | HF_CAP_SEMAPHORE | HF_CAP_RW | HF_CAP_FAIR,
    .open = mysql_store_open,
    .close = mysql_store_close,
    .begin = hf__db_begin,
    .drive = hf__db_drive,
    .watch = hf__db_watch,
    .unwatch = hf__db_unwatch,
    .clock_us = hf__db_clock_us,
};
