/* SPDX-License-Identifier: MIT */
/* See config.h. */
#include "stores/zookeeper/config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/url.h"

#define DEFAULT_PORT ":2181"
#define SESSION_MS 40000 /* the most that a server of the usual settings grants: leases of 30 s fit into it */
#define SESSION_MIN_MS 100
#define SESSION_MAX_MS 86400000

/* Each host with its port. */
static char *make_hosts(const char *hosts, size_t *count)
{
    size_t room = strlen(hosts) + 1;
    char  *all, *to;

    for (const char *c = hosts; *c != '\0'; c++)
        room += *c == ',' ? sizeof DEFAULT_PORT : 0;
    all = to = malloc(room + sizeof DEFAULT_PORT);
    if (all == NULL)
        return NULL;
    for (*count = 0; *hosts != '\0'; ++*count) {
        size_t      len = strcspn(hosts, ",");
        const char *bracket = memchr(hosts, ']', len);
        const char *from = bracket != NULL ? bracket : hosts;
        bool        has_port = memchr(from, ':', len - (size_t)(from - hosts)) != NULL;
        if (to != all)
            *to++ = ',';
        to += sprintf(to, "%.*s%s", (int)len, hosts, has_port ? "" : DEFAULT_PORT);
        hosts += len + (hosts[len] == ',');
    }
    *to = '\0';
    return all;
}

static char *make_root(const char *path)
{
    char  *root = strdup(path != NULL ? path : "");
    size_t len = root != NULL ? strlen(root) : 0;

    while (len > 0 && root[len - 1] == '/')
        root[--len] = '\0';
    return root;
}

static char *make_digest(const char *user, const char *password)
{
    size_t len = strlen(user) + 1 + strlen(password) + 1;
    char  *digest = malloc(len);

    if (digest != NULL)
        snprintf(digest, len, "%s:%s", user, password);
    return digest;
}

static int take_session(hf__zk_config *config, const char *text, hf_error *err)
{
    char *end;
    long  ms = text != NULL ? strtol(text, &end, 10) : SESSION_MS;

    if (text != NULL && (*text == '\0' || *end != '\0' || ms < SESSION_MIN_MS || ms > SESSION_MAX_MS))
        return hf__fail(err, HF_EINVALID, "session=%.20s is not %d to %d milliseconds", text, SESSION_MIN_MS,
                        SESSION_MAX_MS);
    config->session_ms = (int)ms;
    return HF_OK;
}

/* One of two words; absent is the first. */
static int take_choice(const hf_url *url, const char *key, const char *first, const char *second, bool *is_second,
                       hf_error *err)
{
    const char *value = hf__url_param(url, key);

    *is_second = value != NULL && strcmp(value, second) == 0;
    if (value == NULL || *is_second || strcmp(value, first) == 0)
        return HF_OK;
    return hf__fail(err, HF_EINVALID, "%s=%.20s: the store zookeeper: knows %s=%s and %s=%s", key, value, key, first,
                    key, second);
}

static int take_params(hf__zk_config *config, const hf_url *url, hf_error *err)
{
    static const char *const known[] = {"session", "layout", "observe", "tls", "break", "revoke", NULL};
    bool                     kazoo, tls;
    int                      status;

    if ((status = hf__url_only(url, known, err)) != HF_OK ||
        (status = take_session(config, hf__url_param(url, "session"), err)) != HF_OK ||
        (status = take_choice(url, "layout", "curator", "kazoo", &kazoo, err)) != HF_OK ||
        (status = take_choice(url, "break", "force", "polite", &config->ask_politely, err)) != HF_OK ||
        (status = take_choice(url, "revoke", "ignore", "heed", &config->heed, err)) != HF_OK ||
        (status = take_choice(url, "tls", "no", "yes", &tls, err)) != HF_OK)
        return status;
    if (tls)
        return hf__fail(err, HF_EUNSUPPORTED,
                        "the ZooKeeper client library of this build has no TLS; use a tunnel, or a network that is "
                        "trusted, and tls=no");
    config->rules.layout = kazoo ? HF__ZK_KAZOO : HF__ZK_CURATOR;
    return HF_OK;
}

static bool root_is_legal(const char *root)
{
    const char *c = root;

    while (*c == '/') {
        size_t len = strcspn(c + 1, "/");
        if (len == 0 || (len == 1 && c[1] == '.') || (len == 2 && c[1] == '.' && c[2] == '.'))
            return false;
        c += 1 + len;
    }
    return *c == '\0';
}

int hf__zk_config_make(hf__zk_config *config, const hf_url *url, hf_error *err)
{
    const char *observe = hf__url_param(url, "observe");
    int         status;

    memset(config, 0, sizeof *config);
    if (url->host == NULL || url->host[0] == '\0')
        return hf__fail(err, HF_EINVALID, "a zookeeper: store needs a host: zookeeper://h1,h2,h3/path");
    if ((url->user == NULL || url->user[0] == '\0') != (url->password == NULL))
        return hf__fail(err, HF_EINVALID, "digest authentication needs both: zookeeper://user:password@host");
    if ((status = take_params(config, url, err)) != HF_OK)
        return status;
    config->hosts = make_hosts(url->host, &config->host_count);
    config->root = make_root(url->path);
    config->observe = strdup(observe != NULL ? observe : "");
    if (url->password != NULL)
        config->digest = make_digest(url->user, url->password);
    config->rules.observe = config->observe;
    if (config->hosts == NULL || config->root == NULL || config->observe == NULL ||
        (url->password != NULL && config->digest == NULL))
        status = hf__fail(err, HF_EEXHAUSTED, "out of memory for a store");
    else if (!root_is_legal(config->root))
        status = hf__fail(err, HF_EINVALID, "\"%.100s\" is no path of a ZooKeeper node", config->root);
    if (status != HF_OK)
        hf__zk_config_finish(config);
    return status;
}

void hf__zk_config_finish(hf__zk_config *config)
{
    if (config->digest != NULL)
        explicit_bzero(config->digest, strlen(config->digest));
    free(config->digest);
    free(config->hosts);
    free(config->root);
    free(config->observe);
    memset(config, 0, sizeof *config);
}
