/* SPDX-License-Identifier: MIT */
/* See target.h. */
#include "stores/postgres/target.h"

#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static int no_memory(hf_error *err)
{
    return hf__fail(err, HF_EEXHAUSTED, "out of memory for a store URL");
}

static bool has_word(const hf__pg_target *target, const char *keyword)
{
    for (int i = 0; i < target->count; i++)
        if (strcmp(target->keywords[i], keyword) == 0)
            return true;
    return false;
}

static int add_word(hf__pg_target *target, const char *keyword, const char *value, hf_error *err)
{
    int i = target->count;

    if (i == HF__PG_WORDS_MOST - 1)
        return hf__fail(err, HF_EINVALID, "the store URL has too many options");
    target->keywords[i] = strdup(keyword);
    target->values[i] = strdup(value);
    target->count++;
    return target->keywords[i] != NULL && target->values[i] != NULL ? HF_OK : no_memory(err);
}

/* "h1:p1,h2" is host=h1,h2 and port=p1, with an empty one for the default. */
static int add_hosts(hf__pg_target *target, const char *text, hf_error *err)
{
    char *hosts = calloc(1, strlen(text) + 1), *ports = calloc(1, strlen(text) + 1);
    bool  any_port = false, first = true;
    int   status = hosts != NULL && ports != NULL ? HF_OK : no_memory(err);

    for (const char *at = text; status == HF_OK && *at != '\0'; first = false) {
        size_t      len = strcspn(at, ",");
        const char *bracket = at[0] == '[' ? memchr(at, ']', len) : NULL;
        const char *colon = memchr(bracket != NULL ? bracket : at, ':', len - (size_t)((bracket ? bracket : at) - at));
        const char *from = bracket != NULL ? at + 1 : at, *end = bracket != NULL ? bracket
                                                                 : colon != NULL ? colon
                                                                                 : at + len;
        if (!first) {
            strcat(hosts, ",");
            strcat(ports, ",");
        }
        strncat(hosts, from, (size_t)(end - from));
        if (colon != NULL) {
            any_port = true;
            strncat(ports, colon + 1, len - (size_t)(colon + 1 - at));
        }
        at += len + (at[len] == ',');
    }
    if (status == HF_OK)
        status = add_word(target, "host", hosts, err);
    if (status == HF_OK && any_port)
        status = add_word(target, "port", ports, err);
    free(hosts);
    free(ports);
    return status;
}

static int yes_or_no(bool *to, const hf_url_param *param, hf_error *err)
{
    *to = strcmp(param->value, "yes") == 0;
    if (*to || strcmp(param->value, "no") == 0)
        return HF_OK;
    return hf__fail(err, HF_EINVALID, "the store postgresql: takes %s=yes or %s=no", param->key, param->key);
}

/* libpq would say so at each connect only; a misspelt option is the caller's mistake. */
static int known_to_libpq(const char *keyword, hf_error *err)
{
    PQconninfoOption *all = PQconndefaults();
    bool              known = false;

    if (all == NULL)
        return no_memory(err);
    for (const PQconninfoOption *o = all; o->keyword != NULL; o++)
        known = known || strcmp(o->keyword, keyword) == 0;
    PQconninfoFree(all);
    return known ? HF_OK : hf__fail(err, HF_EINVALID, "the store postgresql: knows no option \"%s\"", keyword);
}

static int add_params(hf__pg_target *target, const hf_url *url, hf_error *err)
{
    int status = HF_OK;

    for (size_t i = 0; i < url->param_count && status == HF_OK; i++) {
        const hf_url_param *param = &url->params[i];
        if (strcmp(param->key, "create") == 0)
            status = yes_or_no(&target->create, param, err);
        else if (strcmp(param->key, "news") == 0)
            status = yes_or_no(&target->news, param, err);
        else if ((status = known_to_libpq(param->key, err)) == HF_OK)
            status = add_word(target, param->key, param->value, err);
    }
    return status;
}

static int add_defaults(hf__pg_target *target, const hf_url *url, hf_error *err)
{
    const char *const ours[][2] = {{"fallback_application_name", "holdfast"}, {"client_encoding", "UTF8"}};
    int               status = HF_OK;

    for (size_t i = 0; i < sizeof ours / sizeof ours[0] && status == HF_OK; i++)
        if (!has_word(target, ours[i][0]))
            status = add_word(target, ours[i][0], ours[i][1], err);
    /* Of several hosts the one that takes writes is meant. */
    if (status == HF_OK && url->host != NULL && strchr(url->host, ',') != NULL &&
        !has_word(target, "target_session_attrs"))
        status = add_word(target, "target_session_attrs", "read-write", err);
    return status;
}

int hf__pg_target_open(hf__pg_target *target, const hf_url *url, hf_error *err)
{
    const char *database = url->path != NULL && url->path[0] == '/' ? url->path + 1 : url->path;
    int         status;

    memset(target, 0, sizeof *target);
    target->create = target->news = true;
    target->url = strdup(url->text);
    status = target->url != NULL ? add_params(target, url, err) : no_memory(err);
    if (status == HF_OK && url->host != NULL)
        status = add_hosts(target, url->host, err);
    if (status == HF_OK && url->user != NULL)
        status = add_word(target, "user", url->user, err);
    if (status == HF_OK && url->password != NULL)
        status = add_word(target, "password", url->password, err);
    if (status == HF_OK && database != NULL && database[0] != '\0')
        status = add_word(target, "dbname", database, err);
    if (status == HF_OK)
        status = add_defaults(target, url, err);
    if (status != HF_OK)
        hf__pg_target_close(target);
    return status;
}

void hf__pg_target_close(hf__pg_target *target)
{
    for (int i = 0; i < target->count; i++) {
        if (target->values[i] != NULL)
            explicit_bzero(target->values[i], strlen(target->values[i]));
        free(target->keywords[i]);
        free(target->values[i]);
    }
    free(target->url);
    memset(target, 0, sizeof *target);
}
