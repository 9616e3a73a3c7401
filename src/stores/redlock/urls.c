/* SPDX-License-Identifier: MIT */
/* See urls.h. */
#include "stores/redlock/urls.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/url.h"

#define SERVERS_MIN 3

static const char *const own[] = {"server", "durable", "fence", "max-lease", NULL};
static const char *const of_tls[] = {"ca", "cert", "key", "tls-name", NULL};

static int no_memory(hf_error *err)
{
    return hf__fail(err, HF_EEXHAUSTED, "out of memory for a redlock URL");
}

static bool is_in(const char *const list[], const char *key)
{
    for (size_t i = 0; list[i] != NULL; i++)
        if (strcmp(list[i], key) == 0)
            return true;
    return false;
}

static bool copy(const char **to, const char *from)
{
    *to = from != NULL ? strdup(from) : NULL;
    return from == NULL || *to != NULL;
}

static bool add_param(hf_url *url, const char *key, const char *value)
{
    hf_url_param *params = realloc((hf_url_param *)url->params, (url->param_count + 1) * sizeof *params);

    if (params == NULL)
        return false;
    url->params = params;
    params[url->param_count] = (hf_url_param){NULL, NULL};
    if (!copy(&params[url->param_count].key, key))
        return false;
    url->param_count++;
    return copy(&params[url->param_count - 1].value, value);
}

/* The whole's options, where the server has none of its own. */
static bool pass_on(hf_url *one, const hf_url *whole)
{
    bool tls = strcmp(one->scheme, "rediss") == 0;

    for (size_t i = 0; i < whole->param_count; i++) {
        const char *key = whole->params[i].key;
        if (is_in(own, key) || (!tls && is_in(of_tls, key)) || hf__url_param(one, key) != NULL)
            continue;
        if (!add_param(one, key, whole->params[i].value))
            return false;
    }
    return true;
}

static int take_host(hf__urls *urls, const hf_url *whole, const char *host, hf_error *err)
{
    hf_url *one = &urls->list[urls->count++];

    if (host[0] == '\0')
        return hf__fail(err, HF_EINVALID, "the redlock URL has an empty host; write it like redlock://h1,h2,h3");
    if (copy(&one->text, whole->text) && copy(&one->scheme, "redis") && copy(&one->user, whole->user) &&
        copy(&one->password, whole->password) && copy(&one->host, host) && copy(&one->path, whole->path) &&
        pass_on(one, whole))
        return HF_OK;
    return no_memory(err);
}

static int take_server(hf__urls *urls, const hf_url *whole, const char *text, hf_error *err)
{
    hf_url  *one = &urls->list[urls->count++];
    hf_error why;
    int      status = hf__url_parse(one, text, &why);

    if (status != HF_OK)
        return hf__fail(err, status, "an option \"server\" of the redlock URL: %s", why.text);
    if (strcmp(one->scheme, "redis") != 0 && strcmp(one->scheme, "rediss") != 0 &&
        strcmp(one->scheme, "redis+unix") != 0)
        return hf__fail(err, HF_EINVALID,
                        "an option \"server\" of the redlock URL is a redis:, rediss: or redis+unix: URL, "
                        "percent-encoded, and not %.20s:",
                        one->scheme);
    if (one->host != NULL && strchr(one->host, ',') != NULL)
        return hf__fail(err, HF_EINVALID, "an option \"server\" of the redlock URL names one host, and not several");
    return pass_on(one, whole) ? HF_OK : no_memory(err);
}

static int take_all(hf__urls *urls, const hf_url *whole, hf_error *err)
{
    char *hosts = strdup(whole->host != NULL ? whole->host : ""), *rest = hosts, *one;
    int   status = hosts != NULL ? HF_OK : no_memory(err);

    while (status == HF_OK && whole->host != NULL && (one = strsep(&rest, ",")) != NULL)
        status = urls->count < HF__MEMBERS_MAX ? take_host(urls, whole, one, err) : HF_EUNSUPPORTED;
    for (size_t i = 0; status == HF_OK && i < whole->param_count; i++)
        if (strcmp(whole->params[i].key, "server") == 0)
            status =
                urls->count < HF__MEMBERS_MAX ? take_server(urls, whole, whole->params[i].value, err) : HF_EUNSUPPORTED;
    free(hosts);
    if (status == HF_EUNSUPPORTED)
        status = hf__fail(err, HF_EINVALID, "the redlock URL has more than %d servers", HF__MEMBERS_MAX);
    return status;
}

int hf__urls_read(hf__urls *urls, const hf_url *url, hf_error *err)
{
    int status;

    memset(urls, 0, sizeof *urls);
    status = take_all(urls, url, err);
    if (status == HF_OK && urls->count < SERVERS_MIN)
        return hf__fail(err, HF_EINVALID,
                        "a redlock URL names %d servers at least (it has %zu): a majority of fewer survives nothing",
                        SERVERS_MIN, urls->count);
    return status;
}

void hf__urls_finish(hf__urls *urls)
{
    for (size_t i = 0; i < urls->count; i++)
        hf__url_finish(&urls->list[i]);
}
