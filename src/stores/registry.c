/* SPDX-License-Identifier: MIT */
/*
 * The registry: which scheme is which store. The only file that sees both the core's side and the stores'. The build
 * tells by a definition which stores are there; the others are known by name, so that the answer can be "this build
 * leaves it out" and not "never heard of it".
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <holdfast/store.h>

#include "base/error.h"
#include "core/stores.h"
#include "stores/sql/batch.h"
#include "stores/trace/trace.h"

#define ADDED_MAX 16

extern const hf_store_ops hf__memory_ops;
#ifdef HF_STORE_SQLITE
extern const hf_store_ops hf__sqlite_ops;
extern const char *const  hf__sqlite_schema;
#endif
#ifdef HF_STORE_MYSQL
extern const hf_store_ops hf__mysql_ops;
extern const hf__dialect  hf__mysql_dialect;
#endif
#ifdef HF_STORE_POSTGRES
extern const hf_store_ops hf__postgresql_ops;
extern const hf__dialect  hf__postgres_dialect;
#endif
#ifdef HF_STORE_REDIS
extern const hf_store_ops hf__redis_ops, hf__rediss_ops, hf__redis_unix_ops;
extern const hf_store_ops hf__redis_sentinel_ops, hf__rediss_sentinel_ops;
extern const hf_store_ops hf__redis_cluster_ops, hf__rediss_cluster_ops;
#endif
#ifdef HF_STORE_REDLOCK
extern const hf_store_ops hf__redlock_ops;
#endif
#ifdef HF_STORE_ZOOKEEPER
extern const hf_store_ops hf__zookeeper_ops;
#endif

static const hf_store_ops *const built_in[] = {
#ifdef HF_STORE_SQLITE
    &hf__sqlite_ops,
#endif
#ifdef HF_STORE_MYSQL
    &hf__mysql_ops,
#endif
#ifdef HF_STORE_POSTGRES
    &hf__postgresql_ops,
#endif
#ifdef HF_STORE_REDIS
    &hf__redis_ops,           &hf__rediss_ops,        &hf__redis_unix_ops,     &hf__redis_sentinel_ops,
    &hf__rediss_sentinel_ops, &hf__redis_cluster_ops, &hf__rediss_cluster_ops,
#endif
#ifdef HF_STORE_REDLOCK
    &hf__redlock_ops,
#endif
#ifdef HF_STORE_ZOOKEEPER
    &hf__zookeeper_ops,
#endif
    &hf__memory_ops,
};

/* What makes the tables of those that have some. The last one ends the list where none is built. */
static const struct {
    const char        *scheme;
    const char *const *tables, *const *view;
} sql_schemas[] = {
#ifdef HF_STORE_SQLITE
    {"sqlite", &hf__sqlite_schema, NULL},
#endif
#ifdef HF_STORE_MYSQL
    {"mysql", &hf__mysql_dialect.schema, &hf__mysql_dialect.view},
#endif
#ifdef HF_STORE_POSTGRES
    {"postgresql", &hf__postgres_dialect.schema, &hf__postgres_dialect.view},
#endif
    {NULL, NULL, NULL},
};

/* Schemes of stores that Holdfast has or is to have. */
static const char *const known[] = {
    "sqlite",        "memory",         "redis",   "rediss",    "redis+unix", "redis-sentinel", "rediss-sentinel",
    "redis-cluster", "rediss-cluster", "redlock", "zookeeper", "mysql",      "postgresql",
};

static pthread_mutex_t     mutex = PTHREAD_MUTEX_INITIALIZER; /* guards `added` */
static const hf_store_ops *added[ADDED_MAX];
static size_t              added_count;

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static const hf_store_ops *find_in(const hf_store_ops *const *list, size_t count, const char *scheme)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(list[i]->scheme, scheme) == 0)
            return list[i];
    return NULL;
}

static const hf_store_ops *find(const char *scheme)
{
    const hf_store_ops *ops = find_in(built_in, COUNT(built_in), scheme);

    if (ops != NULL)
        return ops;
    pthread_mutex_lock(&mutex);
    ops = find_in(added, added_count, scheme);
    pthread_mutex_unlock(&mutex);
    return ops;
}

static bool is_known(const char *scheme)
{
    for (size_t i = 0; i < COUNT(known); i++)
        if (strcmp(known[i], scheme) == 0)
            return true;
    return false;
}

const hf_store_ops *hf__store_find(const char *scheme, hf_error *err, int *status)
{
    const hf_store_ops *ops = find(scheme);

    *status = HF_OK;
    if (ops != NULL)
        return ops;
    if (is_known(scheme))
        *status =
            hf__fail(err, HF_EUNSUPPORTED, "this build of Holdfast has no store %s:; it has: %s", scheme, hf_schemes());
    else
        *status = hf__fail(err, HF_EINVALID, "there is no store %.40s:; this build has: %s", scheme, hf_schemes());
    return NULL;
}

int hf__store_trace(hf_store **store, hf_error *err)
{
    return hf__trace_wrap(store, err);
}

static char           schemes[256];
static pthread_once_t schemes_once = PTHREAD_ONCE_INIT;

static void make_schemes(void)
{
    size_t used = 0;

    for (size_t i = 0; i < COUNT(known); i++) {
        const char *format = find_in(built_in, COUNT(built_in), known[i]) != NULL ? "%s%s" : "%s(%s)";
        used += (size_t)snprintf(schemes + used, sizeof schemes - used, format, i > 0 ? " " : "", known[i]);
    }
}

const char *hf_schemes(void)
{
    pthread_once(&schemes_once, make_schemes);
    return schemes;
}

/* Tables first, then the view for people. */
#define SCHEMA_SIZE 8192
static char           schemas[COUNT(sql_schemas)][SCHEMA_SIZE];
static pthread_once_t schema_once = PTHREAD_ONCE_INIT;

static void make_schemas(void)
{
    for (size_t i = 0; i < COUNT(sql_schemas); i++)
        if (sql_schemas[i].scheme != NULL)
            snprintf(schemas[i], SCHEMA_SIZE, "%s;\n%s%s", *sql_schemas[i].tables,
                     sql_schemas[i].view != NULL ? *sql_schemas[i].view : "", sql_schemas[i].view != NULL ? ";\n" : "");
}

const char *hf_schema(const char *scheme)
{
    pthread_once(&schema_once, make_schemas);
    for (size_t i = 0; scheme != NULL && i < COUNT(sql_schemas); i++)
        if (sql_schemas[i].scheme != NULL && strcmp(sql_schemas[i].scheme, scheme) == 0)
            return schemas[i];
    return NULL;
}

static bool is_whole(const hf_store_ops *ops)
{
    return ops->abi == HF_STORE_ABI && ops->scheme != NULL && ops->size >= sizeof(hf_store) && ops->open != NULL &&
           ops->close != NULL && ops->begin != NULL && ops->clock_us != NULL &&
           (ops->watch == NULL) == (ops->unwatch == NULL) && (ops->doze == NULL) == (ops->rouse == NULL);
}

int hf_store_register(const hf_store_ops *ops)
{
    int status = HF_OK;

    if (ops == NULL || !is_whole(ops) || is_known(ops->scheme))
        return HF_EINVALID;
    pthread_mutex_lock(&mutex);
    if (find_in(added, added_count, ops->scheme) != NULL)
        status = HF_EINVALID;
    else if (added_count == ADDED_MAX)
        status = HF_EEXHAUSTED;
    else
        added[added_count++] = ops;
    pthread_mutex_unlock(&mutex);
    return status;
}
